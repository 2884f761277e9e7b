#include <plimsoll/eager.h>

#include <cmath>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/random.h>
#include "eager/engine.h"
#include "graph/caller.h"
#include "graph/countable.h"
#include "input/files/source.h"
#include "ops/ops.h"

namespace plimsoll {
namespace {

eager::EagerEngine& current_engine(std::string_view what) {
  return static_cast<eager::EagerEngine&>(graph::require_recorder(what));
}

// Where tensors of random numbers are made: they are others in each call of a function.
Graph& drawing_graph(std::string_view what) {
  graph::Recorder& recorder = graph::require_recorder(what);
  return recorder.traced() != nullptr ? *recorder.traced() : recorder.graph();
}

TensorType type_of(DType dtype, const Dims& dims) {
  TensorType type{dtype, {}};
  for (const int64_t size : dims) {
    if (size < 1) throw Error(fmt::format("a tensor can't have shape {}: its sizes must be positive", to_string(dims)));
    type.shape.push_back(size);
  }
  graph::expect_countable(type.shape);
  return type;
}

void expect_float(DType dtype, std::string_view what) {
  if (dtype != DType::F32 && dtype != DType::I32 && dtype != DType::I64)
    throw Error(fmt::format("{}: numbers of {} can't be made directly; make f32 and cast", what, name_of(dtype)));
}

}  // namespace

Eager::Eager(const MemoryLine& line, const EagerOptions& options)
    : engine_(std::make_shared<eager::EagerEngine>(line, options)) {}
Eager::~Eager() = default;

Tensor Eager::variable(std::string_view name, const Shape& shape, const Init& init, VariableRole role,
                       std::source_location where) {
  const graph::Caller caller(where);
  return engine_->make_variable(name, {DType::F32, shape}, init, role);
}
std::vector<Tensor> Eager::variables(VariableRole role) const { return engine_->variables("", role); }
const std::shared_ptr<VariableStore>& Eager::store() const { return engine_->graph().store(); }
void Eager::run() { engine_->run(); }
void Eager::save(const std::string& path) { engine_->save(path); }
void Eager::load(const std::string& path) { engine_->load(path); }
EagerFacts Eager::facts() const { return engine_->facts(); }
const MemoryLine& Eager::line() const { return engine_->line(); }

namespace eager {

void expect_count(size_t numbers, const Dims& dims) {
  if (static_cast<int64_t>(numbers) != element_count(dims))
    throw Error(
        fmt::format("{} numbers were given for {}, which has {}", numbers, to_string(dims), element_count(dims)));
}

}  // namespace eager

Tensor tensor(DType dtype, const void* numbers, const Dims& dims, Where where) {
  if (numbers == nullptr) throw Error("tensor: the numbers are at a null address");
  return current_engine("tensor").make_given(type_of(dtype, dims), numbers, where);
}

Tensor zeros(const Dims& dims, DType dtype, Where where) {
  return current_engine("zeros").make_filled(type_of(dtype, dims), Init::zeros(), false, where);
}
Tensor ones(const Dims& dims, DType dtype, Where where) { return full(dims, 1, dtype, where); }
Tensor full(const Dims& dims, double number, DType dtype, Where where) {
  eager::EagerEngine& engine = current_engine("full");
  expect_float(dtype, "full");
  return engine.make_filled(type_of(dtype, dims), Init::constant(number), false, where);
}
Tensor normal(const Dims& dims, double mean, double deviation, Where where) {
  if (!std::isfinite(mean) || !(deviation >= 0) || !std::isfinite(deviation))
    throw Error(fmt::format("normal: mean {} and deviation {} make no sense", mean, deviation));
  return ops::random_normal(drawing_graph("normal"), type_of(DType::F32, dims).shape, mean, deviation, Name(where));
}
Tensor uniform(const Dims& dims, double low, double high, Where where) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(low <= high))
    throw Error(fmt::format("uniform: numbers from {} to {} make no sense", low, high));
  return ops::random_uniform(drawing_graph("uniform"), type_of(DType::F32, dims).shape, low, high, DType::F32,
                             Name(where));
}
Tensor arange(double end, DType dtype, Where where) { return arange(0, end, 1, dtype, where); }
Tensor arange(double begin, double end, double step, DType dtype, Where where) {
  eager::EagerEngine& engine = current_engine("arange");
  expect_float(dtype, "arange");
  const double count = std::ceil((end - begin) / step);
  if (!(step != 0) || !std::isfinite(count) || count < 1 || count > 1e15)
    throw Error(fmt::format("arange: there is no number from {} to {} in steps of {}", begin, end, step));
  return engine.make_filled(type_of(dtype, {static_cast<int64_t>(count)}), Init{Init::Kind::Constant, begin, step},
                            true, where);
}

Tensor linspace(double low, double high, int64_t count, Where where) {
  eager::EagerEngine& engine = current_engine("linspace");
  if (count < 1 || !std::isfinite(low) || !std::isfinite(high))
    throw Error(fmt::format("linspace: there are no {} numbers from {} to {}", count, low, high));
  const double step = count == 1 ? 0 : (high - low) / static_cast<double>(count - 1);
  return engine.make_filled(type_of(DType::F32, {count}), Init{Init::Kind::Constant, low, step}, true, where);
}
Tensor eye(int64_t rows, int64_t columns, DType dtype, Where where) {
  return triu(tril(ones({rows, columns == 0 ? rows : columns}, dtype, where), 0, Name(where)), 0, Name(where));
}

Tensor read_npy(const std::string& path, Where where) {
  eager::EagerEngine& engine = current_engine("read_npy");
  const std::unique_ptr<input::Source> file = input::open_source(path);
  Dims dims{file->samples()};
  for (const int64_t size : file->sample_shape()) dims.push_back(size);
  auto [made, memory] = engine.make_empty(type_of(file->dtype(), dims), where);
  file->read(0, file->samples(), memory);
  return made;
}

std::vector<Tensor> tensors(const ElementView& element, Where where) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < element.size(); ++i)
    list.push_back(tensor(element.spec()[i].dtype, element.data(i), element.dims(i), where));
  return list;
}

Pairs::Pairs(const Dataset& dataset, Where where) : where_(where) {
  MemoryLine line = current_engine("pairs").line();
  iteration_ = std::make_shared<Iteration>(dataset.on(line));
  if (iteration_->element().size() != 2)
    throw Error(
        fmt::format("pairs: an element has {} components, not 2; use tensors(element)", iteration_->element().size()));
}

std::pair<Tensor, Tensor> Pairs::next() {
  const ElementView* const element = iteration_->next();
  if (element == nullptr) return {};
  std::vector<Tensor> list = tensors(*element, where_);
  return {list[0], list[1]};
}

void Tensor::assign(const Tensor& value) const {
  if (!is_eager())
    throw Error("Tensor::assign is for variables of eager code; in a graph, use assign(variable, value)");
  plimsoll::assign(*this, value);
}
void Tensor::assign_add(const Tensor& value) const { assign(*this + value); }
void Tensor::assign_sub(const Tensor& value) const { assign(*this - value); }

Tensor Tensor::operator[](int64_t i) const {
  if (rank() == 0) throw Error(fmt::format("{} has no dimension to index", to_string(type())));
  const Dim size = dim(0);
  const int64_t count = size.is_batch() ? i + 1 : size.count();
  const int64_t at = i < 0 ? i + count : i;
  if (at < 0 || at >= count) throw Error(fmt::format("row {} is outside of {}", i, to_string(type())));
  return squeeze(slice(*this, 0, at, 1), 0);
}

}  // namespace plimsoll
