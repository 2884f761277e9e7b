#include "shrink/int8_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::shrink {
namespace {

constexpr double kFullRange = 127, kReducedRange = 63;

int8_t to_weight(float number, float step) {
  return static_cast<int8_t>(std::lrintf(std::clamp(number / step, -127.0F, 127.0F)));
}

void put_floats(const std::vector<float>& numbers, const weights::PutBytes& put) {
  put(std::as_bytes(std::span(numbers)));
}

}  // namespace

Int8Weights::Int8Weights(const Int8Plan& plan, const std::string& path) : plan_(plan), path_(path), file_(path) {
  const graph::Body& body = plan.graph.body();
  file_.for_each([&](const weights::StoredTensor& tensor) {
    if (body.has_value(tensor.name)) tensors_.emplace(tensor.name, tensor);
  });
  for (const Int8Unit& unit : plan.graph.units) {
    if (!unit.is_int8 || !unit.has_weights()) continue;
    const Int8Names names = names_of(plan, unit);
    const std::string& scope = plan.graph.pass->scope;
    layers_.push_back(make_layer(unit));
    const size_t number = layers_.size() - 1;
    parts_.emplace(scope + names.kernel, Part{number, Part::Kind::Kernel});
    parts_.emplace(scope + names.scale, Part{number, Part::Kind::Scale});
    parts_.emplace(scope + names.offset, Part{number, Part::Kind::Offset});
  }
}

const weights::StoredTensor& Int8Weights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(fmt::format("'{}' has no tensor '{}' that the model needs", path_, name), ErrorKind::BadData);
  return found->second;
}

std::vector<float> Int8Weights::read_numbers(ValueId variable, int64_t count) const {
  const graph::Body& body = plan_.graph.body();
  const weights::StoredTensor& tensor = find(std::string(body.name(body.value(variable))));
  if (tensor.dtype != DType::F32 || element_count(tensor.dims) != count)
    throw Error(fmt::format("'{}': tensor '{}' is {}{}, not f32[{}]", path_, tensor.name, name_of(tensor.dtype),
                            to_string(tensor.dims), count),
                ErrorKind::BadData);
  std::vector<float> numbers(static_cast<size_t>(count));
  file_.read(tensor.offset, numbers.data(), tensor.bytes);
  return numbers;
}

std::vector<float> Int8Weights::numbers_or(ValueId variable, int64_t count, float otherwise) const {
  return variable < 0 ? std::vector<float>(static_cast<size_t>(count), otherwise) : read_numbers(variable, count);
}

Int8Weights::Layer Int8Weights::make_layer(const Int8Unit& unit) const {
  const graph::Body& body = plan_.graph.body();
  const Shape shape = kernel_shape(plan_, unit);
  Layer layer{.unit = &unit, .kernel = find(std::string(body.name(body.value(unit.kernel))))};
  layer.channels = shape[0].fixed();
  layer.inner = element_count(shape).fixed() / layer.channels;
  layer.lies_by_channel = unit.kind == Int8Kind::Conv2d || unit.is_transposed;
  if (layer.kernel.dtype != DType::F32 || element_count(layer.kernel.dims) != layer.channels * layer.inner)
    throw Error(fmt::format("'{}': tensor '{}' is {}{}, not that of the model", path_, layer.kernel.name,
                            name_of(layer.kernel.dtype), to_string(layer.kernel.dims)),
                ErrorKind::BadData);
  fill_numbers(layer);
  return layer;
}

template <class Use>
void Int8Weights::for_each_piece(const Layer& layer, const Use& use) const {
  const int64_t at_once = std::clamp<int64_t>(kPieceBytes / (layer.inner * Bytes{sizeof(float)}), 1, layer.channels);
  std::vector<float> piece(static_cast<size_t>(at_once * layer.inner)), row(static_cast<size_t>(at_once));
  constexpr Bytes kFloat = sizeof(float);
  for (int64_t first = 0; first < layer.channels; first += at_once) {
    const int64_t count = std::min(at_once, layer.channels - first);
    if (layer.lies_by_channel) {
      file_.read(layer.kernel.offset + first * layer.inner * kFloat, piece.data(), count * layer.inner * kFloat);
    } else {
      for (int64_t i = 0; i < layer.inner; ++i) {
        file_.read(layer.kernel.offset + (i * layer.channels + first) * kFloat, row.data(), count * kFloat);
        for (int64_t c = 0; c < count; ++c)
          piece[static_cast<size_t>(c * layer.inner + i)] = row[static_cast<size_t>(c)];
      }
    }
    for (int64_t c = 0; c < count; ++c)
      use(first + c, std::span<const float>(piece).subspan(static_cast<size_t>(c * layer.inner),
                                                           static_cast<size_t>(layer.inner)));
  }
}

// With x = s_x (q - z), weights w = step n, and the norm y = gain (sum + bias) + shift of each channel:
// y = gain s_x step sum(n q) + gain (bias - s_x step z sum(n)) + shift, in steps of the result where it is bytes.
void Int8Weights::fill_numbers(Layer& layer) const {
  const Int8Unit& unit = *layer.unit;
  const int64_t channels = layer.channels;
  const std::vector<float> bias = numbers_or(unit.bias, channels, 0);
  std::vector<double> gain(static_cast<size_t>(channels), 1), shift(static_cast<size_t>(channels), 0);
  if (unit.norm >= 0) {
    const graph::Body& body = plan_.graph.body();
    const graph::Node& norm = body.node(unit.norm);
    const auto in = body.inputs(norm);
    const auto gamma = read_numbers(in[1], channels), beta = read_numbers(in[2], channels);
    const auto mean = read_numbers(in[3], channels), variance = read_numbers(in[4], channels);
    const double epsilon = body.attrs(norm).f("epsilon", 1e-5);
    for (size_t c = 0; c < gain.size(); ++c) {
      gain[c] = static_cast<double>(gamma[c]) / std::sqrt(static_cast<double>(variance[c]) + epsilon);
      shift[c] = static_cast<double>(beta[c]) - gain[c] * static_cast<double>(mean[c]);
    }
  }
  const ByteScale x = plan_.scale_at(unit.x[0]);
  const ByteScale y = plan_.gives_bytes(unit) ? plan_.scale_at(unit.y) : ByteScale{};
  for_each_piece(layer, [&](int64_t channel, std::span<const float> weights) {
    const auto c = static_cast<size_t>(channel);
    float most = 0;
    bool is_finite = true;
    for (const float weight : weights) {
      is_finite = is_finite && std::isfinite(weight);
      most = std::max(most, std::abs(weight));
    }
    if (!is_finite)
      throw Error(fmt::format("'{}': tensor '{}' has a weight that is not finite", path_, layer.kernel.name),
                  ErrorKind::BadNumbers);
    const auto step = static_cast<float>(static_cast<double>(most) / (plan_.full_range ? kFullRange : kReducedRange));
    layer.steps.push_back(step >= std::numeric_limits<float>::min() ? step : 1.0F);
    int64_t sum = 0;
    for (const float weight : weights) sum += to_weight(weight, layer.steps.back());
    const double scale = gain[c] * x.scale * static_cast<double>(layer.steps.back());
    const double offset = gain[c] * static_cast<double>(bias[c]) + shift[c] -
                          scale * static_cast<double>(x.zero) * static_cast<double>(sum);
    layer.scale.push_back(static_cast<float>(scale / y.scale));
    layer.offset.push_back(static_cast<float>(offset / y.scale + static_cast<double>(y.zero)));
  });
}

bool Int8Weights::write(const std::string& name, const weights::PutBytes& put) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) return false;
  const Layer& layer = layers_[found->second.layer];
  if (found->second.kind == Part::Kind::Scale) {
    put_floats(layer.scale, put);
  } else if (found->second.kind == Part::Kind::Offset) {
    put_floats(layer.offset, put);
  } else {
    std::vector<int8_t> bytes(static_cast<size_t>(layer.inner));
    for_each_piece(layer, [&](int64_t channel, std::span<const float> weights) {
      const float step = layer.steps[static_cast<size_t>(channel)];
      for (size_t i = 0; i < weights.size(); ++i) bytes[i] = to_weight(weights[i], step);
      put(std::as_bytes(std::span(bytes)));
    });
  }
  return true;
}

void Int8Weights::copy(const std::string& name, const weights::PutBytes& put) const {
  constexpr Bytes kAtOnce = 64 * KiB;
  const weights::StoredTensor& tensor = find(name);
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kAtOnce, tensor.bytes)));
  for (Bytes at = 0; at < tensor.bytes; at += kAtOnce) {
    const Bytes bytes = std::min(kAtOnce, tensor.bytes - at);
    file_.read(tensor.offset + at, piece.data(), bytes);
    put(std::span<const std::byte>(piece).first(static_cast<size_t>(bytes)));
  }
}

}  // namespace plimsoll::shrink
