// While it lives, no file can grow beyond so many bytes: writes there fail, and no signal is sent.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include <plimsoll/types.h>

namespace plimsoll::testing {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(Bytes bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower{static_cast<rlim_t>(bytes), before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

}  // namespace plimsoll::testing
