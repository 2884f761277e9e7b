// Passes over image batches in which each channel has numbers of its own: shared by batch and group
// normalisation. Each reads or writes the batch once, in plain and blocked orders.
#pragma once

#include "kernels/activation.h"
#include "kernels/image_order.h"

namespace plimsoll::kernels {

// A batch in pieces that stay in the first-level cache. Sums are kept for each piece and combined in the order of the
// slots, so that threads don't change them.
class ChannelPieces {
 public:
  explicit ChannelPieces(const ImageOrder& order);

  const ImageOrder& order() const { return order_; }
  int64_t count() const { return order_.samples() * blocks_ * per_plane_; }
  // Slots of a sample are consecutive; each has a number for every channel, padding included.
  int64_t slots() const { return order_.samples() * per_plane_; }
  int64_t slots_per_sample() const { return per_plane_; }
  int64_t pixels(int64_t slot) const {
    const int64_t first = slot % per_plane_ * step_;
    return std::min(step_, order_.pixels() - first);
  }
  int64_t numbers() const { return slots() * order_.padded_channels(); }
  int64_t grain() const { return std::max<int64_t>(1, 8192 / (step_ * order_.block())); }

  // The pieces of some blocks of channels of all samples: small enough that a second pass finds them in the cache.
  std::vector<ChannelPieces> parts(int tensors) const;
  int64_t first_channel() const { return first_block_ * order_.block(); }
  int64_t last_channel() const { return std::min(order_.channels(), (first_block_ + blocks_) * order_.block()); }

  struct Piece {
    int64_t at;     // index of its first element
    int64_t count;  // of elements
    int64_t sample;
    int64_t channel;  // first of the block
    int64_t numbers;  // index of its first number among those of all slots
  };
  Piece piece(int64_t i) const;

 private:
  ImageOrder order_;
  int64_t per_plane_;
  int64_t step_;  // pixels in a piece
  int64_t first_block_ = 0;
  int64_t blocks_;
};

// (x - center) scale + shift, numbers for each channel (padding included) and, if the stride says so, each sample.
struct ChannelAffine {
  const float* center;
  const float* scale;
  const float* shift;
  int64_t sample_stride = 0;
};

// Where the gradient of an activation is zero: outside of (0, high) of the activated value.
struct ChannelMask {
  enum class From : uint8_t { None, Output, Input };
  From from = From::None;
  float high = 0;
  const float* y = nullptr;          // From::Output: the activated value
  const ChannelAffine forward = {};  // From::Input: how it was computed
};

// Mean, and sum of squared distances from it, for each slot and channel.
void measure_moments(const ChannelPieces& pieces, const float* x, float* mean, float* squares);
// y = activation(affine(x)); y may be x.
void apply_affine(const ChannelPieces& pieces, const ChannelAffine& affine, Activation activation, const float* x,
                  float* y);
// For each slot and channel the sums of g and of g (x - center), where g is dy under the mask.
void measure_products(const ChannelPieces& pieces, const float* center, int64_t sample_stride, const ChannelMask& mask,
                      const float* x, const float* dy, float* sums, float* products);
// dx = g slope + affine(x); dx may be dy or x.
void apply_gradient(const ChannelPieces& pieces, const ChannelAffine& affine, const float* slope,
                    const ChannelMask& mask, const float* x, const float* dy, float* dx);

}  // namespace plimsoll::kernels
