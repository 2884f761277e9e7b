#include "ranks/agreement.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/stop_question.h"

namespace plimsoll::ranks {
namespace {

struct Outcome {
  int exit_code = 0;
  std::string message;
};

std::string to_text(const Outcome& outcome) { return fmt::format("{} {}", outcome.exit_code, outcome.message); }

Outcome parse_outcome(const std::string& text) {
  const size_t space = text.find(' ');
  return {std::stoi(text.substr(0, space)), text.substr(space + 1)};
}

// One sentence for each rank, unless all say the same.
[[noreturn]] void throw_together(const std::vector<Outcome>& outcomes, std::string_view noun) {
  const auto first = std::ranges::find_if(outcomes, [](const Outcome& one) { return one.exit_code != 0; });
  const bool are_same =
      std::ranges::all_of(outcomes, [&](const Outcome& one) { return one.message == first->message; });
  if (are_same) throw AgreedError(first->message, static_cast<ErrorKind>(first->exit_code));
  std::string text;
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    text += fmt::format("{}{} {}: {}", rank > 0 ? "\n" : "", noun, rank, outcomes[rank].message);
  throw AgreedError(text, static_cast<ErrorKind>(first->exit_code));
}

std::string join_facts(const RankFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += fmt::format("{}\t{}\n", name, value);
  return text;
}

RankFacts split_facts(const std::string& text) {
  RankFacts facts;
  for (size_t at = 0; at < text.size();) {
    const size_t tab = text.find('\t', at), end = text.find('\n', tab);
    facts.emplace_back(text.substr(at, tab - at), text.substr(tab + 1, end - tab - 1));
    at = end + 1;
  }
  return facts;
}

}  // namespace

void run_together(Communicator* communicator, const std::function<std::string()>& work) {
  if (communicator == nullptr) {
    work();
    return;
  }
  Outcome mine;
  try {
    mine.message = work();
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    mine = {e.exit_code(), e.what()};
  }
  std::vector<Outcome> all;
  bool is_good = true;
  for (const std::string& text : communicator->gather_texts(to_text(mine))) {
    all.push_back(parse_outcome(text));
    is_good = is_good && all.back().exit_code == 0;
  }
  if (!is_good) throw_together(all, communicator->noun());
}

void expect_same_on_ranks(Communicator& communicator, const RankFacts& facts) {
  const std::vector<std::string> all = communicator.gather_texts(join_facts(facts));
  const RankFacts first = split_facts(all.front());
  std::string differences;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const RankFacts own = split_facts(all[rank]);
    for (size_t i = 0; i < std::max(own.size(), first.size()); ++i) {
      const auto value = [&](const RankFacts& of) { return i < of.size() ? of[i].second : "unknown"; };
      if (value(own) == value(first)) continue;
      const std::string& name = (i < first.size() ? first : own)[i].first;
      differences += fmt::format("{}the {} of rank {} is '{}', that of rank 0 is '{}'", differences.empty() ? "" : "; ",
                                 name, rank, value(own), value(first));
    }
  }
  if (!differences.empty())
    throw AgreedError(
        fmt::format("the ranks would train different things: {}; give all the same options and data", differences),
        ErrorKind::Usage);
}

}  // namespace plimsoll::ranks
