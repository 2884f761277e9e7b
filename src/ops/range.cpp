// range: numbers that follow each other, made where they are used; what else is made of them.
#include <cmath>

#include <fmt/format.h>

#include <plimsoll/random.h>
#include "graph/recorder.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr double kMostCount = 0x1.0p40;

void infer(Infer& n) {
  n.expect_inputs(0, 0);
  n.expect_finite("first");
  n.expect_finite("step", 1);
  const int64_t count = n.attrs.i("count");
  const double first = n.attrs.f("first"), step = n.attrs.f("step", 1);
  if (count < 1 || static_cast<double>(count) > kMostCount) n.fail(fmt::format("can't make {} numbers", count));
  const DType dtype = parse_dtype(n.attrs.s("dtype", "f32"));
  if (dtype != DType::F32 && dtype != DType::I32 && dtype != DType::I64)
    n.fail(fmt::format("numbers of {} can't be made; make f32 or i32 and cast", name_of(dtype)));
  const double last = first + step * static_cast<double>(count - 1);
  const double most = dtype == DType::I32 ? 0x1.0p31 - 1 : 0x1.0p53;
  if (dtype != DType::F32 &&
      (std::floor(first) != first || std::floor(step) != step || std::max(std::abs(first), std::abs(last)) > most))
    n.fail(fmt::format("{} numbers from {} by {} are not all numbers of {}", count, first, step, name_of(dtype)));
  n.out = {{dtype, {count}}};
}

template <class T>
Prepared prepare_of(const Facts& facts) {
  const double first = facts.attrs.f("first"), step = facts.attrs.f("step", 1);
  const int64_t count = facts.out[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            T* y = args.output<T>(0);
            parallel_for(count, 16384, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(first + step * static_cast<double>(i));
            });
          })};
}

Prepared prepare(const Facts& facts) {
  switch (facts.out[0].dtype) {
    case DType::I32:
      return prepare_of<int32_t>(facts);
    case DType::I64:
      return prepare_of<int64_t>(facts);
    default:
      return prepare_of<float>(facts);
  }
}

BatchRule batch_rule(const Attrs&, std::span<const TensorType>) { return BatchRule::Rows; }

std::vector<Sample> samples() {
  return {{"reals",
           [](SampleBuilder& s) {
             return std::vector{arange(s.graph(), 7, -1, 0.25), linspace(s.graph(), -1, 2, 5)};
           },
           1e-4, false},
          {"whole numbers",
           [](SampleBuilder& s) {
             return std::vector{arange(s.graph(), 5, 3, -2, DType::I64), arange(s.graph(), 1, 9, 1, DType::I32)};
           },
           1e-4, false},
          {"like others",
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 3, 4});
             return std::vector{range_like(x, DType::I32, 1, 2, 3), eye_like(x, 1)};
           },
           1e-4, false}};
}

const Op kRange{.name = "range",
                .storable = true,
                .infer = infer,
                .prepare = prepare,
                .samples = samples,
                .traits = {.batch = BatchRule::Rows, .recomputable = true, .source = true},
                .batch_rule = batch_rule,
                .onnx = "Range"};

// While a function is traced, eager tensors that it captures give the shape to nodes of the trace.
Graph& graph_for(const Tensor& like) {
  if (!like.is_set()) throw Error("a tensor whose shape numbers are to have is unset");
  graph::Recorder* const recorder = like.is_eager() ? like.held()->recorder : nullptr;
  return recorder != nullptr && recorder->traced() != nullptr ? *recorder->traced() : like.graph();
}

// The numbers along an axis, in a shape that broadcasts to the tensor's.
Tensor along(const Tensor& like, DType dtype, int axis, double first, double step) {
  if (axis < 0) axis += like.rank();
  const Dim count = like.dim(axis);
  if (count.is_batch())
    throw Error(fmt::format("axis {} of {} is the batch, whose samples have no numbers", axis, to_string(like.type())));
  Shape shape;
  for (int i = axis; i < like.rank(); ++i) shape.push_back(i == axis ? count : Dim(1));
  return reshape(arange(graph_for(like), count.fixed(), first, step, dtype), shape);
}

}  // namespace

Tensor arange(Graph& graph, int64_t count, double first, double step, DType dtype, Name name) {
  Attrs attrs{{"count", count}, {"first", first}, {"step", step}};
  if (dtype != DType::F32) attrs.set("dtype", std::string(name_of(dtype)));
  return graph::apply_in(graph, kRange, attrs, name);
}

Tensor linspace(Graph& graph, double first, double last, int64_t count, Name name) {
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
  return arange(graph, count, first, step, DType::F32, name);
}

Tensor eye(Graph& graph, int64_t rows, int64_t columns, int64_t offset, Name name) {
  const Tensor row = reshape(arange(graph, rows, static_cast<double>(offset)), {rows, 1});
  return cast(equal(row, arange(graph, columns != 0 ? columns : rows)), DType::F32, name);
}

Tensor range_like(Tensor like, DType dtype, int axis, double first, double step, Name name) {
  return broadcast_to(along(like, dtype, axis, first, step), like.shape(), name);
}

Tensor eye_like(Tensor like, int64_t offset, Name name) {
  if (like.rank() < 2) throw Error(fmt::format("{} has no rows and columns", to_string(like.type())));
  const Tensor is_on =
      equal(along(like, DType::F32, -2, static_cast<double>(offset), 1), along(like, DType::F32, -1, 0, 1));
  return broadcast_to(cast(is_on, DType::F32), like.shape(), name);
}

OpList range_ops() { return {&kRange}; }

}  // namespace plimsoll::ops
