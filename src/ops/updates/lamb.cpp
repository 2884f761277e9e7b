// lamb: adam whose step has the size of the weight. u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon);
// w -= rate |w| / |u| u, where both norms are those of the whole weight; the quotient is 1 where one of them is 0.
#include <cmath>

#include "kernels/blocks.h"
#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  infer_update(n, 3, true);
  const UpdateInputs inputs = update_inputs(n.attrs, 3, true);
  if (inputs.is_sparse) n.fail("a row-sparse gradient has no norm of the whole weight; give the dense one");
  if (n.in[1].dtype != DType::F32) n.fail("its state is f32");
}

struct Settings {
  double beta1, beta2;
  float epsilon, limit;
  DecaySettings decay;
  explicit Settings(const Attrs& attrs)
      : beta1(attrs.f("beta1", 0.9)),
        beta2(attrs.f("beta2", 0.999)),
        epsilon(static_cast<float>(attrs.f("epsilon", 1e-7))),
        limit(static_cast<float>(attrs.f("clip_value", INFINITY))),
        decay(attrs) {}
};

Prepared prepare(const Facts& facts) {
  const Settings settings(facts.attrs);
  const UpdateInputs inputs = update_inputs(facts.attrs, 3, true);
  const int64_t count = facts.in[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* g = args.input<float>(inputs.gradient());
            auto *w = args.updated<float>(0), *m = args.updated<float>(1), *v = args.updated<float>(2);
            const float factor = inputs.has_factor ? *args.input<float>(inputs.factor()) : 1.0F;
            const float rate = settings.decay.rate(*args.input<float>(inputs.rate()));
            const auto t = static_cast<double>(*args.input<int64_t>(inputs.step()));
            const auto rest1 = static_cast<float>(1 - settings.beta1), rest2 = static_cast<float>(1 - settings.beta2);
            const auto of_m = static_cast<float>(1 / (1 - std::pow(settings.beta1, t)));
            const auto of_v = static_cast<float>(1 / (1 - std::pow(settings.beta2, t)));
            const auto coupled = static_cast<float>(settings.decay.coupled);
            const auto keep = static_cast<float>(1 - settings.decay.decay * static_cast<double>(rate));
            const auto step_of = [&](int64_t i) { return m[i] * of_m / (std::sqrt(v[i] * of_v) + settings.epsilon); };
            const auto squares = [&](const auto& of) {
              return sum_in_blocks(count, 16384, args.workspace, [&](int64_t first, int64_t last) {
                double sum = 0;
                for (int64_t i = first; i < last; ++i) {
                  const auto x = static_cast<double>(of(i));
                  sum += x * x;
                }
                return sum;
              });
            };
            const double step_squares = squares([&](int64_t i) {
              // In this order NaN stays NaN.
              float gradient = std::min(std::max(g[i] * factor, -settings.limit), settings.limit);
              if (coupled != 0) gradient += coupled * w[i];
              m[i] += (gradient - m[i]) * rest1;
              v[i] += (gradient * gradient - v[i]) * rest2;
              return step_of(i);
            });
            const double weight_squares = squares([&](int64_t i) { return w[i] * keep; });
            const bool has_ratio = weight_squares != 0 && step_squares != 0;
            const double ratio = has_ratio ? std::sqrt(weight_squares / step_squares) : 1;
            const auto by = static_cast<float>(ratio * static_cast<double>(rate));
            parallel_for(count, 16384, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) w[i] = w[i] * keep - by * step_of(i);
            });
          }),
          .workspace_bytes = kBlockSumBytes};
}

Sample sample(std::string name, const Shape& shape, bool factor, const Attrs& settings) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const std::vector<Tensor> updated{s.variable(shape), s.variable(shape), s.variable(shape, 0.1, 1)};
            const Tensor g = s.input(shape);
            const Tensor rate = s.input({}, 0.1, 0.2);
            const Tensor step = s.integers({}, 1, 9, DType::I64);
            add_update(*find_op("lamb"), updated, {g, {}}, rate, step, factor ? s.input({}, 0.3, 0.9) : Tensor(),
                       settings, {});
            return updated;
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  return {sample("matrix", {5, 7}, false, {}),
          sample("all settings", {3, 4}, true,
                 {{"beta1", 0.8}, {"weight_decay", 0.01}, {"coupled_decay", 0.1}, {"rate_factor", 0.5}}),
          sample("clipped vector", {9}, false, {{"clip_value", 0.5}})};
}

const Op kLamb{.name = "lamb",
               .infer = infer,
               .types = kUpdateTypes,
               .prepare = prepare,
               .samples = samples,
               .traits = {.updates = 0b111, .plain_updates = true}};

void check(const RuleSettings& settings) {
  settings.expect_below_one("beta1");
  settings.expect_below_one("beta2");
  settings.expect_positive("epsilon");
}

NodeId add(WeightUpdate& u) {
  u.take({"beta1", "beta2", "epsilon"});
  u.gradient = u.dense_gradient();
  const Tensor m = u.make_whole("m", DType::F32, u.weight.shape());
  return u.add(kLamb, {u.weight, m, u.make_whole("v", DType::F32, u.weight.shape())}, true);
}

const OptimiserRule kRule{
    .name = "lamb", .check = check, .add = add, .whole_state = "needs the norm of the whole weight"};

}  // namespace

OpList lamb_ops() { return {&kLamb}; }
const OptimiserRule& lamb_rule() { return kRule; }

}  // namespace plimsoll::ops
