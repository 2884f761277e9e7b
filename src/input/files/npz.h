// The arrays of an npz archive, each as a Source.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "input/files/source.h"
#include "memory/file.h"

namespace plimsoll::input {

// Names of its arrays without ".npy", in the order of the archive. Throws Error(BadData), also for a name that occurs
// twice.
std::vector<std::string> list_npz(const std::string& path);

// One array. A stored member is read where it lies, after a pass over all of it at the first read that compares its
// checksum; a deflated one is unpacked once, into a file without a name, and checked on the way. An empty `member` is
// the only one there is. Throws Error(BadData), Error(DiskFull).
std::unique_ptr<Source> open_npz(const std::string& path, const std::string& member, const SourceOptions& options = {});

// "data.npz:x" as archive and member, also of an archive of another name; nothing for other paths.
std::optional<std::pair<std::string, std::string>> split_npz_path(const std::string& path);

}  // namespace plimsoll::input
