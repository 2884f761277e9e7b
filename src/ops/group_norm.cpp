// group_norm: channels in groups, each group of each sample less its mean, over its deviation; times gamma, plus beta.
#include <cmath>

#include <fmt/format.h>

#include "kernels/channel_norm.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr double kEpsilon = 1e-3;

void expect_groups(const Infer& n) {
  const Shape& x = n.in[0].shape;
  n.expect_positive("epsilon", kEpsilon);
  if (x.rank() < 2) n.fail(fmt::format("input must have a dimension of channels but is {}", to_string(n.in[0])));
  const int64_t groups = n.attrs.i("groups", 1);
  if (groups < 1 || x[1].fixed() % groups != 0)
    n.fail(fmt::format("{} channels can't be divided into {} groups", to_string(x[1]), groups));
}

// A batch in pieces, with the groups of its channels.
struct Grouped {
  explicit Grouped(const Facts& facts)
      : order(order_or_plain(facts.in[0])),
        pieces(order),
        groups(facts.attrs.i("groups", 1)),
        epsilon(facts.attrs.f("epsilon", kEpsilon)),
        layout(order.layout(DType::F32, facts.in[0].dims)) {}
  int64_t channels_in_group() const { return order.channels() / groups; }
  double count() const { return static_cast<double>(channels_in_group() * order.pixels()); }
  int64_t numbers() const { return round_up(pieces.numbers(), 16); }
  // Numbers for each sample and channel.
  int64_t stride() const { return order.padded_channels(); }
  int64_t row() const { return round_up(order.samples() * stride(), 16); }
  Bytes workspace_bytes(int rows) const { return (2 * numbers() + rows * row()) * static_cast<Bytes>(sizeof(float)); }

  ImageOrder order;
  ChannelPieces pieces;
  int64_t groups;
  double epsilon;
  Layout layout;
};

// Calls body(sample, group, first channel, last channel); what it writes belongs to that group alone.
template <class Body>
void for_groups(const Grouped& g, const Body& body) {
  parallel_for(g.order.samples() * g.groups, 8, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t channel = i % g.groups * g.channels_in_group();
      body(i / g.groups, i, channel, channel + g.channels_in_group());
    }
  });
}

// The sum over the pieces of one sample and channel.
double total(const Grouped& g, const float* numbers, int64_t sample, int64_t channel) {
  double sum = 0;
  for (int64_t slot = 0; slot < g.pieces.slots_per_sample(); ++slot)
    sum += numbers[(sample * g.pieces.slots_per_sample() + slot) * g.stride() + channel];
  return sum;
}

// x, gamma, beta -> y, mean, 1 / deviation.
void infer(Infer& n) {
  n.expect_inputs(3, 3);
  expect_groups(n);
  for (const size_t i : {1, 2})
    if (!(n.in[i].shape == Shape{n.in[0].shape[1]}))
      n.fail(fmt::format("input {} must be [{}] but is {}", i, to_string(n.in[0].shape[1]), to_string(n.in[i])));
  const TensorType statistic{DType::F32, {n.in[0].shape[0], n.attrs.i("groups", 1)}};
  n.out = {n.in[0], statistic, statistic};
}

Prepared prepare(const Facts& facts) {
  const Grouped g(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const auto* gamma = args.input<float>(1);
            const auto* beta = args.input<float>(2);
            auto* means = static_cast<float*>(args.workspace);
            float* squares = means + g.numbers();
            float* center = squares + g.numbers();
            float* scale = center + g.row();
            float* shift = scale + g.row();
            std::fill(center, shift + g.row(), 0.0F);
            measure_moments(g.pieces, x, means, squares);
            for_groups(g, [&](int64_t sample, int64_t group, int64_t first, int64_t last) {
              double sum = 0;
              const int64_t slots = g.pieces.slots_per_sample();
              const auto each = [&](const auto& body) {
                for (int64_t c = first; c < last; ++c)
                  for (int64_t slot = 0; slot < slots; ++slot)
                    body((sample * slots + slot) * g.stride() + c, static_cast<double>(g.pieces.pixels(slot)));
              };
              each([&](int64_t at, double pixels) { sum += pixels * means[at]; });
              const double mean = sum / g.count();
              double distance = 0;
              each([&](int64_t at, double pixels) {
                distance += squares[at] + pixels * (means[at] - mean) * (means[at] - mean);
              });
              const double inverse = 1 / std::sqrt(distance / g.count() + g.epsilon);
              args.output<float>(1)[group] = static_cast<float>(mean);
              args.output<float>(2)[group] = static_cast<float>(inverse);
              for (int64_t c = first; c < last; ++c) {
                const int64_t at = sample * g.stride() + c;
                center[at] = static_cast<float>(mean);
                scale[at] = static_cast<float>(gamma[c] * inverse);
                shift[at] = beta[c];
              }
            });
            apply_affine(g.pieces, {center, scale, shift, g.stride()}, Activation::None, x, args.output<float>(0));
          }),
          .in = {g.layout, {}, {}},
          .out = {g.layout, {}, {}},
          .workspace_bytes = g.workspace_bytes(3)};
}

// The mean of its group for each sample and channel; padding zero.
void spread_means(const Grouped& g, const float* mean, float* center) {
  std::fill(center, center + g.row(), 0.0F);
  for_groups(g, [&](int64_t sample, int64_t group, int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) center[sample * g.stride() + c] = mean[group];
  });
}

// x, dy, mean, 1 / deviation, gamma -> dx.
void infer_input_grad(Infer& n) {
  n.expect_inputs(5, 5);
  expect_groups(n);
  n.out = {n.in[0]};
}

Prepared prepare_input_grad(const Facts& facts) {
  const Grouped g(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const auto* dy = args.input<float>(1);
            const auto* deviation = args.input<float>(3);
            const auto* gamma = args.input<float>(4);
            auto* sums = static_cast<float*>(args.workspace);
            float* products = sums + g.numbers();
            float* center = products + g.numbers();
            float* slope = center + g.row();
            float* scale = slope + g.row();
            float* shift = scale + g.row();
            spread_means(g, args.input<float>(2), center);
            std::fill(slope, shift + g.row(), 0.0F);
            measure_products(g.pieces, center, g.stride(), {}, x, dy, sums, products);
            for_groups(g, [&](int64_t sample, int64_t group, int64_t first, int64_t last) {
              double sum = 0;
              double product = 0;
              for (int64_t c = first; c < last; ++c) {
                sum += gamma[c] * total(g, sums, sample, c);
                product += gamma[c] * total(g, products, sample, c);
              }
              const double inverse = deviation[group];
              for (int64_t c = first; c < last; ++c) {
                const int64_t at = sample * g.stride() + c;
                slope[at] = static_cast<float>(gamma[c] * inverse);
                scale[at] = static_cast<float>(-inverse * inverse * inverse * product / g.count());
                shift[at] = static_cast<float>(-inverse * sum / g.count());
              }
            });
            apply_gradient(g.pieces, {center, scale, shift, g.stride()}, slope, {}, x, dy, args.output<float>(0));
          }),
          .in = {g.layout, g.layout, {}, {}, {}},
          .out = {g.layout},
          .workspace_bytes = g.workspace_bytes(4)};
}

// x, dy, mean, 1 / deviation -> dgamma, dbeta.
void infer_parameter_grad(Infer& n) {
  n.expect_inputs(4, 4);
  expect_groups(n);
  const TensorType parameter{DType::F32, {n.in[0].shape[1]}};
  n.out = {parameter, parameter};
}

Prepared prepare_parameter_grad(const Facts& facts) {
  const Grouped g(facts);
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* deviation = args.input<float>(3);
            auto* dgamma = args.output<float>(0);
            auto* dbeta = args.output<float>(1);
            auto* sums = static_cast<float*>(args.workspace);
            float* products = sums + g.numbers();
            float* center = products + g.numbers();
            spread_means(g, args.input<float>(2), center);
            measure_products(g.pieces, center, g.stride(), {}, args.input<float>(0), args.input<float>(1), sums,
                             products);
            parallel_for(g.order.channels(), 32, [&](int64_t first, int64_t last) {
              for (int64_t c = first; c < last; ++c) {
                double gamma_sum = accumulate ? dgamma[c] : 0;
                double beta_sum = accumulate ? dbeta[c] : 0;
                for (int64_t sample = 0; sample < g.order.samples(); ++sample) {
                  const int64_t group = sample * g.groups + c / g.channels_in_group();
                  gamma_sum += total(g, products, sample, c) * deviation[group];
                  beta_sum += total(g, sums, sample, c);
                }
                dgamma[c] = static_cast<float>(gamma_sum);
                dbeta[c] = static_cast<float>(beta_sum);
              }
            });
          }),
          .in = {g.layout, g.layout, {}, {}},
          .out = {{}, {}},
          .workspace_bytes = g.workspace_bytes(1)};
}

const Op kInputGrad{.name = "group_norm_input_grad",
                    .infer = infer_input_grad,
                    .prepare = prepare_input_grad,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 0b11}};
const Op kParameterGrad{.name = "group_norm_parameter_grad",
                        .infer = infer_parameter_grad,
                        .prepare = prepare_parameter_grad,
                        .traits = {.batch = BatchRule::Sums, .recomputable = true}};

void grad(Backward& b) {
  if (b.dy[1].is_set() || b.dy[2].is_set()) throw Error("no gradient flows through the statistics of group_norm");
  if (b.wanted[0]) b.give(0, apply(kInputGrad, {b.x[0], b.dy[0], b.y[1], b.y[2], b.x[1]}, b.attrs));
  if (!b.wanted[1] && !b.wanted[2]) return;
  const Outputs out = apply(kParameterGrad, {b.x[0], b.dy[0], b.y[1], b.y[2]}, b.attrs);
  b.give(1, out[0]);
  b.give(2, out[1]);
}

std::vector<Sample> samples() {
  const auto sample = [](std::string name, Shape shape, int64_t groups, bool blocked) {
    return Sample{std::move(name), [=](SampleBuilder& s) {
                    Tensor x = s.input(shape, -2, 3);
                    // A convolution hands its result on in a blocked order.
                    if (blocked) x = conv2d(x, s.input({shape[1], shape[1], 1, 1}));
                    const Tensor gamma = s.input({shape[1]}, 0.5, 1.5);
                    return std::vector{group_norm(x, gamma, s.input({shape[1]}), groups, 1e-2)};
                  }};
  };
  const Dim batch = Dim::batch();
  return {sample("pairs", {batch, 6, 2, 3}, 3, false),        sample("one group", {batch, 3, 3, 3}, 1, false),
          sample("each channel", {batch, 3, 3, 3}, 3, false), sample("rows", {batch, 10}, 2, false),
          sample("blocked", {batch, 16, 2, 1}, 4, true),      sample("padded channels", {batch, 10, 2, 2}, 2, true)};
}

const Op kGroupNorm{.name = "group_norm",
                    .storable = true,
                    .infer = infer,
                    .grad = grad,
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                    .onnx = "GroupNormalization"};

}  // namespace

Tensor group_norm(Tensor x, Tensor gamma, Tensor beta, int64_t groups, double epsilon, Name name) {
  return apply(kGroupNorm, {x, gamma, beta}, {{"groups", groups}, {"epsilon", epsilon}}, name);
}

OpList group_norm_ops() { return {&kGroupNorm, &kInputGrad, &kParameterGrad}; }

}  // namespace plimsoll::ops
