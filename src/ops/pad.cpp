// pad: a border of one constant around a tensor.
#include <fmt/format.h>

#include "base/element.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "kernels/strided_copy.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Dims before = n.attrs.dims("before");
  const Dims after = n.attrs.dims("after");
  Shape out = n.in[0].shape;
  if (before.rank() != out.rank() || after.rank() != out.rank())
    n.fail(fmt::format("{} needs {} sizes before and after but has {} and {}", to_string(n.in[0]), out.rank(),
                       to_string(before), to_string(after)));
  for (int i = 0; i < out.rank(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    if (out[i].is_batch()) n.fail(fmt::format("axis {} of {} is the batch", i, to_string(n.in[0])));
    out[i] = before[i] + out[i].fixed() + after[i];
  }
  n.out = {{n.in[0].dtype, out}};
}

void infer_checked(Infer& n) {
  infer(n);
  if (!element_bytes(n.in[0].dtype, n.attrs.f("value")))
    n.fail(fmt::format("{} can't be padded with {}; cast it to f32 first", to_string(n.in[0]), n.attrs.f("value")));
}

StridedCopy inside(const Facts& facts, const Dims& small, const Dims& large, bool into_large) {
  const Dims before = facts.attrs.dims("before");
  const Dims small_strides = strides_of(small);
  const Dims large_strides = strides_of(large);
  StridedCopy copy(size_of(facts.in[0].dtype));
  int64_t start = 0;
  for (int i = 0; i < small.rank(); ++i) {
    start += before[i] * large_strides[i];
    copy.add(small[i], into_large ? small_strides[i] : large_strides[i],
             into_large ? large_strides[i] : small_strides[i]);
  }
  copy.start_at(into_large ? 0 : start, into_large ? start : 0);
  copy.finish();
  return copy;
}

Prepared prepare(const Facts& facts) {
  const StridedCopy copy = inside(facts, facts.in[0].dims, facts.out[0].dims, true);
  const int64_t count = facts.out[0].count();
  const ElementBytes value = *element_bytes(facts.in[0].dtype, facts.attrs.f("value"));
  return {.kernel = make_kernel([=](const Args& args) {
            parallel_for(count, 16384, [&](int64_t first, int64_t last) {
              fill_elements(args.output<std::byte>(0) + first * value.size, last - first, value);
            });
            copy.run(args.in[0], args.out[0]);
          })};
}

// pad_grad: what lies inside the border.
void infer_grad(Infer& n) {
  n.expect_inputs(1, 1);
  const Dims before = n.attrs.dims("before");
  const Dims after = n.attrs.dims("after");
  Shape out = n.in[0].shape;
  for (int i = 0; i < out.rank(); ++i)
    if (before[i] != 0 || after[i] != 0) out[i] = out[i].fixed() - before[i] - after[i];
  n.out = {{n.in[0].dtype, out}};
}

Prepared prepare_grad(const Facts& facts) {
  const StridedCopy copy = inside(facts, facts.out[0].dims, facts.in[0].dims, false);
  return {.kernel = make_kernel([=](const Args& args) { copy.run(args.in[0], args.out[0]); })};
}

const Op kPadGrad{.name = "pad_grad",
                  .infer = infer_grad,
                  .types = {kAnyType},
                  .prepare = prepare_grad,
                  .traits = {.batch = BatchRule::Rows, .recomputable = true}};

void grad(Backward& b) {
  b.give(0, apply(kPadGrad, {b.dy[0]}, {{"before", b.attrs.shape("before")}, {"after", b.attrs.shape("after")}}));
}

std::vector<Sample> samples() {
  return {{"images",
           [](SampleBuilder& s) {
             return std::vector{pad(s.input({Dim::batch(), 2, 3, 3}), {0, 0, 1, 2}, {0, 0, 2, 1})};
           }},
          {"value",
           [](SampleBuilder& s) {
             return std::vector{pad(s.input({Dim::batch(), 5}), {0, 1}, {0, 3}, 0.5)};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{pad(s.integers({Dim::batch(), 5}, 0, 100), {0, 0}, {0, 3}, -1)};
           },
           1e-4, false}};
}

const Op kPad{.name = "pad",
              .storable = true,
              .infer = infer_checked,
              .types = {kAnyType},
              .grad = grad,
              .prepare = prepare,
              .samples = samples,
              .traits = {.batch = BatchRule::Rows, .recomputable = true},
              .onnx = "Pad"};

}  // namespace

Tensor pad(Tensor x, Dims before, Dims after, double value, Name name) {
  return apply(kPad, {x}, {{"before", Shape::from(before)}, {"after", Shape::from(after)}, {"value", value}}, name);
}

OpList pad_ops() { return {&kPad, &kPadGrad}; }

}  // namespace plimsoll::ops
