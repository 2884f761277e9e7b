#include "cli/help.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "cli/output.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kRareMark = " (rare)";  // behind the title, within CLI11 only
constexpr size_t kNameColumns = 22, kMostColumns = 100;

bool is_rare(const CLI::Option& option) { return option.get_group().ends_with(kRareMark); }

std::string title_of(const CLI::Option& option) {
  const std::string& group = option.get_group();
  return is_rare(option) ? group.substr(0, group.size() - kRareMark.size()) : group;
}

// Short names and the first long one; others are alternative spellings.
std::string name_of(const CLI::Option& option) {
  std::string name;
  for (const std::string& letter : option.get_snames()) name += "-" + letter + ",";
  return name + "--" + option.get_lnames().at(0);
}

// What stands for the value: its own word, or one for its type.
std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  if (!option.get_option_text().empty()) return " " + option.get_option_text();
  const std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return " N";
  return type.starts_with("FLOAT") ? " X" : " TEXT";
}

// The first sentence, or all of them.
std::string text_of(const CLI::Option& option, bool is_short) {
  std::string text = option.get_description();
  if (is_short) text = text.substr(0, text.find(". "));
  if (!option.get_default_str().empty()) text += fmt::format(" (default: {})", option.get_default_str());
  return text;
}

// A name, and what it means beside or below it.
std::string row(const std::string& name, const std::string& text) {
  std::string lines = "  " + name;
  if (lines.size() + 1 > kNameColumns && !text.empty()) lines += '\n';
  const size_t width = lines.ends_with('\n') ? 0 : lines.size();
  if (text.empty()) return lines + '\n';
  const size_t columns = std::min(columns_of(stdout), kMostColumns);
  const size_t room = columns > 2 * kNameColumns ? columns - kNameColumns : kNameColumns;
  bool is_first = true;
  for (const std::string& line : wrap(text, room)) {
    lines += std::string(kNameColumns - (is_first ? width : 0), ' ') + line + '\n';
    is_first = false;
  }
  return lines;
}

// A line is continued below its text, which is behind its word in a table of words.
std::string wrapped(const std::string& text) {
  const size_t columns = std::min(columns_of(stdout), kMostColumns);
  std::string lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) {
    const size_t word = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", word);
    const size_t start = gap == std::string::npos ? word : line.find_first_not_of(' ', gap);
    const size_t room = columns > start + kNameColumns ? columns - start : kNameColumns;
    std::string before = line.substr(0, start);
    for (const std::string& part : wrap(std::string_view(line).substr(start), room)) {
      lines += before + part + '\n';
      before = std::string(start, ' ');
    }
    if (line.empty()) lines += '\n';
  }
  return lines;
}

std::string positional_name(const CLI::Option& option) {
  std::string name = option.get_name(true);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

// All flags except those that ask for help.
std::vector<const CLI::Option*> listed_flags(const CLI::App& app) {
  return app.get_options([&](const CLI::Option* option) {
    return option->nonpositional() && !option->get_group().empty() && option != app.get_help_ptr() &&
           option != app.get_help_all_ptr();
  });
}

// Titles in the order in which they were started, each once.
std::vector<std::string> titles_of(const std::vector<const CLI::Option*>& options) {
  std::vector<std::string> titles;
  for (const CLI::Option* option : options)
    if (std::ranges::find(titles, title_of(*option)) == titles.end()) titles.push_back(title_of(*option));
  return titles;
}

std::string usage_of(const CLI::App& app, const std::string& name) {
  std::string usage = name;
  for (const CLI::Option* option : positionals_of(app)) usage += " " + positional_name(*option);
  for (const CLI::Option* option : listed_flags(app))
    if (option->get_required()) usage += fmt::format(" {}{}", name_of(*option), value_of(*option));
  return usage + (app.get_subcommands({}).empty() ? " [FLAGS]" : " VERB [FLAGS]");
}

}  // namespace

void start_group(CLI::App& verb, const char* title, Listing listing) {
  verb.option_defaults()->group(title + std::string(listing == Listing::Rare ? kRareMark : ""));
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const bool lists_all = mode != CLI::AppFormatMode::Normal;
  std::string text = wrapped(fmt::format("{}: {}\n", usage_of(*app, name), app->get_description()));
  for (const CLI::Option* option : positionals_of(*app))
    text += row(positional_name(*option), option->get_description());
  const auto options = listed_flags(*app);
  bool hides_some = false;
  for (const std::string& title : titles_of(options)) {
    std::string rows;
    for (const CLI::Option* option : options) {
      if (title_of(*option) != title) continue;
      const bool is_listed = lists_all || !is_rare(*option);
      hides_some = hides_some || !is_listed;
      if (is_listed) rows += row(name_of(*option) + value_of(*option), text_of(*option, !lists_all));
    }
    if (!rows.empty()) text.append(title).append(":\n").append(rows);
  }
  const auto verbs = app->get_subcommands({});
  if (!verbs.empty()) text += "Verbs:\n";
  for (const CLI::App* verb : verbs) text += row(verb->get_name(), verb->get_description());
  text += wrapped(app->get_footer());
  if (!text.ends_with('\n')) text += '\n';
  if (hides_some) text += fmt::format("All flags: {} --help-all\n", name);
  return text;
}

}  // namespace plimsoll::cli
