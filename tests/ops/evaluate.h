// A naive evaluator for op tests: every value in a buffer of its own, guarded on both sides; no planner, no executor.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/body.h"
#include "kernels/kernel.h"
#include "ops/sample.h"

namespace plimsoll::testing {

using namespace kernels;

// Memory with a pattern before and after it; starts as garbage, so that nothing can rely on zeros.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(Bytes bytes = 0);
  void* data() { return memory_.get() + kGuard; }
  const void* data() const { return memory_.get() + kGuard; }
  Bytes bytes() const { return bytes_; }
  bool is_intact() const;  // nobody wrote past either end
  std::vector<std::byte> copy() const;
  void assign(const std::vector<std::byte>& bytes) { std::ranges::copy(bytes, memory_.get() + kGuard); }

 private:
  static constexpr Bytes kGuard = 256;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  Bytes bytes_ = 0;
};

using Contents = std::vector<std::byte>;  // of a value, row-major

struct Evaluated {
  ConcreteType type;
  std::shared_ptr<GuardedBuffer> buffer;
};

// One run of one node, kept so that claims can be tested on it.
struct NodeRun {
  NodeId node;
  std::vector<Evaluated> in;  // in the layouts that the kernel asked for, contents as before the run
  std::vector<Contents> in_before;
  std::vector<Evaluated> out;
  Prepared prepared;
};

class Evaluator {
 public:
  Evaluator(const Graph& graph, int64_t batch, int64_t whole_batch = 0, int64_t first_sample = 0);

  void set(ValueId value, const Contents& contents);
  void set_floats(ValueId value, const std::vector<float>& numbers);
  // Runs all nodes in order. Throws std::runtime_error when a kernel writes where it must not.
  // `before` is called for each node with its inputs ready.
  void run(bool keep_runs = false, const std::function<void(const graph::Node&)>& before = {});

  Contents contents(ValueId value) const;  // row-major
  std::vector<float> floats(ValueId value) const;
  const std::vector<NodeRun>& runs() const { return runs_; }
  ConcreteType type(ValueId value) const;
  StepState state{1, 0, 0};

 private:
  void run_node(NodeId id, bool keep_runs);
  const Graph& graph_;
  int64_t batch_, whole_batch_;
  std::map<ValueId, Evaluated> values_;
  std::vector<NodeRun> runs_;
};

// The value itself, or a copy of it in that layout.
Evaluated in_layout(const Evaluated& value, const Layout& layout);

// Row-major contents of a sample's input: whole numbers or reals drawn evenly from [low, high).
Contents sample_contents(const TensorType& type, const std::string& name, double low, double high, int64_t batch);

std::vector<float> to_floats(const Contents& contents, DType dtype);
// The part [first, first + count) of the samples: a slice along the dimension that is a multiple of the batch.
Contents slice_batch(const Contents& contents, const TensorType& type, int64_t batch, int64_t first, int64_t count);

}  // namespace plimsoll::testing
