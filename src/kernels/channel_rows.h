// What normalising by channel takes beside its passes: numbers for each channel in workspace, and statistics made of
// those of all pieces.
#pragma once

#include <algorithm>

#include "kernels/channel_norm.h"
#include "kernels/kernel.h"

namespace plimsoll::kernels {

// The order in which the passes walk a value: not padded before a sigmoid, which would fill the padding with 0.5.
ImageOrder order_for(const ConcreteType& type, Activation activation);

// Rows with a number for each channel, padding included, one after another in workspace.
class ChannelRows {
 public:
  ChannelRows(const Args& args, int64_t offset, const ImageOrder& order)
      : at_(static_cast<float*>(args.workspace) + offset), stride_(round_up(order.padded_channels(), 16)) {}
  float* operator[](int row) const { return at_ + row * stride_; }
  static int64_t floats(const ImageOrder& order, int rows) { return rows * round_up(order.padded_channels(), 16); }

 private:
  float* at_;
  int64_t stride_;
};

inline void fill_padding(const ImageOrder& order, float* row) {
  std::fill(row + order.channels(), row + order.padded_channels(), 0.0F);
}

// The affine form of the forward pass. The backward pass computes its mask from it and must get the same bits.
void fill_affine(const ChannelPieces& pieces, const float* mean, const float* variance, const float* gamma,
                 const float* beta, double epsilon, const ChannelRows& rows);
inline ChannelAffine affine_of(const ChannelRows& rows) { return {rows[0], rows[1], rows[2]}; }

// x, gamma, beta, mean, variance and whatever else an operator has -> y, with its setting "activation".
Prepared prepare_by_statistics(const Facts& facts, double epsilon);

// Mean and biased variance of each channel from those of the slots.
void combine_slots(const ChannelPieces& pieces, const float* means, const float* squares, float* mean, float* variance);

// The sum over slots of numbers of a channel.
double total_of_slots(const ChannelPieces& pieces, const float* numbers, int64_t channel);

}  // namespace plimsoll::kernels
