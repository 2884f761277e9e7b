// The elements of a value as they lie in memory, without what its layout pads: for whoever counts, sums or looks at
// them in any order.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

class ElementRuns {
 public:
  // In the layout of the value, or row-major where that layout pads in a way that is not known here.
  explicit ElementRuns(const ConcreteType& type);

  const Layout& layout() const { return layout_; }
  // Elements and padding.
  int64_t places() const { return places_; }

  // visit(first, count) for the elements within the places [first, last), run by run.
  template <class Visit>
  void for_each(int64_t first, int64_t last, const Visit& visit) const {
    if (digits_.empty()) return visit(first, last - first);
    int64_t begin = first, end = first;
    for (int64_t row = first / row_; row * row_ < last; ++row) {
      const int64_t from = std::max(first, row * row_), to = std::min(last, row * row_ + elements_of(row));
      if (from >= to) continue;
      if (from != end) {
        if (begin < end) visit(begin, end - begin);
        begin = from;
      }
      end = to;
    }
    if (begin < end) visit(begin, end - begin);
  }

 private:
  // A dimension, or a block of it, as a digit of the place: the first counts most.
  struct Digit {
    int dimension;
    int64_t size;
    int64_t weight;  // of the digit in the index of its dimension
  };
  bool set_digits(const ConcreteType& type);
  int64_t elements_of(int64_t row) const;

  Layout layout_;
  int64_t places_;
  std::vector<Digit> digits_;  // without the innermost block, which is a row; empty: nothing is padded
  std::vector<int64_t> dims_;
  int row_dimension_ = 0;
  int64_t row_ = 1;
};

}  // namespace plimsoll::kernels
