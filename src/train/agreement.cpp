#include "train/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/version.h>
#include "input/opening/sample_hash.h"
#include "plan/check/compare_exchanges.h"
#include "plan/check/exchanges.h"
#include "train/checkpoint_store.h"

namespace plimsoll::train {
namespace {

std::string list_exchanges(const Training& training) {
  std::string exchanges;
  for (const session::PlannedStep& step : training.session->steps())
    exchanges += plan::list_exchanges(step.program.problem, step.plan) + "\n";
  return exchanges;
}

}  // namespace

ranks::RankFacts rank_facts(const Training& training) {
  ranks::RankFacts facts{{"version", PLIMSOLL_VERSION_TEXT}};
  for (const auto& fact : checkpoint_facts(training)) facts.push_back(fact);
  const auto add = [&](const char* name, const auto& value) { facts.emplace_back(name, fmt::format("{}", value)); };
  const auto samples = [](const std::optional<input::Samples>& half) { return half ? half->elements.size() : 0; };
  add("number of training samples", samples(training.spec.data.train));
  add("number of test samples", samples(training.spec.data.test));
  if (training.spec.data.train) add("form of a sample", to_string(training.spec.data.train->elements.element()));
  const auto add_batches = [&](const char* name, const std::optional<Dataset>& dataset) {
    if (dataset) add(name, fmt::format("{} of {}", dataset->size(), to_string(dataset->element())));
  };
  add_batches("training data", training.spec.batches.train);
  add_batches("validation data", training.spec.batches.test);
  add("number of shards", training.shards.total);
  if (training.place.is_set()) {
    add("layers that begin stages", fmt::format("{}", fmt::join(training.place.first_layers, ",")));
  }
  for (const auto& [name, half] :
       {std::pair{"training", &training.spec.data.train}, std::pair{"test", &training.spec.data.test}})
    if (*half)
      facts.emplace_back(fmt::format("contents of the {} data (first, middle and last sample)", name),
                         input::hash_samples(**half, training.session->data_line()));
  return facts;
}

void expect_matching_exchanges(const Training& training) {
  const std::vector<std::string> all = training.spec.communicator->gather_texts(list_exchanges(training));
  const std::string fault = training.place.is_set() ? plan::find_unmatched(all) : plan::compare_exchanges(all);
  if (!fault.empty())
    throw ranks::AgreedError(fmt::format("the plans of the ranks do not match: {}; give all the same options", fault),
                             ErrorKind::Usage);
}

}  // namespace plimsoll::train
