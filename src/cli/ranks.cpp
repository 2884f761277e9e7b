#include "cli/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/version.h>
#include "base/random.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "plan/check/exchanges.h"
#include "ranks/launch.h"
#include "train/checkpoint_store.h"

namespace plimsoll::cli {
namespace {

// Shared memory and code: libraries that a process loads late are in no estimate of it.
Bytes bytes_beside_heap() {
  const memory::ProcessMemory now = memory::measure_process_memory();
  return now.private_bytes + now.file_bytes - now.heap_bytes;
}

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
[[noreturn]] void throw_together(const std::vector<Outcome>& outcomes) {
  const auto first = std::ranges::find_if(outcomes, [](const Outcome& one) { return one.exit_code != 0; });
  const bool are_same =
      std::ranges::all_of(outcomes, [&](const Outcome& one) { return one.message == first->message; });
  if (are_same) throw AgreedError(first->message, static_cast<ErrorKind>(first->exit_code));
  std::string text;
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    text += fmt::format("{}rank {}: {}", rank > 0 ? "\n" : "", rank, outcomes[rank].message);
  throw AgreedError(text, static_cast<ErrorKind>(first->exit_code));
}

std::string list_exchanges(const train::Training& training) {
  std::string exchanges;
  for (const session::PlannedStep& step : training.session->steps())
    exchanges += plan::list_exchanges(step.program.problem, step.plan) + "\n";
  return exchanges;
}

// The exchanges of neighbours in a pipeline differ, and must meet.
void expect_matching_exchanges(const train::Training& training) {
  const std::vector<std::string> all = training.communicator->gather_texts(list_exchanges(training));
  if (const std::string unmatched = plan::find_unmatched(all); !unmatched.empty())
    throw AgreedError("the plans of the ranks do not fit together: " + unmatched, ErrorKind::Usage);
}

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts facts_of(const Arguments& arguments, const train::Training& training) {
  Facts facts{{"version", PLIMSOLL_VERSION_TEXT}};
  for (const auto& fact : train::checkpoint_facts(training)) facts.push_back(fact);
  const auto add = [&](const char* name, const auto& value) { facts.emplace_back(name, fmt::format("{}", value)); };
  const auto samples = [](const std::optional<train::Samples>& half) { return half ? half->elements.size() : 0; };
  add("number of training samples", samples(training.data.train));
  add("number of test samples", samples(training.data.test));
  if (training.data.train) add("form of a sample", to_string(training.data.train->elements.element()));
  add("number of shards", training.shards.total);
  add("pipeline", fmt::format("{} {}", fmt::join(arguments.pipeline, ","), arguments.micro_batches));
  if (!training.place.is_set()) add("order of exchanges", fmt::format("{:016x}", hash_text(list_exchanges(training))));
  add("seed", arguments.seed);
  add("number of epochs", arguments.epochs);
  add("number of steps", arguments.steps);
  add("learning rate", arguments.learning_rate);
  add("schedule", arguments.schedule);
  add("early stopping", arguments.early_stopping);
  add("order of samples", fmt::format("{} {}", arguments.no_shuffle, arguments.shuffle_window));
  add("changes of images", fmt::format("{}", fmt::join(arguments.map, ",")));
  add("file of weights", arguments.weights);
  add("resuming", arguments.resume);
  return facts;
}

std::string join_facts(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += fmt::format("{}\t{}\n", name, value);
  return text;
}

Facts split_facts(const std::string& text) {
  Facts facts;
  for (size_t at = 0; at < text.size();) {
    const size_t tab = text.find('\t', at), end = text.find('\n', tab);
    facts.emplace_back(text.substr(at, tab - at), text.substr(tab + 1, end - tab - 1));
    at = end + 1;
  }
  return facts;
}

}  // namespace

std::string line_of_rank(const std::string& lines, const ranks::Communicator& communicator) {
  std::vector<std::string> all;
  for (size_t at = 0; at <= lines.size();) {
    const size_t end = std::min(lines.find(',', at), lines.size());
    all.push_back(lines.substr(at, end - at));
    at = end + 1;
  }
  if (all.size() == 1) return lines;
  if (all.size() != static_cast<size_t>(communicator.size()))
    throw Error(
        fmt::format("--memory has {} sizes for {} ranks; give one, or one for each", all.size(), communicator.size()),
        ErrorKind::Usage);
  return all[static_cast<size_t>(communicator.rank())];
}

std::shared_ptr<ranks::Communicator> join_ranks(Arguments& arguments) {
  const auto launch = ranks::find_launch([](const char* name) { return std::getenv(name); });
  if (!launch || launch->size == 1) return nullptr;
  watch_rank_signals();
  const Bytes before = bytes_beside_heap();
  auto communicator =
      ranks::open_mpi(std::chrono::milliseconds(static_cast<int64_t>(arguments.rank_timeout * 1000)), is_end_asked);
  arguments.network = ranks::measure_network(*communicator);
  arguments.rank_bytes = std::max<Bytes>(0, bytes_beside_heap() - before);
  if (communicator->rank() > 0) {
    mute_output();
    arguments.progress = "none";
  }
  if (!arguments.memory.empty()) arguments.memory = line_of_rank(arguments.memory, *communicator);
  if (arguments.threads == 0)
    arguments.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / launch->local_size);
  return communicator;
}

void run_together(ranks::Communicator* communicator, const std::function<std::string()>& work) {
  if (communicator == nullptr) {
    work();
    return;
  }
  Outcome mine;
  try {
    mine.message = work();
  } catch (const train::Interrupted&) {
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
  if (!is_good) throw_together(all);
}

void expect_same_training(const Arguments& arguments, const train::Training& training) {
  const std::vector<std::string> all = training.communicator->gather_texts(join_facts(facts_of(arguments, training)));
  const Facts first = split_facts(all.front());
  std::string differences;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const Facts own = split_facts(all[rank]);
    for (size_t i = 0; i < std::max(own.size(), first.size()); ++i) {
      const auto value = [&](const Facts& facts) { return i < facts.size() ? facts[i].second : "unknown"; };
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
  if (training.place.is_set()) expect_matching_exchanges(training);
}

int end_together(ranks::Communicator& communicator, const Error& error) {
  std::fflush(stdout);
  if (dynamic_cast<const AgreedError*>(&error) != nullptr) {
    if (communicator.rank() == 0) print_error(fmt::format("plimsoll: {}\n", error.what()));
    return error.exit_code();
  }
  const std::string who = error.kind() == ErrorKind::RankLost ? "" : fmt::format("rank {}: ", communicator.rank());
  // Who is ended because another rank failed has nothing to say, and nobody to say it to.
  if (is_end_asked()) std::_Exit(error.exit_code());
  print_error(fmt::format("plimsoll: {}{}\n", who, error.what()));
  communicator.abort(error.what(), error.exit_code());
  return error.exit_code();
}

}  // namespace plimsoll::cli
