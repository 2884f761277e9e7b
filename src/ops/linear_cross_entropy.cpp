// linear_cross_entropy: mean cross-entropy of the logits x kernel, which are made a tile at a time and need not be
// held. The second output is the log-sum-exp of each row; from it one backward sweep recomputes the tiles for dx and
// dkernel. Where the gradient of the loss is known beforehand, loss and gradient are one operator (lower/fuse.h): it
// holds the logits of a few rows until their gradients are computed, which saves a product, or recomputes them. Both
// give the same bits.
#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/linear_loss.h"
#include "ops/ops.h"
#include "ops/sample.h"
#include "ops/unpack.h"

namespace plimsoll::ops {
namespace {

// The kernel's sizes, packed or not.
LossSizes sizes_of(const Facts& facts) {
  const bool transposed = facts.attrs.i("transposed") != 0, is_packed = has_packed(facts.attrs);
  const Dims kernel = is_packed ? packed_dims(facts.attrs) : facts.in[1].dims;
  LossSizes sizes{facts.in[0].dims[0], facts.in[0].dims[1], transposed ? kernel[0] : kernel[1], transposed,
                  static_cast<double>(facts.attrs.shape("rows")[0].at(facts.whole_batch))};
  if (is_packed) sizes.packed = packed_form(facts.attrs);
  return sizes;
}

// `operands` finds in the arguments what the operator has besides x, kernel and labels.
template <class F>
Prepared prepare_loss(const Facts& facts, LossWork work, F operands) {
  work.adds = facts.accumulate;
  const auto loss = std::make_shared<LinearLoss>(sizes_of(facts), work);
  return {.kernel = make_kernel([=](const Args& args) {
            LossOperands in{args.input<float>(0), args.in[1], args.input<int32_t>(2)};
            operands(args, in);
            if (const int64_t bad = loss->find_bad(in.labels); bad >= 0)
              args.report({"label", 2, bad, in.labels[bad], loss->classes()});
            loss->run(in, args.workspace);
          }),
          .workspace_bytes = loss->workspace_bytes()};
}

Prepared prepare(const Facts& facts) {
  return prepare_loss(facts, {}, [](const Args& args, LossOperands& in) {
    in.loss = args.output<float>(0);
    in.sums = args.output<float>(1);
  });
}

Prepared prepare_grad(const Facts& facts) {
  const bool both = facts.out.size() > 1;
  return prepare_loss(facts, {true, both}, [both](const Args& args, LossOperands& in) {
    in.known_sums = args.input<float>(3);
    in.dloss = args.input<float>(4);
    in.dx = args.output<float>(0);
    if (both) in.dkernel = args.output<float>(1);
  });
}

Prepared prepare_with_grad(const Facts& facts) {
  const bool both = facts.out.size() > 2;
  return prepare_loss(facts, {true, both, !facts.slim}, [both](const Args& args, LossOperands& in) {
    in.dloss = args.input<float>(3);
    in.loss = args.output<float>(0);
    in.dx = args.output<float>(1);
    if (both) in.dkernel = args.output<float>(2);
  });
}

void expect_kernel(Infer& n) {
  const bool transposed = n.attrs.i("transposed") != 0, is_packed = has_packed(n.attrs);
  if (is_packed != (n.in[1].dtype == DType::U8) || (is_packed && !transposed))
    n.fail("a kernel of bytes must be a packed one, transposed");
  if (is_packed)
    expect_packed(n, 1);
  else
    n.expect_rank(1, 2);
  const Shape kernel = is_packed ? n.attrs.shape("packed_dims") : n.in[1].shape;
  if (!(n.in[0].shape[1] == kernel[transposed ? 1 : 0]))
    n.fail(fmt::format("x is {} but the {}kernel is {}", to_string(n.in[0]), transposed ? "transposed " : "",
                       to_string(n.in[1])));
}

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  n.expect_rank(0, 2);
  expect_kernel(n);
  if (!(n.in[2] == TensorType{DType::I32, {n.in[0].shape[0]}}))
    n.fail(fmt::format("labels must be i32[{}] but are {}", to_string(n.in[0].shape[0]), to_string(n.in[2])));
  n.out = {{DType::F32, {}}, {DType::F32, {n.in[0].shape[0]}}};
}

// Gives no gradient of the kernel where that is not trained.
bool gives_dkernel(const Attrs& attrs) { return attrs.i("only_x") == 0; }

// Inputs: x, kernel, labels, log-sum-exp, gradient of the loss.
void infer_grad(Infer& n) {
  n.expect_inputs(5, 5);
  expect_kernel(n);
  n.out = {n.in[0]};
  if (gives_dkernel(n.attrs)) n.out.push_back(n.in[1]);
}

Cost cost(const Facts& facts) {
  const LossSizes sizes = sizes_of(facts);
  return {2.0 * static_cast<double>(sizes.rows) * static_cast<double>(sizes.width * sizes.classes), 0.8};
}
Cost cost_grad(const Facts& facts) { return {(gives_dkernel(facts.attrs) ? 3 : 2) * cost(facts).flops, 0.77}; }
Cost cost_with_grad(const Facts& facts) {
  return {((facts.slim ? 3 : 2) + (gives_dkernel(facts.attrs) ? 1 : 0)) * cost(facts).flops, 0.78};
}

constexpr DTypes kKernelTypes{DType::F32, DType::U8};  // U8: packed

extern const Op kLoss, kWithGrad;

const Op kGrad{
    .name = "linear_cross_entropy_grad",
    .infer = infer_grad,
    .types = {DType::F32, kKernelTypes, DType::I32, DType::F32},
    .prepare = prepare_grad,
    .cost = cost_grad,
    .traits = {.batch = BatchRule::Sums, .recomputable = true},
    .fusion = {.gradient_of = &kLoss, .with_forward = Fusion::WithForward{.op = &kWithGrad, .kept = 3, .seed = 4}}};

// Inputs: x, kernel, labels, gradient of the loss.
void infer_with_grad(Infer& n) {
  n.expect_inputs(4, 4);
  expect_kernel(n);
  n.out = {{DType::F32, {}}, n.in[0]};
  if (gives_dkernel(n.attrs)) n.out.push_back(n.in[1]);
}

std::vector<Sample> samples_with_grad();

const Op kWithGrad{.name = "linear_cross_entropy_with_grad",
                   .infer = infer_with_grad,
                   .types = {DType::F32, kKernelTypes, DType::I32, DType::F32},
                   .prepare = prepare_with_grad,
                   .cost = cost_with_grad,
                   .samples = samples_with_grad,
                   .traits = {.batch = BatchRule::Sums, .recomputable = true, .slim = "make logits again in tiles"}};

std::vector<Sample> samples_with_grad() {
  const auto sample = [](SampleBuilder& s, const Shape& kernel, const Attrs& attrs) {
    const Dim rows = Dim::batch(3);
    const Outputs y =
        apply(kWithGrad, {s.input({rows, 5}), s.input(kernel), s.integers({rows}, 0, 11), s.input({}, 0.5, 2)}, attrs);
    std::vector<Tensor> outputs;
    for (int i = 0; i < y.size(); ++i) outputs.push_back(y[i]);
    return outputs;
  };
  const Attrs plain{{"rows", Shape{Dim::batch(3)}}};
  Attrs transposed = plain;
  transposed.set("transposed", int64_t{1});
  Attrs only_x = transposed;
  only_x.set("only_x", int64_t{1});
  return {{"plain",
           [=](SampleBuilder& s) {
             return sample(s, {5, 11}, plain);
           },
           1e-4, false},
          {"transposed",
           [=](SampleBuilder& s) {
             return sample(s, {11, 5}, transposed);
           },
           1e-4, false},
          {"of x alone",
           [=](SampleBuilder& s) {
             return sample(s, {11, 5}, only_x);
           },
           1e-4, false}};
}

void grad(Backward& b) {
  if (!b.dy[0].is_set()) return;
  Attrs attrs = b.attrs;
  if (!b.wanted[1]) attrs.set("only_x", int64_t{1});
  const Outputs dx = apply(kGrad, {b.x[0], b.x[1], b.x[2], b.y[1], b.dy[0]}, attrs);
  for (int i = 0; i < dx.size(); ++i)
    if (b.wanted[static_cast<size_t>(i)]) b.give(static_cast<size_t>(i), dx[i]);
}

std::vector<Sample> samples() {
  return {{"plain",
           [](SampleBuilder& s) {
             return std::vector{linear_cross_entropy(s.input({Dim::batch(3), 5}), s.input({5, 19}),
                                                     s.integers({Dim::batch(3)}, 0, 19))};
           }},
          {"transposed, sequence", [](SampleBuilder& s) {
             return std::vector{linear_cross_entropy(s.input({Dim::batch(), 2, 5}), s.input({11, 5}),
                                                     s.integers({Dim::batch(), 2}, 0, 11), true)};
           }}};
}

const Op kLoss{.name = "linear_cross_entropy",
               .storable = true,
               .infer = infer,
               .types = {DType::F32, kKernelTypes, DType::I32},
               .grad = grad,
               .prepare = prepare,
               .cost = cost,
               .samples = samples,
               .traits = {.batch = BatchRule::Sums, .recomputable = true}};

}  // namespace

Tensor linear_cross_entropy(Tensor x, Tensor kernel, Tensor labels, bool transposed, Name name) {
  // All leading dimensions are rows of one matrix.
  const Dim rows = element_count(labels.shape());
  if (x.rank() != 2) x = reshape(x, {rows, x.dim(-1)});
  Attrs attrs{{"rows", Shape{rows}}};
  if (transposed) attrs.set("transposed", int64_t{1});
  return apply(kLoss, {x, kernel, reshape(labels, {rows})}, attrs, name);
}

OpList linear_cross_entropy_ops() { return {&kLoss, &kGrad, &kWithGrad}; }

}  // namespace plimsoll::ops
