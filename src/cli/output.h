// What the program prints while it works, where a failure must not lose the work: it is noted, and asks to stop.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace plimsoll::cli {

// Writes at once. A standard output that can't be written, or a closed pipe, is noted.
void print_now(std::FILE* to, std::string_view text) noexcept;
// For the last words of a failing program: nothing more can be done about a failure.
void print_error(std::string_view text) noexcept;

// 0, or why standard output or error could not be written (errno).
int output_failure() noexcept;
// Notes a failure that somebody else met.
void note_output_failure(int reason) noexcept;

// Throws Error when standard output could not be written: DiskFull, Stopped for a closed pipe, General.
void expect_output();

// Writes out what is left. `exit_code` of a program that did what it was asked for becomes that of a failed output.
int finish_output(int exit_code) noexcept;

}  // namespace plimsoll::cli
