// Every operator as a function over tensors. The list itself is ops.inc: each has a last argument `Name name = {}`.
//
//   Tensor y = relu(matmul(x, w) + b);
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <plimsoll/tensor.h>
#include <plimsoll/window.h>

namespace plimsoll::ops {

#define OPS(file)
#define ARG(type, argument) type argument
#define OPT(type, argument, ...) type argument = __VA_ARGS__
#define FUN(result, function, description, ...) result function(__VA_ARGS__, Name name = {});
#include <plimsoll/ops.inc>
#undef OPS
#undef ARG
#undef OPT
#undef FUN

// The same list as data, for bindings, documentation and importers.
struct Argument {
  std::string_view type;  // as it is written in C++, without const and &
  std::string_view name;
  std::string_view otherwise;  // the default as it is written in C++; empty: it must be given
};
struct Function {
  std::string_view name;
  std::string_view result;
  std::string_view description;
  std::string_view file;            // src/ops/FILE.cpp holds its operator
  std::vector<Argument> arguments;  // but for the name, which every function takes last
};
std::span<const Function> functions();

}  // namespace plimsoll::ops

namespace plimsoll {

#define OPS(file)
#define ARG(type, argument)
#define OPT(type, argument, ...)
#define FUN(result, function, description, ...) using ops::function;
#include <plimsoll/ops.inc>
#undef OPS
#undef ARG
#undef OPT
#undef FUN

inline Tensor operator+(Tensor a, Tensor b) { return add(a, b); }
inline Tensor operator-(Tensor a, Tensor b) { return sub(a, b); }
inline Tensor operator*(Tensor a, Tensor b) { return mul(a, b); }
inline Tensor operator/(Tensor a, Tensor b) { return div(a, b); }
inline Tensor operator-(Tensor x) { return neg(x); }
inline Tensor operator+(Tensor x, double number) { return scale(x, 1, number); }
inline Tensor operator+(double number, Tensor x) { return scale(x, 1, number); }
inline Tensor operator-(Tensor x, double number) { return scale(x, 1, -number); }
inline Tensor operator-(double number, Tensor x) { return scale(x, -1, number); }
inline Tensor operator*(Tensor x, double number) { return scale(x, number); }
inline Tensor operator*(double number, Tensor x) { return scale(x, number); }
inline Tensor operator/(Tensor x, double number) { return scale(x, 1 / number); }

}  // namespace plimsoll
