#include <plimsoll/dataset.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/running.h"

namespace plimsoll {
namespace input {

RecipePtr recipe_of(const Dataset& dataset) { return dataset.recipe_; }
Dataset make_dataset(RecipePtr recipe) { return Dataset(std::move(recipe)); }
Iteration start_iteration(const Dataset& dataset, MemoryLine& share) {
  return Iteration(std::make_unique<Running>(recipe_of(dataset), share, share.free()));
}

}  // namespace input

namespace {

input::Running& expect_here(const std::unique_ptr<input::Running>& running) {
  if (running == nullptr) throw Error("the iteration was moved away; use the iteration that it was moved to");
  return *running;
}

}  // namespace

const ElementSpec& Dataset::element() const { return recipe_->element(); }
int64_t Dataset::size() const { return recipe_->size(); }
const std::vector<std::string>& Dataset::class_names() const {
  static const std::vector<std::string> kNone;
  const std::vector<std::string>* names = &kNone;
  input::for_each_stage(*recipe_, [&](const input::Recipe& stage) {
    if (names->empty() && stage.classes() != nullptr) names = stage.classes();
  });
  return *names;
}
bool Dataset::is_random_access() const { return input::can_be_ordered(*recipe_); }
std::vector<StageReport> Dataset::stages() const { return input::planned_stages(*recipe_); }

Bytes Dataset::bytes() const {
  Bytes bytes = input::kept_bytes(*recipe_);
  for (const StageReport& stage : stages()) bytes += stage.bytes;
  return bytes;
}

Bytes Dataset::useful_bytes(Bytes room) const { return input::useful_bytes(*recipe_, room); }

Iteration Dataset::on(MemoryLine& line) const { return on(line, line.free() / input::kPartForTuning); }
// A line that covers the process has the kept bytes in its measure.
Iteration Dataset::on(MemoryLine& line, Bytes most) const {
  Reservation kept = line.reserve(Tag::Data, line.covers_process() ? 0 : input::kept_bytes(*recipe_));
  return Iteration(std::make_unique<input::Running>(recipe_, line, std::min(most, line.free()), std::move(kept)));
}

std::string to_string(const Dataset& dataset) { return input::chain_text(*input::recipe_of(dataset)); }

Iteration::Iteration(std::unique_ptr<input::Running> running) : running_(std::move(running)) {}
Iteration::Iteration(Iteration&&) noexcept = default;
Iteration& Iteration::operator=(Iteration&&) noexcept = default;
Iteration::~Iteration() = default;

const ElementView* Iteration::next() { return expect_here(running_).next(); }
DatasetState Iteration::state() const { return expect_here(running_).state(); }
void Iteration::seek(const DatasetState& state) { expect_here(running_).seek(state); }
void Iteration::start_epoch(uint64_t epoch) { seek({state().dataset, epoch, 0}); }
const ElementSpec& Iteration::element() const { return expect_here(running_).recipe().element(); }
std::vector<StageReport> Iteration::stages() const { return expect_here(running_).stages(); }

Bytes Iteration::bytes() const {
  Bytes bytes = expect_here(running_).kept_bytes();
  for (const StageReport& stage : stages()) bytes += stage.bytes;
  return bytes;
}

}  // namespace plimsoll
