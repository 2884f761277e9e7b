// An iteration as a whole: its share of the line, its streams, where it stands, and what AUTOTUNE adds.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "input/recipe.h"

namespace plimsoll::input {

// What an iteration can use of `room` bytes; at least what its stages need.
Bytes useful_bytes(const Recipe& recipe, Bytes room);

// Of all stages: see Holding.
Bytes kept_bytes(const Recipe& recipe);

// A row per stage, plus the output slot if any.
std::vector<StageReport> planned_stages(const Recipe& recipe);

// What a dataset may take of the free bytes of a line, unless the caller of Dataset::on gives another bound.
constexpr Bytes kPartForTuning = 8;  // an eighth

class Running {
 public:
  // `most`: of the line, unless the stages need more. `kept`: what the description holds, counted against that line.
  Running(RecipePtr recipe, MemoryLine& line, Bytes most, Reservation kept = {});

  const Recipe& recipe() const { return *recipe_; }
  Bytes kept_bytes() const { return kept_.bytes(); }
  const ElementView* next();
  DatasetState state() const { return state_; }
  void seek(const DatasetState& state);
  std::vector<StageReport> stages() const;

 private:
  using Clock = std::chrono::steady_clock;
  Rows next_row();
  void tune(Clock::time_point asked);

  const RecipePtr recipe_;
  const Reservation kept_;
  MemoryLine share_;
  std::deque<Meter> meters_;
  std::vector<Stream*> tunable_;
  std::optional<Slots> handed_out_;
  std::unique_ptr<Stream> stream_;
  DatasetState state_;

  int64_t row_ = 0;   // of handed_out_, the next one to hand out
  int64_t rows_ = 0;  // filled
  std::optional<ElementView> view_;

  Clock::time_point tuned_;
  Clock::duration waited_{};          // since then, for elements
  std::vector<int64_t> busy_before_;  // of each tunable stream
};

}  // namespace plimsoll::input
