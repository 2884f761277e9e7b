// assign_rows: rows of a variable along an axis take values, in place; the others are not touched.
#include <cstring>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  n.expect_rank(1, 1);
  const Shape& variable = n.in[0].shape;
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= variable.rank()) n.fail(fmt::format("there is no axis {} in {}", axis, to_string(n.in[0])));
  Shape values = variable;
  values[static_cast<int>(axis)] = n.in[1].shape[0];
  const TensorType expected{n.in[0].dtype, values};
  if (!(n.in[2] == expected))
    n.fail(fmt::format("the values are {} but rows {} of {} along axis {} are {}", to_string(n.in[2]),
                       to_string(n.in[1].shape), to_string(n.in[0]), axis, to_string(expected)));
  n.out = {};
}

template <class T>
Prepared prepare_of(const Facts& facts) {
  const Dims& dims = facts.in[0].dims;
  const auto axis = static_cast<int>(facts.attrs.i("axis"));
  int64_t outer = 1;
  Bytes row_bytes = size_of(facts.in[0].dtype);
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (int i = axis + 1; i < dims.rank(); ++i) row_bytes *= dims[i];
  const int64_t rows = dims[axis], count = facts.in[1].count();
  return {.kernel = make_kernel([=](const Args& args) {
            const T* numbers = args.input<T>(1);
            FirstBad bad;
            for (int64_t i = 0; i < count; ++i)
              if (numbers[i] < 0 || numbers[i] >= rows) bad.found(i);
            bad.report(args, "row", 1, numbers, rows);
            // Each piece of memory is written by one thread; of equal numbers the last one stays.
            parallel_for(outer, 1 + 65536 / std::max<Bytes>(1, count * row_bytes), [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i)
                for (int64_t j = 0; j < count; ++j)
                  if (numbers[j] >= 0 && numbers[j] < rows)
                    std::memcpy(args.updated<std::byte>(0) + (i * rows + numbers[j]) * row_bytes,
                                args.input<std::byte>(2) + (i * count + j) * row_bytes, static_cast<size_t>(row_bytes));
            });
          })};
}

Prepared prepare(const Facts& facts) {
  return facts.in[1].dtype == DType::I64 ? prepare_of<int64_t>(facts) : prepare_of<int32_t>(facts);
}

std::vector<Sample> samples() {
  return {{"first axis",
           [](SampleBuilder& s) {
             const Tensor variable = s.variable({6, 3});
             assign_rows(variable, s.integers({4}, 0, 6), s.input({4, 3}), 0);
             return std::vector{variable};
           },
           1e-4, false},
          {"a middle axis, whole numbers",
           [](SampleBuilder& s) {
             const Tensor variable = s.variable({2, 5, 3}, 0, 9, DType::I64);
             assign_rows(variable, s.integers({2}, 0, 5, DType::I64), s.integers({2, 2, 3}, 0, 9, DType::I64), 1);
             return std::vector{variable};
           },
           1e-4, false}};
}

const Op kAssignRows{.name = "assign_rows",
                     .infer = infer,
                     .types = {kAnyType, {DType::I32, DType::I64}, kAnyType},
                     .prepare = prepare,
                     .samples = samples,
                     .traits = {.updates = 0b1, .plain_updates = true}};

}  // namespace

NodeId assign_rows(Tensor variable, Tensor rows, Tensor values, int axis, Name name) {
  if (axis < 0) axis += variable.rank();
  return apply(kAssignRows, {variable, rows, values}, {{"axis", int64_t{axis}}}, name).node();
}

OpList assign_rows_ops() { return {&kAssignRows}; }

}  // namespace plimsoll::ops
