#include "session/bad_data.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/elementwise.h"
#include "session/engine.h"

namespace plimsoll::session {
namespace {

// Where an element of a value lies: the sample, and the place among what one sample has.
struct Place {
  int64_t sample = -1;  // -1: the value does not grow with the batch
  int64_t position = 0;
  bool is_alone = false;  // a sample has one element
};

Place place_of(const Shape& shape, int64_t batch, int64_t index) {
  const Dim count = element_count(shape);
  if (!count.is_batch()) return {-1, index, false};
  int64_t inner = 1;
  int axis = shape.rank() - 1;
  for (; !shape[axis].is_batch(); --axis) inner *= shape[axis].count();
  const int64_t times = shape[axis].count();  // a dimension may be a multiple of the batch
  const int64_t rows = times * batch;
  const int64_t at = index / inner % rows;
  const int64_t outer = index / inner / rows;
  return {at / times, (outer * times + at % times) * inner + index % inner, count.count() == 1};
}

}  // namespace

std::string describe_bad_value(const kernels::StepStatus& status, const graph::Body& graph,
                               const PlannedStep& planned) {
  const auto [origin, of_micro_batch] = planned.origins[static_cast<size_t>(status.action)];
  const graph::Node& node = graph.node(origin);
  const TensorType& type = graph.value(graph.inputs(node)[static_cast<size_t>(status.bad.input)]).type;
  const auto micro_batch = static_cast<size_t>(of_micro_batch);
  int64_t first_sample = 0;
  for (size_t i = 0; i < micro_batch; ++i) first_sample += planned.plan.micro_batches[i];
  const Place place = place_of(type.shape, planned.plan.micro_batches[micro_batch], status.bad.index);
  std::string where = fmt::format("at position {}", place.position);
  if (place.sample >= 0) {
    where = fmt::format("of sample {} of the batch", first_sample + place.sample);
    if (!place.is_alone) where += fmt::format(", position {},", place.position);
  }
  return fmt::format("{} '{}': {} {} {} is not in [0, {})", node.op->name, graph.name(node), status.bad.what,
                     status.bad.value, where, status.bad.end);
}

std::optional<BadNumber> find_bad_number(std::span<const Feed> feeds) {
  for (const Feed& feed : feeds) {
    if (!is_float(feed.dtype)) continue;
    const Bytes size = size_of(feed.dtype);
    const kernels::LoadFn load = kernels::load_of(feed.dtype);
    const int64_t count = feed.bytes / size;
    std::array<float, 1024> numbers;
    for (int64_t first = 0; first < count; first += static_cast<int64_t>(numbers.size())) {
      const int64_t some = std::min(static_cast<int64_t>(numbers.size()), count - first);
      load(static_cast<const std::byte*>(feed.data) + first * size, numbers.data(), static_cast<size_t>(some));
      const float* const begin = numbers.data();
      const float* const end = begin + some;
      const float* const bad = std::find_if(begin, end, [](float number) { return !std::isfinite(number); });
      if (bad == end) continue;
      const Shape shape = feed.placeholder.shape();
      const Dim all = element_count(shape);
      const int64_t batch = all.is_batch() ? count / std::max<int64_t>(1, all.count()) : 1;
      const Place place = place_of(shape, batch, first + (bad - begin));
      return BadNumber{std::string(feed.placeholder.name()), place.sample, place.position, *bad};
    }
  }
  return std::nullopt;
}

namespace {

// `then`: the consequence, as the end of the message.
void expect_good_feeds(std::span<const Feed> feeds, std::string_view when, const std::string& then) {
  const std::optional<BadNumber> bad = find_bad_number(feeds);
  if (!bad) return;
  const std::string sample = bad->sample < 0 ? "" : fmt::format(" in sample {} of the batch", bad->sample);
  throw Error(fmt::format("'{}' has {}{} (element {}) {}; {} from it", bad->input, bad->value, sample, bad->element,
                          when, then),
              ErrorKind::BadData);
}

}  // namespace

void throw_bad_loss(double loss, std::span<const Feed> feeds, std::string_view when, std::string_view advice) {
  expect_good_feeds(feeds, when, fmt::format("the loss became {}", loss));
  throw Error(fmt::format("the loss became {} {} though the data is finite; {}", loss, when, advice),
              ErrorKind::BadNumbers);
}

void throw_bad_number(float value, NodeId node, const graph::Body& graph, std::span<const Feed> feeds,
                      std::string_view when) {
  const std::string who = node < 0 ? std::string("a change of layout")
                                   : fmt::format("{} '{}'", graph.node(node).op->name, graph.name(graph.node(node)));
  expect_good_feeds(feeds, when, fmt::format("{} wrote {}", who, value));
  throw Error(fmt::format("{} wrote {} {}, before all other operators, though the data is finite; try a smaller "
                          "learning rate, or clip gradients by their global norm",
                          who, value, when),
              ErrorKind::BadNumbers);
}

}  // namespace plimsoll::session
