#include "train/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "data/inflate.h"
#include "memory/descriptor.h"

namespace plimsoll::train {

void TemporaryFile::create(const std::string& folder, const std::string& name) {
  remove();
  const std::string place = data::choose_scratch_dir(folder);
  std::string path = fmt::format("{}/{}-XXXXXX", place, name);
  const memory::Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.is_open())
    throw Error(fmt::format("can't make a file in '{}': {}", place, std::generic_category().message(errno)));
  path_ = path;
}

void TemporaryFile::remove() noexcept {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace plimsoll::train
