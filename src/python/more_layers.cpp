// The table goes on: recurrent layers, lines and volumes, noise, shapes.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/layer_table.h"

namespace plimsoll::python {
namespace {

using A = Given<ActivationOf>;
using S = Given<SizeOf>;

struct RecurrentWords {
  bool return_sequences, go_backwards, use_bias;
};
layers::Recurrent recurrent(const RecurrentWords& words) {
  layers::Recurrent options;
  options.return_sequences = words.return_sequences;
  options.reverse = words.go_backwards;
  options.use_bias = words.use_bias;
  return options;
}

layers::ConvNd line_of(int64_t strides, const std::string& padding, int64_t dilation_rate, int64_t groups, A activation,
                       bool use_bias) {
  layers::ConvNd options;
  options.strides = {strides};
  options.padding = padding;
  options.dilations = {dilation_rate};
  options.groups = groups;
  options.activation = activation_in(activation);
  options.use_bias = use_bias;
  return options;
}

void bind_recurrent(nb::module_& list) {
  const auto bind = [&](const char* kind, const char* scope, const char* text, auto make) {
    layer(
        list, kind, scope, text,
        [make](int64_t units, bool return_sequences, bool go_backwards, bool use_bias) {
          return make(units, recurrent({return_sequences, go_backwards, use_bias}));
        },
        nb::arg("units"), nb::arg("return_sequences") = false, nb::arg("go_backwards") = false,
        nb::arg("use_bias") = true);
  };
  bind("LSTM", "lstm", "A recurrent layer with a cell, over [batch, positions, width].",
       [](int64_t units, const layers::Recurrent& options) { return layers::lstm(units, options, kHere); });
  bind("GRU", "gru", "A recurrent layer with a reset and an update gate.",
       [](int64_t units, const layers::Recurrent& options) { return layers::gru(units, options, kHere); });
  bind("SimpleRNN", "simple_rnn", "tanh(x kernel + state recurrent_kernel + bias), position after position.",
       [](int64_t units, const layers::Recurrent& options) { return layers::simple_rnn(units, options, kHere); });
}

}  // namespace

void bind_more_layers(nb::module_& list) {
  bind_recurrent(list);
  layer(
      list, "Conv1D", "conv1d", "Convolution of [batch, channels, length].",
      [](int64_t filters, int64_t kernel_size, int64_t strides, const std::string& padding, int64_t dilation_rate,
         int64_t groups, A activation, bool use_bias) {
        return layers::conv1d(filters, kernel_size,
                              line_of(strides, padding, dilation_rate, groups, activation, use_bias), kHere);
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides") = 1, nb::arg("padding") = "valid",
      nb::arg("dilation_rate") = 1, nb::arg("groups") = 1, nb::arg("activation") = nb::none(),
      nb::arg("use_bias") = true);
  layer(
      list, "MaxPooling1D", "max_pool1d", "The largest number of each window of a line.",
      [](int64_t pool_size, const std::string& padding) {
        return layers::max_pool1d(pool_size, {.strides = {}, .padding = padding});
      },
      nb::arg("pool_size") = 2, nb::arg("padding") = "valid");
  layer(
      list, "AveragePooling1D", "average_pool1d", "The mean of each window of a line.",
      [](int64_t pool_size, const std::string& padding) {
        return layers::average_pool1d(pool_size, {.strides = {}, .padding = padding});
      },
      nb::arg("pool_size") = 2, nb::arg("padding") = "valid");
  layer(list, "GlobalMaxPooling2D", "global_max_pool", "The largest number of each channel.",
        [] { return layers::global_max_pool(); });
  layer(
      list, "RMSNormalization", "rms_norm", "x over the root of its mean square over the last dimension.",
      [](double epsilon) { return layers::rms_norm(epsilon, kHere); }, nb::arg("epsilon") = 1e-6);
  layer(
      list, "UnitNormalization", "unit_norm", "x over its length along an axis.",
      [](int axis) { return layers::unit_norm(axis); }, nb::arg("axis") = -1);
  layer(
      list, "SpatialDropout2D", "spatial_dropout", "In training, whole channels dropped.",
      [](double rate) { return layers::spatial_dropout(rate); }, nb::arg("rate"));
  layer(
      list, "AlphaDropout", "alpha_dropout", "Dropout that keeps mean and variance of what selu gives.",
      [](double rate) { return layers::alpha_dropout(rate); }, nb::arg("rate"));
  layer(
      list, "GaussianDropout", "gaussian_dropout", "In training, x times normal numbers around 1.",
      [](double rate) { return layers::gaussian_dropout(rate); }, nb::arg("rate"));
  layer(
      list, "GaussianNoise", "gaussian_noise", "In training, x plus normal numbers around 0.",
      [](double stddev) { return layers::gaussian_noise(stddev); }, nb::arg("stddev"));
  layer(
      list, "RepeatVector", "repeat_vector", "[batch, width] as [batch, n, width].",
      [](int64_t n) { return layers::repeat_vector(n); }, nb::arg("n"));
}

}  // namespace plimsoll::python
