// A random graph: operators of the list of all functions, inputs with numbers, weights, a loss.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
#include "random/choices.h"

namespace plimsoll::testing {

// Whether a rule's results may be moved a little to measure a gradient.
enum class Slope : uint8_t {
  Smooth,
  Kinked,  // but for single points
  None,    // steps, or a gradient that is not that of the numbers
};

class GraphMaker {
 public:
  GraphMaker(Graph& to, Choices& from, Slope most) : graph(to), c(from), worst(most) {}

  // Inputs, then operators, then the loss.
  void make();

  // What the rules of operators ask for. Values of the pool are f32, their first dimension is the batch.
  Tensor any();                  // the newest is the simplest
  Tensor matrix();               // [B, n]
  Tensor sequence();             // [B, t, n]
  Tensor image();                // [B, channels, height, width]
  Tensor like(const Tensor& x);  // of the same sizes, or some that broadcast to them
  Tensor weight(const Shape& shape, double reach = 0, double middle = 0);  // reach 0: by the number of rows
  Tensor statistic(const Shape& shape, double number);
  Tensor input(DType dtype, const Shape& shape, int64_t below);  // whole numbers from 0 on; 0: reals
  void keep(const Tensor& x);                                    // unless it is too large
  void minimise(const Tensor& loss) { losses_.push_back(loss); }
  int64_t size() { return c.pick({2, 1, 3, 4, 5, 8, 16, 17, 33}); }

  Graph& graph;
  Choices& c;
  const Slope worst;

  struct Input {
    Tensor placeholder;
    int64_t below;
  };
  std::vector<Input> inputs;
  std::vector<Tensor> weights;
  Tensor loss;

 private:
  std::vector<Tensor> pool_, losses_;
  int64_t most_elements_ = 512;
};

// How to call a function of ops::functions(). Adds results to the maker's pool.
struct OpRule {
  std::string_view function;
  Slope slope;
  void (*call)(GraphMaker&);
};
std::span<const OpRule> op_rules();

// Elements of one sample.
inline int64_t elements_of(const Tensor& x) { return element_count(x.shape()).count(); }

}  // namespace plimsoll::testing
