#include "cli/flag_rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/usage.h"
#include "ranks/launch.h"

namespace plimsoll::cli {
namespace {

class Verb final : public CLI::App {
 public:
  Verb(const std::string& name, const std::string& description, CLI::App* parent) : App(description, name, parent) {}
  void set(const CLI::Option* flag, const FlagRule& rule) { rules_[flag] = rule; }
  FlagRule rule(const CLI::Option* flag) const {
    const auto found = rules_.find(flag);
    return found == rules_.end() ? FlagRule() : found->second;
  }

 private:
  std::map<const CLI::Option*, FlagRule> rules_;
};

FlagRule rule_of(const CLI::App& app, const CLI::Option& flag) {
  const auto* verb = dynamic_cast<const Verb*>(&app);
  return verb == nullptr ? FlagRule() : verb->rule(&flag);
}

[[noreturn]] void break_rule(const std::string& why) { throw CLI::ParseError(why, 2); }

template <class Number>
bool reads(const std::string& text, Number& number) {
  const size_t begin = text.starts_with('+') ? 1 : 0;
  const auto [end, status] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  return status == std::errc() && end == text.data() + text.size();
}

// Why a text is not the number that a flag takes; empty: it is.
std::string fault_of_number(const std::string& type, const FlagRule& rule, const std::string& text) {
  double number = 0;
  if (!reads(text, number) || !std::isfinite(number) || number < rule.least ||
      (number == rule.least && rule.is_least_refused))
    return fmt::format(
        "'{}' is no number {}", text,
        rule.is_least_refused ? fmt::format("above {}", rule.least) : fmt::format("from {} on", rule.least));
  uint64_t natural = 0;
  int64_t whole = 0;
  // CLI11 takes numbers beyond 64 bits for the largest, and an unsigned -1 too.
  const bool is_whole = type.starts_with("UINT") ? reads(text, natural) : reads(text, whole);
  if (is_whole || type.starts_with("FLOAT")) return "";
  return fmt::format("'{}' is no whole number that fits 64 bits", text);
}

bool is_rank() {
  return ranks::find_launch([](const char* name) { return std::getenv(name); }).has_value();
}

bool is_given(const CLI::App& verb, const std::string& name) {
  const CLI::Option* flag = find_option(verb, name);
  if (flag != nullptr && flag->count() > 0) return true;
  // A rank was started without the flag that started the ranks.
  return name == "ranks" && is_rank();
}

void check_beside(const CLI::App& verb, const CLI::Option& flag, std::span<const char* const> contradicts) {
  for (const char* other : contradicts)
    if (is_given(verb, other))
      break_rule(fmt::format("{} and {} contradict each other: give one of them", flag_name(flag),
                             flag_name(*find_option(verb, other))));
}

// "run|data": one of these flags, as far as the verb has them.
void check_need(const CLI::App& verb, const CLI::Option& flag, const std::string& need) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= need.size();) {
    const size_t end = std::min(need.find('|', begin), need.size());
    const std::string name = need.substr(begin, end - begin);
    if (is_given(verb, name)) return;
    if (const CLI::Option* needed = find_option(verb, name)) names.push_back(flag_name(*needed));
    begin = end + 1;
  }
  break_rule(fmt::format("{} does nothing without {}", flag_name(flag), fmt::join(names, " or ")));
}

std::vector<const CLI::Option*> given_flags(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* flag) { return flag->count() > 0; });
}

}  // namespace

FlagRule from(double least) { return {.least = least, .is_least_refused = false}; }

CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& description) {
  return parent.add_subcommand(std::make_shared<Verb>(name, description, &parent));
}

CLI::Option* declare(CLI::App& verb, CLI::Option* flag, const FlagRule& rule) {
  dynamic_cast<Verb&>(verb).set(flag, rule);
  return flag;
}

void guard_numbers(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands({})) guard_numbers(*verb);
  for (CLI::Option* flag : app.get_options()) {
    const std::string type = flag->get_type_name();
    if (!type.starts_with("UINT") && !type.starts_with("INT") && !type.starts_with("FLOAT")) continue;
    flag->check(CLI::Validator(
        [type, rule = rule_of(app, *flag)](const std::string& text) { return fault_of_number(type, rule, text); }, ""));
  }
}

std::vector<FlagPath> paths_of(const CLI::App& verb) {
  std::vector<FlagPath> paths;
  for (const CLI::Option* flag : verb.get_options({})) {
    const FlagRule rule = rule_of(verb, *flag);
    if (rule.path == PathUse::None) continue;
    const std::string path = flag->count() > 0 ? flag->results().back() : flag->get_default_str();
    if (!path.empty()) paths.push_back({flag_name(*flag), flag->get_single_name(), path, rule.path, rule.may_replace});
  }
  return paths;
}

void check_rules(const CLI::App& verb) {
  for (const CLI::Option* flag : given_flags(verb)) {
    const FlagRule rule = rule_of(verb, *flag);
    check_beside(verb, *flag, rule.contradicts);
    for (const char* need : rule.needs) check_need(verb, *flag, need);
  }
}

void check_rules_on_line(const CLI::App& verb) {
  if (is_rank()) return;  // ranks that are started again are told to resume
  for (const CLI::Option* flag : given_flags(verb)) check_beside(verb, *flag, rule_of(verb, *flag).contradicts_on_line);
}

}  // namespace plimsoll::cli
