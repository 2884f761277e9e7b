// Layers with Keras' words: one entry each in bind_layers. A layer is a model of its own, whose weights lie in the
// scope of that model.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include "python/arrays.h"
#include "python/bind.h"
#include "python/given.h"
#include "python/layer.h"
#include "python/layer_table.h"
#include "python/operands.h"
#include "python/place.h"

namespace plimsoll::python {
namespace {

thread_local bool is_training_call = false;

NamedTensors named_inputs(const Model& model, nb::handle given, const CallPlace& place) {
  NamedTensors inputs;
  const std::vector<std::string>& names = model.inputs();
  if (PyDict_Check(given.ptr())) {
    for (const auto& [name, tensor] : nb::borrow<nb::dict>(given))
      inputs.add(nb::cast<std::string>(nb::str(name)), place.tensor("inputs", tensor));
    return inputs;
  }
  if (!PyList_Check(given.ptr()) && !PyTuple_Check(given.ptr())) {
    if (names.size() == 1) return {{names.front(), place.tensor("inputs", given)}};
    throw Error(fmt::format("'{}' has several inputs: give a list of them, or a dict by name", model.name()),
                ErrorKind::Usage);
  }
  if (nb::len(given) != names.size())
    throw Error(fmt::format("'{}' has {} inputs, not {}", model.name(), names.size(), nb::len(given)),
                ErrorKind::Usage);
  for (size_t i = 0; i < names.size(); ++i) inputs.add(names[i], place.tensor("inputs", given[i]));
  return inputs;
}

nb::object outputs_of(const PyLayer& self, const std::vector<Tensor>& outputs,
                      const std::shared_ptr<Functional>& functional) {
  if (outputs.size() == 1) return to_python(outputs.front(), functional);
  if (!self.gives_dict) return to_python(outputs, functional);
  nb::dict by_name;
  for (size_t i = 0; i < outputs.size(); ++i)
    by_name[self.model.outputs()[i].c_str()] = to_python(outputs[i], functional);
  return by_name;
}

nb::object call(nb::handle self, nb::handle inputs, nb::handle training) {
  PyLayer& layer = *nb::inst_ptr<PyLayer>(self);
  if (layer.model.state() == nullptr) self.attr("_build")(inputs);
  const bool trains =
      training.is_none() ? TrainingCall::is_training() : is_true(training, {layer.name.c_str(), "training"});
  std::vector<nb::handle> given{inputs};
  if (PyDict_Check(inputs.ptr())) {
    given.clear();
    for (const auto& [name, tensor] : nb::borrow<nb::dict>(inputs)) given.push_back(tensor);
  }
  const auto functional = functional_of(given);
  const NamedTensors named = named_inputs(layer.model, inputs, CallPlace(layer.name.c_str(), given));
  const std::source_location where = place();
  const auto run = [model = layer.model, where](const NamedTensors& from, bool is_training) {
    const NamedTensors made = model(from, is_training, where);
    std::vector<Tensor> outputs;
    for (const std::string& name : model.outputs()) outputs.push_back(made[name]);
    return outputs;
  };
  const std::vector<Tensor> outputs = [&] {
    const nb::gil_scoped_release release;
    return run(named, trains);
  }();
  if (functional != nullptr) {
    std::vector<ValueId> from, to;
    for (const auto& [name, tensor] : named) from.push_back(tensor.id());
    for (const Tensor& tensor : outputs) to.push_back(tensor.id());
    std::optional<bool> fixed;
    if (!training.is_none()) fixed = trains;
    const auto held = keep(nb::borrow(self));  // a layer of Python calls its own object
    functional->calls.push_back(
        {std::move(from), std::move(to), [run, named, fixed, held](const Substitution& instead) {
           NamedTensors now;
           for (const auto& [name, tensor] : named) now.add(name, instead(tensor));
           return run(now, fixed.value_or(instead.is_training()));
         }});
  }
  return outputs_of(layer, outputs, functional);
}

nb::object weights_of(nb::handle layer) { return to_python(model_of(layer).weights(), nullptr); }

// Weights lie where the engine has them.
void refuse_copy(nb::handle layer) {
  throw nb::type_error(fmt::format("'{}' can't be copied or pickled; use save and plimsoll.Model.load",
                                   nb::inst_ptr<PyLayer>(layer)->name)
                           .c_str());
}

using S = Given<SizeOf>;
using A = Given<ActivationOf>;
using P = Given<PaddingOf>;
using I = Given<InitOf>;

layers::Conv conv_of(S strides, P padding, S dilation_rate, int64_t groups, A activation, bool use_bias,
                     I kernel_initializer, I bias_initializer) {
  return {.strides = size_in(strides, "strides"),
          .padding = padding_in(padding),
          .dilations = size_in(dilation_rate, "dilation_rate"),
          .groups = groups,
          .activation = activation_in(activation),
          .use_bias = use_bias,
          .kernel = optional_init_in(kernel_initializer, "kernel_initializer"),
          .bias = init_in(bias_initializer, "bias_initializer")};
}

}  // namespace

TrainingCall::TrainingCall(bool is_training) : before_(std::exchange(is_training_call, is_training)) {}
TrainingCall::~TrainingCall() { is_training_call = before_; }
bool TrainingCall::is_training() { return is_training_call; }

const Model& model_of(nb::handle layer) {
  if (!nb::isinstance<PyLayer>(layer)) refuse_argument({"plimsoll", "layer"}, "a layer or a model", layer);
  const PyLayer& found = *nb::inst_ptr<PyLayer>(layer);
  if (found.model.state() == nullptr)
    throw Error(fmt::format("'{}' was not called yet, so it has no weights and no inputs", found.name),
                ErrorKind::Usage);
  return found.model;
}

void bind_layers(nb::module_& module) {
  nb::class_<PyLayer>(module, "Layer",
                      "Tensors in, tensors out, with weights of its own. Layers of a program's own derive from it and "
                      "write call(self, inputs).",
                      nb::is_weak_referenceable(), nb::dynamic_attr())
      .def(
          "__init__",
          [](PyLayer* made, const std::string& name) {
            new (made) PyLayer{{}, name};
          },
          nb::arg("name") = "")
      .def("__call__", call, nb::arg("inputs"), nb::arg("training") = nb::none(),
           nb::sig("def __call__(self, inputs: Any, training: bool | None = None) -> Any"),
           "The outputs for these inputs. training matters to dropout and batch norm; not given: that of the call "
           "around.")
      .def_prop_rw(
          "name", [](const PyLayer& layer) { return layer.name; },
          [](PyLayer& layer, const std::string& name) {
            if (layer.model.state() != nullptr && name != layer.name)
              throw Error("the name of a layer can't change once it was made", ErrorKind::Usage);
            layer.name = name;
          },
          "What its weights are named after.")
      .def_prop_ro(
          "is_built", [](const PyLayer& layer) { return layer.model.state() != nullptr; },
          "Whether it has a function: layers written in Python get one at their first call.")
      .def_prop_ro("weights", &weights_of, nb::sig("def weights(self) -> list[Tensor]"),
                   "In eager code: the variables that training changes, as they are now.")
      .def_prop_ro("trainable_variables", &weights_of, nb::sig("def trainable_variables(self) -> list[Tensor]"),
                   "weights.")
      .def_prop_ro("trainable_weights", &weights_of, nb::sig("def trainable_weights(self) -> list[Tensor]"), "weights.")
      .def(
          "weight", [](nb::handle layer, const std::string& name) { return model_of(layer).weight(name); },
          nb::arg("name"),
          "In eager code: one weight or statistic by its name, \"kernel\". To be read, and set by assign.")
      .def(
          "add_weight",
          [](nb::handle layer, nb::args given, nb::kwargs named) {
            return nb::module_::import_("plimsoll.layers").attr("_add_weight")(layer, *given, **named);
          },
          nb::sig(
              "def add_weight(self, name: str = 'weight', shape: int | Sequence[int] = (), initializer: Init | str = "
              "'glorot_uniform', trainable: bool = True) -> Any"),
          "A weight of this layer, to be kept on self: self.kernel = self.add_weight(\"kernel\", (4, 8)). It is a "
          "tensor "
          "while call runs.")
      .def("_build", [](nb::handle layer,
                        nb::handle inputs) { nb::module_::import_("plimsoll.layers").attr("_build")(layer, inputs); })
      .def("__copy__", &refuse_copy, nb::sig("def __copy__(self) -> Layer"))
      .def(
          "__deepcopy__", [](nb::handle layer, nb::handle) { refuse_copy(layer); },
          nb::sig("def __deepcopy__(self, memo: object) -> Layer"))
      .def("__reduce__", &refuse_copy, nb::sig("def __reduce__(self) -> Any"))
      .def_prop_ro(
          "model", [](nb::handle layer) { return model_of(layer); }, "The engine's model.")
      .def("_set_model", [](PyLayer& layer, const Model& model, bool gives_dict) {
        layer.model = model;
        layer.gives_dict = gives_dict;
      });
  nb::module_ list = module.def_submodule("layers", "Layers with the words and defaults of Keras.");
  const nb::object none = nb::none();

  layer(
      list, "Dense", "dense", "activation(x kernel + bias) over the last dimension.",
      [](int64_t units, A activation, bool use_bias, I kernel_initializer, I bias_initializer) {
        return layers::dense(units,
                             {.activation = activation_in(activation),
                              .use_bias = use_bias,
                              .kernel = optional_init_in(kernel_initializer, "kernel_initializer"),
                              .bias = init_in(bias_initializer, "bias_initializer")},
                             kHere);
      },
      nb::arg("units"), nb::arg("activation") = none, nb::arg("use_bias") = true,
      nb::arg("kernel_initializer") = "glorot_uniform", nb::arg("bias_initializer") = "zeros");
  layer(
      list, "Conv2D", "conv2d", "Convolution of images [batch, channels, height, width].",
      [](int64_t filters, S kernel_size, S strides, P padding, S dilation_rate, int64_t groups, A activation,
         bool use_bias, I kernel_initializer, I bias_initializer) {
        return layers::conv2d(filters, size_in(kernel_size, "kernel_size"),
                              conv_of(strides, padding, dilation_rate, groups, activation, use_bias, kernel_initializer,
                                      bias_initializer),
                              kHere);
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides") = 1, nb::arg("padding") = "valid",
      nb::arg("dilation_rate") = 1, nb::arg("groups") = 1, nb::arg("activation") = none, nb::arg("use_bias") = true,
      nb::arg("kernel_initializer") = "glorot_uniform", nb::arg("bias_initializer") = "zeros");
  layer(
      list, "DepthwiseConv2D", "depthwise_conv2d", "A convolution of each channel by itself.",
      [](S kernel_size, S strides, P padding, int64_t depth_multiplier, S dilation_rate, A activation, bool use_bias,
         I kernel_initializer, I bias_initializer) {
        return layers::depthwise_conv2d(
            size_in(kernel_size, "kernel_size"),
            conv_of(strides, padding, dilation_rate, 1, activation, use_bias, kernel_initializer, bias_initializer),
            depth_multiplier, kHere);
      },
      nb::arg("kernel_size"), nb::arg("strides") = 1, nb::arg("padding") = "valid", nb::arg("depth_multiplier") = 1,
      nb::arg("dilation_rate") = 1, nb::arg("activation") = none, nb::arg("use_bias") = true,
      nb::arg("kernel_initializer") = "glorot_uniform", nb::arg("bias_initializer") = "zeros");
  layer(
      list, "Conv2DTranspose", "conv2d_transpose", "The gradient of a convolution as a layer.",
      [](int64_t filters, S kernel_size, S strides, P padding, S dilation_rate, A activation, bool use_bias,
         I kernel_initializer, I bias_initializer) {
        return layers::conv2d_transpose(
            filters, size_in(kernel_size, "kernel_size"),
            conv_of(strides, padding, dilation_rate, 1, activation, use_bias, kernel_initializer, bias_initializer),
            kHere);
      },
      nb::arg("filters"), nb::arg("kernel_size"), nb::arg("strides") = 1, nb::arg("padding") = "valid",
      nb::arg("dilation_rate") = 1, nb::arg("activation") = none, nb::arg("use_bias") = true,
      nb::arg("kernel_initializer") = "glorot_uniform", nb::arg("bias_initializer") = "zeros");
  layer(
      list, "BatchNormalization", "batch_norm", "Each channel normalised over the batch.",
      [](double momentum, double epsilon, bool synchronized) {
        return layers::batch_norm({.momentum = momentum, .epsilon = epsilon, .synchronised = synchronized}, kHere);
      },
      nb::arg("momentum") = 0.99, nb::arg("epsilon") = 1e-3, nb::arg("synchronized") = false);
  layer(
      list, "LayerNormalization", "layer_norm", "Normalised over the last dimension.",
      [](double epsilon) { return layers::layer_norm({.epsilon = epsilon}, kHere); }, nb::arg("epsilon") = 1e-3);
  layer(
      list, "GroupNormalization", "group_norm", "Groups of channels of each sample normalised.",
      [](int64_t groups, double epsilon) { return layers::group_norm(groups, {.epsilon = epsilon}, kHere); },
      nb::arg("groups") = 32, nb::arg("epsilon") = 1e-3);
  layer(
      list, "Dropout", "dropout", "In training, elements dropped at random with that rate.",
      [](double rate) { return layers::dropout(rate); }, nb::arg("rate"));
  layer(
      list, "Embedding", "embedding", "Rows of a table by their numbers.",
      [](int64_t input_dim, int64_t output_dim, I embeddings_initializer) {
        return layers::embedding(
            input_dim, output_dim,
            optional_init_in(embeddings_initializer, "embeddings_initializer").value_or(Init::uniform(-0.05, 0.05)),
            kHere);
      },
      nb::arg("input_dim"), nb::arg("output_dim"), nb::arg("embeddings_initializer") = "uniform");
  layer(
      list, "MultiHeadAttention", "multi_head_attention", "Self-attention over [batch, positions, width].",
      [](int64_t num_heads, int64_t key_dim, bool causal, I kernel_initializer) {
        return layers::multi_head_attention(num_heads,
                                            {.key_dim = key_dim,
                                             .causal = causal,
                                             .kernel = optional_init_in(kernel_initializer, "kernel_initializer")},
                                            kHere);
      },
      nb::arg("num_heads"), nb::arg("key_dim") = 0, nb::arg("causal") = false,
      nb::arg("kernel_initializer") = "glorot_uniform");
  layer(
      list, "MaxPooling2D", "max_pool", "The largest value of each window.",
      [](S pool_size, S strides, P padding) {
        return layers::max_pool(size_in(pool_size, "pool_size"),
                                {.strides = optional_size_in(strides, "strides"), .padding = padding_in(padding)});
      },
      nb::arg("pool_size") = 2, nb::arg("strides") = none, nb::arg("padding") = "valid");
  layer(
      list, "AveragePooling2D", "average_pool", "The mean of each window.",
      [](S pool_size, S strides, P padding) {
        return layers::average_pool(size_in(pool_size, "pool_size"),
                                    {.strides = optional_size_in(strides, "strides"), .padding = padding_in(padding)});
      },
      nb::arg("pool_size") = 2, nb::arg("strides") = none, nb::arg("padding") = "valid");
  layer(list, "GlobalAveragePooling2D", "global_average_pool", "The mean of each channel: [batch, channels].",
        [] { return layers::global_average_pool(); });
  layer(list, "Flatten", "flatten", "All dimensions but the batch as one.", [] { return layers::flatten(); });
  layer(
      list, "Activation", "activation", "relu, sigmoid, tanh, gelu, softmax and so on.",
      [](const std::string& activation) { return layers::activation(activation); }, nb::arg("activation"));
  bind_more_layers(list);
}

}  // namespace plimsoll::python
