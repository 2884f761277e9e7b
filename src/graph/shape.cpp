#include "graph/shape.h"

#include <charconv>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {

void Dim::refuse(int64_t size) {
  throw Error(fmt::format("a dimension can't be {}; write Dim::batch() for one that grows with the batch", size));
}

int64_t Dim::fixed() const {
  if (is_batch()) throw Error("a size that must be fixed depends on the batch (" + to_string(*this) + ")");
  return code_;
}

Dim operator*(Dim a, Dim b) {
  if (a.is_batch() && b.is_batch())
    throw Error("a dimension can't be batch x batch; keep the batch in one dimension of the tensor");
  int64_t product = 0;
  if (__builtin_mul_overflow(a.count(), b.count(), &product))
    throw Error(fmt::format("a size of {} x {} is beyond 64 bits", to_string(a), to_string(b)));
  return a.is_batch() || b.is_batch() ? Dim::batch(product) : Dim(product);
}

Dim operator/(Dim a, int64_t b) {
  if (b <= 0 || a.count() % b != 0) throw Error(fmt::format("dimension {} does not divide by {}", to_string(a), b));
  return a.is_batch() ? Dim::batch(a.count() / b) : Dim(a.count() / b);
}

template <class T>
void Ranked<T>::too_long() {
  throw Error(fmt::format("a tensor has at most {} dimensions", kMaxRank));
}
template <class T>
void Ranked<T>::outside(int index, int end) {
  throw Error(end <= 0 ? std::string("a list of dimensions is empty and has no last one")
                       : fmt::format("dimension {} is not one of {}: they are numbered from 0", index, end));
}
template class Ranked<Dim>;
template class Ranked<int64_t>;

Dims at_batch(const Shape& shape, int64_t batch) {
  Dims dims;
  for (const Dim dim : shape) dims.push_back(dim.at(batch));
  return dims;
}

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

Dim element_count(const Shape& shape) {
  Dim count = 1;
  for (const Dim dim : shape) count = count * dim;
  return count;
}

std::string to_string(Dim dim) {
  if (!dim.is_batch()) return std::to_string(dim.count());
  return dim.count() == 1 ? "B" : std::to_string(dim.count()) + "B";
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + to_string(shape[i]);
  return text + "]";
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ",")); }

std::string to_string(const TensorType& type) { return std::string(name_of(type.dtype)) + to_string(type.shape); }

namespace graph {

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int lead = longer.rank() - shorter.rank();
  Shape result = longer;
  for (int i = 0; i < shorter.rank(); ++i) {
    const Dim one = longer[lead + i];
    const Dim other = shorter[i];
    if (one == other || other == Dim(1)) continue;
    if (!(one == Dim(1)))
      throw Error(fmt::format("shapes {} and {} do not broadcast: {} against {}", to_string(a), to_string(b),
                              to_string(one), to_string(other)));
    result[lead + i] = other;
  }
  return result;
}

int64_t elements_before_batch(const Shape& shape) {
  int64_t elements = 1;
  for (const Dim dim : shape) {
    if (dim.is_batch()) break;
    elements *= dim.count();
  }
  return elements;
}

Dim parse_dim(std::string_view text) {
  const bool batch = text.ends_with('B');
  std::string_view digits = batch ? text.substr(0, text.size() - 1) : text;
  if (batch && digits.empty()) return Dim::batch();
  int64_t size = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (status != std::errc() || end != digits.data() + digits.size() || size < 0 || (batch && size == 0))
    throw Error(fmt::format("'{}' is not a dimension; write 32, B or 128B", text));
  return batch ? Dim::batch(size) : Dim(size);
}

Shape parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    throw Error(fmt::format("'{}' is not a shape; write it like [B,3,224,224]", text));
  text = text.substr(1, text.size() - 2);
  Shape shape;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    shape.push_back(parse_dim(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) throw Error("a shape ends with a comma");
  }
  return shape;
}

}  // namespace graph

}  // namespace plimsoll
