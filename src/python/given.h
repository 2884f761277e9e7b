// Arguments that may be written in several ways: read in the body of a function, so that a mistake is told with the
// names of the function and the argument, while signatures show what can be written.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

#include "python/types.h"

namespace plimsoll::python {

// The function whose arguments are read on this thread.
class Reading {
 public:
  explicit Reading(const char* function) : before_(std::exchange(current_, function)) {}
  ~Reading() { current_ = before_; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  static const char* function() { return current_; }

 private:
  const char* const before_;
  static inline thread_local const char* current_ = "";
};

struct SizeOf {};        // 3 or (3, 5)
struct PaddingOf {};     // "same" ...
struct InitOf {};        // "zeros", an Init, or None
struct ActivationOf {};  // a name, or None
struct ShapeOf {};
struct DTypeOf {};
struct BytesOf {};
struct PathOf {};
struct RateOf {};  // a number or a Schedule

template <class T>
struct Given {
  nb::handle value;
  bool is_none() const { return value.is_none(); }
};

inline layers::Size size_in(Given<SizeOf> given, const char* argument) {
  const Size2d size = to_size(given.value, {Reading::function(), argument});
  return {size[0], size[1]};
}
inline std::optional<layers::Size> optional_size_in(Given<SizeOf> given, const char* argument) {
  if (given.is_none()) return std::nullopt;
  return size_in(given, argument);
}
inline layers::Padding padding_in(Given<PaddingOf> given, const char* argument = "padding") {
  return to_padding(given.value, {Reading::function(), argument});
}
// None and "glorot_uniform" leave the choice to the layer.
inline std::optional<Init> optional_init_in(Given<InitOf> given, const char* argument) {
  if (given.is_none()) return std::nullopt;
  if (PyUnicode_Check(given.value.ptr()) && nb::cast<nb::str>(given.value).equal(nb::str("glorot_uniform")))
    return std::nullopt;
  return to_init(given.value, {Reading::function(), argument});
}
inline Init init_in(Given<InitOf> given, const char* argument) {
  return to_init(given.value, {Reading::function(), argument});
}
inline std::string activation_in(Given<ActivationOf> given) {
  return given.is_none() ? std::string() : to_text(given.value, {Reading::function(), "activation"});
}
inline Bytes bytes_in(Given<BytesOf> given, const char* argument, Bytes otherwise = 0) {
  return given.is_none() ? otherwise : to_bytes(given.value, {Reading::function(), argument});
}
inline std::string path_in(Given<PathOf> given, const char* argument = "path") {
  return given.is_none() ? std::string() : to_text(given.value, {Reading::function(), argument});
}
inline DType dtype_in(Given<DTypeOf> given, const char* argument = "dtype") {
  return to_dtype(given.value, {Reading::function(), argument});
}

}  // namespace plimsoll::python

namespace nanobind::detail {

// None reaches the function, which reads or refuses it.
template <class T>
struct has_arg_defaults<plimsoll::python::Given<T>> : std::true_type {};

#define PLIMSOLL_GIVEN(kind, text)                                                                                  \
  template <>                                                                                                       \
  struct type_caster<plimsoll::python::Given<plimsoll::python::kind>> {                                             \
    NB_TYPE_CASTER(plimsoll::python::Given<plimsoll::python::kind>, const_name(text))                               \
    bool from_python(handle given, uint8_t, cleanup_list*) noexcept {                                               \
      value.value = given;                                                                                          \
      return true;                                                                                                  \
    }                                                                                                               \
    static handle from_cpp(const Value& given, rv_policy, cleanup_list*) noexcept { return given.value.inc_ref(); } \
  };
PLIMSOLL_GIVEN(SizeOf, "int | tuple[int, int]")
PLIMSOLL_GIVEN(PaddingOf, "str | int | tuple[int, ...]")
PLIMSOLL_GIVEN(InitOf, "Init | str")
PLIMSOLL_GIVEN(ActivationOf, "str")
PLIMSOLL_GIVEN(ShapeOf, "int | Sequence[int | None]")
PLIMSOLL_GIVEN(DTypeOf, "DTypeLike")
PLIMSOLL_GIVEN(BytesOf, "int | str")
PLIMSOLL_GIVEN(RateOf, "float | Schedule")
PLIMSOLL_GIVEN(PathOf, "str | os.PathLike[str]")
#undef PLIMSOLL_GIVEN

}  // namespace nanobind::detail
