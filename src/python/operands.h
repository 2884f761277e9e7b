// Arguments of operators: a tensor, or numbers that become one beside the other operands. Calls in a functional model
// ("x = Dense(10)(Input(4))") are kept, so that the model can make them again.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <nanobind/nanobind.h>

#include <plimsoll/graph.h>
#include <plimsoll/tensor.h>
#include "python/types.h"

namespace plimsoll::python {

// The tensors that stand for those of a functional model while it is called.
class Substitution {
 public:
  Substitution(bool is_training) : is_training_(is_training) {}
  bool is_training() const { return is_training_; }
  Tensor operator()(const Tensor& tensor) const;
  std::vector<Tensor> operator()(const std::vector<Tensor>& tensors) const;
  template <class T>
  const T& operator()(const T& other) const {
    return other;
  }
  Tensor at(ValueId id) const;
  Graph& graph() const;  // that the model is called in
  void set(ValueId of, const Tensor& is) { tensors_[of] = is; }

 private:
  bool is_training_;
  std::unordered_map<ValueId, Tensor> tensors_;
};

// What stands between the inputs of functional models and their outputs.
struct Functional {
  struct Call {
    std::vector<ValueId> from, to;
    std::function<std::vector<Tensor>(const Substitution&)> again;
  };
  Graph graph;
  std::vector<Call> calls;
  int64_t inputs = 0;  // made so far
};

// A tensor of a functional model: it keeps the calls that made it.
struct Symbol : Tensor {
  Symbol(const Tensor& tensor, std::shared_ptr<Functional> in, std::string called = {})
      : Tensor(tensor), functional(std::move(in)), label(std::move(called)) {}
  std::shared_ptr<Functional> functional;
  std::string label;  // of an input
};

// That of the first symbol among the arguments; null: there is none.
std::shared_ptr<Functional> functional_of(std::span<const nb::handle> given);

// What is known of a call before its arguments are read.
class CallPlace {
 public:
  CallPlace(const char* function, std::span<const nb::handle> given) : function_(function), given_(given) {}

  // A tensor as it is; numbers as one beside the first tensor of the call, else of the eager code.
  Tensor tensor(const char* argument, nb::handle given) const;
  std::vector<Tensor> tensors(const char* argument, nb::handle given) const;
  const char* function() const { return function_; }

 private:
  const char* function_;
  std::span<const nb::handle> given_;
};

// Numbers as a tensor of the Eager of this thread; `like` gives the type of Python numbers.
Tensor tensor_of(nb::handle given, const ArgumentPlace& at, std::optional<DType> dtype = {}, const Tensor& like = {},
                 Functional* functional = nullptr);

nb::object to_python(const Tensor& tensor);  // None for one that is not set
nb::object to_python(const Tensor& tensor, const std::shared_ptr<Functional>& functional);
nb::object to_python(const std::vector<Tensor>& tensors, const std::shared_ptr<Functional>& functional);

}  // namespace plimsoll::python
