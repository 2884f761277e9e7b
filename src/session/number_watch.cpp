#include "session/number_watch.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "weights/finite.h"

namespace plimsoll::session {
namespace {

// The first that is not finite.
float find_bad(DType dtype, std::span<const std::byte> numbers) {
  const kernels::LoadFn load = kernels::load_of(dtype);
  const auto size = static_cast<size_t>(size_of(dtype));
  float value = 0;
  for (size_t at = 0; at + size <= numbers.size() && std::isfinite(value); at += size)
    load(numbers.data() + at, &value, 1);
  return value;
}

}  // namespace

NumberWatch::NumberWatch(const lower::Program& program, const plan::Plan& plan, const std::byte* base) {
  const plan::Problem& problem = program.problem;
  const std::vector<plan::ActionPlaces> places = find_places(problem, plan);
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const plan::Action& action = plan.actions[i];
    if (is_transfer(problem, action)) continue;
    int64_t first_sample = 0;
    const auto micro_batch = static_cast<size_t>(action.micro_batch);
    for (size_t k = 0; k < micro_batch; ++k) first_sample += plan.micro_batches[k];
    const auto add = [&](plan::BufferId id, Bytes place) {
      const plan::Buffer& buffer = problem.buffers[static_cast<size_t>(id)];
      const DType dtype = program.buffer_types[static_cast<size_t>(id)];
      if (!is_float(dtype)) return;
      const Bytes first = holds_whole_batch(buffer) ? first_sample * buffer.per_sample_bytes : 0;
      const Bytes bytes = buffer.fixed_bytes + buffer.per_sample_bytes * plan.micro_batches[micro_batch];
      all_.push_back(
          {i, base + place + first, static_cast<size_t>(bytes), dtype, buffer.kind == plan::BufferKind::Variable});
    };
    const plan::Work& work = work_of(problem, plan, action);
    for (size_t k = 0; k < work.writes.size(); ++k) add(work.writes[k], places[i].writes[k]);
    for (size_t k = 0; k < work.updates.size(); ++k) add(work.updates[k], places[i].updates[k]);
  }
}

void NumberWatch::begin() noexcept {
  next_ = 0;
  first_.reset();
  has_bad_variable_ = false;
}

void NumberWatch::look(size_t action) noexcept {
  for (; next_ < all_.size() && all_[next_].action <= action; ++next_) {
    const Written& written = all_[next_];
    const std::span<const std::byte> numbers(written.data, written.bytes);
    if (weights::is_finite(written.dtype, numbers)) continue;
    if (!first_) first_ = Found{action, find_bad(written.dtype, numbers)};
    has_bad_variable_ = has_bad_variable_ || written.is_variable;
  }
}

}  // namespace plimsoll::session
