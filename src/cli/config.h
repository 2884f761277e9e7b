// --config: options of a verb from a JSON file, as if they stood before the flags of the command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "report/config_file.h"

namespace plimsoll::cli {

// The file that --config names among these words, else that of the run which --resume goes on with; empty: none.
std::string find_config(const std::vector<std::string>& words);

// The entries of the file as words for `verb`, without those that the command line gives, which `verb` has parsed. Keys
// of `others`, the verbs that write configs, are passed over. Throws Error(Usage) that names the file and the key for
// an unknown key or a value of another type.
std::vector<std::string> config_words(const std::string& path, const CLI::App& verb,
                                      const std::vector<const CLI::App*>& others);

// The options that the verb was given, by flags or by a file.
report::Config given_options(const CLI::App& verb);

}  // namespace plimsoll::cli
