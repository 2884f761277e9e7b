// muon: momentum whose matrix is made orthogonal. B = momentum B + g; G = g + momentum B (Nesterov), or B; O = five
// steps of Newton and Schulz from G / |G|: X = a X + (b X X' + c (X X')^2) X; w -= rate scale O. A matrix alone is
// updated so; what has another rank takes adam, with a rate of adam_rate_ratio times it and its own decay.
//
// All but the last step is made of operators that everybody uses, so that the products are planned like all others.
#include <cmath>

#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"

namespace plimsoll::ops {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

void check(const RuleSettings& settings) {
  settings.expect_below_one("momentum");
  settings.expect_below_one("beta1");
  settings.expect_below_one("beta2");
  settings.expect_positive("epsilon");
  settings.expect_at_least_zero("rms_rate");
  settings.expect_at_least_zero("adam_rate_ratio");
  const double steps = settings["iterations"];
  settings.expect(steps >= 1 && steps <= 20 && steps == std::floor(steps), "iterations", "a whole number from 1 to 20");
}

// Rows of unit length, about orthogonal: the matrix with its singular values near 1.
Tensor orthogonal(Tensor x, int64_t iterations) {
  const bool is_tall = x.dim(0).fixed() > x.dim(1).fixed();
  if (is_tall) x = transpose(x, {1, 0});
  const Tensor size = scale(sqrt(reduce_sum(mul(x, x))), 1, 1e-7);
  x = div(x, size);
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(x, x, false, true);
    const Tensor polynomial = add(scale(gram, kB), scale(matmul(gram, gram), kC));
    x = add(scale(x, kA), matmul(polynomial, x));
  }
  return is_tall ? transpose(x, {1, 0}) : x;
}

NodeId add_muon(WeightUpdate& u) {
  const double momentum = u.settings["momentum"];
  const double rows = static_cast<double>(u.weight.dim(0).fixed()),
               columns = static_cast<double>(u.weight.dim(1).fixed());
  Tensor g = u.dense_gradient().value;
  if (u.factor.is_set()) g = mul(g, u.factor);
  if (u.attrs.has("clip_value")) g = clip(g, -u.attrs.f("clip_value"), u.attrs.f("clip_value"));
  if (u.attrs.has("coupled_decay")) g = add(g, scale(u.weight, u.attrs.f("coupled_decay")));
  const Tensor state = u.make_whole("momentum", DType::F32, u.weight.shape());
  const Tensor next = add(scale(state, momentum), g);
  const Tensor ahead = u.settings.is("nesterov") ? add(g, scale(next, momentum)) : next;
  u.before.push_back(assign(state, next));
  const double rms = u.settings["rms_rate"];
  const double size = rms > 0 ? rms * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
  Attrs attrs;
  for (const char* kept : {"weight_decay", "rate_factor"})
    if (u.attrs.has(kept)) attrs.set(kept, u.attrs.f(kept));
  const Tensor step = scale(orthogonal(ahead, static_cast<int64_t>(u.settings["iterations"])), size);
  return add_update(*find_op("sgd"), {u.weight}, {step, {}}, u.rate, {}, {}, attrs, u.name);
}

NodeId add(WeightUpdate& u) {
  if (u.weight.rank() == 2) return add_muon(u);
  u.take({"beta1", "beta2", "epsilon"});
  const double ratio = u.settings["adam_rate_ratio"];
  if (ratio != 1) u.attrs.set("rate_factor", u.attrs.f("rate_factor", 1) * ratio);
  const Tensor m = u.make_whole("m", DType::F32, u.weight.shape());
  return u.add(*find_op("adam"), {u.weight, m, u.make_whole("v", DType::F32, u.weight.shape())}, true);
}

const OptimiserRule kRule{
    .name = "muon", .check = check, .add = add, .whole_state = "belongs to a whole matrix, which is made orthogonal"};

}  // namespace

OpList muon_ops() { return {}; }
const OptimiserRule& muon_rule() { return kRule; }

}  // namespace plimsoll::ops
