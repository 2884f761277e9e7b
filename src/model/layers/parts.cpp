#include "model/layers/parts.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::model {

std::string layer_name_or(Graph& graph, std::string_view name, std::string_view kind) {
  if (name == ".") return "";  // the scope that is open
  return name.empty() ? graph.layer_name(kind) : std::string(name);
}

void fail_layer(std::string_view kind, std::string_view name, const std::string& why) {
  throw Error(fmt::format("{} '{}': {}", kind, name, why));
}

void expect_positive(int64_t number, std::string_view what, std::string_view kind, std::string_view name) {
  if (number <= 0) fail_layer(kind, name, fmt::format("{} must be positive but is {}", what, number));
}

void expect_axes(Tensor x, int axes, std::string_view kind, std::string_view name) {
  if (x.rank() == axes + 2) return;
  constexpr std::string_view kForms[] = {"a line [batch, channels, length]",
                                         "an image [batch, channels, height, width]",
                                         "a volume [batch, channels, depth, height, width]"};
  fail_layer(kind, name, fmt::format("input must be {} but is {}", kForms[axes - 1], to_string(x.type())));
}

int expect_spatial(Tensor x, std::string_view kind, std::string_view name) {
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3)
    fail_layer(kind, name,
               fmt::format("input must be a line, an image or a volume, [batch, channels, ...], but is {}",
                           to_string(x.type())));
  return axes;
}

Dims numbers_for(const Dims& given, int axes, int64_t otherwise, std::string_view what, std::string_view kind,
                 std::string_view name) {
  if (given.empty()) return Dims::filled(axes, otherwise);
  if (given.rank() == 1) return Dims::filled(axes, given[0]);
  if (given.rank() != axes)
    fail_layer(kind, name,
               fmt::format("{} are {}; give one number, or one for each of {} axes", what, to_string(given), axes));
  return given;
}

}  // namespace plimsoll::model
