// What lowering asks of an operator and what the executor runs: sizes first, then pointers to every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/op.h"
#include "kernels/layout.h"
#include "kernels/network.h"

namespace plimsoll::kernels {

using namespace graph;  // kernels are written with the words of operators

// A value with every size known.
struct ConcreteType {
  DType dtype = DType::F32;
  Dims dims;
  Layout layout;
  bool is_open = false;  // a variable without a layout so far: the operator may ask for any
  int64_t count() const { return element_count(dims); }
  Bytes bytes() const { return layout.bytes(dtype, dims); }
};

struct Facts {
  const Attrs& attrs;
  std::span<const ConcreteType> in;
  std::span<const ConcreteType> out;  // layouts not yet known
  int64_t batch = 0;                  // samples of this run: a micro-batch or the whole batch
  int64_t whole_batch = 0;            // samples in the whole step; what a mean over the batch divides by
  bool accumulate = false;            // operators that sum over the batch: add into the output
  bool slim = false;                  // do what Traits::slim names

  // Bytes of all operands, each once: what one pass over them moves.
  double operand_bytes() const {
    double bytes = 0;
    for (const ConcreteType& type : in) bytes += static_cast<double>(type.bytes());
    for (const ConcreteType& type : out) bytes += static_cast<double>(type.bytes());
    return bytes;
  }
};

// A label or a row that is not in its range.
struct BadValue {
  const char* what = "";  // "label", "row"
  int input = 0;          // of the kernel
  int64_t index = 0;      // of the element in that input, row-major, in this micro-batch
  int64_t value = 0;
  int64_t end = 0;  // it should be in [0, end)
};

// What kernels found wrong in the numbers of a step. Kernels run one after another: the first report is kept.
struct StepStatus {
  int32_t action = -1;  // the action of the plan whose kernel reported; -1: none did
  BadValue bad;
  bool is_good() const { return action < 0; }
};

// What changes from step to step and is no tensor.
struct StepState {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sample = 0;      // of this micro-batch within the batch: random operators are keyed by sample
  bool counts_samples = true;    // false: a rank without samples takes part in exchanges; what it computes counts 0
  StepStatus* status = nullptr;  // null: not reported
  Network* network = nullptr;    // of the ranks that train together; null: alone
};

struct Args {
  const void* const* in;
  void* const* out;
  void* workspace;  // aligned to kAlignment
  const StepState* state;
  int32_t action = 0;  // of the plan

  // After a report the kernel goes on, and leaves bad values out of its result.
  void report(const BadValue& bad) const noexcept {
    if (state->status != nullptr && state->status->is_good()) *state->status = {action, bad};
  }

  template <class T>
  const T* input(size_t i) const {
    return static_cast<const T*>(in[i]);
  }
  template <class T>
  T* output(size_t i) const {
    return static_cast<T*>(out[i]);
  }
  // An input that the operator declared to update.
  template <class T>
  T* updated(size_t i) const {
    return static_cast<T*>(const_cast<void*>(in[i]));
  }
};

// Prepared once, then run with pointers. run() allocates, throws and logs nothing, and gives the same bits for any
// number of threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const Args& args) noexcept = 0;
};

struct Prepared {
  std::shared_ptr<Kernel> kernel;  // nodes of the same facts share one
  std::vector<Layout> in = {};     // the order in which each input must arrive; empty: all plain
  std::vector<Layout> out = {};    // the order in which each output is written; empty: all plain
  Bytes workspace_bytes = 0;
};

// A kernel that is a function of the arguments and of settings captured by value.
template <class Function>
std::shared_ptr<Kernel> make_kernel(Function function) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(Function f) : function_(std::move(f)) {}
    void run(const Args& args) noexcept override { function_(args); }

   private:
    Function function_;
  };
  return std::make_shared<FunctionKernel>(std::move(function));
}

}  // namespace plimsoll::kernels
