// The one exception a user's mistake or a failing machine raises: what happened, where, and what to try.
#pragma once

#include <stdexcept>
#include <string>

namespace plimsoll {

// Each kind is one exit code of the command line.
enum class ErrorKind {
  General = 1,
  Usage = 2,
  DoesNotFit = 3,
  BadData = 4,
  DiskFull = 5,
  BadNumbers = 6,
  Stopped = 75,
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, ErrorKind kind = ErrorKind::General)
      : std::runtime_error(what), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

}  // namespace plimsoll
