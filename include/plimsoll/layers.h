// Layers: functions over tensors that make their own variables, with the defaults of Keras.
//
//   x = layers::conv2d(x, 32, 3, {.padding = "same", .activation = "relu"}, "conv1");   // conv1/kernel, conv1/bias
//
// A layer without a name is called after its kind, numbered within the scope. Without a tensor, the same functions give
// a Layer for later use: layers::conv2d(32, 3). The name "." stands for the scope that is open.
//
// Layouts: images are [batch, channels, height, width], lines [batch, channels, length], volumes [batch, channels,
// depth, height, width], sequences [batch, positions, width]. A dense kernel is [in, units], that of a convolution
// [filters, channels / groups, height, width], that of a transposed one [channels, filters / groups, height, width]; an
// embedding's table is [rows, width].
//
// The list of all layers is <plimsoll/layers.inc>. Any function of (Tensor, bool training) is a Layer too.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/graph.h>

namespace plimsoll::layers {

// A tensor in, a tensor out; `training` matters to dropout and batch norm.
using Layer = std::function<Tensor(Tensor x, bool training)>;

// Height and width; one number stands for both.
struct Size {
  int64_t height, width;
  Size(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  Size(int64_t h, int64_t w) : height(h), width(w) {}
};

// "valid" (none), "same", a number for all four sides, or {top, left, bottom, right}.
class Padding {
 public:
  template <size_t N>
  Padding(const char (&kind)[N]) : Padding(std::string_view(kind)) {}  // NOLINT(google-explicit-constructor)
  explicit Padding(std::string_view kind);                             // throws Error
  Padding(int64_t each) : Padding(each, each, each, each) {}           // NOLINT(google-explicit-constructor)
  Padding(int64_t top, int64_t left, int64_t bottom, int64_t right) : pads_{top, left, bottom, right} {}

  bool is_same() const { return is_same_; }
  const std::array<int64_t, 4>& pads() const { return pads_; }

 private:
  bool is_same_ = false;
  std::array<int64_t, 4> pads_{};
};

// What a layer does to its kernel before it is used: spectral_norm and the like.
using KernelMap = std::function<Tensor(Tensor kernel)>;

struct Dense {
  std::string activation = {};
  bool use_bias = true;
  std::optional<Init> kernel = {};  // unset: glorot_uniform
  Init bias = Init::zeros();
  Regulariser kernel_regulariser = {}, bias_regulariser = {};
  Constraint kernel_constraint = {}, bias_constraint = {};
  KernelMap kernel_map = {};
};

struct Conv {
  Size strides = 1;
  Padding padding = "valid";
  Size dilations = 1;
  int64_t groups = 1;
  std::string activation = {};
  bool use_bias = true;
  std::optional<Init> kernel = {};  // unset: glorot_uniform
  Init bias = Init::zeros();
  Regulariser kernel_regulariser = {}, bias_regulariser = {};
  Constraint kernel_constraint = {}, bias_constraint = {};
  KernelMap kernel_map = {};
};

// Of lines and volumes. Strides and dilations have a number for each axis, or one for all; none: 1.
struct ConvNd {
  Dims strides = {};
  std::string padding = "valid";  // "same"; of conv1d "causal" too
  Dims dilations = {};
  int64_t groups = 1;
  std::string activation = {};
  bool use_bias = true;
  std::optional<Init> kernel = {};  // unset: glorot_uniform
  Init bias = Init::zeros();
  Regulariser kernel_regulariser = {}, bias_regulariser = {};
  Constraint kernel_constraint = {}, bias_constraint = {};
  KernelMap kernel_map = {};
};

struct Pool {
  std::optional<Size> strides = {};  // unset: the size of the window
  Padding padding = "valid";
};

struct PoolNd {
  Dims strides = {};  // none: the size of the window
  std::string padding = "valid";
};

// The running variance is an average of the variances that training normalised with: of n numbers, their squared
// distances from the mean over n, as in Keras. (PyTorch averages those over n - 1, so that inference does not quite do
// what training did.)
struct BatchNorm {
  double momentum = 0.99;
  double epsilon = 1e-3;
  // Where ranks or replicas train together: normalise with the statistics of the whole batch, not of the samples that
  // each of them has.
  bool synchronised = false;
};

struct Norm {
  double epsilon = 1e-3;
};

struct Attention {
  int64_t key_dim = 0;  // of each head; 0: the width of x divided by the heads
  bool causal = false;
  Tensor mask = {};  // false at keys that a query must not attend to; broadcast to [batch, heads, queries, keys]
  std::optional<Init> kernel = {};
  Tensor context = {};    // [batch, keys, width]: what x attends to (cross-attention); unset: itself
  int64_t key_heads = 0;  // of keys and values, which neighbouring heads of queries share; 0: one for each
  int64_t value_dim = 0;  // of each head; 0: key_dim
  int64_t units = 0;      // of the output; 0: the width of x
  bool use_bias = true;
  int64_t window = 0;     // keys that are fewer positions away are seen; 0: all
  double cap = 0;         // scores become cap tanh(score / cap); 0: they stay
  bool alibi = false;     // scores fall with the distance
  double rope = 0;        // the base by which queries and keys are turned, such as 10000; 0: they are not
  Tensor bias = {};       // added to scores; broadcast to [batch, heads, queries, keys]
  Tensor sequences = {};  // i32 [batch, positions]: of which sequence each is, as where that begins; others are unseen
};

#define PLIMSOLL_PARAMETER(type, argument, ...) type argument __VA_OPT__(= __VA_ARGS__)
#define LAYER(function, description, ...)                                                                  \
  Tensor function(Tensor x __VA_OPT__(, ) PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__), Name name = {}); \
  Layer function(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__) __VA_OPT__(, ) Name name = {});
#define TRAINED_LAYER(function, description, ...)                                                        \
  Tensor function(Tensor x, bool training __VA_OPT__(, ) PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__), \
                  Name name = {});                                                                       \
  Layer function(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__) __VA_OPT__(, ) Name name = {});
#define RANDOM_LAYER(function, description, ...)                                                            \
  Tensor function(Tensor x, PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__), bool training, Name name = {}); \
  Layer function(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__), Name name = {});
#define MERGE_LAYER(function, description, ...)                                                                   \
  Tensor function(const std::vector<Tensor>& parts __VA_OPT__(, ) PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__), \
                  Name name = {});
#include <plimsoll/layers.inc>
#undef PLIMSOLL_PARAMETER
#undef LAYER
#undef TRAINED_LAYER
#undef RANDOM_LAYER
#undef MERGE_LAYER

Tensor add(Tensor a, Tensor b, Name name = {});

// Attention of x, which is [batch, positions, width], to itself or to a context.
Tensor multi_head_attention(Tensor x, int64_t heads, const Attention& options = {}, Name name = {});
Layer multi_head_attention(int64_t heads, const Attention& options = {}, Name name = {});

// A layer on each position of [batch, positions, ...], with the same weights.
Layer time_distributed(Layer layer);
// Whether x differs from the value that pads it: of class numbers as they are, else in any element of the last
// dimension.
Tensor mask_of(Tensor x, double padding = 0, Name name = {});
// x with zeros where its mask is zero; the mask has x's first dimensions.
Tensor masked(Tensor x, Tensor mask, Name name = {});
// A kernel over its largest singular value, which so many power iterations find, or in vectors of length 1 along its
// first axis: kernel maps.
Tensor spectral_norm(Tensor kernel, int64_t iterations = 8, Name name = {});
Tensor unit_rows(Tensor kernel, Name name = {});

// The list as data, for bindings and documentation.
struct LayerArgument {
  std::string_view type, name, otherwise;  // as written in the list; `otherwise` is empty where it must be given
};
struct LayerFunction {
  enum class Kind : uint8_t { Plain, Trained, Random, Merge };
  std::string_view name, description;
  Kind kind = Kind::Plain;
  std::vector<LayerArgument> arguments = {};
};
std::span<const LayerFunction> functions();

// Recurrent layers over x, which is [batch, positions, width]. Weights are those of Keras: kernel [width, gates units],
// recurrent_kernel [units, gates units], bias [gates units]; gru has a recurrent_bias too, the second row of Keras'
// bias. PyTorch's are the transposed ones; its two biases are added, those of gru stay apart. Several layers are in the
// scopes layer_0, layer_1 ..., directions in forward and backward.
struct Recurrent {
  bool return_sequences = false;   // all positions, [batch, positions, units]; else the last state
  bool reverse = false;            // from the last position to the first; outputs stay at their positions
  bool bidirectional = false;      // a second one of its own weights goes the other way
  std::string merge = "concat";    // of both directions: concat, sum, mul or ave
  int64_t layers = 1;              // stacked
  std::vector<Tensor> state = {};  // the first, as RecurrentOutput has the last; empty: zeros
  Tensor mask = {};                // bool [batch, positions]: where it is false, states stay as they are
  Tensor lengths = {};             // i32 or i64 [batch]: the same as a mask of so many positions
  bool zero_masked = false;        // outputs there are zero, as in PyTorch; else those of the position before
  std::string order = {};  // of the gates: lstm "ifgo" (default), "iofg"; gru "zrn" (Keras, default), "rzn" (PyTorch)
  std::string activation = "tanh";  // simple_rnn: tanh or relu
  bool use_bias = true;
  std::optional<Init> kernel = {};            // unset: glorot_uniform
  std::optional<Init> recurrent_kernel = {};  // unset: glorot_uniform
  Init bias = Init::zeros();
};

struct RecurrentOutput {
  Tensor output;
  // The last states [batch, units], layer by layer, forward before backward; of lstm each followed by its cell.
  std::vector<Tensor> state;
  operator Tensor() const { return output; }  // NOLINT(google-explicit-constructor)
};

RecurrentOutput simple_rnn(Tensor x, int64_t units, const Recurrent& options = {}, Name name = {});
RecurrentOutput lstm(Tensor x, int64_t units, const Recurrent& options = {}, Name name = {});
// The reset gate acts after the product, as in PyTorch and as Keras' default.
RecurrentOutput gru(Tensor x, int64_t units, const Recurrent& options = {}, Name name = {});
Layer simple_rnn(int64_t units, const Recurrent& options = {}, Name name = {});
Layer lstm(int64_t units, const Recurrent& options = {}, Name name = {});
Layer gru(int64_t units, const Recurrent& options = {}, Name name = {});

}  // namespace plimsoll::layers
