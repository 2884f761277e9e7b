// A graph being built: placeholders, variables, constants, and the scopes that name them. Operators are in ops.h.
//
//   Graph graph;
//   Tensor x = graph.placeholder<float>("x", {Dim::batch(), 100});
//   Tensor w = graph.variable("w", DType::F32, {100, 10}, Init::glorot_uniform(100, 10));
//   Tensor y = matmul(x, w);
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

namespace graph {
class ModelScope;
class ModelWeight;
}  // namespace graph

// How a variable starts: a description, so that values can be made in place when memory for them exists.
struct Init {
  // Scaled becomes one of the others when the variable is made: its range follows from the shape. Identity: 1 where row
  // and column are equal, of a matrix.
  enum class Kind : uint8_t { Constant, Uniform, Normal, TruncatedNormal, Scaled, Identity };
  Kind kind = Kind::Constant;
  double a =
      0;  // Constant: the value; Uniform: low; Normal: mean; Scaled: the factor of the variance; Identity: the value
  double b = 0;  // Uniform: high; Normal: standard deviation; Scaled: fan and distribution; Identity: columns

  static Init constant(double value) { return {Kind::Constant, value, 0}; }
  static Init zeros() { return constant(0); }
  static Init ones() { return constant(1); }
  static Init uniform(double low, double high) { return {Kind::Uniform, low, high}; }
  static Init normal(double mean, double deviation) { return {Kind::Normal, mean, deviation}; }
  // Normal, values beyond two deviations drawn again; `deviation` is that of the untruncated curve.
  static Init truncated_normal(double mean, double deviation) { return {Kind::TruncatedNormal, mean, deviation}; }
  // Keras' VarianceScaling: the variance is scale over the numbers that go into an element of the result, that come out
  // of an element, or their mean. They follow from the shape: [in, out] of a matrix, [out, in, ...] of a filter.
  enum class Fan : uint8_t { In, Out, Average };
  enum class Curve : uint8_t { TruncatedNormal, Normal, Uniform };
  static Init variance_scaling(double scale = 1, Fan fan = Fan::In, Curve curve = Curve::TruncatedNormal);
  static Init glorot_uniform() { return variance_scaling(1, Fan::Average, Curve::Uniform); }
  static Init glorot_normal() { return variance_scaling(1, Fan::Average); }
  static Init he_uniform() { return variance_scaling(2, Fan::In, Curve::Uniform); }
  static Init he_normal() { return variance_scaling(2); }
  static Init lecun_uniform() { return variance_scaling(1, Fan::In, Curve::Uniform); }
  static Init lecun_normal() { return variance_scaling(1); }
  static Init identity(double value = 1) { return {Kind::Identity, value, 0}; }
  // By a name of Keras or PyTorch: "he_normal", "glorot_uniform", "xavier_uniform" ... Throws Error that names all.
  static Init named(std::string_view name);
  static std::vector<std::string_view> names();
  // The same with fans of one's own.
  static Init glorot_uniform(int64_t fan_in, int64_t fan_out);
  static Init he_normal(int64_t fan_in);
  static Init lecun_normal(int64_t fan_in);

  friend bool operator==(const Init&, const Init&) = default;
};

// What is added to the loss for a weight: l1 sum |w| + l2 sum w^2.
struct Regulariser {
  double l1 = 0, l2 = 0;
  bool is_empty() const { return l1 == 0 && l2 == 0; }
  friend bool operator==(const Regulariser&, const Regulariser&) = default;
};

// What an update leaves of a weight.
struct Constraint {
  enum class Kind : uint8_t { None, NonNegative, MaxNorm, UnitNorm, MinMaxNorm };
  Kind kind = Kind::None;
  double least = 0, most = 1;  // of norms
  double rate = 1;             // MinMaxNorm: how far an update goes towards them
  int axis = -1;  // along which norms are taken; -1: what one output depends on, as Keras' axis 0 of a matrix

  static Constraint non_negative() { return {.kind = Kind::NonNegative}; }
  static Constraint max_norm(double most = 2, int axis = -1) {
    return {.kind = Kind::MaxNorm, .most = most, .axis = axis};
  }
  static Constraint unit_norm(int axis = -1) { return {.kind = Kind::UnitNorm, .axis = axis}; }
  static Constraint min_max_norm(double least = 0, double most = 1, double rate = 1, int axis = -1) {
    return {Kind::MinMaxNorm, least, most, rate, axis};
  }
  friend bool operator==(const Constraint&, const Constraint&) = default;
};

std::string to_string(const Init& init);  // "uniform(-0.05,0.05)"

// What a variable is for; decides its tag in the report and whether training changes it.
enum class VariableRole : uint8_t {
  Weight,     // trained
  Statistic,  // kept by a layer, not trained (running mean ...)
  Optimiser,  // kept by the optimiser for a weight
  Gradient,   // a sum of gradients, zero between two updates: no file holds it
};

// A variable as every graph that uses it knows it.
struct StoredVariable {
  std::string name;  // with its scopes: "block1/conv/kernel"
  TensorType type;
  VariableRole role = VariableRole::Weight;
  Init init;
  std::shared_ptr<graph::ModelWeight> weight = {};  // of a model: its numbers, for all graphs; null: of no model
  Regulariser regulariser = {};
  Constraint constraint = {};
};

// Variables by name, and the scopes in which they are named. Graphs that share a store use the same variables:
//
//   auto store = std::make_shared<VariableStore>();
//   Graph training(store), inference(store);
class VariableStore {
 public:
  VariableStore();
  ~VariableStore();
  VariableStore(const VariableStore&) = delete;
  VariableStore& operator=(const VariableStore&) = delete;

  const std::deque<StoredVariable>& variables() const;           // in the order in which they were made
  const StoredVariable* find(std::string_view full_name) const;  // null: there is none

  // The variable of that name in the innermost scope, made unless it is there. Throws Error where the two differ in
  // type, and for one that is not there in a scope opened for reuse.
  const StoredVariable& declare(std::string_view name, const TensorType& type, const Init& init, VariableRole role);

  // In the innermost scope: the name with all scopes before it, and whether variables that are there may be used again.
  std::string full_name(std::string_view name) const;
  // For all graphs that use it. Throws Error for a variable that is not there.
  void set_treatment(std::string_view full_name, const Regulariser& regulariser, const Constraint& constraint);
  bool is_reusing() const;
  bool is_in_scope() const;
  // A name for the next layer of that kind: dense, dense_1, dense_2 ... Counting starts again each time a scope is
  // opened, so that building a model again finds the same variables.
  std::string layer_name(std::string_view kind);

 private:
  friend class Scope;
  friend class graph::ModelScope;
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

class Graph {
 public:
  Graph();  // with a store of its own
  explicit Graph(std::shared_ptr<VariableStore> store);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = delete;
  ~Graph();

  // A value that is given with each step.
  Tensor placeholder(std::string_view name, DType dtype, const Shape& shape);
  template <Element T>
  Tensor placeholder(std::string_view name, const Shape& shape) {
    return placeholder(name, dtype_of<T>(), shape);
  }
  // In a scope opened for reuse this returns the variable of that name; elsewhere a second one in the same graph is an
  // error. One that another graph has put into the shared store is used as it is.
  Tensor variable(std::string_view name, DType dtype, const Shape& shape, const Init& init,
                  VariableRole role = VariableRole::Weight);
  // What training adds to the loss for a variable, and what its updates leave of it. Throws Error for what is no
  // variable.
  void regularise(Tensor variable, const Regulariser& regulariser);
  void constrain(Tensor variable, const Constraint& constraint);
  Tensor constant(DType dtype, const Shape& shape, std::span<const std::byte> bytes, std::string_view name = "");
  Tensor scalar(float number);
  // A name for the next layer of that kind in the innermost scope (see VariableStore), or in this graph outside of all.
  std::string layer_name(std::string_view kind);

  // Operators of that name, added from now on, may take each micro-batch for a batch of its own.
  void allow_split(std::string_view op);

  // After this the graph can't grow: further calls throw Error.
  void finalize();
  bool is_finalized() const;

  // The value of that full name; throws Error that names the nearest ones.
  Tensor find(std::string_view name);
  bool has_value(std::string_view name) const;

  const std::shared_ptr<VariableStore>& store() const;
  Bytes size_bytes() const;  // resident, of the graph itself

  // What the rest of the engine works on.
  graph::Body& body() { return *body_; }
  const graph::Body& body() const { return *body_; }

 private:
  std::unique_ptr<graph::Body> body_;
};

// The text form of a graph, one line for each thing in program order.
std::string to_string(const Graph& graph);

// Names made while this lives start with "name/". A scope may be opened again: with reuse, its variables are shared.
class Scope {
 public:
  enum class Mode { Inherit, Reuse };
  Scope(Graph& graph, std::string_view name, Mode mode = Mode::Inherit);
  Scope(VariableStore& store, std::string_view name, Mode mode = Mode::Inherit);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  VariableStore& store_;
};

}  // namespace plimsoll
