// The list of functions as data: complete, of known types, and enough to generate calls from.
#include <cstdlib>
#include <map>
#include <set>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "ops/ops.h"

namespace plimsoll::ops {
namespace {

using ::testing::HasSubstr;

TEST(Functions, AreDescribedOnceEach) {
  std::set<std::string_view> names;
  for (const Function& function : functions()) {
    SCOPED_TRACE(function.name);
    EXPECT_TRUE(names.insert(function.name).second);
    EXPECT_FALSE(function.description.empty());
    EXPECT_FALSE(function.file.empty());
    EXPECT_THAT((std::set<std::string_view>{"Tensor", "std::vector<Tensor>"}), ::testing::Contains(function.result));
    ASSERT_FALSE(function.arguments.empty());
    bool has_default = false;
    for (const Argument& argument : function.arguments) {
      EXPECT_FALSE(argument.name.empty());
      EXPECT_TRUE(!has_default || !argument.otherwise.empty()) << "after a default, all have one";
      has_default = has_default || !argument.otherwise.empty();
    }
  }
  EXPECT_GT(names.size(), 60U);
  EXPECT_TRUE(names.contains("matmul") && names.contains("linear_cross_entropy"));
  EXPECT_FALSE(names.contains("adam")) << "what only the engine calls is not for users";
}

bool is_number(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  std::strtod(copy.c_str(), &end);
  return !copy.empty() && *end == '\0';
}

// What a default of that type may look like; false for types that nobody knows.
bool reads(std::string_view type, std::string_view text) {
  if (text.empty())
    return std::set<std::string_view>{"Tensor",
                                      "std::vector<Tensor>",
                                      "bool",
                                      "int",
                                      "int64_t",
                                      "double",
                                      "std::string_view",
                                      "DType",
                                      "Shape",
                                      "Dims",
                                      "Size2d",
                                      "Window"}
        .contains(type);
  if (type == "bool") return text == "true" || text == "false";
  if (type == "int" || type == "int64_t" || type == "double") return is_number(text);
  if (type == "std::string_view") return text.size() >= 2 && text.front() == '"' && text.back() == '"';
  if (type == "Tensor" || type == "Window" || type == "Dims" || type == "Shape" || type == "Size2d")
    return text.front() == '{' && text.back() == '}';
  return false;
}

TEST(Functions, HaveArgumentsOfKnownTypesAndDefaultsThatRead) {
  for (const Function& function : functions())
    for (const Argument& argument : function.arguments)
      EXPECT_TRUE(reads(argument.type, argument.otherwise))
          << function.name << ": " << argument.type << " " << argument.name << " = " << argument.otherwise;
}

// What a binding does: calls by name, with arguments by name, generated from the list.
using GivenValue = std::variant<Tensor, std::vector<Tensor>, bool, int, int64_t, double, std::string_view, DType, Shape,
                                Dims, Size2d, Window>;
using GivenValues = std::map<std::string_view, GivenValue>;

template <class T>
std::decay_t<T> value_of(const GivenValues& values, std::string_view name) {
  const auto at = values.find(name);
  if (at == values.end()) throw Error("argument '" + std::string(name) + "' is missing");
  return std::get<std::decay_t<T>>(at->second);
}
template <class T>
std::decay_t<T> value_of(const GivenValues& values, std::string_view name, const std::decay_t<T>& otherwise) {
  return values.contains(name) ? value_of<T>(values, name) : otherwise;
}

template <class Result>
Result call(std::string_view function, const GivenValues& values) {
#define OPS(file)
#define ARG(type, argument) value_of<type>(values, #argument)
#define OPT(type, argument, ...) value_of<type>(values, #argument, __VA_ARGS__)
#define FUN(result, name, description, ...)     \
  if constexpr (std::is_same_v<Result, result>) \
    if (function == #name) return ops::name(__VA_ARGS__, "");
#include <plimsoll/ops.inc>
#undef OPS
#undef ARG
#undef OPT
#undef FUN
  throw Error("there is no function '" + std::string(function) + "'");
}

TEST(Functions, CanBeCalledThroughTheList) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3}), w = graph.placeholder<float>("w", {5, 3});
  EXPECT_EQ(to_string(call<Tensor>("matmul", {{"a", x}, {"b", w}, {"transpose_b", true}}).type()), "f32[B,5]");
  EXPECT_EQ(to_string(call<Tensor>("softmax", {{"x", x}}).type()), "f32[B,3]");
  const Tensor image = graph.placeholder<float>("image", {Dim::batch(), 3, 8, 8});
  EXPECT_EQ(
      to_string(
          call<Tensor>("max_pool", {{"x", image}, {"size", Size2d{2, 2}}, {"window", Window::strided(2)}}).type()),
      "f32[B,3,4,4]");
  EXPECT_EQ(call<std::vector<Tensor>>("split", {{"x", x}, {"sizes", Dims{1, 2}}, {"axis", 1}}).size(), 2U);
  EXPECT_THROW(call<Tensor>("matmul", {{"a", x}}), Error);
  EXPECT_THROW(call<Tensor>("no_such", {}), Error);
}

TEST(Functions, OperatorsOnTensorsAreThoseOfTheList) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3}), y = graph.placeholder<float>("y", {3});
  const auto op_of = [&](Tensor tensor) { return std::string(tensor.name().substr(0, tensor.name().find('_'))); };
  EXPECT_EQ(op_of(x + y), "add");
  EXPECT_EQ(op_of(x - y), "sub");
  EXPECT_EQ(op_of(x * y), "mul");
  EXPECT_EQ(op_of(x / y), "div");
  EXPECT_EQ(op_of(-x), "neg");
  for (const Tensor& scaled : {x * 2 - 1, 2 * x, x + 1, 1 + x, 1 - x, x / 4}) EXPECT_EQ(op_of(scaled), "scale");
}

}  // namespace
}  // namespace plimsoll::ops
