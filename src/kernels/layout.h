// The order of a tensor's elements in memory: row-major, or one that oneDNN asked for.
#pragma once

#include <memory>
#include <string>

#include <oneapi/dnnl/dnnl.hpp>

#include <plimsoll/dtype.h>
#include <plimsoll/tensor.h>

namespace plimsoll::kernels {

class Layout {
 public:
  Layout() = default;  // row-major
  // A description that means row-major becomes exactly that, so that equal orders compare equal.
  explicit Layout(const dnnl::memory::desc& desc);

  bool is_plain() const { return desc_ == nullptr; }
  // Bytes in memory, padding included.
  Bytes bytes(DType dtype, const Dims& dims) const;
  // True when the buffer holds padding between or after the elements.
  bool is_padded(DType dtype, const Dims& dims) const;
  // A description of another rank than `dims` is fine as long as row-major means the same for both: grouped kernels
  // are [O,I/G,h,w] here and [G,O/G,I/G,h,w] in oneDNN.
  dnnl::memory::desc desc(DType dtype, const Dims& dims) const;
  // The same, with row-major written in the dimensions that `other` uses, so that a reorder can pair the two.
  dnnl::memory::desc desc_beside(const Layout& other, DType dtype, const Dims& dims) const;
  // The same order of elements for another element type.
  Layout retyped(DType from, DType to, const Dims& dims) const;
  // The same order of elements for another size of the first dimension, where that does not matter to the order.
  Layout with_samples(int64_t samples) const;
  friend bool operator==(const Layout& a, const Layout& b);

 private:
  std::shared_ptr<const dnnl::memory::desc> desc_;  // shared: tens of thousands of values have few layouts
};

dnnl::memory::data_type to_dnnl(DType dtype);
dnnl::memory::dims to_dnnl(const Dims& dims);
// Row-major, or any order that the primitive likes best.
dnnl::memory::desc plain_desc(DType dtype, const Dims& dims);
dnnl::memory::desc any_desc(DType dtype, const Dims& dims);
std::string to_string(const Layout& layout);  // "plain", "aBcd8b"

}  // namespace plimsoll::kernels
