#include "input/running.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::input {
namespace {

constexpr std::chrono::milliseconds kTuneEvery{20};
constexpr double kMostWaiting = 0.01;  // share of the time that the consumer may wait before a stage gets more

Bytes handed_out_bytes(const Recipe& recipe) {
  return recipe.lends() ? 0 : Slots::bytes(recipe.element(), recipe.wanted_rows());
}

}  // namespace

Bytes useful_bytes(const Recipe& recipe, Bytes room) {
  Bytes least = handed_out_bytes(recipe), tuned = 0;
  for_each_stage(recipe, [&](const Recipe& stage) {
    const Holding holding = stage.holding();
    least += holding.bytes;
    tuned += std::max<Bytes>(0, holding.most_bytes - holding.bytes);
  });
  Bytes bytes = std::clamp(room, least, least + tuned);
  for_each_stage(recipe, [&](const Recipe& stage) {
    if (const Bytes whole = stage.holding().whole_bytes; whole <= room - bytes) bytes += whole;
  });
  return bytes;
}

Bytes kept_bytes(const Recipe& recipe) {
  Bytes bytes = 0;
  for_each_stage(recipe, [&](const Recipe& stage) { bytes += stage.holding().kept_bytes; });
  return bytes;
}

std::vector<StageReport> planned_stages(const Recipe& recipe) {
  std::vector<StageReport> stages;
  for_each_stage(recipe, [&](const Recipe& stage) {
    const Holding holding = stage.holding();
    stages.push_back({.name = stage.text(), .bytes = holding.bytes, .threads = holding.threads});
  });
  if (!recipe.lends()) stages.push_back({.name = "handed out", .bytes = handed_out_bytes(recipe)});
  return stages;
}

Running::Running(RecipePtr recipe, MemoryLine& line, Bytes most, Reservation kept)
    : recipe_(std::move(recipe)),
      kept_(std::move(kept)),
      share_(line.share(Tag::Data, useful_bytes(*recipe_, most))),
      tuned_(Clock::now()) {
  Build build{share_, meters_, tunable_};
  stream_ = recipe_->start(build);
  if (!recipe_->lends()) handed_out_.emplace(recipe_->element(), recipe_->wanted_rows(), share_);
  busy_before_.resize(tunable_.size());
  state_.dataset = chain_identity(*recipe_);
}

const ElementView* Running::next() {
  const Clock::time_point asked = Clock::now();
  const Rows row = next_row();
  if (!tunable_.empty()) tune(asked);
  if (row.count() == 0) return nullptr;
  ++state_.position;
  return &view_.emplace(row.view(recipe_->element(), 0));
}

Rows Running::next_row() {
  if (recipe_->lends()) return stream_->lend();
  if (row_ == rows_) {
    row_ = rows_ = 0;
    rows_ = stream_->pull(handed_out_->rows());
    if (rows_ == 0) return handed_out_->rows(0, 0);
  }
  return handed_out_->rows(row_++, 1);
}

void Running::seek(const DatasetState& state) {
  if (state.dataset != state_.dataset)
    throw Error(fmt::format("this state is not one of '{}'; was it saved with another dataset?", chain_text(*recipe_)),
                ErrorKind::Usage);
  const int64_t size = recipe_->size();
  const auto refuse = [&] {
    throw Error(fmt::format("can't go on at element {} of '{}': it has fewer", state.position, chain_text(*recipe_)),
                ErrorKind::Usage);
  };
  if (state.position < 0 || (size >= 0 && state.position > size)) refuse();
  stream_->rewind(state.epoch);
  row_ = rows_ = 0;
  state_ = {state.dataset, state.epoch, 0};
  if (state.position == 0) return;
  // A last stage that lends elements needs no scratch row to pass over them.
  const Rows scratch = handed_out_ ? handed_out_->rows() : Rows(nullptr, 0, 0);
  state_.position = stream_->skip(state.position, scratch);
  if (state_.position < state.position) refuse();
}

std::vector<StageReport> Running::stages() const {
  std::vector<StageReport> stages = planned_stages(*recipe_);
  for (size_t i = 0; i < meters_.size(); ++i) {
    const Meter& meter = meters_[i];
    stages[i].bytes = meter.bytes;
    stages[i].threads = meter.threads;
    stages[i].elements = meter.elements;
    stages[i].busy_ns = meter.busy_ns;
    stages[i].waiting_ns = meter.waiting_ns;
    stages[i].skipped = meter.skipped;
    stages[i].last_skipped = meter.last_skipped();
  }
  return stages;
}

// Gives one thread or slot to the stage that is busiest for each of its threads, while the consumer waits for elements.
void Running::tune(Clock::time_point asked) {
  const Clock::time_point now = Clock::now();
  waited_ += now - asked;
  if (now - tuned_ < kTuneEvery) return;
  std::vector<std::pair<int64_t, Stream*>> load;
  for (size_t i = 0; i < tunable_.size(); ++i) {
    const int64_t busy = tunable_[i]->meter().busy_ns;
    load.emplace_back((busy - busy_before_[i]) / (1 + tunable_[i]->meter().threads), tunable_[i]);
    busy_before_[i] = busy;
  }
  const bool is_short = std::chrono::duration<double>(waited_) > kMostWaiting * (now - tuned_);
  waited_ = {};
  tuned_ = now;
  if (!is_short) return;
  std::ranges::stable_sort(load, [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [busy_ns, stream] : load)
    if (stream->grow()) return;
}

}  // namespace plimsoll::input
