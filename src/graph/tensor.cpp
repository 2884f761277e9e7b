#include <plimsoll/tensor.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "graph/recorder.h"

namespace plimsoll {
namespace {

graph::Recorder& recorder_of(const graph::Held& held) {
  if (held.recorder == nullptr)
    throw Error("a tensor is used after its Eager has ended; copy its numbers out before, or keep the Eager");
  return *held.recorder;
}

// The recorders of the Eagers of this thread, the innermost last.
thread_local std::vector<graph::Recorder*> recorders;

}  // namespace

namespace graph {

void keep(Held* held) noexcept { ++held->handles; }
void let_go(Held* held) noexcept {
  if (--held->handles == 0) held->dispose(held);
}

Recorder* current_recorder() { return recorders.empty() ? nullptr : recorders.back(); }
void add_recorder(Recorder* recorder) { recorders.push_back(recorder); }
void remove_recorder(Recorder* recorder) { std::erase(recorders, recorder); }
bool is_alive(const Recorder* recorder) {
  return std::find(recorders.begin(), recorders.end(), recorder) != recorders.end();
}
Recorder& require_recorder(std::string_view what) {
  if (recorders.empty())
    throw Error(fmt::format("{} is eager code and needs an Eager: write `Eager eager(line);` before it", what));
  return *recorders.back();
}

Composing::Composing(Graph& graph) : body_(graph.body()) { body_.add_composing(1); }
Composing::~Composing() { body_.add_composing(-1); }

}  // namespace graph

Tensor::Tensor(Graph& graph, ValueId id) {
  if (graph::Recorder* const recorder = graph.body().recorder()) {
    held_ = recorder->hold(id);
    return;
  }
  owner_ = graph.body().address();
  id_ = id;
}

graph::Body& Tensor::body() const {
  if (held_ != nullptr) return recorder_of(*held_).graph().body();
  if (owner_ == nullptr)
    throw Error(
        "a tensor is unset: it must come from a graph's placeholder, variable or constant, or from an operator");
  if (*owner_ == nullptr)
    throw Error("a tensor is used after its graph is gone; keep the graph for as long as its tensors are used");
  return **owner_;
}

const graph::Body* Tensor::recorded_in() const { return &recorder_of(*held_).graph().body(); }

ValueId Tensor::recorded_as() const {
  graph::Recorder& recorder = recorder_of(*held_);
  return held_->recording == recorder.serial() ? held_->id : recorder.enter(*held_);
}

Graph& Tensor::graph() const { return body().front(); }
const TensorType& Tensor::type() const { return held_ != nullptr ? held_->type : body().value(id_).type; }
Dim Tensor::dim(int axis) const {
  const Shape& shape = type().shape;
  const int at = axis < 0 ? axis + shape.rank() : axis;
  if (at < 0 || at >= shape.rank())
    throw Error(fmt::format("{} has no dimension {}: it has {} of them", to_string(type()), axis, shape.rank()));
  return shape[at];
}
std::string_view Tensor::name() const {
  return held_ != nullptr ? recorder_of(*held_).name_of(*held_) : body().name(body().value(id_));
}

size_t Tensor::elements() const { return static_cast<size_t>(element_count(shape()).fixed()); }

void Tensor::read(DType dtype, void* into, size_t elements, bool is_item) const {
  if (held_ == nullptr)
    throw Error(
        fmt::format("'{}' belongs to a graph and has no numbers while the graph is built, so a program can't "
                    "decide by them; use where(condition, a, b) instead of if, or fetch it in a step",
                    body().name(body().value(id_))));
  const TensorType& wanted = type();
  if (wanted.dtype != dtype)
    throw Error(fmt::format("the tensor is {} and can't be read as {}", to_string(wanted), plimsoll::name_of(dtype)));
  if (this->elements() != elements)
    throw Error(
        is_item ? fmt::format("item() needs a single element but the tensor is {}; use to_vector()", to_string(wanted))
                : fmt::format("{} has {} elements but there is room for {}", to_string(wanted), this->elements(),
                              elements));
  if (elements > 0) std::memcpy(into, recorder_of(*held_).read(*held_), elements * static_cast<size_t>(size_of(dtype)));
}

}  // namespace plimsoll
