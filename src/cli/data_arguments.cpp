// The flags of the data, as the library takes them.
#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/arguments.h"
#include "cli/maps.h"
#include "input/opening/roles.h"
#include "model/normalisation.h"

namespace plimsoll::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(what, ErrorKind::Usage); }

// "crop:0.875" as a word and what is behind it.
struct Word {
  std::string name, value;
};
Word split(const std::string& text) {
  const size_t at = text.find(':');
  return {text.substr(0, at), at == std::string::npos ? "" : text.substr(at + 1)};
}

template <class Number>
Number parse(std::string_view text, const std::string& flag) {
  Number number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size())
    refuse(fmt::format("{}: '{}' is no number", flag, text));
  return number;
}

ResizeMethod resize_of(const std::string& value) {
  if (value.empty() || value == "bilinear") return ResizeMethod::Bilinear;
  if (value == "area") return ResizeMethod::Area;
  if (value == "none") return ResizeMethod::None;
  refuse(fmt::format("--map resize:{} is unknown; known are bilinear, area, none", value));
}

double crop_of(const std::string& value) {
  const auto part = parse<double>(value.empty() ? "0.875" : value, "--map crop");
  if (!(part > 0 && part <= 1)) refuse(fmt::format("--map crop:{}: give the part of each side, in (0, 1]", value));
  return part;
}

// Means and deviations of ImageNet in RGB, where the model takes three channels; else those of [-1, 1].
void set_normalisation(const std::string& value, const ModelSpec& model, input::Pipeline& pipeline) {
  const Shape& shape = model.input().shape;
  if (!value.empty()) {
    const Word numbers = split(value);
    pipeline.mean = {parse<float>(numbers.name, "--map normalise")};
    pipeline.deviation = {parse<float>(numbers.value, "--map normalise")};
    if (const std::string fault = model::normalisation_fault(pipeline.mean, pipeline.deviation); !fault.empty())
      refuse(fmt::format("--map normalise:MEAN:DEVIATION: {}", fault));
  } else if (shape.rank() == 4 && shape[1].count() == 3) {
    pipeline.mean = {0.485F, 0.456F, 0.406F};
    pipeline.deviation = {0.229F, 0.224F, 0.225F};
  } else {
    pipeline.mean = pipeline.deviation = {0.5F};
  }
}

void set_flips(const ModelSpec& model, input::Pipeline& pipeline) {
  const auto takes_image = [](const NamedType& input) { return input::is_image(input.type); };
  if (std::ranges::none_of(model.inputs, takes_image))
    refuse(fmt::format("--map flip: {} takes no images", model.name()));
  pipeline.flips = true;
}

}  // namespace

input::Pipeline pipeline_of(const Arguments& arguments, const ModelSpec& model) {
  input::Pipeline pipeline;
  pipeline.shuffles = !arguments.no_shuffle;
  pipeline.shuffle_window = arguments.shuffle_window;
  pipeline.mean = model.preprocessing.mean;
  pipeline.deviation = model.preprocessing.deviation;
  if (!arguments.on_corrupt.empty() && arguments.on_corrupt != "stop") {
    const Word word = split(arguments.on_corrupt);
    if (word.name != "skip")
      refuse(fmt::format("--on-corrupt '{}' is unknown; known are stop, skip:N", arguments.on_corrupt));
    pipeline.most_corrupt = parse<int64_t>(word.value, "--on-corrupt skip:N");
    if (pipeline.most_corrupt < 0) refuse("--on-corrupt skip:N: give how many at most");
  }
  for (const std::string& text : arguments.map) {
    const Word word = split(text);
    if (word.name == "flip")
      set_flips(model, pipeline);
    else if (word.name == "normalise" || word.name == "normalize")
      set_normalisation(word.value, model, pipeline);
    else if (word.name != "resize" && word.name != "crop")
      refuse(fmt::format("--map '{}' is unknown; known are resize, crop, flip, normalise", text));
  }
  return pipeline;
}

void expect_maps_fit(const Arguments& arguments, const ModelSpec& model, const input::Data& data) {
  const std::optional<input::Samples>& half = data.train ? data.train : data.test;
  if (!half || model.inputs.size() != 1 || !input::is_image(model.input())) return;
  const Component& input = half->elements.element()[0];
  if (input.shape.rank() > 1 || input.dtype == DType::U8) return;
  for (const std::string& text : arguments.map) {
    const Word word = split(text);
    if (word.name.starts_with("normali") && word.value.empty())
      refuse(
          fmt::format("--map normalise without numbers is for images, and '{}' holds columns of numbers; give --map "
                      "normalise:MEAN:DEVIATION, which is done to every column",
                      data.path));
    if (word.name == "flip" && model.input().shape[3].count() == 1)
      refuse(fmt::format("--map flip is for images, and '{}' holds columns of numbers", data.path));
  }
}

input::DataSpec data_spec_of(const Arguments& arguments) {
  const auto expect_both = [](const std::string& x, const std::string& y, const char* x_flag, const char* y_flag) {
    if (x.empty() == y.empty()) return;
    refuse(fmt::format("{} is given without {}: inputs and labels belong together", y.empty() ? x_flag : y_flag,
                       y.empty() ? y_flag : x_flag));
  };
  expect_both(arguments.train_x, arguments.train_y, "--train-x", "--train-y");
  expect_both(arguments.test_x, arguments.test_y, "--test-x", "--test-y");
  if (!arguments.data.empty() && !(arguments.train_x + arguments.test_x).empty())
    refuse(fmt::format("--data and {} contradict each other: give one of them",
                       arguments.train_x.empty() ? "--test-x" : "--train-x"));
  input::DataSpec spec{.path = arguments.data,
                       .files = {arguments.train_x, arguments.train_y, arguments.test_x, arguments.test_y},
                       .validation = arguments.validation,
                       .label = arguments.label,
                       .scratch_folder = arguments.scratch,
                       .needs_labels = !arguments.predicts};
  if (arguments.data_threads > 0) spec.threads = arguments.data_threads;
  const bool has_data = !arguments.data.empty() || !arguments.train_x.empty() || !arguments.test_x.empty();
  if (!spec.label.empty() && !has_data)
    refuse("--label names what holds the labels of the data: give --data PATH with it");
  for (const std::string& text : arguments.map) {
    const Word word = split(text);
    if (word.name == "resize") spec.maps.resize = resize_of(word.value);
    if (word.name == "crop") spec.maps.central_crop = crop_of(word.value);
  }
  return spec;
}

}  // namespace plimsoll::cli
