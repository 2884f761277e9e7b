// Which tokenizer a path holds.
#pragma once

#include <string>

#include "tokenizer/description.h"
#include "tokenizer/readers.h"

namespace plimsoll::tokenizer {

// `path` is a file, or a folder with one that is known. Throws Error(BadData).
Description read_tokenizer(const std::string& path, const RankedFacts& facts);

}  // namespace plimsoll::tokenizer
