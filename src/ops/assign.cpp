// assign: a variable takes a value of its type.
#include <cstring>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(2, 2);
  if (!(n.in[0] == n.in[1]))
    n.fail(fmt::format("the variable is {} but the value is {}", to_string(n.in[0]), to_string(n.in[1])));
  n.out = {};
}

Prepared prepare(const Facts& facts) {
  const ConcreteType& variable = facts.in[0];
  const Layout layout = variable.is_open ? facts.in[1].layout : variable.layout;
  const Bytes bytes = layout.bytes(variable.dtype, variable.dims);
  return {.kernel = make_kernel([=](const Args& args) {
            auto* to = args.updated<std::byte>(0);
            const auto* from = args.input<std::byte>(1);
            parallel_for(bytes, 64 * KiB, [&](Bytes first, Bytes last) {
              std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
            });
          }),
          .in = {layout, layout}};
}

Sample sample(std::string name, DType dtype) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor variable = s.variable({5, 7}, 0, 9, dtype);
            assign(variable, dtype == DType::F32 ? s.input({5, 7}) : s.integers({5, 7}, 0, 9, dtype));
            return std::vector{variable};
          },
          1e-4, false};
}

std::vector<Sample> samples() { return {sample("floats", DType::F32), sample("integers", DType::I64)}; }

const Op kAssign{.name = "assign",
                 .infer = infer,
                 .types = {kAnyType},
                 .prepare = prepare,
                 .samples = samples,
                 .traits = {.elementwise = true, .updates = 0b1}};

}  // namespace

NodeId assign(Tensor variable, Tensor value, Name name) { return apply(kAssign, {variable, value}, {}, name).node(); }

OpList assign_ops() { return {&kAssign}; }

}  // namespace plimsoll::ops
