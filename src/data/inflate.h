// Unpacks a gzip file once, in constant memory, into a file that can be read in any order.
#pragma once

#include <string>

#include "memory/file.h"

namespace plimsoll {

// Throws Error(BadData) naming `path` and the compressed byte where it is damaged, Error(DiskFull) naming the
// directory and the bytes that are needed.
File inflate_to_scratch(const File& packed, const std::string& path, const std::string& scratch_dir);

// `asked`, or when that is empty the first directory for temporary files that lies on a disk.
std::string choose_scratch_dir(const std::string& asked);

}  // namespace plimsoll
