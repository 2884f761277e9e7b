#include "session/lowering.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/half_product.h"
#include "memory/process.h"
#include "plan/effort.h"
#include "plan/search/split.h"

namespace plimsoll::session {

lower::LowerOptions StepLowering::options_for(const Request& request) const {
  lower::LowerOptions lowering;
  lowering.batch = request.batch;
  lowering.masks = options_.masks;
  lowering.values = options_.policy.values;
  lowering.frozen = options_.frozen_type;
  lowering.half_products = options_.policy.half_products && kernels::multiplies_bf16();
  lowering.gives_feeds = options_.reads_feeds_in_place;
  lowering.exchange_ns = options_.exchange_ns;
  return lowering;
}

void StepLowering::drop_code() const {
  if (line_.covers_process()) memory::drop_code_near(line_.limit());
}

void StepLowering::lower(PlannedStep& step, const Request& request) {
  if (request.batch <= 0)
    throw Error(fmt::format("a step can't have a batch of {} samples; give at least 1", request.batch));
  for (const Tensor& fetch : request.fetches)
    if (fetch.owner() != &graph_) throw Error("a fetch is unset or belongs to another graph");
  step.request = request;
  step.program = lower::lower(graph_, request.fetch_ids(), request.updates, options_for(request), layouts_, kernels_);
  step.lowered_tasks = std::ssize(step.program.tasks);
  drop_code();
}

void StepLowering::close_layouts() {
  for (const graph::Variable& variable : graph_.variables()) layouts_.try_emplace(variable.value, kernels::Layout());
}

// Half the batch, a quarter, and so on down to one sample; an eighth each time where a step has many tasks.
std::vector<int64_t> StepLowering::split_sizes(const Request& request, const lower::Program& whole) const {
  constexpr size_t kManyTasks = 5000;
  const int64_t stride = whole.tasks.size() > kManyTasks ? 8 : 2;
  std::vector<int64_t> sizes;
  if (!options_.levers.micro_batch) return sizes;
  for (int64_t samples = request.batch; samples > 1;) {
    samples = (samples + stride - 1) / stride;
    if ((request.batch + samples - 1) / samples > plan::kMostMicroBatches) break;
    sizes.push_back(samples);
  }
  return sizes;
}

std::vector<lower::Program> StepLowering::lower_splits(const Request& request, const lower::Program& whole) {
  std::vector<lower::Program> splits;
  const std::vector<int64_t> sizes = split_sizes(request, whole);
  if (sizes.empty()) return splits;
  const plan::Split split = find_split(whole.problem);
  if (!split.is_possible()) return splits;
  lower::LowerOptions lowering = options_for(request);
  lowering.waits.assign(graph_.nodes().size(), false);
  for (size_t t = 0; t < whole.tasks.size(); ++t) {
    const std::vector<plan::BufferId>& reads = whole.problem.tasks[t].reads;
    if (whole.tasks[t].origin >= 0 && split.when[t] == plan::Split::When::After)
      lowering.waits[static_cast<size_t>(whole.tasks[t].origin)] = std::any_of(
          reads.begin(), reads.end(),
          [&](plan::BufferId id) { return whole.problem.buffers[static_cast<size_t>(id)].per_sample_bytes > 0; });
  }
  for (const int64_t samples : sizes) {
    lowering.micro_batch = samples;
    lower::KernelStore kernels(
        [this] { drop_code(); });  // kernels of a split that is not chosen are freed with its program
    auto program = lower_in_micro_batches(graph_, request.fetch_ids(), request.updates, lowering, layouts_, kernels);
    if (program) splits.push_back(std::move(*program));
  }
  return splits;
}

bool StepLowering::has_room_for_splits(const PlannedStep& step, Bytes search_bytes) const {
  const Bytes each = kBytesOfTask * std::ssize(step.program.tasks) + bytes_of_option(step.program.problem);
  return std::ssize(split_sizes(step.request, step.program)) * each <= search_bytes;
}

Bytes StepLowering::bytes_of_problems(const PlannedStep& step) const {
  const auto sizes = std::ssize(split_sizes(step.request, step.program));
  return (1 + sizes) * kBytesOfTask * std::ssize(step.program.tasks);
}

std::vector<plan::Problem> StepLowering::list_problems(const PlannedStep& step) {
  std::vector<plan::Problem> problems;
  lower::KernelStore kernels([this] { drop_code(); });
  const lower::Program whole = lower::lower(graph_, step.request.fetch_ids(), step.request.updates,
                                            options_for(step.request), layouts_, kernels);
  problems.push_back(whole.problem);
  if (!has_room_for_splits(step, step.limits.search_bytes)) return problems;
  for (lower::Program& split : lower_splits(step.request, whole)) problems.push_back(std::move(split.problem));
  return problems;
}

}  // namespace plimsoll::session
