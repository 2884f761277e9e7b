// batch_norm: each channel (dimension 1) less its mean, over its deviation, times gamma, plus beta. In training the
// statistics are those of the batch, which then update the running ones; in inference they are the running ones. With
// the setting `split` each micro-batch has its own statistics: outputs have a row for each sample, with the statistics
// of its micro-batch, and the mean of the rows updates the running ones.
// The setting `synchronised` says that ranks which train together share one batch (model/synchronised_norms.h).
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "graph/body.h"
#include "kernels/channel_rows.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr double kEpsilon = 1e-3;

void expect_channels(const Infer& n, size_t first, size_t last) {
  const Shape& x = n.in[0].shape;
  n.expect_positive("epsilon", kEpsilon);
  if (x.rank() < 2) n.fail(fmt::format("input must have a dimension of channels but is {}", to_string(n.in[0])));
  for (size_t i = first; i < last; ++i)
    if (!(n.in[i].shape == Shape{x[1]}))
      n.fail(fmt::format("input {} must have one number for each of {} channels but is {}", i, to_string(x[1]),
                         to_string(n.in[i])));
}

bool is_split(const Attrs& attrs) { return attrs.i("split", 0) != 0; }

// Statistics of the batch, or of the micro-batch that each sample is in.
TensorType statistic_of(const Infer& n) {
  const Shape& x = n.in[0].shape;
  return {DType::F32, is_split(n.attrs) ? Shape{x[0], x[1]} : Shape{x[1]}};
}

// Training: x, gamma, beta -> y, mean, variance.
void infer(Infer& n) {
  n.expect_inputs(3, 3);
  expect_channels(n, 1, 3);
  parse_activation(n.attrs.s("activation"));
  n.out = {n.in[0], statistic_of(n), statistic_of(n)};
}

Prepared prepare(const Facts& facts) {
  const Activation activation = parse_activation(facts.attrs.s("activation"));
  const ImageOrder order = order_for(facts.in[0], activation);
  const ChannelPieces pieces(order);
  const std::vector<ChannelPieces> parts = pieces.parts(1);
  const double epsilon = facts.attrs.f("epsilon", kEpsilon);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  const int64_t numbers = round_up(pieces.numbers(), 16);
  const int64_t channels = order.channels(), rows_of_statistics = is_split(facts.attrs) ? order.samples() : 1;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* means = static_cast<float*>(args.workspace);
            const ChannelRows rows(args, 2 * numbers, order);
            auto* mean = args.output<float>(1);
            auto* variance = args.output<float>(2);
            for (const ChannelPieces& part : parts) {
              measure_moments(part, x, means, means + numbers);
              combine_slots(part, means, means + numbers, mean, variance);
              fill_affine(part, mean, variance, args.input<float>(1), args.input<float>(2), epsilon, rows);
              apply_affine(part, affine_of(rows), activation, x, args.output<float>(0));
            }
            for (float* statistic : {mean, variance})
              for (int64_t row = 1; row < rows_of_statistics; ++row)
                std::copy_n(statistic, channels, statistic + row * channels);
          }),
          .in = {layout, {}, {}},
          .out = {layout, {}, {}},
          .workspace_bytes = (2 * numbers + ChannelRows::floats(order, 3)) * static_cast<Bytes>(sizeof(float))};
}

// Gradient in training: x, dy, mean, variance, gamma [, beta or y] -> dx, dgamma, dbeta. With an activation (relu,
// relu6), dy is the gradient of its result, and the last input tells where dy passes: y, which costs a pass over
// memory, or beta, which gives the same mask together with x.
void infer_grad(Infer& n) {
  const Activation activation = parse_activation(n.attrs.s("activation"));
  const bool is_masked = activation != Activation::None;
  if (is_masked && activation != Activation::Relu && activation != Activation::Relu6)
    n.fail("only relu and relu6 can be part of the gradient");
  n.expect_inputs(is_masked ? 6 : 5, is_masked ? 6 : 5);
  expect_channels(n, 4, 5);
  for (const size_t i : {2, 3})
    if (!(n.in[i].shape == statistic_of(n).shape))
      n.fail(fmt::format("input {} must be {} but is {}", i, to_string(statistic_of(n)), to_string(n.in[i])));
  const TensorType parameter{DType::F32, {n.in[0].shape[1]}};
  n.out = {n.in[0], parameter, parameter};
}

Prepared prepare_grad(const Facts& facts) {
  const Activation activation = parse_activation(facts.attrs.s("activation"));
  const ImageOrder order = order_or_plain(facts.in[0]);
  const ChannelPieces pieces(order);
  const std::vector<ChannelPieces> parts = pieces.parts(2);
  const double epsilon = facts.attrs.f("epsilon", kEpsilon);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  const int64_t numbers = round_up(pieces.numbers(), 16);
  using From = ChannelMask::From;
  const From from = activation == Activation::None ? From::None
                    : facts.in[5].dims.rank() == 1 ? From::Input
                                                   : From::Output;
  const float high = activation == Activation::Relu6 ? 6.0F : std::numeric_limits<float>::infinity();
  Prepared prepared;
  prepared.in = {layout, layout, {}, {}, {}};
  if (from != From::None) prepared.in.push_back(from == From::Output ? layout : Layout());
  prepared.out = {layout, {}, {}};
  prepared.workspace_bytes = (2 * numbers + ChannelRows::floats(order, 6)) * static_cast<Bytes>(sizeof(float));
  const bool accumulate = facts.accumulate;
  prepared.kernel = make_kernel([=](const Args& args) {
    const auto* x = args.input<float>(0);
    const auto* dy = args.input<float>(1);
    const auto* mean = args.input<float>(2);
    const auto* variance = args.input<float>(3);
    const auto* gamma = args.input<float>(4);
    auto* sums = static_cast<float*>(args.workspace);
    float* products = sums + numbers;
    const ChannelRows rows(args, 2 * numbers, order);
    fill_affine(pieces, mean, variance, gamma, from == From::Input ? args.input<float>(5) : nullptr, epsilon, rows);
    const ChannelMask mask{from, high, from == From::Output ? args.input<float>(5) : nullptr, affine_of(rows)};
    for (const int row : {3, 4}) fill_padding(order, rows[row]);

    // dx = scale (g - mean(g) - xhat mean(g xhat)) = g slope + (x - mean) rows[3] + rows[4]
    const auto count = static_cast<double>(order.samples() * order.pixels());
    auto* dgamma = args.output<float>(1);
    auto* dbeta = args.output<float>(2);
    for (const ChannelPieces& part : parts) {
      measure_products(part, rows[0], 0, mask, x, dy, sums, products);
      const int64_t base = part.first_channel();
      parallel_for(part.last_channel() - base, 32, [&](int64_t first, int64_t last) {
        for (int64_t c = base + first; c < base + last; ++c) {
          const double sum = total_of_slots(pieces, sums, c);
          const double product = total_of_slots(pieces, products, c);
          const double inverse = 1 / std::sqrt(variance[c] + epsilon);
          dbeta[c] = static_cast<float>(sum + (accumulate ? dbeta[c] : 0));
          dgamma[c] = static_cast<float>(product * inverse + (accumulate ? dgamma[c] : 0));
          rows[3][c] = static_cast<float>(-gamma[c] * inverse * inverse * inverse * product / count);
          rows[4][c] = static_cast<float>(-gamma[c] * inverse * sum / count);
        }
      });
      apply_gradient(part, {rows[0], rows[3], rows[4]}, rows[1], mask, x, dy, args.output<float>(0));
    }
  });
  return prepared;
}

BatchRule grad_rule(const Attrs& attrs, std::span<const TensorType> /*in*/) {
  return is_split(attrs) ? BatchRule::Sums : BatchRule::Mixes;
}

extern const Op kBatchNorm;

const Op kGrad{.name = "batch_norm_grad",
               .infer = infer_grad,
               .prepare = prepare_grad,
               .cost = [](const Facts& facts) { return Cost{.bytes = 1.1 * facts.operand_bytes()}; },
               .traits = {.batch = BatchRule::Mixes, .recomputable = true, .in_place = 0b11},
               .batch_rule = grad_rule,
               .fusion = {.gradient_of = &kBatchNorm,
                          // Where the gradient passes follows from x and beta, so that the output need not be kept.
                          .through_activation = Fusion::ThroughActivation{.dy = 1, .x = 0, .more = 2}}};

void grad(Backward& b) {
  if (b.dy[1].is_set() || b.dy[2].is_set()) throw Error("no gradient flows through the statistics of batch_norm");
  std::vector<Tensor> inputs{b.x[0], b.dy[0], b.y[1], b.y[2], b.x[1]};
  Attrs attrs{{"epsilon", b.attrs.f("epsilon", kEpsilon)}};
  if (is_split(b.attrs)) attrs.set("split", int64_t{1});
  if (b.attrs.has("activation")) {
    attrs.set("activation", std::string(b.attrs.s("activation")));
    inputs.push_back(b.x[2]);
  }
  const Outputs out = apply(kGrad, inputs, attrs);
  for (const int i : {0, 1, 2}) b.give(static_cast<size_t>(i), out[i]);
}

// running mean, running variance, mean, variance: moves the first two.
void infer_statistics(Infer& n) {
  n.expect_inputs(4, 4);
  n.expect_between("momentum", 0, 1, 0.99);
  for (size_t i = 1; i < 4; ++i)
    if (!(n.in[i] == n.in[0]))
      n.fail(fmt::format("statistics differ in size: {} and {}", to_string(n.in[0]), to_string(n.in[i])));
}

Prepared prepare_statistics(const Facts& facts) {
  const auto momentum = static_cast<float>(facts.attrs.f("momentum", 0.99));
  const auto rest = static_cast<float>(1 - facts.attrs.f("momentum", 0.99));
  const int64_t count = facts.in[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            for (const size_t which : {0, 1}) {
              auto* moving = args.updated<float>(which);
              const auto* batch = args.input<float>(which + 2);
              for (int64_t c = 0; c < count; ++c) moving[c] = moving[c] * momentum + batch[c] * rest;
            }
          })};
}

// Inference: x, gamma, beta, mean, variance -> y.
void infer_inference(Infer& n) {
  n.expect_inputs(5, 5);
  expect_channels(n, 1, 5);
  parse_activation(n.attrs.s("activation"));
  n.out = {n.in[0]};
}

Prepared prepare_inference(const Facts& facts) {
  return prepare_by_statistics(facts, facts.attrs.f("epsilon", kEpsilon));
}

// dy, gamma, variance -> dx.
void infer_inference_input_grad(Infer& n) {
  n.expect_inputs(3, 3);
  expect_channels(n, 1, 3);
  n.out = {n.in[0]};
}

Prepared prepare_inference_input_grad(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  const ChannelPieces pieces(order);
  const double epsilon = facts.attrs.f("epsilon", kEpsilon);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  return {.kernel = make_kernel([=](const Args& args) {
            const ChannelRows rows(args, 0, order);
            fill_affine(pieces, args.input<float>(2), args.input<float>(2), args.input<float>(1), nullptr, epsilon,
                        rows);
            std::fill(rows[0], rows[0] + order.channels(), 0.0F);
            apply_affine(pieces, affine_of(rows), Activation::None, args.input<float>(0), args.output<float>(0));
          }),
          .in = {layout, {}, {}},
          .out = {layout},
          .workspace_bytes = ChannelRows::floats(order, 3) * static_cast<Bytes>(sizeof(float))};
}

// x, dy, mean, variance -> dgamma, dbeta.
void infer_inference_parameter_grad(Infer& n) {
  n.expect_inputs(4, 4);
  expect_channels(n, 2, 4);
  const TensorType parameter{DType::F32, {n.in[0].shape[1]}};
  n.out = {parameter, parameter};
}

Prepared prepare_inference_parameter_grad(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  const ChannelPieces pieces(order);
  const double epsilon = facts.attrs.f("epsilon", kEpsilon);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  const int64_t numbers = round_up(pieces.numbers(), 16);
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            auto* sums = static_cast<float*>(args.workspace);
            const ChannelRows rows(args, 2 * numbers, order);
            std::copy_n(args.input<float>(2), order.channels(), rows[0]);
            fill_padding(order, rows[0]);
            measure_products(pieces, rows[0], 0, {}, args.input<float>(0), args.input<float>(1), sums, sums + numbers);
            auto* dgamma = args.output<float>(0);
            auto* dbeta = args.output<float>(1);
            const auto* variance = args.input<float>(3);
            for (int64_t c = 0; c < order.channels(); ++c) {
              const double product = total_of_slots(pieces, sums + numbers, c) / std::sqrt(variance[c] + epsilon);
              dgamma[c] = static_cast<float>(product + (accumulate ? dgamma[c] : 0));
              dbeta[c] = static_cast<float>(total_of_slots(pieces, sums, c) + (accumulate ? dbeta[c] : 0));
            }
          }),
          .in = {layout, layout, {}, {}},
          .out = {{}, {}},
          .workspace_bytes = (2 * numbers + ChannelRows::floats(order, 1)) * static_cast<Bytes>(sizeof(float))};
}

const Op kInferenceInputGrad{.name = "batch_norm_inference_input_grad",
                             .infer = infer_inference_input_grad,
                             .prepare = prepare_inference_input_grad,
                             .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1}};
const Op kInferenceParameterGrad{.name = "batch_norm_inference_parameter_grad",
                                 .infer = infer_inference_parameter_grad,
                                 .prepare = prepare_inference_parameter_grad,
                                 .traits = {.batch = BatchRule::Sums, .recomputable = true}};

void inference_grad(Backward& b) {
  if (b.attrs.has("activation")) throw Error("batch_norm: activations are fused after the gradients of inference");
  const Attrs attrs{{"epsilon", b.attrs.f("epsilon", kEpsilon)}};
  if (b.wanted[0]) b.give(0, apply(kInferenceInputGrad, {b.dy[0], b.x[1], b.x[4]}, attrs));
  if (!b.wanted[1] && !b.wanted[2]) return;
  const Outputs out = apply(kInferenceParameterGrad, {b.x[0], b.dy[0], b.x[3], b.x[4]}, attrs);
  b.give(1, out[0]);
  b.give(2, out[1]);
}

Sample sample(std::string name, Shape shape, bool training, std::string activation = "", bool blocked = false) {
  return {std::move(name), [=](SampleBuilder& s) {
            const Shape statistic{shape[1]};
            Tensor x = s.input(shape, -2, 3);
            // A convolution hands its result on in a blocked order.
            if (blocked) x = conv2d(x, s.input({shape[1], shape[1], 1, 1}));
            const Tensor gamma = s.input(statistic, 0.5, 1.5);
            const Tensor beta = s.input(statistic);
            const Tensor mean = s.variable(statistic);
            const Tensor variance = s.variable(statistic, 0.5, 2);
            if (activation.empty()) return std::vector{batch_norm(x, gamma, beta, mean, variance, training, 0.9, 1e-2)};
            if (!training)
              return std::vector<Tensor>{apply(*find_op("batch_norm_inference"), {x, gamma, beta, mean, variance},
                                               {{"activation", activation}})};
            return std::vector<Tensor>{apply(*find_op("batch_norm"), {x, gamma, beta}, {{"activation", activation}})};
          }};
}

std::vector<Sample> without_gradient(std::vector<Sample> samples) {
  for (Sample& each : samples) each.has_gradient = false;
  return samples;
}

// The gradient as rewrites of lowering make it, with the mask from the result.
Sample masked_by_output(std::string name, bool from_output) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Dim batch = Dim::batch();
            const Tensor x = s.input({batch, 3, 3, 3}, -2, 3);
            const Tensor dy = s.input({batch, 3, 3, 3});
            const Tensor gamma = s.input({3}, 0.5, 1.5);
            const Tensor beta = s.input({3});
            const Outputs y = apply(*find_op("batch_norm"), {x, gamma, beta}, {{"activation", "relu"}});
            const Outputs grads =
                apply(kGrad, {x, dy, y[1], y[2], gamma, from_output ? y[0] : beta}, {{"activation", "relu"}});
            return std::vector{grads[0], grads[1], grads[2]};
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  const Dim batch = Dim::batch();
  std::vector<Sample> all{sample("images", {batch, 3, 3, 5}, true),
                          sample("rows", {batch, 5}, true),
                          sample("blocked", {batch, 8, 2, 2}, true, "", true),
                          sample("padded channels", {batch, 10, 2, 2}, true, "", true),
                          sample("relu", {batch, 3, 3, 3}, true, "relu"),
                          sample("blocked relu6", {batch, 8, 2, 2}, true, "relu6", true),
                          masked_by_output("gradient masked by output", true),
                          masked_by_output("gradient masked by input", false)};
  for (Sample& each : without_gradient({sample("sigmoid", {batch, 3, 3, 3}, true, "sigmoid"),
                                        sample("padded sigmoid", {batch, 10, 2, 2}, true, "sigmoid", true),
                                        sample("tanh", {batch, 3, 3, 3}, true, "tanh")}))
    all.push_back(std::move(each));
  return all;
}

std::vector<Sample> inference_samples() {
  const Dim batch = Dim::batch();
  std::vector<Sample> all{sample("images", {batch, 3, 3, 5}, false), sample("rows", {batch, 5}, false),
                          sample("padded channels", {batch, 10, 2, 2}, false, "", true)};
  for (Sample& each : without_gradient({sample("relu", {batch, 3, 3, 3}, false, "relu"),
                                        sample("blocked relu6", {batch, 8, 2, 2}, false, "relu6", true)}))
    all.push_back(std::move(each));
  return all;
}

BatchRule rule(const Attrs& attrs, std::span<const TensorType> /*in*/) {
  return is_split(attrs) ? BatchRule::Rows : BatchRule::Mixes;
}

const Op kBatchNorm{.name = "batch_norm",
                    .storable = true,
                    .infer = infer,
                    .grad = grad,
                    .prepare = prepare,
                    // One pass for the statistics, one for the result.
                    .cost = [](const Facts& facts) { return Cost{.bytes = 1.5 * facts.operand_bytes()}; },
                    .samples = samples,
                    .traits = {.batch = BatchRule::Mixes, .recomputable = true, .in_place = 1},
                    .batch_rule = rule,
                    .fusion = {.applies_activation = true}};
const Op kStatistics{.name = "batch_norm_statistics",
                     .storable = true,
                     .infer = infer_statistics,
                     .prepare = prepare_statistics,
                     .traits = {.updates = 0b11, .statistics = true}};
const Op kInference{.name = "batch_norm_inference",
                    .storable = true,
                    .infer = infer_inference,
                    .grad = inference_grad,
                    .prepare = prepare_inference,
                    .samples = inference_samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                    .onnx = "BatchNormalization",
                    .fusion = {.applies_activation = true}};

}  // namespace

Tensor batch_norm(Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor variance, bool training, double momentum,
                  double epsilon, bool synchronised, Name name) {
  if (!training) return apply(kInference, {x, gamma, beta, mean, variance}, {{"epsilon", epsilon}}, name);
  Attrs attrs{{"epsilon", epsilon}};
  const bool splits = x.graph().body().may_split(kBatchNorm.name);
  if (splits) attrs.set("split", int64_t{1});
  if (synchronised) attrs.set("synchronised", int64_t{1});
  const Outputs y = apply(kBatchNorm, {x, gamma, beta}, attrs, name);
  const auto of_batch = [&](Tensor statistic) { return splits ? reduce_mean(statistic, {0}) : statistic; };
  apply(kStatistics, {mean, variance, of_batch(y[1]), of_batch(y[2])}, {{"momentum", momentum}});
  return y;
}

OpList batch_norm_ops() {
  return {&kBatchNorm, &kGrad, &kStatistics, &kInference, &kInferenceInputGrad, &kInferenceParameterGrad};
}

}  // namespace plimsoll::ops
