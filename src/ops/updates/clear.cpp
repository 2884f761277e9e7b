// clear: a variable becomes zero, padding of its layout included.
#include <cstring>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {};
}

Prepared prepare(const Facts& facts) {
  const Layout layout = facts.in[0].layout;
  const Bytes bytes = facts.in[0].bytes();
  return {.kernel = make_kernel([=](const Args& args) {
            auto* to = args.updated<std::byte>(0);
            parallel_for(bytes, 64 * KiB, [&](Bytes first, Bytes last) {
              std::memset(to + first, 0, static_cast<size_t>(last - first));
            });
          }),
          .in = {layout}};
}

std::vector<Sample> samples() {
  return {{"floats",
           [](SampleBuilder& s) {
             const Tensor variable = s.variable({5, 7});
             clear(variable);
             return std::vector{variable};
           },
           1e-4, false}};
}

const Op kClear{.name = "clear",
                .infer = infer,
                .types = {kAnyType},
                .prepare = prepare,
                .samples = samples,
                .traits = {.elementwise = true, .updates = 0b1}};

}  // namespace

NodeId clear(Tensor variable, Name name) { return apply(kClear, {variable}, {}, name).node(); }

OpList clear_ops() { return {&kClear}; }

}  // namespace plimsoll::ops
