#include "cli/ranks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.h"
#include "cli/verbs.h"
#include "forecast/batch_search.h"
#include "forecast/remedies.h"
#include "together/join_ranks.h"
#include "train/agreement.h"

namespace plimsoll::cli {
namespace {

ranks::RankFacts facts_of(const Arguments& arguments, const train::Training& training) {
  ranks::RankFacts facts = train::rank_facts(training);
  const auto add = [&](const char* name, const auto& value) { facts.emplace_back(name, fmt::format("{}", value)); };
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

}  // namespace

std::string line_of_rank(const std::string& lines, int rank, int ranks) {
  std::vector<std::string> all;
  for (size_t at = 0; at <= lines.size();) {
    const size_t end = std::min(lines.find(',', at), lines.size());
    all.push_back(lines.substr(at, end - at));
    at = end + 1;
  }
  if (all.size() == 1) return lines;
  if (all.size() != static_cast<size_t>(ranks))
    throw Error(fmt::format("--memory has {} sizes for {} ranks; give one, or one for each", all.size(), ranks),
                ErrorKind::Usage);
  return all[static_cast<size_t>(rank)];
}

std::shared_ptr<ranks::Communicator> join_ranks(Arguments& arguments) {
  if (!together::is_one_of_several()) return nullptr;
  watch_rank_signals();
  const together::JoinedRanks joined = together::join_ranks(arguments.rank_timeout, is_end_asked);
  const auto& communicator = joined.communicator;
  arguments.network = joined.network;
  arguments.rank_bytes = joined.bytes;
  if (communicator->rank() > 0) {
    mute_output();
    arguments.progress = "none";
  }
  if (!arguments.memory.empty())
    arguments.memory = line_of_rank(arguments.memory, communicator->rank(), communicator->size());
  if (arguments.threads == 0) arguments.threads = joined.threads;
  return communicator;
}

std::unique_ptr<train::Training> make_training_of_rank(const train::Spec& spec) {
  try {
    return forecast::make_sized_training(spec, is_stop_asked);
  } catch (const DoesNotFit& e) {
    if (!spec.communicator || spec.own_line || e.refusal().smallest_line == 0) throw;
    throw DoesNotFit(forecast::verify_smallest_line(spec, e.refusal(), is_stop_asked));
  }
}

void expect_same_training(const Arguments& arguments, const train::Training& training) {
  ranks::expect_same_on_ranks(*training.spec.communicator, facts_of(arguments, training));
  train::expect_matching_exchanges(training);
}

int run_with_ranks(const Arguments& given,
                   const std::function<int(const Arguments&, const std::shared_ptr<ranks::Communicator>&)>& work) {
  if (must_start_ranks(given)) return start_ranks(given);
  Arguments arguments = given;
  const std::shared_ptr<ranks::Communicator> communicator = join_ranks(arguments);
  if (!communicator) return work(arguments, nullptr);
  try {
    return work(arguments, communicator);
  } catch (const Error& e) {
    return end_together(*communicator, e);
  }
}

int end_together(ranks::Communicator& communicator, const Error& error) {
  std::fflush(stdout);
  if (dynamic_cast<const ranks::AgreedError*>(&error) != nullptr) {
    if (communicator.rank() == 0) print_error(fmt::format("plimsoll: {}\n", error.what()));
    return error.exit_code();
  }
  const std::string who = error.kind() == ErrorKind::RankLost ? "" : fmt::format("rank {}: ", communicator.rank());
  // A rank that is ended because another one failed prints no message and aborts nobody.
  if (is_end_asked()) std::_Exit(error.exit_code());
  print_error(fmt::format("plimsoll: {}{}\n", who, error.what()));
  communicator.abort(error.what(), error.exit_code());
  return error.exit_code();
}

}  // namespace plimsoll::cli
