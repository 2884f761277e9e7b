#include "cli/output.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/descriptor.h"

namespace plimsoll::cli {
namespace {

int failure = 0;
thread_local bool is_muted = false;  // of a rank, or of the thread of a replica

ErrorKind kind_of(int reason) {
  if (reason == EPIPE) return ErrorKind::Stopped;
  return memory::is_disk_full(reason) ? ErrorKind::DiskFull : ErrorKind::General;
}

std::string describe(int reason) {
  if (reason == EPIPE) return "stopped: nobody reads the output any more (closed pipe)";
  return fmt::format("standard output can't be written: {}", std::strerror(reason));
}

bool write_out(std::FILE* to, std::string_view text) {
  errno = 0;
  return std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
}

}  // namespace

void print_now(std::FILE* to, std::string_view text) noexcept {
  if ((is_muted && to == stdout) || write_out(to, text)) return;
  // A standard error that can't be written is ignored, unless its reader has closed the pipe.
  if (to == stdout || errno == EPIPE) note_output_failure(errno);
}

void mute_output() noexcept { is_muted = true; }

void print_error(std::string_view text) noexcept { write_out(stderr, text); }

int output_failure() noexcept { return failure; }

void note_output_failure(int reason) noexcept {
  if (failure == 0) failure = reason != 0 ? reason : EIO;
}

void expect_output() {
  if (failure != 0) throw Error(describe(failure), kind_of(failure));
}

int finish_output(int exit_code) noexcept {
  const bool was_reported = exit_code != 0;
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) note_output_failure(errno);
  if (failure == 0 || was_reported) return exit_code;
  print_error("plimsoll: " + describe(failure) + "\n");
  return static_cast<int>(kind_of(failure));
}

}  // namespace plimsoll::cli
