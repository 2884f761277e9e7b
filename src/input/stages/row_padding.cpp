#include "input/stages/row_padding.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/element.h"

namespace plimsoll::input {
namespace {

ElementBytes padding_of(DType dtype, double value, const std::string& name) {
  if (const auto padding = element_bytes(dtype, value)) return *padding;
  throw Error(fmt::format("padded_batch: '{}' is {} and can't be padded with {}; try 0", name, name_of(dtype), value),
              ErrorKind::Usage);
}

// Works from the end to the front, so that a number is moved before it is overwritten: its new place is the same or
// further back.
void spread(std::byte* row, const Dims& shape, const Dims& target, const ElementBytes& padding) {
  if (shape == target) return;
  const int last = target.rank() - 1;
  const Bytes size = padding.size, run = shape[last] * size, target_run = target[last] * size;
  const int64_t runs = element_count(target) / std::max<int64_t>(target[last], 1);
  for (int64_t at = runs - 1; at >= 0; --at) {
    // Where this run lies in the element before padding, if it is there.
    int64_t rest = at, source = 0, scale = 1;
    bool is_inside = true;
    for (int axis = last - 1; axis >= 0; --axis) {
      const int64_t index = rest % target[axis];
      rest /= target[axis];
      is_inside = is_inside && index < shape[axis];
      source += index * scale;
      scale *= shape[axis];
    }
    std::byte* const to = row + at * target_run;
    if (is_inside) std::memmove(to, row + source * run, static_cast<size_t>(run));
    const int64_t kept = is_inside ? shape[last] : 0;
    fill_elements(to + kept * size, target[last] - kept, padding);
  }
}

}  // namespace

RowPadding::RowPadding(const ElementSpec& spec, const PaddedBatchOptions& options) {
  const auto expect_count = [&](size_t count, const char* what) {
    if (count != 0 && count != spec.size())
      throw Error(
          fmt::format("padded_batch: {} {} for {} components; give one for each or none", count, what, spec.size()),
          ErrorKind::Usage);
  };
  expect_count(options.shapes.size(), "shapes");
  expect_count(options.values.size(), "values");
  for (size_t i = 0; i < spec.size(); ++i) {
    Target target;
    target.shape = options.shapes.empty() ? Dims::filled(spec[i].shape.rank(), -1) : options.shapes[i];
    target.value = options.values.empty() ? 0 : options.values[i];
    target.most = target.shape;
    bool fits = target.shape.rank() == spec[i].shape.rank();
    for (int axis = 0; fits && axis < target.shape.rank(); ++axis) {
      int64_t& size = target.shape[axis];
      if (size == -1) {
        size = spec[i].shape[axis];
        target.most[axis] = spec[i].most[axis];
      }
      fits = size == -1 || size >= spec[i].shape[axis];
    }
    if (!fits)
      throw Error(fmt::format("padded_batch: '{}' {} can't be padded to {}", spec[i].name, to_string(spec[i].shape),
                              to_string(options.shapes[i])),
                  ErrorKind::Usage);
    target.is_padded = !spec[i].is_fixed() || target.shape != spec[i].shape;
    if (target.is_padded) padding_of(spec[i].dtype, target.value, spec[i].name);
    targets_.push_back(target);
  }
}

ElementSpec RowPadding::padded(const ElementSpec& spec) const {
  ElementSpec padded = spec;
  for (size_t i = 0; i < targets_.size(); ++i) {
    padded[i].shape = targets_[i].shape;
    padded[i].most = targets_[i].most;
  }
  return padded;
}

std::string RowPadding::text() const {
  std::string text;
  for (const Target& target : targets_)
    text +=
        fmt::format(", {}{}", to_string(target.shape), target.value == 0 ? "" : fmt::format(" with {}", target.value));
  return text;
}

Bytes RowPadding::row_bytes(const Component& component, size_t index) const {
  return is_empty() ? component.bytes() : element_count(targets_[index].most) * size_of(component.dtype);
}

Dims RowPadding::fixed_shape(const Component& component, size_t index) const {
  return is_empty() ? component.shape : targets_[index].shape;
}

void RowPadding::pad(const Component& component, size_t index, const Rows& rows, Dims* shape) const {
  const Target& target = targets_[index];
  const auto shape_of = [&](int64_t row) {
    const Dims* const own = rows.shape(index, row);
    return own == nullptr ? component.shape : *own;
  };
  Dims goal = target.shape;
  for (int64_t row = 0; row < rows.count(); ++row)
    for (int axis = 0; axis < goal.rank(); ++axis) {
      if (target.shape[axis] == -1) goal[axis] = std::max(goal[axis], shape_of(row)[axis]);
      if (goal[axis] < shape_of(row)[axis])
        throw Error(fmt::format("padded_batch: component '{}' is {} in an element, larger than {}", component.name,
                                to_string(shape_of(row)), to_string(target.shape)),
                    ErrorKind::BadData);
    }
  const ElementBytes padding = padding_of(component.dtype, target.value, component.name);
  const Bytes bytes = element_count(goal) * padding.size;
  // Rows move towards the front only, so the rows after them are not overwritten.
  for (int64_t row = 0; row < rows.count(); ++row) {
    spread(rows.at(index, row), shape_of(row), goal, padding);
    std::memmove(rows.at(index, 0) + row * bytes, rows.at(index, row), static_cast<size_t>(bytes));
  }
  if (shape != nullptr) *shape = goal;
}

}  // namespace plimsoll::input
