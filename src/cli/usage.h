// The error message for a command line that can't be understood.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace plimsoll::cli {

// Long names of the flags of a verb, without dashes; and of its positional arguments.
std::vector<std::string> names_of(const CLI::App& verb);
// The flag or positional argument of that name; null: none.
const CLI::Option* find_option(const CLI::App& verb, const std::string& name);

// "--save", or "the model" for a positional argument.
std::string flag_name(const CLI::Option& option);

// Refuses what is no whole number from 1 to train::kMostThreads.
CLI::Validator thread_number();

// One sentence: what is wrong, the nearest flag or verb where one was mistyped, and where to look.
std::string describe_misuse(const CLI::App& app, const CLI::ParseError& e);

}  // namespace plimsoll::cli
