// Operators, made from the list in <plimsoll/ops.inc>: their names, defaults and descriptions come from there.
#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <plimsoll/ops.h>
#include "python/bind.h"
#include "python/operands.h"
#include "python/place.h"
#include "python/types.h"

namespace plimsoll::python {
namespace {

template <class T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<std::string_view> {
  using type = std::string;
};
template <class T>
using StoredType = typename StoredAs<std::remove_cvref_t<T>>::type;

template <class T>
struct Parameter {
  const char* name;
  std::optional<StoredType<T>> otherwise = {};  // unset: it must be given
};
template <class T>
Parameter<T> with_default(const char* name, StoredType<T> otherwise) {
  return {name, std::move(otherwise)};
}

template <class T>
StoredType<T> read(const Parameter<T>& parameter, nb::handle given, const CallPlace& call) {
  using Type = StoredType<T>;
  const ArgumentPlace at{call.function(), parameter.name};
  if (given.is_none() && parameter.otherwise) return *parameter.otherwise;
  if constexpr (std::is_same_v<Type, Tensor>) return call.tensor(parameter.name, given);
  if constexpr (std::is_same_v<Type, std::vector<Tensor>>) return call.tensors(parameter.name, given);
  if constexpr (std::is_same_v<Type, bool>) return is_true(given, at);
  if constexpr (std::is_same_v<Type, int> || std::is_same_v<Type, int64_t>) return static_cast<Type>(to_int(given, at));
  if constexpr (std::is_same_v<Type, double>) return to_double(given, at);
  if constexpr (std::is_same_v<Type, std::string>) return to_text(given, at);
  if constexpr (std::is_same_v<Type, DType>) return to_dtype(given, at);
  if constexpr (std::is_same_v<Type, Dims>) return to_dims(given, at);
  if constexpr (std::is_same_v<Type, Shape>) return to_shape(given, at);
  if constexpr (std::is_same_v<Type, Size2d>) return to_size(given, at);
  if constexpr (std::is_same_v<Type, Window>) return to_window(given, at);
}

// A shape with one -1, which stands for all other elements.
nb::object filled_shape(nb::handle x, nb::handle given) {
  if (!nb::isinstance<Tensor>(x) ||
      (!PyTuple_Check(given.ptr()) && !PyList_Check(given.ptr()) && !PyLong_Check(given.ptr())))
    return nb::borrow(given);
  nb::list sizes;
  if (PyLong_Check(given.ptr()))
    sizes.append(given);
  else
    sizes = nb::list(given);
  Dim known(1);
  size_t open = nb::len(sizes);
  for (size_t i = 0; i < nb::len(sizes); ++i) {
    const nb::handle size = sizes[i];
    if (PyLong_Check(size.ptr()) && PyLong_AsLongLong(size.ptr()) == -1) {
      if (open != nb::len(sizes)) throw nb::value_error("reshape: only one size can be -1");
      open = i;
    } else {
      known = known * to_shape(size, {"reshape", "shape"})[0];
    }
  }
  if (open == nb::len(sizes)) return sizes;
  const Dim all = element_count(nb::inst_ptr<Tensor>(x)->shape());
  const bool is_batch = all.is_batch() && !known.is_batch();
  if (known.count() == 0 || all.count() % known.count() != 0 || (known.is_batch() && !all.is_batch()))
    throw nb::value_error(
        fmt::format("reshape: {} elements can't be cut into parts of {}", to_string(all), to_string(known)).c_str());
  const int64_t rest = all.count() / known.count();
  if (is_batch)
    sizes[open] = rest == 1 ? nb::none() : nb::cast(Dim::batch(rest));
  else
    sizes[open] = nb::int_(rest);
  return sizes;
}

const ops::Function& described(std::string_view name) {
  for (const ops::Function& function : ops::functions())
    if (function.name == name) return function;
  std::abort();  // the list is the one that this file is made of
}

// As the C++ list writes it, in Python's words.
std::string python_type(std::string_view type, bool may_be_none) {
  std::string text = type == "Tensor"                     ? "TensorLike"
                     : type == "std::vector<Tensor>"      ? "Sequence[TensorLike]"
                     : type == "double"                   ? "float"
                     : type == "int" || type == "int64_t" ? "int"
                     : type == "std::string_view"         ? "str"
                     : type == "Dims"                     ? "int | Sequence[int]"
                     : type == "Shape"                    ? "int | Sequence[int | Dim | None]"
                     : type == "Size2d"                   ? "int | tuple[int, int]"
                     : type == "DType"                    ? "DTypeLike"
                                                          : std::string(type);
  return may_be_none ? text + " | None" : text;
}

std::string python_default(std::string_view otherwise) {
  if (otherwise == "{}") return "None";
  if (otherwise == "true") return "True";
  if (otherwise == "false") return "False";
  if (otherwise.starts_with('{')) return "(" + std::string(otherwise.substr(1, otherwise.size() - 2)) + ")";
  return std::string(otherwise);
}

std::string signature_of(const ops::Function& function) {
  std::string text = fmt::format("def {}(", function.name);
  for (const ops::Argument& argument : function.arguments) {
    const bool is_open = argument.otherwise == "{}";
    text += fmt::format("{}: {}", argument.name, python_type(argument.type, is_open));
    if (!argument.otherwise.empty()) text += " = " + python_default(argument.otherwise);
    text += ", ";
  }
  return text + "name: str = '') -> " + (function.result == "Tensor" ? "Tensor" : "list[Tensor]");
}

// One call, which a functional model can make again.
template <class R, class... P>
struct Call {
  R (*function)(P..., Name);
  std::tuple<StoredType<P>...> given;

  R operator()(const Name& name) const {
    return std::apply([&](const auto&... one) { return function(one..., name); }, given);
  }
  void keep_in(Functional& functional, const R& result) const {
    Functional::Call kept;
    std::apply([&](const auto&... one) { (note(one, kept.from), ...); }, given);
    note(result, kept.to);
    kept.again = [function = function, given = given](const Substitution& instead) {
      const R made = std::apply([&](const auto&... one) { return function(instead(one)..., Name()); }, given);
      if constexpr (std::is_same_v<R, Tensor>)
        return std::vector<Tensor>{made};
      else
        return made;
    };
    functional.calls.push_back(std::move(kept));
  }

 private:
  template <class T>
  static void note(const T& one, std::vector<ValueId>& ids) {
    if constexpr (std::is_same_v<T, Tensor>)
      if (one.is_set() && !one.is_eager()) ids.push_back(one.id());
    if constexpr (std::is_same_v<T, std::vector<Tensor>>)
      for (const Tensor& tensor : one) note(tensor, ids);
  }
};

template <class>
using AnyHandle = nb::handle;

template <class R, class... P>
void add_op(nb::module_& module, const char* name, std::type_identity_t<R (*)(P..., Name)> function,
            Parameter<P>... parameters) {
  const ops::Function& about = described(name);
  const bool is_reshape = std::string_view(name) == "reshape";
  module.def(
      name,
      [=, all = std::tuple(parameters...)](AnyHandle<P>... given, nb::handle label) {
        std::array<nb::handle, sizeof...(P)> arguments{given...};
        nb::object shape;
        if constexpr (sizeof...(P) == 2) {
          if (is_reshape) {
            shape = filled_shape(arguments[0], arguments[1]);
            arguments[1] = shape;
          }
        }
        const CallPlace place(name, arguments);
        const std::string text = label.is_none() ? std::string() : to_text(label, {name, "name"});
        const auto functional = functional_of(arguments);
        const Call<R, P...> call = [&]<size_t... I>(std::index_sequence<I...>) {
          return Call<R, P...>{function, {read(std::get<I>(all), arguments[I], place)...}};
        }
        (std::index_sequence_for<P...>());
        const Name here = name_here(text);
        const R result = [&] {
          const nb::gil_scoped_release release;
          return call(here);
        }();
        if (functional != nullptr) call.keep_in(*functional, result);
        return to_python(result, functional);
      },
      (nb::arg(parameters.name) = nb::none())...,  // read() refuses None where something must be given

      nb::arg("name") = nb::none(), nb::sig(kept(signature_of(about))), kept(fmt::format("{}.", about.description)));
}

}  // namespace

void bind_ops(nb::module_& module) {
  nb::module_ list = module.def_submodule("ops", "Every operator as a function over tensors.");
#define OPS(file)
#define ARG(type, argument) \
  Parameter<type> { #argument }
#define OPT(type, argument, ...) with_default<type>(#argument, __VA_ARGS__)
#define FUN(result, function, description, ...) add_op<result>(list, #function, &ops::function, __VA_ARGS__);
#include <plimsoll/ops.inc>
#undef OPS
#undef ARG
#undef OPT
#undef FUN
}

}  // namespace plimsoll::python
