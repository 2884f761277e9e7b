// Problems for the planner's tests: small ones by hand, large ones and random ones by rule.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::testing {

using namespace plan;

using Dice = RandomSequence;  // the same seed is the same problem everywhere

struct Builder {
  Problem problem;

  BufferId buffer(const std::string& name, BufferKind kind, Tag tag, Bytes fixed, Bytes per_sample = 0) {
    problem.buffers.push_back({name, tag, kind, fixed, per_sample});
    return static_cast<BufferId>(problem.buffers.size()) - 1;
  }
  BufferId variable(const std::string& name, Bytes fixed) {
    return buffer(name, BufferKind::Variable, Tag::Weights, fixed);
  }
  BufferId temporary(const std::string& name, Bytes fixed, Bytes per_sample = 0) {
    return buffer(name, BufferKind::Temporary, Tag::Activations, fixed, per_sample);
  }
  Task& task(const std::string& name, std::vector<BufferId> reads, std::vector<BufferId> writes,
             std::vector<BufferId> updates = {}) {
    Task& task = problem.tasks.emplace_back();
    task.name = name;
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.updates = std::move(updates);
    task.fixed_ns = 1000;
    return task;
  }
};

// Layers of linear + relu with their backward and updates, all updates at the end as an optimiser would list them.
// The loss and the batch are as in any training step. 6 tasks for each layer.
inline Problem training_chain(int layers, Bytes row_bytes, Bytes weight_bytes) {
  Builder b;
  b.problem.name = "chain";
  std::vector<BufferId> weights, inputs, outputs, gradients;
  for (int i = 0; i < layers; ++i) weights.push_back(b.variable("w" + std::to_string(i), weight_bytes));
  BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, row_bytes);
  const BufferId y = b.buffer("y", BufferKind::Input, Tag::Data, 0, 4);
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    const BufferId linear = b.temporary("linear" + n, 0, row_bytes), relu = b.temporary("relu" + n, 0, row_bytes);
    Task& forward = b.task("linear" + n, {x, weights[i]}, {linear});
    forward.batch_rule = BatchRule::Rows;
    forward.recomputable = true;
    forward.workspace_fixed_bytes = 512;
    inputs.push_back(x);
    Task& activation = b.task("relu" + n, {linear}, {relu});
    activation.batch_rule = BatchRule::Rows;
    activation.recomputable = true;
    activation.may_share = {{0, 0}};
    outputs.push_back(relu);
    x = relu;
  }
  const BufferId loss = b.buffer("loss", BufferKind::Output, Tag::Activations, 4);
  BufferId dy = b.temporary("d_out", 0, row_bytes);
  b.task("loss", {x, y}, {loss, dy}).batch_rule = BatchRule::Sums;
  for (int i = layers - 1; i >= 0; --i) {
    const std::string n = std::to_string(i);
    const BufferId dlinear = b.temporary("d_linear" + n, 0, row_bytes);
    Task& relu = b.task("relu_back" + n, {dy, outputs[i]}, {dlinear});
    relu.batch_rule = BatchRule::Rows;
    relu.may_share = {{0, 0}};
    if (i > 0) {
      dy = b.temporary("d_x" + n, 0, row_bytes);
      b.task("linear_back_x" + n, {dlinear, weights[i]}, {dy}).batch_rule = BatchRule::Rows;
    }
    gradients.insert(gradients.begin(), b.buffer("dw" + n, BufferKind::Temporary, Tag::Gradients, weight_bytes));
    b.task("linear_back_w" + n, {dlinear, inputs[i]}, {gradients.front()}).batch_rule = BatchRule::Sums;
  }
  for (int i = 0; i < layers; ++i) b.task("sgd" + std::to_string(i), {gradients[i]}, {}, {weights[i]});
  return b.problem;
}

inline Problem random_problem(uint64_t seed, int tasks) {
  Dice dice(seed);
  Builder b;
  b.problem.name = "random" + std::to_string(seed);
  std::vector<BufferId> defined;
  const auto size = [&] { return dice.below(20) == 0 ? 0 : 1 + dice.below(5000); };
  for (int64_t i = dice.below(4); i >= 0; --i) defined.push_back(b.variable("v" + std::to_string(i), size()));
  for (int64_t i = dice.below(3); i >= 0; --i)
    defined.push_back(b.buffer("in" + std::to_string(i), BufferKind::Input, Tag::Data, size(), dice.below(300)));
  for (int t = 0; t < tasks; ++t) {
    std::vector<BufferId> reads, writes, updates;
    const auto pick = [&] {
      const auto back = static_cast<int64_t>(defined.size());
      return defined[back - 1 - dice.below(dice.below(3) == 0 ? back : std::min<int64_t>(back, 6))];
    };
    for (int64_t i = dice.below(3); i >= 0; --i) reads.push_back(pick());
    if (dice.below(5) == 0) {
      const BufferId id = pick();
      if (std::find(reads.begin(), reads.end(), id) == reads.end()) updates.push_back(id);
    }
    for (int64_t i = updates.empty() ? dice.below(2) : dice.below(2) - 1; i >= 0; --i) {
      const bool is_output = dice.below(10) == 0;
      writes.push_back(b.buffer("b" + std::to_string(t) + "_" + std::to_string(i),
                                is_output ? BufferKind::Output : BufferKind::Temporary,
                                is_output ? Tag::Eager : Tag::Activations, size(), dice.below(200)));
    }
    Task& task = b.task("t" + std::to_string(t), reads, writes, updates);
    defined.insert(defined.end(), writes.begin(), writes.end());
    for (size_t r = 0; r < reads.size(); ++r)
      for (size_t w = 0; w < writes.size(); ++w) {
        if (dice.below(2) != 0) continue;
        task.may_share.push_back({static_cast<int32_t>(r), static_cast<int32_t>(w)});
        const Buffer& from = b.problem.buffers[reads[r]];
        if (from.kind == BufferKind::Temporary) {
          b.problem.buffers[writes[w]].fixed_bytes = from.fixed_bytes;
          b.problem.buffers[writes[w]].per_sample_bytes = from.per_sample_bytes;
        }
      }
    if (dice.below(3) == 0) task.workspace_fixed_bytes = size();
    if (dice.below(3) == 0) task.workspace_per_sample_bytes = dice.below(100);
    task.per_sample_ns = static_cast<double>(dice.below(1000)) / 7;
  }
  return b.problem;
}

// A transfer as an action; its task is added to the plan when there is none yet.
inline plan::Action add_transfer(plan::Plan& plan, const plan::Problem& problem, const plan::Task& task,
                                 int32_t micro_batch) {
  const auto at = std::find(plan.transfers.begin(), plan.transfers.end(), task);
  const auto index = static_cast<size_t>(at - plan.transfers.begin());
  if (at == plan.transfers.end()) plan.transfers.push_back(task);
  return {.task = static_cast<plan::TaskId>(problem.tasks.size() + index), .micro_batch = micro_batch};
}
inline plan::Action save_action(plan::Plan& plan, const plan::Problem& problem, plan::BufferId id,
                                int32_t micro_batch = 0) {
  return add_transfer(plan, problem, make_save(problem, id, 0), micro_batch);
}
inline plan::Action load_action(plan::Plan& plan, const plan::Problem& problem, plan::BufferId id,
                                int32_t micro_batch = 0) {
  return add_transfer(plan, problem, make_load(problem, id, 0), micro_batch);
}

inline bool saves(const plan::Problem& problem, const plan::Plan& plan, const plan::Action& action) {
  return is_transfer(problem, action) && !is_load(task_of(problem, plan, action));
}
inline bool loads(const plan::Problem& problem, const plan::Plan& plan, const plan::Action& action) {
  return is_transfer(problem, action) && is_load(task_of(problem, plan, action));
}

}  // namespace plimsoll::testing
