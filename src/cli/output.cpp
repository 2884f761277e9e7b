#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// Characters, of which some have several bytes.
size_t characters_in(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string wrap_lines(std::string_view text, size_t columns) {
  std::string lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    // Tables and bars are as they are.
    const bool is_prose = characters_in(line) > columns && line.find("  ") == std::string_view::npos;
    lines += is_prose ? fmt::format("{}", fmt::join(wrap(line, columns), "\n")) : std::string(line);
    if (end < text.size()) lines += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

size_t columns_of(std::FILE* to) {
  winsize size{};
  if (::ioctl(::fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* told = std::getenv("COLUMNS");
  const int64_t number = told != nullptr ? std::atoll(told) : 0;
  return number > 0 ? static_cast<size_t>(number) : 80;
}

std::vector<std::string> wrap(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!lines.empty() && characters_in(lines.back()) + 1 + characters_in(word) <= columns)
      lines.back().append(" ").append(word);
    else
      lines.emplace_back(word);
    begin = end + 1;
  }
  return lines;
}

void print_now(std::FILE* to, std::string_view text) noexcept {
  if ((is_muted && to == stdout) || write_out(to, text)) return;
  // A standard error that can't be written is ignored, unless its reader has closed the pipe.
  if (to == stdout || errno == EPIPE) note_output_failure(errno);
}

void mute_output() noexcept { is_muted = true; }

void print_error(std::string_view text) noexcept {
  const bool is_terminal = ::isatty(STDERR_FILENO) != 0;
  write_out(stderr, is_terminal ? wrap_lines(text, columns_of(stderr)) : std::string(text));
}

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
