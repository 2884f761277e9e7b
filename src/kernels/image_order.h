// How the elements of an image batch [N,C,H,W] lie: planes of pixels, each pixel a block of 1, 8 or 16 channels.
#pragma once

#include "kernels/kernel.h"

namespace plimsoll::kernels {

class ImageOrder {
 public:
  ImageOrder() = default;
  // `dims` has at least two dimensions; all after the second are pixels.
  ImageOrder(const Layout& layout, const Dims& dims);
  ImageOrder(const Dims& dims, int64_t block);

  // False for orders that are not made of such planes; order_or_plain gives the plain order then.
  bool is_known() const { return block_ > 0; }
  int64_t samples() const { return samples_; }
  int64_t channels() const { return channels_; }
  int64_t pixels() const { return pixels_; }
  int64_t block() const { return block_; }
  int64_t blocks() const { return (channels_ + block_ - 1) / block_; }
  int64_t padded_channels() const { return blocks() * block_; }
  int64_t planes() const { return samples_ * blocks(); }

  // The same order for values of other sizes or another type.
  Layout layout(DType dtype, const Dims& dims) const;
  // Images of one pixel stay blocked, which Layout would call plain: a primitive wants all of its operands in one
  // order.
  DnnlDesc desc(DType dtype, const Dims& dims) const;

 private:
  int64_t samples_ = 0;
  int64_t channels_ = 0;
  int64_t pixels_ = 0;
  int64_t block_ = 0;
};

// For images of one pixel, plain and blocked orders are the same bytes: the blocked one, if the channels fill its
// blocks.
ImageOrder blocked_if_free(const ImageOrder& order, const Dims& dims);

// The order of `type` if it is known, else the plain one.
ImageOrder order_or_plain(const ConcreteType& type);

}  // namespace plimsoll::kernels
