// Help texts: a short one with everyday flags, which fits a screen, and one with all of them; both by group.
#pragma once

#include <CLI/CLI.hpp>

namespace plimsoll::cli {

// Flags that are added to a verb from here on belong to this group. Rare ones are listed by --help-all only, under the
// same title.
enum class Listing { Everyday, Rare };
void start_group(CLI::App& verb, const char* title, Listing listing = Listing::Everyday);

// Titles that several verbs have.
constexpr const char* kStepGroup = "Model and step";
constexpr const char* kMemoryGroup = "Memory";
constexpr const char* kDataGroup = "Data";
constexpr const char* kRunGroup = "Run";
constexpr const char* kRanksGroup = "Ranks";

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace plimsoll::cli
