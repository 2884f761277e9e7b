#include "kernels/pairwise_loss.h"

#include <fmt/format.h>

#include "graph/apply.h"
#include "kernels/blocks.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kGrain = 8192;
constexpr int64_t kRun = 2048;  // summed in float, the runs in double

// The mean divides by the elements of the whole batch, so that micro-batches add up to it.
double elements_of_whole(const Facts& facts) {
  return static_cast<double>(facts.attrs.shape("elements")[0].at(facts.whole_batch));
}

}  // namespace

void infer_pair_loss(Infer& n) {
  n.expect_inputs(2, 2);
  n.expect_positive("delta", 1);
  if (!(n.in[0] == n.in[1]))
    n.fail(fmt::format("the prediction is {} but the target is {}; give both the same shape", to_string(n.in[0]),
                       to_string(n.in[1])));
  n.out = {{DType::F32, {}}};
}

void infer_pair_grad(Infer& n) {
  n.expect_inputs(3, 3);
  n.out = {n.in[0]};
}

Prepared prepare_pair_loss(const Facts& facts, PairLoss loss, float setting) {
  const int64_t count = facts.in[0].count();
  const double whole = elements_of_whole(facts);
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const auto* target = args.input<float>(1);
            const double sum = sum_in_blocks(count, kGrain, args.workspace, [&](int64_t first, int64_t last) {
              double part = 0;
              for (int64_t i = first; i < last; i += kRun)
                part += loss(x + i, target + i, std::min(kRun, last - i), setting);
              return part;
            });
            auto* y = args.output<float>(0);
            *y = static_cast<float>(sum / whole) + (accumulate ? *y : 0.0F);
          }),
          .workspace_bytes = kBlockSumBytes};
}

Prepared prepare_pair_grad(const Facts& facts, PairGrad grad, float setting) {
  const int64_t count = facts.in[0].count();
  const double whole = elements_of_whole(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto factor = static_cast<float>(*args.input<float>(2) / whole);
            const auto* x = args.input<float>(0);
            const auto* target = args.input<float>(1);
            auto* y = args.output<float>(0);
            parallel_for(count, kGrain, [&](int64_t first, int64_t last) {
              grad(x + first, target + first, y + first, last - first, factor, setting);
            });
          })};
}

Tensor add_pair_loss(const Op& op, Tensor prediction, Tensor target, Attrs attrs, Name name) {
  attrs.set("elements", Shape{element_count(prediction.shape())});
  return apply(op, {prediction, target}, attrs, name);
}

}  // namespace plimsoll::kernels
