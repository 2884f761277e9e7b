// Output while the program works. A failed write must not lose the work: it is noted, and stops the work later.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::cli {

// Columns of the terminal behind a stream, asked each time, since it may be resized; of another stream 80.
size_t columns_of(std::FILE* to);
// A text in lines of at most so many columns, cut between words; a word that is longer has a line of its own.
std::vector<std::string> wrap(std::string_view text, size_t columns);

// Writes at once. A standard output that can't be written, or a closed pipe, is noted.
void print_now(std::FILE* to, std::string_view text) noexcept;
// From now on this thread writes nothing to standard output: the first rank or replica does.
void mute_output() noexcept;
// For the error message of a failing program; a failed write is ignored. A terminal gets lines cut between words.
void print_error(std::string_view text) noexcept;

// 0, or why standard output or error could not be written (errno).
int output_failure() noexcept;
// Notes a failure found elsewhere.
void note_output_failure(int reason) noexcept;

// Throws Error when standard output could not be written: DiskFull, Stopped for a closed pipe, General.
void expect_output();

// Writes out what is left. `exit_code` of a program that did what it was asked for becomes that of a failed output.
int finish_output(int exit_code) noexcept;

}  // namespace plimsoll::cli
