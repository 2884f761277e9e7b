// Components, and views of the elements that are made of them.
#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/rows.h"

namespace plimsoll {

bool Component::is_fixed() const { return std::ranges::find(shape, -1) == shape.end(); }

Bytes Component::bytes() const { return element_count(is_fixed() ? shape : most) * size_of(dtype); }

std::string to_string(const ElementSpec& spec) {
  std::string text;
  for (const Component& component : spec)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", component.name, name_of(component.dtype),
                        to_string(component.shape));
  return text;
}

size_t ElementView::find(std::string_view name) const {
  for (size_t i = 0; i < spec_->size(); ++i)
    if ((*spec_)[i].name == name) return i;
  throw Error(fmt::format("an element has no component '{}'; it is {}", name, to_string(*spec_)), ErrorKind::Usage);
}

Dims ElementView::dims(size_t component) const {
  const Dims* const shapes = columns_[component].shapes;
  return shapes == nullptr ? spec_->at(component).shape : shapes[row_];
}

const void* ElementView::data(size_t component) const {
  return columns_[component].data + row_ * columns_[component].stride;
}

Feed ElementView::feed(Tensor placeholder, std::string_view name) const {
  const size_t component = find(name);
  return {placeholder, (*spec_)[component].dtype, data(component), bytes(component)};
}

Bytes ElementView::bytes(size_t component) const {
  return element_count(dims(component)) * size_of((*spec_)[component].dtype);
}

void ElementView::expect_type(size_t component, DType wanted) const {
  if (component >= spec_->size())
    throw Error(fmt::format("component {} of an element with {}: {}", component, spec_->size(), to_string(*spec_)),
                ErrorKind::Usage);
  const Component& of = (*spec_)[component];
  if (of.dtype != wanted)
    throw Error(
        fmt::format("component '{}' is {} and can't be read as {}", of.name, name_of(of.dtype), name_of(wanted)),
        ErrorKind::Usage);
}

void ElementSlot::set_dims(size_t component, const Dims& dims) const {
  const Component& of = spec().at(component);
  bool fits = dims.rank() == of.shape.rank();
  for (int axis = 0; fits && axis < dims.rank(); ++axis)
    fits = of.shape[axis] == -1 ? dims[axis] >= 0 && dims[axis] <= of.most[axis] : dims[axis] == of.shape[axis];
  if (!fits)
    throw Error(fmt::format("component '{}' can't be {}: its shape is {}, at most {}", of.name, to_string(dims),
                            to_string(of.shape), to_string(of.most)),
                ErrorKind::BadData);
  if (Dims* const shapes = view_.columns_[component].shapes; shapes != nullptr) shapes[view_.row_] = dims;
}

}  // namespace plimsoll
