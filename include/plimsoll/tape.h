// Gradients of eager code, as with TensorFlow's GradientTape: what is computed while a tape lives can be
// differentiated.
//
//   Tape tape;
//   Tensor loss = sparse_cross_entropy(net(x, true), y);
//   adam.apply(tape.gradient(loss, net.weights()), net.weights());
#pragma once

#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

namespace eager {
class TapeState;
}

struct TapeOptions {
  bool persistent = false;      // gradient may be called several times
  bool watch_variables = true;  // all trained variables, by themselves
};

// In the innermost Eager of its thread. Tapes may be nested: the gradient of a gradient is that of the outer one.
class Tape {
 public:
  explicit Tape(const TapeOptions& options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // From now on, what is computed from this tensor can be differentiated with respect to it.
  void watch(const Tensor& tensor);

  // The gradient of `target`, or of the sum of its elements, for each of `sources`: unset where the two are not
  // connected or the source is not watched. Of a table whose rows were gathered it is row-sparse. A second call throws
  // Error unless the tape is persistent. `seed`, of the target's shape, weighs its elements.
  std::vector<Gradient> gradient(const Tensor& target, std::span<const Tensor> sources, const Tensor& seed = {},
                                 std::source_location where = std::source_location::current());
  std::vector<Gradient> gradient(const Tensor& target, const std::vector<Tensor>& sources, const Tensor& seed = {},
                                 std::source_location where = std::source_location::current()) {
    return gradient(target, std::span<const Tensor>(sources), seed, where);
  }
  // Dense; unset where they are not connected.
  Tensor gradient(const Tensor& target, const Tensor& source, const Tensor& seed = {},
                  std::source_location where = std::source_location::current());

 private:
  std::unique_ptr<eager::TapeState> state_;
};

}  // namespace plimsoll
