// What a flag declares beside its type: the least number, what it needs and contradicts, what its path is for. One
// check after parsing reads the declarations of every verb, so nothing that was given is ignored without a word.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace plimsoll::cli {

enum class PathUse {
  None,
  Reads,           // a file, a folder, or the name of a built-in model
  ReadsData,       // a file or a folder of data
  WritesFile,      // as a whole: by renaming
  WritesModel,     // a directory of a model, replaced as a whole
  WritesAdapters,  // a folder
  WritesRun,       // a folder with files of known names
};

struct FlagRule {
  double least = 0;                           // of a number
  bool is_least_refused = true;               // it must be above `least`
  std::vector<const char*> needs = {};        // does nothing unless these are given too; "run|data": one of them
  std::vector<const char*> contradicts = {};  // of two that contradict, one may say so
  // The same on the command line itself: a config may have both.
  std::vector<const char*> contradicts_on_line = {};
  PathUse path = PathUse::None;
  std::vector<const char*> may_replace = {};  // inputs that it may take the place of: it is what became of them
};
// Numbers from `least` on, where most must be above 0.
FlagRule from(double least);

// A verb whose flags have rules; `parent` owns it.
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& description);
// Gives a flag of a verb its rule, instead of an earlier one.
CLI::Option* declare(CLI::App& verb, CLI::Option* flag, const FlagRule& rule);

// Makes every flag of the verbs below refuse numbers that its rule forbids.
void guard_numbers(CLI::App& app);

// Throws CLI::ParseError for the first flag of what was parsed that breaks a rule.
void check_rules(const CLI::App& verb);
// The same for what was parsed of the command line alone, without a config.
void check_rules_on_line(const CLI::App& verb);

// A path that was given, or is the default of a flag.
struct FlagPath {
  std::string shown;  // "--save", "the model"
  std::string name;   // "save"
  std::string path;
  PathUse use = PathUse::None;
  std::vector<const char*> may_replace = {};
};
std::vector<FlagPath> paths_of(const CLI::App& verb);

}  // namespace plimsoll::cli
