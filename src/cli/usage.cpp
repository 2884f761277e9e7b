#include "cli/usage.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/nearest.h"
#include "train/spec.h"

namespace plimsoll::cli {
namespace {

std::string meant(const std::string& word, const std::vector<std::string>& known, const char* dashes) {
  const std::string name = likely_meant(word, known);
  return name.empty() ? "" : fmt::format("; did you mean {}{}?", dashes, name);
}

// "--epochs=3" without dashes and value.
std::string bare(const std::string& flag) {
  const size_t begin = flag.find_first_not_of('-');
  return begin == std::string::npos ? "" : flag.substr(begin, flag.find('=') - begin);
}

std::string unknown_word(const CLI::App& verb, const std::string& word) {
  const auto verbs = verb.get_subcommands({});
  if (word.starts_with('-')) {
    const std::string flag = word.substr(0, word.find('='));
    return fmt::format("unknown flag {}{}", flag, meant(bare(word), names_of(verb), "--"));
  }
  if (verbs.empty()) return fmt::format("'{}' is one argument too many", word);
  std::vector<std::string> names;
  for (const CLI::App* one : verbs) names.push_back(one->get_name());
  return fmt::format("unknown verb '{}'{}", word, meant(word, names, ""));
}

}  // namespace

std::vector<std::string> names_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
    if (option->get_positional()) names.push_back(option->get_single_name());
  }
  return names;
}

const CLI::Option* find_option(const CLI::App& verb, const std::string& name) {
  for (const CLI::Option* option : verb.get_options({}))
    if (option->check_lname(name) || (option->get_positional() && option->get_single_name() == name)) return option;
  return nullptr;
}

std::string flag_name(const CLI::Option& option) {
  const std::string& name = option.get_single_name();
  return (option.get_positional() ? "the " : "--") + name;
}

CLI::Validator thread_number() {
  return {[](const std::string& text) {
            int number = 0;
            const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
            const bool is_good = status == std::errc() && end == text.data() + text.size() && number > 0 &&
                                 number <= train::kMostThreads;
            return is_good ? std::string()
                           : fmt::format("'{}' is no number of threads: give 1 to {}", text, train::kMostThreads);
          },
          "THREADS", "threads"};
}

std::string describe_misuse(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* verb = &app;
  std::string path = app.get_name();
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().back();
    path += " " + verb->get_name();
  }
  // An unknown flag is named first: its value was taken for something else, which caused the other error.
  const std::vector<std::string> left = verb->remaining();
  const bool expects_verb = !verb->get_subcommands({}).empty();
  auto word = std::ranges::find_if(left, [](const std::string& one) { return one.starts_with('-'); });
  if (word == left.end() || expects_verb) word = left.begin();
  const std::string what = left.empty() ? std::string(e.what()) : unknown_word(*verb, *word);
  const char* end = what.ends_with('?') ? " See" : "; see";
  return fmt::format("{}{} {} --help", what, end, path);
}

}  // namespace plimsoll::cli
