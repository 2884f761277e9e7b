// Gradients, and optimisers with the formulas and defaults of Keras: a training step as more nodes of the same graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

// The gradient of `loss`, a scalar, with respect to each of `wrt`; unset where none flows. With `seed` (shape of
// `loss`), of the sum of seed x loss instead, and `loss` may have any shape.
std::vector<Gradient> gradients(Tensor loss, std::span<const Tensor> wrt, Tensor seed = {});

// What differs for some of the weights. Patterns match whole names, "net/dense/kernel": * is any text, ? one character.
struct WeightGroup {
  std::vector<std::string> patterns;
  double rate_factor = 1;                   // times the learning rate
  std::optional<double> weight_decay = {};  // unset: that of the optimiser
};

// What every optimiser may be given beside its learning rate:
//
//   Optimiser::adamw(1e-3, {.no_decay = {"*/bias", "*norm*"}})
struct OptimiserOptions {
  std::optional<double> weight_decay = {};  // unset: that of the optimiser
  bool couples_decay = false;
  std::vector<std::string> no_decay = {};
  std::vector<WeightGroup> groups = {};
  double clip_norm = 0, clip_value = 0, global_clip_norm = 0;
  double average = 0;
};

struct Optimiser {
  double learning_rate = 0.01;
  double weight_decay = 0;  // apart from the gradient, before the step: w -= w * weight_decay * learning_rate
  // true: the decay is added to the gradient, after clipping, as weight_decay of PyTorch's Adam and SGD; it does not
  // act on its own then.
  bool couples_decay = false;
  std::vector<std::string> no_decay = {};  // weights that match one of these patterns do not decay
  std::vector<WeightGroup> groups = {};    // a weight belongs to the first group that it matches
  // A running mean of each weight, average = a average + (1 - a) w; 0: none. swap_averages exchanges both.
  double average = 0;
  // At most one of these three; 0: no clipping.
  double clip_norm = 0;         // of the gradient of each weight
  double clip_value = 0;        // of each element
  double global_clip_norm = 0;  // of all gradients together
  // Bits of an element of state (m and v, velocity and so on) between steps: 32; 16 (bf16, rounded at random so that
  // means stay right); or 8, adam's alone: m and sqrt(v) as floats of 8 bits relative to the largest of each block of
  // 256, f32 for weights of fewer than 4096 elements. Less than 32 is lossy.
  int state_bits = 32;
  // minimize multiplies the loss by a scale before the backward pass and divides the gradients by it after, so that
  // small gradients survive 16 bits. The scale halves, and the step changes nothing else, when a gradient is not
  // finite; it doubles after `scale_growth_steps` steps in a row that are.
  bool scales_loss = false;
  double initial_loss_scale = 32768;
  int64_t scale_growth_steps = 2000;

  // Eager code: updates the weights, one gradient for each; a weight whose gradient is unset is left alone. State and
  // step count belong to the list of weights.
  void apply(std::span<const Gradient> gradients, std::span<const Tensor> weights) const;
  void apply(const std::vector<Gradient>& gradients, const std::vector<Tensor>& weights) const {
    apply(std::span<const Gradient>(gradients), std::span<const Tensor>(weights));
  }

  // adam(learning_rate, beta1, ...) and so on: see <plimsoll/optimisers.inc>.
#define PLIMSOLL_SETTING(type, setting, value) type setting = value
#define OPTIMISER(optimiser, description, ...)                              \
  static Optimiser optimiser(PLIMSOLL_EACH(PLIMSOLL_SETTING, __VA_ARGS__)); \
  static Optimiser optimiser(double learning_rate, const OptimiserOptions& options);
#define VARIANT(base, optimiser, description, ...) OPTIMISER(optimiser, description, __VA_ARGS__)
#include <plimsoll/optimisers.inc>
#undef PLIMSOLL_SETTING
#undef OPTIMISER
#undef VARIANT

  Optimiser() : Optimiser(sgd()) {}
  Optimiser& set(const OptimiserOptions& options);
  // By a name of the list, with its defaults; Keras' spelling ("Adam", "SGD") is accepted. Throws Error that names all.
  static Optimiser named(std::string_view name);
  static std::vector<std::string_view> names();

  // "adam"; that of a variant is its base's.
  std::string_view name() const { return name_; }
  // The settings of its own beside those above, yes and no as 1 and 0: adam.set("epsilon_after_correction", true). All
  // numbers above go by their names too. Both throw Error for a setting that it does not have.
  double get(std::string_view setting) const;
  Optimiser& set(std::string_view setting, double value);
  bool has(std::string_view setting) const;
  std::span<const std::pair<std::string_view, double>> settings() const { return settings_; }
  bool keeps_state() const;

 private:
  explicit Optimiser(std::string_view name) : name_(name) {}
  static Optimiser make(std::string_view base, std::span<const std::pair<std::string_view, double>> settings);
  std::string_view name_;
  std::vector<std::pair<std::string_view, double>> settings_ = {};
};

struct Updates {
  std::vector<NodeId> nodes = {};  // all that a training step changes: weights, their state, statistics of layers
  Tensor learning_rate = {};       // the variable "optimiser/learning_rate", f32[]
  Tensor step = {};                // the variable "optimiser/step", i64[]: updates done
  Tensor loss_scale = {};          // the variable "optimiser/loss_scale", f32[]; unset unless Optimiser::scales_loss
};

// Adds to the graph of `loss` all that one training step needs. Weights that the loss does not depend on are left
// alone; without `weights`, all variables of role Weight are trained. Throws Error for settings that contradict and for
// weights that are not f32.
Updates minimize(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights = {});

// The second half of minimize, for gradients of one's own: changed by operators, or fed. One gradient for each weight;
// a weight whose gradient is unset is left alone. Statistics of the layers that the gradients come through are updated
// too.
Updates apply_gradients(const Optimiser& optimiser, std::span<const Gradient> gradients,
                        std::span<const Tensor> weights);
// The updates that layers keep of their statistics (the running mean of batch_norm): for a step that computes gradients
// and leaves applying them to another one.
Updates layer_updates(Graph& graph);
// Updates that exchange the weights with their averages, for all weights of the graph that have one: before an
// evaluation, and again before training goes on. Throws Error where there are none.
std::vector<NodeId> swap_averages(Graph& graph);
// One more update: the variable takes the value, of its type and shape, or a scalar of its type for all elements. Nodes
// made before read the old value, nodes made later the new one.
NodeId assign(Tensor variable, Tensor value);
// The same for some rows along an axis: `rows` are their numbers (i32 or i64), `values` has as many. Of equal numbers
// the last one stays; the others of the variable are not touched.
NodeId assign_rows(Tensor variable, Tensor rows, Tensor values, int axis = 0);

// Training over several batches for each update, as two steps of one session.
struct Accumulation {
  Updates add;    // adds the gradients of a batch, times its samples, to one sum for each weight
  Updates apply;  // updates the weights from the mean over all samples since the last time; does nothing without any
  // Since the last time: the variables "optimiser/accumulated_samples", f32[], and "optimiser/accumulated_batches",
  // i64[].
  Tensor samples, batches;
};
// Equal to minimize on all batches at once, for a loss that is a mean over the samples. Clipping acts on the mean. A
// weight takes one more f32 for each element; row-sparse gradients are added into a dense sum.
Accumulation accumulate(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights = {});

}  // namespace plimsoll
