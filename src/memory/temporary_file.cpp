#include "memory/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/descriptor.h"
#include "memory/process.h"

namespace plimsoll::memory {

std::string choose_scratch_dir(const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* const variable = std::getenv("TMPDIR");
  std::string preferred = variable && *variable ? variable : "/tmp";
  for (const std::string& directory : {preferred, std::string("/tmp"), std::string("/var/tmp")})
    if (::access(directory.c_str(), W_OK) == 0 && !is_memory_backed(directory)) return directory;
  return preferred;
}

void TemporaryFile::create(const std::string& folder, const std::string& name) {
  remove();
  const std::string place = choose_scratch_dir(folder);
  std::string path = fmt::format("{}/{}-XXXXXX", place, name);
  const Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.is_open())
    throw Error(fmt::format("can't make a file in '{}': {}", place, std::generic_category().message(errno)));
  path_ = path;
}

void TemporaryFile::remove() noexcept {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace plimsoll::memory
