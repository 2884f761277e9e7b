// What a user writes to bring operators to a program that loads this library: x scaled, and how many numbers are
// negative.
#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include <plimsoll/own_op.h>

namespace {

using namespace plimsoll;

const OwnOp kLeak = register_op({
    .name = "own_leak",
    .shape =
        [](const OpInputs& n) {
          if (n.types.size() != 1) throw Error("takes one input");
          if (!n.settings.contains("slope")) throw Error("the setting 'slope' is missing");
          return std::vector<TensorType>{n.types[0]};
        },
    .kernel =
        [](const KernelCall& call) noexcept {
          const auto slope = static_cast<float>(call.settings.find("slope")->second);
          const std::span<const float> x = call.in[0].as<float>();
          const std::span<float> y = call.out[0].as<float>();
          for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] : slope * x[i];
        },
    .gradient =
        [](const OpGradient& g) {
          const Tensor leaked = g.dy[0] * g.settings.at("slope");
          return std::vector<Tensor>{where(greater(g.x[0], g.x[0] * 0), g.dy[0], leaked)};
        },
    .is_by_sample = true,
    .is_in_place = true,
    .samples = {{"rows", {{DType::F32, {Dim::batch(), 5}}}, {{"slope", 0.25}}, 0.1, 1}},
});

}  // namespace
