// The text form of a graph, one line for each thing in program order:
//   placeholder x f32[B,784]
//   variable fc/kernel f32[784,10] weight uniform(-0.08,0.08)
//   constant scalar f32[] 0000803f
//   y = matmul(x, fc/kernel) transpose_b=1
// "backward" and "forward" on a line of their own say which pass the nodes after it belong to; a graph starts forward.
#include "graph/text.h"

#include <charconv>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/apply.h"
#include "graph/body.h"
#include "graph/init.h"
#include "graph/shape.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kRoles[] = {"weight", "statistic", "optimiser", "gradient"};
constexpr std::string_view kHeader = "plimsoll graph 1";

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<int>(byte));
  return text;
}

std::vector<std::byte> unhex(std::string_view text) {
  if (text.size() % 2 != 0) throw Error("a constant has half a byte");
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    int byte = 0;
    const auto [end, status] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (status != std::errc() || end != text.data() + i + 2) throw Error("a constant is not written in hexadecimal");
    bytes.push_back(static_cast<std::byte>(byte));
  }
  return bytes;
}

std::string_view take_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

TensorType parse_type(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos) throw Error(fmt::format("'{}' is not a type such as f32[B,10]", text));
  return {parse_dtype(text.substr(0, open)), parse_shape(text.substr(open))};
}

void parse_node(std::string_view name, std::string_view line, FindOp find_op, Graph& graph) {
  const size_t open = line.find('(');
  const size_t close = line.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    throw Error("a node is written name = op(inputs) settings");
  const std::string_view op_name = line.substr(0, open);
  const Op* op = find_op(op_name);
  if (op == nullptr) throw Error(fmt::format("operator '{}' is unknown", op_name));
  std::vector<Tensor> inputs;
  std::string_view list = line.substr(open + 1, close - open - 1);
  while (!list.empty()) {
    const size_t comma = std::min(list.find(", "), list.size());
    inputs.push_back(graph.find(list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 2, list.size()));
  }
  const Attrs attrs = parse_attrs(line.substr(close + 1));
  // The functions that users call resolve an axis before an operator sees it; a text may say anything.
  if (attrs.has("axis") && !inputs.empty()) {
    const int64_t axis = attrs.i("axis");
    if (axis < 0 || axis >= inputs[0].shape().rank())
      throw Error(fmt::format("axis {} is outside {}", axis, to_string(inputs[0].type())));
  }
  if (inputs.empty() && op->traits.source)
    apply_in(graph, *op, attrs, name);
  else
    apply(*op, inputs, attrs, name);
}

void parse_line(std::string_view line, FindOp find_op, Graph& graph) {
  const std::string_view first = take_word(line);
  if (first == "placeholder") {
    const std::string_view name = take_word(line);
    const TensorType type = parse_type(take_word(line));
    graph.placeholder(name, type.dtype, type.shape);
  } else if (first == "variable") {
    const std::string_view name = take_word(line);
    const TensorType type = parse_type(take_word(line));
    const std::string_view role = take_word(line);
    for (size_t i = 0; i < std::size(kRoles); ++i) {
      if (role != kRoles[i]) continue;
      graph.variable(name, type.dtype, type.shape, parse_init(line), static_cast<VariableRole>(i));
      return;
    }
    throw Error(fmt::format("'{}' is not a role; known are weight, statistic, optimiser, gradient", role));
  } else if (first == "constant") {
    const std::string_view name = take_word(line);
    const TensorType type = parse_type(take_word(line));
    graph.constant(type.dtype, type.shape, unhex(line), name);
  } else if ((first == "backward" || first == "forward") && line.empty()) {
    graph.body().set_backward(first == "backward");
  } else {
    if (take_word(line) != "=") throw Error(fmt::format("'{}' is no statement", first));
    parse_node(first, line, find_op, graph);
  }
}

// Checks the values that the last line made. Sizes that pass 64 bits throw an Error in element_count.
void expect_sizes(const Body& graph, size_t first, int64_t most) {
  for (size_t i = first; i < graph.values().size(); ++i)
    if (const TensorType& type = graph.values()[i].type; element_count(type.shape).count() > most)
      throw Error(fmt::format("{} is too large: a value has at most {} elements", to_string(type), most));
}

}  // namespace

std::string to_string(const Body& graph) {
  // Values without a producer are printed where they were made, that is in the order of their ids.
  std::string text(kHeader);
  text += '\n';
  ValueId next = 0;
  const auto print_leaves_before = [&](ValueId end) {
    for (; next < end; ++next) {
      const Value& value = graph.value(next);
      const std::string head = fmt::format(" {} {}", graph.name(value), to_string(value.type));
      if (value.kind == ValueKind::Placeholder) text += "placeholder" + head + "\n";
      if (value.kind == ValueKind::Constant)
        text += "constant" + head + " " + hex(graph.constant_of(next).bytes) + "\n";
      if (value.kind == ValueKind::Variable) {
        const Variable& variable = graph.variable_of(next);
        text += fmt::format("variable{} {} {}\n", head, kRoles[static_cast<size_t>(variable.role())],
                            to_string(variable.init()));
      }
    }
  };
  bool backward = false;
  for (const Node& node : graph.nodes()) {
    print_leaves_before(node.first_output);
    if (node.is_backward != backward) text += node.is_backward ? "backward\n" : "forward\n";
    backward = node.is_backward;
    text += fmt::format("{} = {}(", graph.name(node), node.op->name);
    bool first = true;
    for (const ValueId input : graph.inputs(node)) {
      text += fmt::format("{}{}", first ? "" : ", ", graph.name(graph.value(input)));
      first = false;
    }
    text += ")";
    if (const Attrs& attrs = graph.attrs(node); !attrs.empty()) text += " " + to_string(attrs);
    text += '\n';
  }
  print_leaves_before(static_cast<ValueId>(graph.values().size()));
  return text;
}

void parse_graph(std::string_view text, FindOp find_op, Graph& into, const TextLimits& limits) {
  int64_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    try {
      if (line_number == 1) {
        if (line != kHeader) throw Error(fmt::format("it does not start with '{}'", kHeader));
      } else if (!line.empty()) {
        const size_t values = into.body().values().size();
        if (line_number > limits.lines) throw Error(fmt::format("a graph has at most {} lines", limits.lines));
        parse_line(line, find_op, into);
        expect_sizes(into.body(), values, limits.elements);
      }
    } catch (const Error& error) {
      throw Error(fmt::format("graph text, line {}: {}", line_number, error.what()), ErrorKind::BadData);
    }
  }
  if (line_number == 0) throw Error("graph text is empty", ErrorKind::BadData);
}

}  // namespace plimsoll::graph

namespace plimsoll {

std::string to_string(const Graph& graph) { return graph::to_string(graph.body()); }

}  // namespace plimsoll
