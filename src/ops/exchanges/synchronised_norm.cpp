// Batch norm over the samples of all ranks. Its statistics are combined from those of each rank, weighed by samples:
// batch_norm_moments measures those of this rank, combine_moments exchanges them, batch_norm_by applies the result. The
// backward pass sums two numbers for each channel over all samples in the same way: batch_norm_products of this rank,
// sum_values over all, batch_norm_by_grad with the result. A rank that trains alone has all samples.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "graph/body.h"
#include "kernels/channel_rows.h"
#include "kernels/moments_over_ranks.h"
#include "kernels/parallel.h"
#include "kernels/sum_over_ranks.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr double kLeastVariance = 1e-3;  // unless the setting epsilon says otherwise

double least_variance(const Attrs& attrs) { return attrs.f("epsilon", kLeastVariance); }

int64_t channels_of(const Infer& n) {
  const Shape& x = n.in[0].shape;
  if (x.rank() < 2) n.fail(fmt::format("input must have a dimension of channels but is {}", to_string(n.in[0])));
  return x[1].fixed();
}

void expect_numbers(const Infer& n, size_t input, int64_t count) {
  if (!(n.in[input].shape == Shape{count}))
    n.fail(fmt::format("input {} must be f32[{}] but is {}", input, count, to_string(n.in[input])));
}

void expect_buffer(const Infer& n, size_t input, int64_t least) {
  const Shape& buffer = n.in[input].shape;
  if (buffer.rank() != 1 || buffer[0].fixed() < least)
    n.fail(fmt::format("the buffer must be f32[{}] or longer but is {}", least, to_string(n.in[input])));
}

// x -> moments of the samples of this rank.
void infer_moments(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {{DType::F32, {moments_length(channels_of(n))}}};
}

Prepared prepare_moments(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  const ChannelPieces pieces(order);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  const int64_t numbers = round_up(pieces.numbers(), 16), channels = order.channels();
  const auto samples = static_cast<float>(order.samples());
  return {.kernel = make_kernel([=](const Args& args) {
            auto* const moments = args.output<float>(0);
            if (!args.state->counts_samples) {
              std::fill_n(moments, moments_length(channels), 0.0F);
              return;
            }
            auto* const means = static_cast<float*>(args.workspace);
            measure_moments(pieces, args.input<float>(0), means, means + numbers);
            combine_slots(pieces, means, means + numbers, moments, moments + channels);
            for (int64_t c = channels; c < 2 * channels; ++c) moments[c] *= samples;
            moments[2 * channels] = samples;
          }),
          .in = {layout},
          .out = {Layout()},
          .workspace_bytes = 2 * numbers * static_cast<Bytes>(sizeof(float))};
}

// moments, buffer -> mean, variance and number of the samples of all ranks.
void infer_combine(Infer& n) {
  n.expect_inputs(2, 2);
  const int64_t length = n.in[0].shape.rank() == 1 ? n.in[0].shape[0].fixed() : 0;
  if (length < 3 || length % 2 == 0) n.fail(fmt::format("{} are no moments", to_string(n.in[0])));
  expect_buffer(n, 1, 2 * length);
  n.out = {{DType::F32, {length / 2}}, {DType::F32, {length / 2}}, {DType::F32, {1}}};
}

Prepared prepare_combine(const Facts& facts) {
  const int64_t length = facts.in[0].count(), channels = length / 2;
  return {.kernel = make_kernel([=](const Args& args) {
            auto* const moments = args.updated<float>(1);
            std::copy_n(args.input<float>(0), length, moments);
            Network* const network = args.state->network;
            if (network != nullptr) combine_over_ranks(*network, moments, channels, moments + length);
            const float samples = moments[2 * channels];
            std::copy_n(moments, channels, args.output<float>(0));
            for (int64_t c = 0; c < channels; ++c) args.output<float>(1)[c] = moments[channels + c] / samples;
            args.output<float>(2)[0] = samples;
          }),
          .in = {Layout(), Layout()}};
}

Cost cost_of_exchange(const Facts& facts) { return {.bytes = static_cast<double>(facts.in[0].bytes())}; }

// x, gamma, beta, mean, variance, samples of all ranks -> y.
void infer_by(Infer& n) {
  n.expect_inputs(6, 6);
  const int64_t channels = channels_of(n);
  n.expect_positive("epsilon", kLeastVariance);
  for (const size_t i : {1, 2, 3, 4}) expect_numbers(n, i, channels);
  expect_numbers(n, 5, 1);
  parse_activation(n.attrs.s("activation"));
  n.out = {n.in[0]};
}

Prepared prepare_by(const Facts& facts) { return prepare_by_statistics(facts, least_variance(facts.attrs)); }

// x, dy, mean, variance -> this rank's sums of dy and of dy (x - mean), times its samples; dgamma, dbeta. Times
// samples, because dy is the gradient of the mean loss of this rank, and all ranks' losses count by their samples.
void infer_products(Infer& n) {
  n.expect_inputs(4, 4);
  const int64_t channels = channels_of(n);
  for (const size_t i : {2, 3}) expect_numbers(n, i, channels);
  n.out = {{DType::F32, {2 * channels}}, {DType::F32, {channels}}, {DType::F32, {channels}}};
}

Prepared prepare_products(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  const ChannelPieces pieces(order);
  const double epsilon = least_variance(facts.attrs);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  const int64_t numbers = round_up(pieces.numbers(), 16), channels = order.channels();
  const auto samples = static_cast<double>(order.samples());
  return {.kernel = make_kernel([=](const Args& args) {
            auto* const sums = static_cast<float*>(args.workspace);
            const ChannelRows rows(args, 2 * numbers, order);
            std::copy_n(args.input<float>(2), channels, rows[0]);
            fill_padding(order, rows[0]);
            measure_products(pieces, rows[0], 0, {}, args.input<float>(0), args.input<float>(1), sums, sums + numbers);
            const auto* const variance = args.input<float>(3);
            auto* const own = args.output<float>(0);
            const bool counts = args.state->counts_samples;
            for (int64_t c = 0; c < channels; ++c) {
              const double sum = total_of_slots(pieces, sums, c), product = total_of_slots(pieces, sums + numbers, c);
              own[c] = counts ? static_cast<float>(sum * samples) : 0.0F;
              own[channels + c] = counts ? static_cast<float>(product * samples) : 0.0F;
              args.output<float>(1)[c] = static_cast<float>(product / std::sqrt(variance[c] + epsilon));
              args.output<float>(2)[c] = static_cast<float>(sum);
            }
          }),
          .in = {layout, layout, {}, {}},
          .out = {{}, {}, {}},
          .workspace_bytes = (2 * numbers + ChannelRows::floats(order, 1)) * static_cast<Bytes>(sizeof(float))};
}

// values, buffer -> their sum over all ranks.
void infer_sum(Infer& n) {
  n.expect_inputs(2, 2);
  expect_buffer(n, 1, 1);
  n.out = {n.in[0]};
}

Prepared prepare_sum(const Facts& facts) {
  const int64_t count = facts.in[0].count(), received = facts.in[1].count();
  return {.kernel = make_kernel([=](const Args& args) {
            auto* const sum = args.output<float>(0);
            std::copy_n(args.input<float>(0), count, sum);
            if (Network* const network = args.state->network; network != nullptr)
              sum_over_ranks(*network, sum, count, args.updated<float>(1), received);
          }),
          .in = {Layout(), Layout()}};
}

// x, dy, mean, variance, gamma, products and samples of all ranks -> dx.
void infer_by_grad(Infer& n) {
  n.expect_inputs(7, 7);
  const int64_t channels = channels_of(n);
  for (const size_t i : {2, 3, 4}) expect_numbers(n, i, channels);
  expect_numbers(n, 5, 2 * channels);
  expect_numbers(n, 6, 1);
  n.out = {n.in[0]};
}

Prepared prepare_by_grad(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  const ChannelPieces pieces(order);
  const double epsilon = least_variance(facts.attrs);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  const auto samples = static_cast<double>(order.samples());
  return {.kernel = make_kernel([=](const Args& args) {
            const ChannelRows rows(args, 0, order);
            const auto* const mean = args.input<float>(2);
            const auto* const variance = args.input<float>(3);
            const auto* const gamma = args.input<float>(4);
            const auto* const products = args.input<float>(5);
            // dx = scale (dy - mean(dy) - xhat mean(dy xhat)) = dy scale + (x - mean) rows[2] + rows[3]. The loss of
            // this rank is a mean over its own samples, the means here are over those of all.
            const double count = static_cast<double>(args.input<float>(6)[0]) * static_cast<double>(order.pixels());
            const double share = args.state->counts_samples ? 1 / (count * samples) : 0;
            for (int64_t c = 0; c < order.channels(); ++c) {
              const double inverse = 1 / std::sqrt(variance[c] + epsilon), scale = gamma[c] * inverse;
              rows[0][c] = mean[c];
              rows[1][c] = static_cast<float>(scale);
              rows[2][c] = static_cast<float>(-scale * inverse * inverse * products[order.channels() + c] * share);
              rows[3][c] = static_cast<float>(-scale * products[c] * share);
            }
            for (const int row : {0, 1, 2, 3}) fill_padding(order, rows[row]);
            apply_gradient(pieces, {rows[0], rows[2], rows[3]}, rows[1], {}, args.input<float>(0), args.input<float>(1),
                           args.output<float>(0));
          }),
          .in = {layout, layout, {}, {}, {}, {}, {}},
          .out = {layout},
          .workspace_bytes = ChannelRows::floats(order, 4) * static_cast<Bytes>(sizeof(float))};
}

const Op kMoments{.name = "batch_norm_moments",
                  .infer = infer_moments,
                  .prepare = prepare_moments,
                  .traits = {.batch = BatchRule::Mixes, .recomputable = true}};
const Op kCombine{.name = "combine_moments",
                  .infer = infer_combine,
                  .prepare = prepare_combine,
                  .cost = cost_of_exchange,
                  .traits = {.updates = 0b10, .exchanges = true}};
const Op kProducts{.name = "batch_norm_products",
                   .infer = infer_products,
                   .prepare = prepare_products,
                   .traits = {.batch = BatchRule::Mixes, .recomputable = true}};
const Op kSumValues{.name = "sum_values",
                    .infer = infer_sum,
                    .prepare = prepare_sum,
                    .cost = cost_of_exchange,
                    .traits = {.updates = 0b10, .exchanges = true}};
const Op kByGrad{.name = "batch_norm_by_grad",
                 .infer = infer_by_grad,
                 .prepare = prepare_by_grad,
                 .traits = {.batch = BatchRule::Mixes, .recomputable = true, .in_place = 0b11}};

// The statistics depend on x as well: that is part of the gradient of x here, so that none flows through them.
void grad_of_by(Backward& b) {
  if (b.attrs.has("activation")) throw Error("batch_norm_by: activations are fused after the gradients were made");
  const Attrs attrs{{"epsilon", least_variance(b.attrs)}};
  const graph::Body& body = b.x[0].graph().body();
  const NodeId combined = body.value(b.x[3].id()).producer;
  const Tensor buffer(b.x[0].graph(), body.inputs(body.node(combined))[1]);
  const Outputs own = apply(kProducts, {b.x[0], b.dy[0], b.x[3], b.x[4]}, attrs);
  const Tensor products = apply(kSumValues, {own[0], buffer});
  if (b.wanted[0]) b.give(0, apply(kByGrad, {b.x[0], b.dy[0], b.x[3], b.x[4], b.x[1], products, b.x[5]}, attrs));
  b.give(1, own[1]);
  b.give(2, own[2]);
}

Sample norm_sample(std::string name, const Shape& shape, bool blocked) {
  return {std::move(name), [=](SampleBuilder& s) {
            const Shape statistic{shape[1]};
            Tensor x = s.input(shape, -2, 3);
            // A convolution hands its result on in a blocked order.
            if (blocked) x = conv2d(x, s.input({shape[1], shape[1], 1, 1}));
            const Tensor gamma = s.input(statistic, 0.5, 1.5), beta = s.input(statistic);
            return std::vector{batch_norm_over_ranks(x, gamma, beta, s.variable({64}), 1e-2).front()};
          }};
}

std::vector<Sample> samples_of_norm() {
  const Dim batch = Dim::batch();
  return {norm_sample("images", {batch, 3, 3, 5}, false), norm_sample("rows", {batch, 5}, false),
          norm_sample("padded channels", {batch, 10, 2, 2}, true)};
}

const Op kBy{.name = "batch_norm_by",
             .infer = infer_by,
             .grad = grad_of_by,
             .prepare = prepare_by,
             .samples = samples_of_norm,
             .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
             .fusion = {.applies_activation = true}};

}  // namespace

std::vector<Tensor> batch_norm_over_ranks(Tensor x, Tensor gamma, Tensor beta, Tensor turn, double epsilon, Name name) {
  const Tensor moments = apply(kMoments, {x});
  const Outputs all = apply(kCombine, {moments, turn});
  const Tensor y = apply(kBy, {x, gamma, beta, all[0], all[1], all[2]}, {{"epsilon", epsilon}}, name);
  return {y, all[0], all[1]};
}

OpList synchronised_norm_ops() { return {&kMoments, &kCombine, &kBy, &kProducts, &kSumValues, &kByGrad}; }

}  // namespace plimsoll::ops
