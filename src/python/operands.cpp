#include "python/operands.h"

#include <cstring>

#include <fmt/format.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "python/arrays.h"
#include "python/place.h"

namespace plimsoll::python {
namespace {

const Tensor* find_tensor(nb::handle given) {
  if (nb::isinstance<Tensor>(given)) return nb::inst_ptr<Tensor>(given);
  if (!PyList_Check(given.ptr()) && !PyTuple_Check(given.ptr())) return nullptr;
  for (nb::handle item : given)
    if (nb::isinstance<Tensor>(item)) return nb::inst_ptr<Tensor>(item);
  return nullptr;
}

DType number_type(nb::handle given) {
  if (PyBool_Check(given.ptr())) return DType::Bool;
  return PyFloat_Check(given.ptr()) || !PyIndex_Check(given.ptr()) ? DType::F32 : DType::I32;
}

// Beside a tensor a number takes its type, unless that would cut it off: 2 beside f32 is f32, 0.5 beside i32 is f32.
DType type_beside(DType number, DType like) {
  if (number == DType::F32 && !is_float(like)) return DType::F32;
  return number == DType::Bool && like != DType::Bool ? DType::Bool : like;
}

// Makes a constant in a graph; a functional model makes it again in the graph that it is called in.
using MakeConstant = std::function<Tensor(Graph&)>;

MakeConstant number_maker(double number, DType dtype) {
  return [=](Graph& graph) {
    const Tensor made = graph.scalar(static_cast<float>(number));
    return dtype == DType::F32 ? made : cast(made, dtype);
  };
}

std::vector<std::byte> converted(const HostArray& array) {
  std::vector<std::byte> numbers(static_cast<size_t>(array.count() * size_of(array.dtype)));
  if (array.foreign == Foreign::None)
    std::memcpy(numbers.data(), array.data, numbers.size());
  else
    convert_foreign(array.foreign, array.data, numbers.data(), array.count());
  return numbers;
}

MakeConstant array_maker(const HostArray& array, DType dtype) {
  Shape shape;
  for (const int64_t size : array.dims) shape.push_back(size);
  const auto numbers = std::make_shared<const std::vector<std::byte>>(converted(array));
  return [=, from = array.dtype](Graph& graph) {
    const Tensor made = graph.constant(from, shape, *numbers);
    return dtype == from ? made : cast(made, dtype);
  };
}

Tensor eager_number(nb::handle given, DType type, bool is_given, const ArgumentPlace& at) {
  const std::source_location where = place();
  if (type == DType::I64 || (type == DType::I32 && !is_given)) {
    const int64_t number = PyFloat_Check(given.ptr()) ? static_cast<int64_t>(to_double(given, at)) : to_int(given, at);
    if (type == DType::I64 || number != static_cast<int32_t>(number)) return scalar(number, where);
    return scalar(static_cast<int32_t>(number), where);
  }
  if (type == DType::Bool) return scalar(is_true(given, at), where);
  const Tensor number = scalar(static_cast<float>(to_double(given, at)), where);
  return type == DType::F32 ? number : cast(number, type, Name(where));
}

}  // namespace

Tensor Substitution::operator()(const Tensor& tensor) const {
  return !tensor.is_set() || tensor.is_eager() ? tensor : this->at(tensor.id());
}

Tensor Substitution::at(ValueId id) const {
  const auto at = tensors_.find(id);
  if (at == tensors_.end())
    throw Error("a functional model uses a tensor that does not depend on its inputs", ErrorKind::Usage);
  return at->second;
}

std::vector<Tensor> Substitution::operator()(const std::vector<Tensor>& tensors) const {
  std::vector<Tensor> are;
  for (const Tensor& tensor : tensors) are.push_back((*this)(tensor));
  return are;
}

Graph& Substitution::graph() const { return tensors_.begin()->second.graph(); }

std::shared_ptr<Functional> functional_of(std::span<const nb::handle> given) {
  for (const nb::handle one : given) {
    if (nb::isinstance<Symbol>(one)) return nb::inst_ptr<Symbol>(one)->functional;
    if (!PyList_Check(one.ptr()) && !PyTuple_Check(one.ptr())) continue;
    for (nb::handle item : one)
      if (nb::isinstance<Symbol>(item)) return nb::inst_ptr<Symbol>(item)->functional;
  }
  return nullptr;
}

Tensor tensor_of(nb::handle given, const ArgumentPlace& at, std::optional<DType> dtype, const Tensor& like,
                 Functional* functional) {
  if (nb::isinstance<Tensor>(given)) {
    const Tensor& tensor = *nb::inst_ptr<Tensor>(given);
    return !dtype || tensor.dtype() == *dtype ? tensor : cast(tensor, *dtype, name_here());
  }
  const bool is_number = PyFloat_Check(given.ptr()) || PyLong_Check(given.ptr());
  const bool is_eager = !like.is_set() || like.is_eager();
  DType type = dtype.value_or(DType::F32);
  if (is_number && !dtype) type = like.is_set() ? type_beside(number_type(given), like.dtype()) : number_type(given);
  if (is_number && is_eager) return eager_number(given, type, dtype.has_value() || like.is_set(), at);
  MakeConstant make;
  if (is_number) {
    make = number_maker(to_double(given, at), type);
  } else {
    const HostArray array = array_of(given, at, dtype);
    if (is_eager) {
      const bool lies_as_wanted = array.foreign == Foreign::None;
      const Tensor made = lies_as_wanted ? plimsoll::tensor(array.dtype, array.data, array.dims, place())
                                         : plimsoll::tensor(array.dtype, converted(array).data(), array.dims, place());
      return !dtype || *dtype == array.dtype ? made : cast(made, *dtype, name_here());
    }
    make = array_maker(array, dtype.value_or(array.dtype));
  }
  const Tensor made = make(like.graph());
  if (functional != nullptr)
    functional->calls.push_back(
        {{}, {made.id()}, [make](const Substitution& instead) { return std::vector<Tensor>{make(instead.graph())}; }});
  return made;
}

Tensor CallPlace::tensor(const char* argument, nb::handle given) const {
  if (nb::isinstance<Tensor>(given)) return *nb::inst_ptr<Tensor>(given);
  if (given.is_none()) refuse_argument({function_, argument}, "a tensor or numbers", given);
  Tensor like;
  for (const nb::handle one : given_)
    if (const Tensor* found = find_tensor(one)) {
      like = *found;
      break;
    }
  return tensor_of(given, {function_, argument}, {}, like, functional_of(given_).get());
}

std::vector<Tensor> CallPlace::tensors(const char* argument, nb::handle given) const {
  if (nb::isinstance<Tensor>(given) || PyUnicode_Check(given.ptr()) || PySequence_Check(given.ptr()) == 0)
    refuse_argument({function_, argument}, "a list of tensors", given);
  std::vector<Tensor> tensors;
  for (nb::handle item : given) tensors.push_back(tensor(argument, item));
  return tensors;
}

nb::object to_python(const Tensor& tensor) { return tensor.is_set() ? nb::cast(tensor) : nb::none(); }

nb::object to_python(const Tensor& tensor, const std::shared_ptr<Functional>& functional) {
  if (functional == nullptr || !tensor.is_set()) return to_python(tensor);
  return nb::cast(Symbol(tensor, functional));
}

nb::object to_python(const std::vector<Tensor>& tensors, const std::shared_ptr<Functional>& functional) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(to_python(tensor, functional));
  return list;
}

}  // namespace plimsoll::python
