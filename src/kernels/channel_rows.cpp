#include "kernels/channel_rows.h"

#include <cmath>

#include "kernels/parallel.h"

namespace plimsoll::kernels {

ImageOrder order_for(const ConcreteType& type, Activation activation) {
  const ImageOrder order = order_or_plain(type);
  const bool is_padded = order.padded_channels() != order.channels();
  return is_padded && activation == Activation::Sigmoid ? ImageOrder({}, type.dims) : order;
}

void fill_affine(const ChannelPieces& pieces, const float* mean, const float* variance, const float* gamma,
                 const float* beta, double epsilon, const ChannelRows& rows) {
  for (int64_t c = pieces.first_channel(); c < pieces.last_channel(); ++c) {
    rows[0][c] = mean[c];
    rows[1][c] = static_cast<float>(gamma[c] / std::sqrt(variance[c] + epsilon));
    rows[2][c] = beta == nullptr ? 0.0F : beta[c];
  }
  for (const int row : {0, 1, 2}) fill_padding(pieces.order(), rows[row]);
}

Prepared prepare_by_statistics(const Facts& facts, double epsilon) {
  const Activation activation = parse_activation(facts.attrs.s("activation"));
  const ImageOrder order = order_for(facts.in[0], activation);
  const ChannelPieces pieces(order);
  const Layout layout = order.layout(DType::F32, facts.in[0].dims);
  std::vector<Layout> in(facts.in.size());
  in[0] = layout;
  return {.kernel = make_kernel([=](const Args& args) {
            const ChannelRows rows(args, 0, order);
            fill_affine(pieces, args.input<float>(3), args.input<float>(4), args.input<float>(1), args.input<float>(2),
                        epsilon, rows);
            apply_affine(pieces, affine_of(rows), activation, args.input<float>(0), args.output<float>(0));
          }),
          .in = std::move(in),
          .out = {layout},
          .workspace_bytes = ChannelRows::floats(order, 3) * static_cast<Bytes>(sizeof(float))};
}

void combine_slots(const ChannelPieces& pieces, const float* means, const float* squares, float* mean,
                   float* variance) {
  const ImageOrder& order = pieces.order();
  const auto count = static_cast<double>(order.samples() * order.pixels());
  const int64_t base = pieces.first_channel();
  parallel_for(pieces.last_channel() - base, 32, [&](int64_t first, int64_t last) {
    for (int64_t c = base + first; c < base + last; ++c) {
      double sum = 0;
      for (int64_t slot = 0; slot < pieces.slots(); ++slot)
        sum += static_cast<double>(pieces.pixels(slot)) * means[slot * order.padded_channels() + c];
      const double middle = sum / count;
      double distance = 0;
      for (int64_t slot = 0; slot < pieces.slots(); ++slot) {
        const double off = means[slot * order.padded_channels() + c] - middle;
        distance += squares[slot * order.padded_channels() + c] + static_cast<double>(pieces.pixels(slot)) * off * off;
      }
      mean[c] = static_cast<float>(middle);
      variance[c] = static_cast<float>(distance / count);
    }
  });
}

double total_of_slots(const ChannelPieces& pieces, const float* numbers, int64_t channel) {
  double sum = 0;
  for (int64_t slot = 0; slot < pieces.slots(); ++slot)
    sum += numbers[slot * pieces.order().padded_channels() + channel];
  return sum;
}

}  // namespace plimsoll::kernels
