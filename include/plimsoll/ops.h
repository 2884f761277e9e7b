// Every operator as a function over tensors. The list itself is ops.inc; each function has a last argument
// `Name name = {}`.
//
//   Tensor y = relu(matmul(x, w) + b);
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>

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

inline Tensor gather(Tensor table, Tensor rows, Name name) { return gather(table, rows, 0, 0, name); }
inline Tensor one_hot(Tensor labels, int64_t classes, Name name) { return one_hot(labels, classes, -1, name); }

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

// x / number; of integers rounded towards minus infinity.
Tensor quotient(Tensor x, double number, Name name);

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

// A tensor among the operands of + - * / and so on, with the place of the program where that stands.
struct Operand {
  Tensor tensor;
  std::source_location where;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Operand(const Tensor& of, std::source_location at = std::source_location::current()) : tensor(of), where(at) {}
};

inline Tensor operator+(const Operand& a, const Operand& b) { return add(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator-(const Operand& x) { return neg(x.tensor, Name(x.where)); }
inline Tensor operator+(const Operand& x, double number) { return scale(x.tensor, 1, number, Name(x.where)); }
inline Tensor operator+(double number, const Operand& x) { return scale(x.tensor, 1, number, Name(x.where)); }
inline Tensor operator-(const Operand& x, double number) { return scale(x.tensor, 1, -number, Name(x.where)); }
inline Tensor operator-(double number, const Operand& x) { return scale(x.tensor, -1, number, Name(x.where)); }
inline Tensor operator*(const Operand& x, double number) { return scale(x.tensor, number, 0, Name(x.where)); }
inline Tensor operator*(double number, const Operand& x) { return scale(x.tensor, number, 0, Name(x.where)); }
inline Tensor operator/(const Operand& x, double number) { return ops::quotient(x.tensor, number, Name(x.where)); }
inline Tensor operator/(double number, const Operand& x) { return reciprocal(x.tensor, number, Name(x.where)); }
// x += y makes x the handle of another value, x + y: other handles keep the old one.
inline Tensor& operator+=(Tensor& x, const Operand& y) { return x = x + y; }
inline Tensor& operator-=(Tensor& x, const Operand& y) { return x = x - y; }
inline Tensor& operator*=(Tensor& x, const Operand& y) { return x = x * y; }
inline Tensor& operator/=(Tensor& x, const Operand& y) { return x = x / y; }
inline Tensor& operator+=(Tensor& x, double number) { return x = x + number; }
inline Tensor& operator-=(Tensor& x, double number) { return x = x - number; }
inline Tensor& operator*=(Tensor& x, double number) { return x = x * number; }
inline Tensor& operator/=(Tensor& x, double number) { return x = x / number; }
// Whether a < b and so on, element by element, broadcast. a == b asks whether both are the same tensor: see equal().
inline Tensor operator<(const Operand& a, const Operand& b) { return less(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return less_equal(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator>(const Operand& a, const Operand& b) { return greater(a.tensor, b.tensor, Name(a.where)); }
inline Tensor operator>=(const Operand& a, const Operand& b) {
  return greater_equal(a.tensor, b.tensor, Name(a.where));
}

}  // namespace plimsoll
