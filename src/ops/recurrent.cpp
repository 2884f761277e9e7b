// lstm, gru, simple_rnn: a recurrent layer over a whole sequence as one operator. The products with the inputs are one
// product over all positions, which the functions add before; their result is where the gates are written, and the
// gates' gradients after them. Where a mask is 0 states stay as they are.
#include "kernels/recurrent.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// What tells the three operators apart.
struct CellKind {
  Cell cell;
  const char* gates;  // in the order of kernels/recurrent.h
};
constexpr CellKind kSimple{Cell::Simple, "h"}, kLstm{Cell::Lstm, "ifgo"}, kGru{Cell::Gru, "zrn"};

constexpr size_t kNone = SIZE_MAX;

// Inputs that settings name follow the first ones, in this order.
struct Extras {
  Extras(const Attrs& attrs, size_t first) {
    const std::pair<const char*, size_t*> settings[] = {{"bias", &bias}, {"state", &state}, {"cell", &cell},
                                                        {"dy", &dy},     {"dlast", &dlast}, {"dlast_cell", &dlast_cell},
                                                        {"mask", &mask}};
    for (const auto& [name, at] : settings)
      if (attrs.i(name) != 0) *at = first++;
    count = first;
  }
  size_t bias = kNone, state = kNone, cell = kNone, dy = kNone, dlast = kNone, dlast_cell = kNone, mask = kNone;
  size_t count = 0;
};

// Where each gate lies among the columns: from "ifgo" (Keras, PyTorch) or "iofg" (ONNX).
std::optional<std::array<int64_t, 4>> places_of(const CellKind& kind, std::string_view order) {
  const std::string_view gates = kind.gates;
  std::array<int64_t, 4> at{};
  if (order.size() != gates.size()) return std::nullopt;
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t place = order.find(gates[i]);
    if (place == std::string_view::npos) return std::nullopt;
    at[i] = static_cast<int64_t>(place);
  }
  return at;
}

int64_t gates_of(const CellKind& kind) { return static_cast<int64_t>(std::string_view(kind.gates).size()); }

template <const CellKind& kKind>
void infer(Infer& n) {
  n.expect_inputs(2, 6);
  n.expect_rank(0, 3);
  n.expect_rank(1, 2);
  const Shape& x = n.in[0].shape;
  const Shape& recurrent = n.in[1].shape;
  const int64_t gates = gates_of(kKind);
  if (recurrent[0].is_batch() || recurrent[0].fixed() < 1 || !(recurrent[1] == Dim(recurrent[0].fixed() * gates)))
    n.fail(fmt::format("the recurrent kernel is {} but must be [units, {} units]", to_string(n.in[1]), gates));
  const Dim units = recurrent[0];
  if (!(x[2] == recurrent[1]) || x[1].is_batch() || x[1].fixed() < 1)
    n.fail(fmt::format("the sequence is {} but must be [batch, positions, {}], with at least one position",
                       to_string(n.in[0]), to_string(recurrent[1])));
  if (!places_of(kKind, n.attrs.s("order", kKind.gates)))
    n.fail(fmt::format("the order of gates is '{}' but must name each of '{}' once", n.attrs.s("order"), kKind.gates));
  const std::string_view activation = n.attrs.s("activation", "tanh");
  if (activation != "tanh" && (kKind.cell != Cell::Simple || activation != "relu"))
    n.fail(fmt::format("activation '{}' is unknown; known are tanh{}", activation,
                       kKind.cell == Cell::Simple ? " and relu" : ""));
  const Extras more(n.attrs, 2);
  const bool knows = (more.bias == kNone || kKind.cell == Cell::Gru) &&
                     (more.cell == kNone || kKind.cell == Cell::Lstm) && more.dy == kNone && more.dlast == kNone &&
                     more.dlast_cell == kNone;
  if (!knows || more.count != n.in.size()) n.fail(fmt::format("{} inputs do not match the settings", n.in.size()));
  const TensorType state{DType::F32, {x[0], units}};
  const auto expect = [&](size_t input, const TensorType& type, std::string_view what) {
    if (input != kNone && !(n.in[input] == type))
      n.fail(fmt::format("{} is {} but must be {}", what, to_string(n.in[input]), to_string(type)));
  };
  expect(more.bias, {DType::F32, {recurrent[1]}}, "the recurrent bias");
  expect(more.state, state, "the initial state");
  expect(more.cell, state, "the initial cell");
  expect(more.mask, {DType::Bool, {x[0], x[1]}}, "the mask");
  const TensorType sequence{DType::F32, {x[0], x[1], units}};
  n.out = {sequence, state};
  if (kKind.cell == Cell::Lstm) n.out = {n.in[0], sequence, state, sequence, state};
  if (kKind.cell == Cell::Gru) n.out = {n.in[0], sequence, state};
}

template <const CellKind& kKind>
RecurrentSizes sizes_of(const Facts& facts, size_t recurrent) {
  RecurrentSizes n;
  n.cell = kKind.cell;
  n.batch = facts.in[0].dims[0];
  n.steps = facts.in[0].dims[1];
  n.units = facts.in[recurrent].dims[0];
  n.reverse = facts.attrs.i("reverse") != 0;
  n.relu = facts.attrs.s("activation") == "relu";
  n.at = *places_of(kKind, facts.attrs.s("order", kKind.gates));
  return n;
}

template <class T>
const T* input_or_null(const Args& args, size_t i) {
  return i == kNone ? nullptr : args.input<T>(i);
}

template <const CellKind& kKind>
Prepared prepare(const Facts& facts) {
  const auto recurrence = std::make_shared<Recurrence>(sizes_of<kKind>(facts, 1));
  const Extras more(facts.attrs, 2);
  return {.kernel = make_kernel([=](const Args& args) {
            const size_t y = kKind.cell == Cell::Simple ? 0 : 1;
            RecurrentForward in{.x = args.input<float>(0),
                                .recurrent = args.input<float>(1),
                                .bias = input_or_null<float>(args, more.bias),
                                .state = input_or_null<float>(args, more.state),
                                .cell = input_or_null<float>(args, more.cell),
                                .mask = input_or_null<uint8_t>(args, more.mask),
                                .gates = args.output<float>(0),
                                .y = args.output<float>(y),
                                .last = args.output<float>(y + 1)};
            if (kKind.cell == Cell::Lstm) {
              in.cells = args.output<float>(3);
              in.last_cell = args.output<float>(4);
            }
            recurrence->run(in, args.workspace);
          }),
          .workspace_bytes = recurrence->forward_bytes()};
}

// Gradients. Inputs: gates (simple: none), states of all positions, those of cells (lstm), the recurrent kernel, then
// what settings name. Outputs: x, the recurrent kernel, the state, then the cell (lstm) or the recurrent bias (gru).
size_t first_inputs(const CellKind& kind) { return kind.cell == Cell::Lstm ? 4 : kind.cell == Cell::Gru ? 3 : 2; }

template <const CellKind& kKind>
void infer_grad(Infer& n) {
  const size_t first = first_inputs(kKind);
  n.expect_inputs(first + 1, first + 7);
  const TensorType& recurrent = n.in[first - 1];
  const TensorType state{DType::F32, {n.in[0].shape[0], recurrent.shape[0]}};
  n.out = {n.in[0], recurrent, state};
  if (kKind.cell == Cell::Lstm) n.out.push_back(state);
  if (kKind.cell == Cell::Gru) n.out.push_back({DType::F32, {recurrent.shape[1]}});
}

template <const CellKind& kKind>
Prepared prepare_grad(const Facts& facts) {
  const size_t recurrent = first_inputs(kKind) - 1;
  const RecurrentSizes n = sizes_of<kKind>(facts, recurrent);
  const auto recurrence = std::make_shared<Recurrence>(n);
  const Extras more(facts.attrs, recurrent + 1);
  const bool adds = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            RecurrentBackward in{.gates = args.input<float>(0),
                                 .y = args.input<float>(kKind.cell == Cell::Simple ? 0 : 1),
                                 .cells = kKind.cell == Cell::Lstm ? args.input<float>(2) : nullptr,
                                 .recurrent = args.input<float>(recurrent),
                                 .bias = input_or_null<float>(args, more.bias),
                                 .state = input_or_null<float>(args, more.state),
                                 .cell = input_or_null<float>(args, more.cell),
                                 .mask = input_or_null<uint8_t>(args, more.mask),
                                 .dy = input_or_null<float>(args, more.dy),
                                 .dlast = input_or_null<float>(args, more.dlast),
                                 .dlast_cell = input_or_null<float>(args, more.dlast_cell),
                                 .dx = args.output<float>(0),
                                 .drecurrent = args.output<float>(1),
                                 .dstate = args.output<float>(2)};
            if (kKind.cell == Cell::Lstm) in.dcell = args.output<float>(3);
            if (kKind.cell == Cell::Gru) in.dbias = args.output<float>(3);
            if (!adds) {
              std::fill_n(in.drecurrent, n.units * n.width(), 0.0F);
              if (in.dbias != nullptr) std::fill_n(in.dbias, n.width(), 0.0F);
            }
            recurrence->run_back(in, args.workspace);
          }),
          .workspace_bytes = recurrence->backward_bytes()};
}

// Matrices this small reach half of what large ones do.
Cost cost_of(const RecurrentSizes& n, double products) {
  const double flops = products * 2 * static_cast<double>(n.batch * n.steps * n.units) * static_cast<double>(n.width());
  return {flops, n.batch >= 16 && n.units >= 64 ? 0.6 : 0.3};
}
template <const CellKind& kKind>
Cost cost(const Facts& facts) {
  return cost_of(sizes_of<kKind>(facts, 1), 1);
}
template <const CellKind& kKind>
Cost cost_grad(const Facts& facts) {
  return cost_of(sizes_of<kKind>(facts, first_inputs(kKind) - 1), kKind.cell == Cell::Gru ? 2.33 : 2);
}

constexpr InputTypes kGradTypes{DType::F32, DType::F32, DType::F32, {DType::F32, DType::Bool}};

template <const CellKind& kKind>
constexpr Op grad_op(const char* name) {
  return {.name = name,
          .infer = infer_grad<kKind>,
          .types = kGradTypes,
          .prepare = prepare_grad<kKind>,
          .cost = cost_grad<kKind>,
          .traits = {.batch = BatchRule::Sums, .recomputable = true, .in_place = 1}};
}
const Op kSimpleGrad = grad_op<kSimple>("simple_rnn_grad");
const Op kLstmGrad = grad_op<kLstm>("lstm_grad");
const Op kGruGrad = grad_op<kGru>("gru_grad");

template <const CellKind& kKind>
void grad(Backward& b) {
  const bool is_lstm = kKind.cell == Cell::Lstm, is_simple = kKind.cell == Cell::Simple;
  const size_t y = is_simple ? 0 : 1;
  if (!is_simple && (b.dy[0].is_set() || (is_lstm && b.dy[3].is_set())))
    throw Error("no gradient flows through the gates and cells of a recurrent layer; use its states");
  const Tensor dlast_cell = is_lstm ? b.dy[4] : Tensor();
  if (!b.dy[y].is_set() && !b.dy[y + 1].is_set() && !dlast_cell.is_set()) return;
  const Extras had(b.attrs, 2);
  std::vector<Tensor> inputs;
  if (!is_simple) inputs.push_back(b.y[0]);
  inputs.push_back(b.y[y]);
  if (is_lstm) inputs.push_back(b.y[3]);
  inputs.push_back(b.x[1]);
  Attrs attrs = b.attrs;
  for (const size_t input : {had.bias, had.state, had.cell})
    if (input != kNone) inputs.push_back(b.x[input]);
  const auto add = [&](const char* what, const Tensor& slope) {
    if (!slope.is_set()) return;
    attrs.set(what, int64_t{1});
    inputs.push_back(slope);
  };
  add("dy", b.dy[y]);
  add("dlast", b.dy[y + 1]);
  add("dlast_cell", dlast_cell);
  if (had.mask != kNone) inputs.push_back(b.x[had.mask]);
  const Outputs dx = apply(is_lstm ? kLstmGrad : is_simple ? kSimpleGrad : kGruGrad, inputs, attrs);
  const auto give = [&](size_t input, int output) {
    if (input != kNone && b.wanted[input]) b.give(input, dx[output]);
  };
  give(0, 0);
  give(1, 1);
  give(had.state, 2);
  give(had.cell, 3);
  give(had.bias, 3);
}

// x, the recurrent kernel, and what else is set.
struct CellInputs {
  Tensor bias, state, cell, mask;
};

Outputs apply_cell(const Op& op, Tensor x, Tensor recurrent, const CellInputs& given, bool reverse,
                   std::string_view order, std::string_view activation, Name name) {
  Attrs attrs;
  std::vector<Tensor> inputs{x, recurrent};
  const auto add = [&](const char* what, const Tensor& tensor) {
    if (!tensor.is_set()) return;
    attrs.set(what, int64_t{1});
    inputs.push_back(tensor);
  };
  add("bias", given.bias);
  add("state", given.state);
  add("cell", given.cell);
  add("mask", given.mask);
  if (reverse) attrs.set("reverse", int64_t{1});
  if (!order.empty()) attrs.set("order", std::string(order));
  if (!activation.empty()) attrs.set("activation", std::string(activation));
  return apply(op, inputs, attrs, name);
}

std::vector<Sample> samples_simple() {
  const Dim b = Dim::batch();
  return {{"plain",
           [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 4, 3}), kernel = s.input({3, 5}), recurrent = s.input({5, 5});
             return simple_rnn(x, kernel, recurrent, s.input({5}));
           }},
          {"relu, backwards, with a state and a mask", [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 3, 2}, 0.5, 1), kernel = s.input({2, 3}, 0.2, 1);
             const Tensor recurrent = s.input({3, 3}, 0.1, 0.5), state = s.input({b, 3}, 0.1, 1);
             return simple_rnn(x, kernel, recurrent, {}, state, s.integers({b, 3}, 0, 2, DType::Bool), true, "relu");
           }}};
}

std::vector<Sample> samples_lstm() {
  const Dim b = Dim::batch();
  return {{"plain",
           [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 5, 3}), kernel = s.input({3, 16}), recurrent = s.input({4, 16});
             return lstm(x, kernel, recurrent, s.input({16}));
           }},
          {"one position, the last state alone",
           [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 1, 3}), kernel = s.input({3, 4});
             return std::vector{lstm(x, kernel, s.input({1, 4}))[1]};
           }},
          {"backwards, with states and a mask, gates as ONNX has them",
           [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 4, 2}), kernel = s.input({2, 12}), recurrent = s.input({3, 12});
             const Tensor state = s.input({b, 3}), cell = s.input({b, 3});
             return lstm(x, kernel, recurrent, {}, state, cell, s.integers({b, 4}, 0, 2, DType::Bool), true, "iofg");
           }},
          {"more units than a strip", [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 3, 2}), kernel = s.input({2, 76}), recurrent = s.input({19, 76}, -0.5, 0.5);
             return lstm(x, kernel, recurrent);
           }}};
}

std::vector<Sample> samples_gru() {
  const Dim b = Dim::batch();
  return {{"plain",
           [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 5, 3}), kernel = s.input({3, 12}), recurrent = s.input({4, 12});
             const Tensor bias = s.input({12}), recurrent_bias = s.input({12});
             return gru(x, kernel, recurrent, bias, recurrent_bias);
           }},
          {"backwards, with a state and a mask, gates as PyTorch has them", [=](SampleBuilder& s) {
             const Tensor x = s.input({b, 4, 2}), kernel = s.input({2, 9}), recurrent = s.input({3, 9});
             const Tensor state = s.input({b, 3}), mask = s.integers({b, 4}, 0, 2, DType::Bool);
             return gru(x, kernel, recurrent, {}, {}, state, mask, true, "rzn");
           }}};
}

const Op kSimpleRnn{.name = "simple_rnn",
                    .storable = true,
                    .infer = infer<kSimple>,
                    .types = {DType::F32, DType::F32, {DType::F32, DType::Bool}},
                    .grad = grad<kSimple>,
                    .prepare = prepare<kSimple>,
                    .cost = cost<kSimple>,
                    .samples = samples_simple,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                    .onnx = "RNN"};
const Op kLstmOp{.name = "lstm",
                 .storable = true,
                 .infer = infer<kLstm>,
                 .types = {DType::F32, DType::F32, {DType::F32, DType::Bool}},
                 .grad = grad<kLstm>,
                 .prepare = prepare<kLstm>,
                 .cost = cost<kLstm>,
                 .samples = samples_lstm,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                 .onnx = "LSTM"};
const Op kGruOp{.name = "gru",
                .storable = true,
                .infer = infer<kGru>,
                .types = {DType::F32, DType::F32, {DType::F32, DType::Bool}},
                .grad = grad<kGru>,
                .prepare = prepare<kGru>,
                .cost = cost<kGru>,
                .samples = samples_gru,
                .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                .onnx = "GRU"};

}  // namespace

std::vector<Tensor> simple_rnn(Tensor x, Tensor kernel, Tensor recurrent, Tensor bias, Tensor state, Tensor mask,
                               bool reverse, std::string_view activation, Name name) {
  const Outputs out =
      apply_cell(kSimpleRnn, dense(x, kernel, bias), recurrent, {{}, state, {}, mask}, reverse, {}, activation, name);
  return {out[0], out[1]};
}

std::vector<Tensor> lstm(Tensor x, Tensor kernel, Tensor recurrent, Tensor bias, Tensor state, Tensor cell, Tensor mask,
                         bool reverse, std::string_view order, Name name) {
  const Outputs out =
      apply_cell(kLstmOp, dense(x, kernel, bias), recurrent, {{}, state, cell, mask}, reverse, order, {}, name);
  return {out[1], out[2], out[4]};
}

std::vector<Tensor> gru(Tensor x, Tensor kernel, Tensor recurrent, Tensor bias, Tensor recurrent_bias, Tensor state,
                        Tensor mask, bool reverse, std::string_view order, Name name) {
  const Outputs out = apply_cell(kGruOp, dense(x, kernel, bias), recurrent, {recurrent_bias, state, {}, mask}, reverse,
                                 order, {}, name);
  return {out[1], out[2]};
}

OpList recurrent_ops() { return {&kSimpleRnn, &kLstmOp, &kGruOp, &kSimpleGrad, &kLstmGrad, &kGruGrad}; }

}  // namespace plimsoll::ops
