#include "together/strategy.h"

#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

std::shared_ptr<const together::StrategyContents> make_contents(const together::StrategyContents& contents) {
  const StrategyOptions& options = contents.options;
  if (options.shards < 0 || !(options.timeout > 0))
    throw Error(fmt::format("a strategy with {} shards and {} seconds to wait makes no sense; give shards that are not "
                            "negative and a time that is positive",
                            options.shards, options.timeout),
                ErrorKind::Usage);
  return std::make_shared<const together::StrategyContents>(contents);
}

}  // namespace

Strategy::Strategy() : Strategy(make_contents({})) {}

Strategy::Strategy(std::shared_ptr<const together::StrategyContents> contents) : contents_(std::move(contents)) {}

Strategy Strategy::ranks(const StrategyOptions& options) {
  return Strategy(make_contents({together::StrategyKind::Ranks, 1, options}));
}

Strategy Strategy::mirrored(int replicas, const StrategyOptions& options) {
  if (replicas < 1) throw Error(fmt::format("{} replicas can't train; give 1 or more", replicas), ErrorKind::Usage);
  return Strategy(make_contents({together::StrategyKind::Mirrored, replicas, options}));
}

Strategy Strategy::pipeline(std::vector<std::string> first_layers, int64_t micro_batches) {
  if (micro_batches < 0 || (first_layers.empty() && micro_batches == 0))
    throw Error("a pipeline needs the layers that begin its stages, or a number of micro-batches", ErrorKind::Usage);
  return Strategy(
      make_contents({.kind = together::StrategyKind::Pipeline, .stages = {std::move(first_layers), micro_batches}}));
}

}  // namespace plimsoll
