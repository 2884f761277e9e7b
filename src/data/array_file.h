// The samples of an array that lies in an open file, alone or as part of an archive.
#pragma once

#include <memory>
#include <string>

#include "data/source.h"
#include "data/stored_array.h"
#include "memory/file.h"

namespace plimsoll::data {

// `layout` counts its offset from the start of `file`. `name` is what errors show.
std::unique_ptr<Source> make_array_source(std::string name, memory::File file, StoredArray layout);

}  // namespace plimsoll::data
