#include "shrink/int8_rewrite.h"

#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "ops/ops.h"

namespace plimsoll::shrink {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// One replay: what was made so far in the graph that is built.
class Int8Replay {
 public:
  explicit Int8Replay(std::shared_ptr<const Int8Plan> plan) : plan_(std::move(plan)) {}

  std::optional<std::vector<Tensor>> make(model::ReplayedNode& node) {
    const Int8Graph& graph = plan_->graph;
    if (node.id < graph.pass->begin.nodes || node.id >= graph.pass->end.nodes) return std::nullopt;
    const Int8Unit* unit = graph.int8_unit(node.id);
    if (unit == nullptr) return std::nullopt;
    if (node.id == unit->anchor) begin(*unit, node);
    std::vector<Tensor> outputs(static_cast<size_t>(node.node().outputs));
    if (node.id != unit->last) return outputs;
    const Tensor y = finish(*unit, node.graph);
    outputs[0] = y;
    if (y.dtype() != DType::U8) return outputs;
    bytes_[unit->y] = y;
    const ByteScale scale = plan_->scale_at(unit->y);
    outputs[0] = graph.needs_floats[static_cast<size_t>(unit->y)] ? dequantise(y, scale.scale, scale.zero) : Tensor();
    return outputs;
  }

 private:
  // "conv1/conv2d" -> "conv1/int8_conv2d": plans and profiles name nodes.
  static std::string with_int8(std::string name) {
    if (!name.empty()) name.insert(name.find_last_of('/') + 1, "int8_");
    return name;
  }

  Tensor bytes_of(ValueId id, const Tensor& floats) {
    const auto found = bytes_.find(id);
    if (found != bytes_.end()) return found->second;
    const ByteScale scale = plan_->scale_at(id);
    return bytes_[id] = quantise(floats, scale.scale, scale.zero, DType::U8);
  }

  void begin(const Int8Unit& unit, model::ReplayedNode& node) {
    x_.clear();
    name_ = unit.kind == Int8Kind::Concat || unit.kind == Int8Kind::View ? node.name : with_int8(node.name);
    attrs_ = node.attrs;
    for (size_t i = 0; i < unit.x.size(); ++i) x_.push_back(bytes_of(unit.x[i], node.inputs[i]));
  }

  Tensor finish(const Int8Unit& unit, Graph& graph) {
    switch (unit.kind) {
      case Int8Kind::Conv2d:
      case Int8Kind::Dense:
        return finish_product(unit, graph);
      case Int8Kind::Add:
        return finish_sum(unit);
      case Int8Kind::Relu: {
        const ByteScale from = plan_->scale_at(unit.x[0]), to = plan_->scale_at(unit.y);
        const double factor = from.scale / to.scale;
        return ops::int8_rescale(x_[0], factor, number(to.zero) - factor * number(from.zero), number(to.zero), name_);
      }
      case Int8Kind::MaxPool:
        return ops::int8_max_pool(x_[0], window_size(), kernels::window_of(attrs_), name_);
      case Int8Kind::AveragePool: {
        const ByteScale from = plan_->scale_at(unit.x[0]), to = plan_->scale_at(unit.y);
        return ops::int8_average_pool(x_[0], window_size(), kernels::window_of(attrs_), attrs_.i("count_pads") != 0,
                                      from.scale / to.scale, from.zero, to.zero, name_);
      }
      case Int8Kind::Concat:
      case Int8Kind::View:
        break;
    }
    // Bytes are only moved: the operator itself.
    return graph::apply(*plan_->graph.body().node(unit.anchor).op, x_, attrs_, name_);
  }

  static double number(int64_t zero) { return static_cast<double>(zero); }

  Size2d window_size() const {
    const Dims size = attrs_.dims("size");
    return {size[0], size[1]};
  }

  Tensor finish_sum(const Int8Unit& unit) {
    const ByteScale a = plan_->scale_at(unit.x[0]), b = plan_->scale_at(unit.x[1]), y = plan_->scale_at(unit.y);
    const double of_a = a.scale / y.scale, of_b = b.scale / y.scale;
    return ops::int8_add(x_[0], x_[1], of_a, of_b, number(y.zero) - of_a * number(a.zero) - of_b * number(b.zero),
                         unit.activation.empty() ? 0 : number(y.zero), name_);
  }

  // The kernel pads with bytes of 0. Where another byte stands for zero, padding is an operator of its own.
  Tensor padded(const Int8Unit& unit, Window& window) {
    const ByteScale x = plan_->scale_at(unit.x[0]);
    if (x.zero == 0 || window.pads == std::array<int64_t, 4>{}) return x_[0];
    const auto pads = std::exchange(window.pads, {});
    return pad(x_[0], {0, 0, pads[0], pads[1]}, {0, 0, pads[2], pads[3]}, number(x.zero));
  }

  Tensor finish_product(const Int8Unit& unit, Graph& graph) {
    const Int8Names names = names_of(*plan_, unit);
    const Shape shape = kernel_shape(*plan_, unit);
    const Body& body = plan_->graph.body();
    const VariableRole role = body.variable_of(unit.kernel).role();
    if (!kernels_.contains(unit.kernel))
      kernels_[unit.kernel] = graph.variable(names.kernel, DType::I8, shape, Init::zeros(), role);
    const Tensor kernel = kernels_[unit.kernel];
    const Tensor scale = graph.variable(names.scale, DType::F32, {shape[0]}, Init::zeros(), VariableRole::Statistic);
    const Tensor offset = graph.variable(names.offset, DType::F32, {shape[0]}, Init::zeros(), VariableRole::Statistic);
    double low = -kUnlimited, high = kUnlimited;
    const bool gives_bytes = plan_->gives_bytes(unit);
    const ByteScale y = gives_bytes ? plan_->scale_at(unit.y) : ByteScale{};
    if (!unit.activation.empty()) low = number(y.zero);
    if (unit.activation == "relu6") high = number(y.zero) + 6 / y.scale;
    const DType dtype = gives_bytes ? DType::U8 : DType::F32;
    if (gives_bytes && low <= 0) low = -kUnlimited;  // bytes saturate there
    if (gives_bytes && high >= 255) high = kUnlimited;
    if (unit.kind == Int8Kind::Dense)
      return ops::int8_dense(x_[0], kernel, scale, offset, dtype, low, high, plan_->full_range, name_);
    Window window = kernels::window_of(attrs_);
    const Tensor x = padded(unit, window);
    return ops::int8_conv2d(x, kernel, scale, offset, window, dtype, low, high, plan_->full_range, name_);
  }

  using Body = graph::Body;
  const std::shared_ptr<const Int8Plan> plan_;
  std::unordered_map<ValueId, Tensor> bytes_, kernels_;  // by traced value
  // State of the unit whose anchor came last: no other unit begins before it ends, since its values have no other
  // users.
  std::vector<Tensor> x_;
  std::string name_;
  graph::Attrs attrs_;
};

}  // namespace

Int8Names names_of(const Int8Plan& plan, const Int8Unit& unit) {
  const graph::Body& body = plan.graph.body();
  std::string kernel(body.name(body.value(unit.kernel)));
  const std::string& scope = plan.graph.pass->scope;
  if (kernel.starts_with(scope)) kernel.erase(0, scope.size());
  int64_t before = 0;
  for (const Int8Unit& other : plan.graph.units) {
    if (&other == &unit || other.anchor == unit.anchor) break;
    before += other.is_int8 && other.kernel == unit.kernel ? 1 : 0;
  }
  const std::string suffix = before == 0 ? "" : fmt::format("_{}", before);
  return {kernel, kernel + "_scale" + suffix, kernel + "_offset" + suffix};
}

Shape kernel_shape(const Int8Plan& plan, const Int8Unit& unit) {
  const Shape& shape = plan.graph.body().value(unit.kernel).type.shape;
  return unit.kind == Int8Kind::Dense && !unit.is_transposed ? Shape{shape[1], shape[0]} : shape;
}

model::Rewrite int8_rewrite(const std::shared_ptr<const Int8Plan>& plan) {
  model::Rewrite rewrite;
  rewrite.variable = [plan](const model::ReplayedVariable& variable) -> std::optional<Tensor> {
    const graph::Body& body = plan->graph.body();
    for (const graph::Variable& known : body.variables())
      if (known.stored->name == variable.stored.name && plan->graph.leaves_out[static_cast<size_t>(known.value)])
        return Tensor();
    return std::nullopt;
  };
  const auto replay = std::make_shared<Int8Replay>(plan);
  rewrite.node = [replay](model::ReplayedNode& node) { return replay->make(node); };
  return rewrite;
}

}  // namespace plimsoll::shrink
