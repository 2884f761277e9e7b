#include "shrink/int8_graph.h"

#include <algorithm>
#include <numeric>
#include <ranges>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/int8_convolution.h"
#include "lower/predict.h"
#include "ops/ops.h"

namespace plimsoll::shrink {
namespace {

class UnitFinder {
 public:
  UnitFinder(const model::TracedPass& pass, int64_t batch, bool all)
      : graph_{.pass = &pass}, body_(pass.graph->body()), batch_(batch), all_(all), users_(body_.values().size()) {
    is_output_.resize(body_.values().size());
    for (NodeId id = pass.begin.nodes; id < pass.end.nodes; ++id)
      for (const ValueId input : body_.inputs(body_.node(id))) users_[index(input)].push_back(id);
    for (const auto& [name, id] : pass.outputs) is_output_[index(id)] = true;
    graph_.unit_of.assign(body_.nodes().size(), -1);
  }

  Int8Graph run() {
    for (NodeId id = graph_.pass->begin.nodes; id < graph_.pass->end.nodes; ++id) {
      expect_floats(body_.node(id));
      if (graph_.unit_of[index(id)] < 0) add_unit(id);
    }
    choose();
    find_needs();
    find_scales();
    find_left_out();
    const auto is_quantised = [](const Int8Unit& unit) { return unit.is_int8 && unit.has_weights(); };
    if (std::none_of(graph_.units.begin(), graph_.units.end(), is_quantised)) refuse_nothing();
    return std::move(graph_);
  }

 private:
  template <class Id>
  static size_t index(Id id) {
    return static_cast<size_t>(id);
  }

  static void expect_floats(const graph::Node& node) {
    if (node.op->name.starts_with("int8_") || node.op->name == "quantise")
      throw Error("this model is quantised already; quantise the f32 model that it was made of", ErrorKind::Usage);
    if (node.op->name.starts_with("sparse_"))
      throw Error(
          "this model is stripped: weights are masks and values, which have no int8 form; quantise the model that "
          "it was made of",
          ErrorKind::Usage);
  }

  [[noreturn]] void refuse_nothing() const {
    const bool has_candidates =
        std::any_of(graph_.units.begin(), graph_.units.end(), [](const Int8Unit& unit) { return unit.has_weights(); });
    throw Error(has_candidates
                    ? "no layer of this model is predicted to be faster in int8; ask for all layers to quantise "
                      "them anyway"
                    : "there is nothing to quantise: the model has no dense layer and no convolution with "
                      "weights of its own",
                ErrorKind::Usage);
  }

  bool is_computed_float(ValueId id) const {
    const graph::Value& value = body_.value(id);
    return value.type.dtype == DType::F32 &&
           (value.kind == graph::ValueKind::Computed || value.kind == graph::ValueKind::Placeholder);
  }
  bool is_variable(ValueId id) const { return body_.value(id).kind == graph::ValueKind::Variable; }

  // The only node that reads the value; -1: there are several, or none, or it is an output.
  NodeId only_user(ValueId id) const {
    const std::vector<NodeId>& users = users_[index(id)];
    return users.size() == 1 && !is_output_[index(id)] ? users[0] : -1;
  }

  // Weights that another kind of operator reads too, such as an embedding, stay as they are.
  bool is_own_kernel(ValueId kernel, const graph::Node& node) const {
    if (!is_variable(kernel) || body_.value(kernel).type.dtype != DType::F32) return false;
    const auto& users = users_[index(kernel)];
    return std::all_of(users.begin(), users.end(), [&](NodeId user) {
      const graph::Node& other = body_.node(user);
      return other.op == node.op && body_.inputs(other)[1] == kernel && body_.attrs(other) == body_.attrs(node);
    });
  }

  void add_unit(NodeId id) {
    const graph::Node& node = body_.node(id);
    const std::string_view op = node.op->name;
    if (op == "conv2d" || op == "matmul") return add_product(id, op == "matmul");
    if (op == "add") return add_other(id, Int8Kind::Add, 2, true);
    if (op == "max_pool") return add_other(id, Int8Kind::MaxPool, 1, false);
    if (op == "average_pool") return add_other(id, Int8Kind::AveragePool, 1, false);
    if (op == "concat") return add_other(id, Int8Kind::Concat, 0, false);
    if (op == "relu") return add_other(id, Int8Kind::Relu, 1, false);
    if (node.op->traits.view) return add_other(id, Int8Kind::View, 1, false);
  }

  void add_product(NodeId id, bool is_dense) {
    const graph::Node& node = body_.node(id);
    const auto in = body_.inputs(node);
    const graph::Attrs& attrs = body_.attrs(node);
    if (attrs.has("activation") || attrs.i("residual") != 0 || attrs.i("transpose_a") != 0) return;
    if (!is_computed_float(in[0]) || !is_own_kernel(in[1], node)) return;
    if (in.size() == 3 && !is_variable(in[2])) return;
    const Shape& kernel = body_.value(in[1]).type.shape;
    if (is_dense && (kernel.rank() != 2 || body_.value(in[0]).type.shape.rank() != 2)) return;
    Int8Unit unit{.kind = is_dense ? Int8Kind::Dense : Int8Kind::Conv2d, .anchor = id, .last = id};
    unit.is_transposed = attrs.i("transpose_b") != 0;
    const int64_t outputs = kernel[is_dense && !unit.is_transposed ? 1 : 0].fixed();
    if (element_count(kernel).fixed() / outputs > kernels::kMostByteProducts) return;
    unit.x = {in[0]};
    unit.y = node.first_output;
    unit.kernel = in[1];
    unit.bias = in.size() == 3 ? in[2] : -1;
    fold_norm(unit);
    fold_activation(unit, true);
    keep(std::move(unit));
  }

  void add_other(NodeId id, Int8Kind kind, size_t inputs, bool folds_relu) {
    const graph::Node& node = body_.node(id);
    const auto in = body_.inputs(node);
    if (inputs != 0 && in.size() != inputs) return;
    for (const ValueId input : in)
      if (!is_computed_float(input)) return;
    for (int i = 1; i < node.outputs; ++i)
      if (!users_[index(node.first_output + i)].empty()) return;
    if (kind == Int8Kind::Add && !(body_.value(in[0]).type.shape == body_.value(in[1]).type.shape)) return;
    Int8Unit unit{.kind = kind, .anchor = id, .last = id, .x = {in.begin(), in.end()}, .y = node.first_output};
    if (kind == Int8Kind::Relu) unit.activation = "relu";
    if (folds_relu) fold_activation(unit, false);
    keep(std::move(unit));
  }

  void fold_norm(Int8Unit& unit) const {
    const NodeId user = only_user(unit.y);
    if (user < 0 || body_.node(user).op->name != "batch_norm_inference") return;
    const auto in = body_.inputs(body_.node(user));
    if (in.size() != 5 || in[0] != unit.y || body_.attrs(body_.node(user)).has("activation")) return;
    if (!std::all_of(in.begin() + 1, in.end(), [&](ValueId id) { return is_variable(id); })) return;
    unit.norm = unit.last = user;
    unit.y = body_.node(user).first_output;
  }

  void fold_activation(Int8Unit& unit, bool with_relu6) const {
    const NodeId user = only_user(unit.y);
    if (user < 0 || body_.node(user).op->fusion.activation == nullptr) return;
    const graph::Node& node = body_.node(user);
    const std::string_view name = node.op->fusion.activation(body_.attrs(node));
    if (name != "relu" && !(with_relu6 && name == "relu6")) return;
    unit.activation = name;
    unit.last = user;
    unit.y = node.first_output;
  }

  void keep(Int8Unit unit) {
    const auto number = static_cast<int32_t>(graph_.units.size());
    for (const NodeId node : {unit.anchor, unit.norm, unit.last})
      if (node >= 0) graph_.unit_of[index(node)] = number;
    graph_.units.push_back(std::move(unit));
  }

  kernels::ConcreteType concrete(ValueId id) const {
    const TensorType& type = body_.value(id).type;
    return {type.dtype, at_batch(type.shape, batch_), {}, false};
  }

  // The predicted time to convert the value between floats and bytes and to change its layout.
  double conversion_ns(ValueId id) const {
    return lower::predict_ns({.bytes = 8.0 * static_cast<double>(concrete(id).count())}, {});
  }

  bool is_faster(const Int8Unit& unit, bool has_bytes) const {
    const graph::Node& node = body_.node(unit.anchor);
    std::vector<kernels::ConcreteType> in;
    for (const ValueId input : body_.inputs(node)) in.push_back(concrete(input));
    const std::vector<kernels::ConcreteType> out{concrete(node.first_output)};
    const kernels::Facts facts{body_.attrs(node), in, out, batch_, batch_};
    const double floats_ns = lower::predict_ns(lower::cost_of(*node.op, facts), {});
    const Dims &x = in[0].dims, &kernel = in[1].dims, &y = out[0].dims;
    const kernels::ConvolutionSizes sizes =
        unit.kind == Int8Kind::Conv2d
            ? kernels::ConvolutionSizes{x, kernel, y, kernels::window_of(body_.attrs(node))}
            : kernels::ConvolutionSizes{{1, x[1], x[0], 1}, {y[1], x[1], 1, 1}, {1, y[1], x[0], 1}, {}};
    graph::Cost cost = kernels::cost_of_int8_convolution(sizes);
    cost.bytes = static_cast<double>(in[0].count() + in[1].count() + out[0].count());
    const double bytes_ns = lower::predict_ns(cost, {});
    const auto& users = users_[index(unit.y)];
    const bool is_read_as_bytes = std::any_of(users.begin(), users.end(), [&](NodeId user) {
      const int32_t other = graph_.unit_of[index(user)];
      return other >= 0 && graph_.units[index(other)].has_weights();
    });
    return bytes_ns + (has_bytes ? 0 : conversion_ns(unit.x[0])) <
           floats_ns + (has_bytes ? conversion_ns(unit.x[0]) : 0) + (is_read_as_bytes ? conversion_ns(unit.y) : 0);
  }

  void choose() {
    std::vector<bool> has_bytes(body_.values().size());
    for (Int8Unit& unit : graph_.units) {
      const bool have = std::all_of(unit.x.begin(), unit.x.end(), [&](ValueId id) { return has_bytes[index(id)]; });
      unit.is_int8 = unit.has_weights() ? all_ || is_faster(unit, have) : have;
      has_bytes[index(unit.y)] = unit.is_int8;
    }
    // An operator without weights stays in floats where no int8 operator reads its result.
    for (Int8Unit& unit : std::views::reverse(graph_.units)) {
      const auto& users = users_[index(unit.y)];
      if (!unit.has_weights())
        unit.is_int8 = unit.is_int8 && std::any_of(users.begin(), users.end(),
                                                   [&](NodeId user) { return graph_.int8_unit(user) != nullptr; });
    }
  }

  void find_needs() {
    graph_.needs_bytes.assign(body_.values().size(), false);
    graph_.needs_floats.assign(body_.values().size(), false);
    for (const auto& [name, id] : graph_.pass->outputs) graph_.needs_floats[index(id)] = true;
    for (NodeId id = graph_.pass->begin.nodes; id < graph_.pass->end.nodes; ++id) {
      const Int8Unit* unit = graph_.int8_unit(id);
      if (unit != nullptr && id != unit->anchor) continue;  // reads what the unit itself makes
      if (unit == nullptr) {
        for (const ValueId input : body_.inputs(body_.node(id))) graph_.needs_floats[index(input)] = true;
      } else {
        for (const ValueId input : unit->x) graph_.needs_bytes[index(input)] = true;
      }
    }
  }

  ValueId first_of(ValueId id) {
    while (graph_.same_scale[index(id)] != id) id = graph_.same_scale[index(id)];
    return id;
  }

  // Inputs and outputs of operators that only move bytes, or choose among them, share one scale.
  void find_scales() {
    graph_.same_scale.resize(body_.values().size());
    std::iota(graph_.same_scale.begin(), graph_.same_scale.end(), ValueId{0});
    for (const Int8Unit& unit : graph_.units) {
      if (!unit.is_int8) continue;
      if (unit.kind != Int8Kind::MaxPool && unit.kind != Int8Kind::Concat && unit.kind != Int8Kind::View) continue;
      for (const ValueId x : unit.x) graph_.same_scale[index(first_of(x))] = first_of(unit.y);
    }
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.same_scale.size()); ++id)
      graph_.same_scale[index(id)] = first_of(id);
  }

  void find_left_out() {
    graph_.leaves_out.assign(body_.values().size(), false);
    for (ValueId id = 0; id < graph_.pass->end.values; ++id) {
      const auto& users = users_[index(id)];
      graph_.leaves_out[index(id)] =
          is_variable(id) && !users.empty() && !is_output_[index(id)] &&
          std::all_of(users.begin(), users.end(), [&](NodeId user) { return graph_.int8_unit(user) != nullptr; });
    }
  }

  Int8Graph graph_;
  const graph::Body& body_;
  const int64_t batch_;
  const bool all_;
  std::vector<std::vector<NodeId>> users_;  // by value, in this pass
  std::vector<bool> is_output_;             // by value
};

}  // namespace

Int8Graph find_int8(const model::TracedPass& pass, int64_t batch, bool all) {
  return UnitFinder(pass, batch, all).run();
}

}  // namespace plimsoll::shrink
