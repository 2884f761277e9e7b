// broadcast_to: repeat a tensor along dimensions of size one.
#include <fmt/format.h>

#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Shape shape = n.attrs.shape("shape");
  if (!(broadcast(n.in[0].shape, shape) == shape))
    n.fail(fmt::format("{} does not broadcast to {}", to_string(n.in[0]), to_string(shape)));
  n.out = {{n.in[0].dtype, shape}};
}

void grad(Backward& b) { b.give(0, sum_to(b.dy[0], b.x[0].shape())); }

Prepared prepare(const Facts& facts) {
  const Dims from = facts.in[0].dims;
  const Dims to = facts.out[0].dims;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            const int lead = to.rank() - from.rank();
            const int64_t count = element_count(to);
            for (int64_t i = 0; i < count; ++i) {
              int64_t rest = i;
              int64_t at = 0;
              int64_t stride = 1;
              for (int d = to.rank() - 1; d >= lead; --d) {
                if (from[d - lead] != 1) at += rest % to[d] * stride;
                stride *= from[d - lead];
                rest /= to[d];
              }
              y[i] = x[at];
            }
          })};
}

std::vector<Sample> samples() {
  return {{"rows", [](SampleBuilder& s) { return std::vector{broadcast_to(s.input({1, 4}), {Dim::batch(), 3, 4})}; }}};
}

const Op kBroadcastTo{.name = "broadcast_to",
                      .infer = infer,
                      .grad = grad,
                      .prepare = prepare,
                      .samples = samples,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true},
                      .onnx = "Expand"};

}  // namespace

Tensor broadcast_to(Tensor x, Shape shape, Name name) {
  if (x.shape() == shape) return x;
  return x.graph().add(kBroadcastTo, {x}, {{"shape", shape}}, name);
}

OpList broadcast_to_ops() { return {&kBroadcastTo}; }

}  // namespace plimsoll
