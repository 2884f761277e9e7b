// The order of a tensor's elements in memory: row-major, or one that oneDNN asked for.
#pragma once

#include <memory>
#include <string>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>

namespace plimsoll::kernels {

struct DnnlDesc;  // a dnnl::memory::desc: dnnl_layout.h

class Layout {
 public:
  Layout() = default;  // row-major
  // A description that means row-major becomes exactly that, so that equal orders compare equal.
  explicit Layout(const DnnlDesc& desc);

  bool is_plain() const { return desc_ == nullptr; }
  // Bytes in memory, padding included.
  Bytes bytes(DType dtype, const Dims& dims) const;
  // True when the buffer holds padding between or after the elements.
  bool is_padded(DType dtype, const Dims& dims) const;
  // A description of another rank than `dims` is fine as long as row-major means the same for both: grouped filters
  // are [O,I/G,h,w] here and [G,O/G,I/G,h,w] in oneDNN.
  DnnlDesc desc(DType dtype, const Dims& dims) const;
  // The same, with row-major written in the dimensions that `other` uses, so that a reorder can pair the two.
  DnnlDesc desc_beside(const Layout& other, DType dtype, const Dims& dims) const;
  // The same order of elements for another element type.
  Layout retyped(DType from, DType to, const Dims& dims) const;
  // The same order of elements for another size of the first dimension, where that does not matter to the order.
  Layout with_samples(int64_t samples) const;
  friend bool operator==(const Layout& a, const Layout& b);

 private:
  std::shared_ptr<const DnnlDesc> desc_;  // shared: tens of thousands of values have few layouts
};

std::string to_string(const Layout& layout);  // "plain", "aBcd8b"

}  // namespace plimsoll::kernels
