// matmul: y = op(a) op(b) (+ bias) over the last two dimensions; the leading ones broadcast.
#include <algorithm>

#include <fmt/format.h>

#include "graph/shape.h"
#include "kernels/activation.h"
#include "kernels/half_product.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "kernels/product.h"
#include "kernels/thread_count.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

struct MatrixSizes {
  Dim rows, columns, inner_a, inner_b;
};

MatrixSizes sizes_of(const Attrs& attrs, const Shape& a, const Shape& b) {
  const bool ta = attrs.i("transpose_a") != 0;
  const bool tb = attrs.i("transpose_b") != 0;
  const int ra = a.rank();
  const int rb = b.rank();
  return {a[ra - (ta ? 1 : 2)], b[rb - (tb ? 2 : 1)], a[ra - (ta ? 2 : 1)], b[rb - (tb ? 1 : 2)]};
}

Shape leading(const Shape& shape) {
  Shape lead = shape;
  lead.erase(lead.rank() - 1);
  lead.erase(lead.rank() - 1);
  return lead;
}

void infer(Infer& n) {
  n.expect_inputs(2, 3);
  for (const size_t i : {0, 1}) {
    if (n.in[i].shape.rank() < 2)
      n.fail(fmt::format("input {} must have at least 2 dimensions but is {}", i, to_string(n.in[i])));
  }
  const MatrixSizes sizes = sizes_of(n.attrs, n.in[0].shape, n.in[1].shape);
  if (!(sizes.inner_a == sizes.inner_b))
    n.fail(fmt::format("{} x {}: the inner sizes {} and {} differ", to_string(n.in[0]), to_string(n.in[1]),
                       to_string(sizes.inner_a), to_string(sizes.inner_b)));
  if (n.in.size() == 3 && !(n.in[2].shape == Shape{sizes.columns}))
    n.fail(fmt::format("bias must be [{}] but is {}", to_string(sizes.columns), to_string(n.in[2])));
  Shape out;
  try {
    out = broadcast(leading(n.in[0].shape), leading(n.in[1].shape));
  } catch (const Error& e) {
    n.fail(e.what());
  }
  out.push_back(sizes.rows);
  out.push_back(sizes.columns);
  n.out = {{DType::F32, out}};
}

void grad(Backward& b) {
  const bool ta = b.attrs.i("transpose_a") != 0;
  const bool tb = b.attrs.i("transpose_b") != 0;
  const Tensor a = b.x[0];
  const Tensor c = b.x[1];
  const Tensor dy = b.dy[0];
  if (b.wanted[0]) b.give(0, sum_to(ta ? matmul(c, dy, tb, true) : matmul(dy, c, false, !tb), a.shape()));
  if (b.wanted[1]) b.give(1, sum_to(tb ? matmul(dy, a, true, ta) : matmul(a, dy, !ta, false), c.shape()));
  if (b.x.size() == 3 && b.wanted[2]) b.give(2, sum_to(dy, b.x[2].shape()));
}

// Elements from one matrix of the operand to the next, for each leading dimension of the result; 0 where all share one.
Dims leading_strides(const Dims& dims, int rank) {
  Dims strides = Dims::filled(rank - 2, 0);
  int64_t stride = dims[dims.rank() - 1] * dims[dims.rank() - 2];
  for (int i = dims.rank() - 3, at = rank - 3; i >= 0; --i, --at) {
    if (dims[i] != 1) strides[at] = stride;
    stride *= dims[i];
  }
  return strides;
}

int64_t offset_of(int64_t product, const Dims& result, const Dims& strides) {
  int64_t offset = 0;
  for (int i = strides.rank() - 1; i >= 0; --i) {
    offset += product % result[i] * strides[i];
    product /= result[i];
  }
  return offset;
}

MatrixOrder order_of(const Facts& facts, size_t input, const char* transpose) {
  const Dims& dims = facts.in[input].dims;
  const MatrixOrder rows = MatrixOrder::by_rows(dims[dims.rank() - 2], dims[dims.rank() - 1]);
  return facts.attrs.i(transpose) != 0 ? rows.transposed() : rows;
}

// One product of the node, in f32 or bf16.
class MatrixProduct {
 public:
  explicit MatrixProduct(const Facts& facts) {
    const MatrixOrder a = order_of(facts, 0, "transpose_a"), b = order_of(facts, 1, "transpose_b");
    const Activation activation = parse_activation(facts.attrs.s("activation"));
    if (computes_in_bf16(facts.attrs))
      half_.emplace(HalfOperand{a, facts.in[0].dtype}, HalfOperand{b, facts.in[1].dtype}, b.columns, facts.accumulate,
                    activation);
    else
      wide_.emplace(a, b, b.columns, facts.accumulate, activation);
    a_bytes_ = size_of(facts.in[0].dtype);
    b_bytes_ = size_of(facts.in[1].dtype);
  }
  Bytes workspace_bytes() const { return half_ ? half_->workspace_bytes() : wide_->workspace_bytes(); }
  // `a_first`, `b_first`, `c_first`: the first elements of the matrices.
  void run(const Args& args, const float* bias, int64_t a_first, int64_t b_first, int64_t c_first,
           void* workspace) const noexcept {
    const void* a = args.input<std::byte>(0) + a_first * a_bytes_;
    const void* b = args.input<std::byte>(1) + b_first * b_bytes_;
    float* c = args.output<float>(0) + c_first;
    if (half_)
      half_->run(a, b, bias, c, workspace);
    else
      wide_->run(static_cast<const float*>(a), static_cast<const float*>(b), bias, c, workspace);
  }

 private:
  std::optional<Product> wide_;
  std::optional<HalfProduct> half_;
  Bytes a_bytes_, b_bytes_;
};

// A batch of products. Many: each thread computes whole products. Few: all threads work on one after the other. A
// product has the same bits either way.
Prepared prepare_many(const Facts& facts) {
  const Dims& result = facts.out[0].dims;
  const int rank = result.rank();
  const Dims a = leading_strides(facts.in[0].dims, rank), b = leading_strides(facts.in[1].dims, rank);
  const int64_t size = result[rank - 1] * result[rank - 2];
  const int64_t products = size > 0 ? facts.out[0].count() / size : 0;
  const bool are_many = products >= thread_slots();
  const int slots = are_many ? thread_slots() : 1;
  const ThreadCount of_product(are_many ? 1 : thread_slots());
  const MatrixProduct product(facts);
  const Bytes slot_bytes = round_up(product.workspace_bytes(), kAlignment);
  const bool has_bias = facts.in.size() == 3;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto run = [&](int64_t i, int slot) {
              product.run(args, has_bias ? args.input<float>(2) : nullptr, offset_of(i, result, a),
                          offset_of(i, result, b), i * size,
                          static_cast<std::byte*>(args.workspace) + slot * slot_bytes);
            };
            if (are_many) return parallel_items(products, slots, run);
            for (int64_t i = 0; i < products; ++i) run(i, 0);
          }),
          .workspace_bytes = slots * slot_bytes};
}

Prepared prepare(const Facts& facts) {
  if (facts.out[0].dims.rank() > 2) return prepare_many(facts);
  const MatrixProduct product(facts);
  const bool has_bias = facts.in.size() == 3;
  return {.kernel = make_kernel([=](const Args& args) {
            product.run(args, has_bias ? args.input<float>(2) : nullptr, 0, 0, 0, args.workspace);
          }),
          .workspace_bytes = product.workspace_bytes()};
}

int64_t inner_of(const Facts& facts) {
  const Dims& a = facts.in[0].dims;
  return a[a.rank() - (facts.attrs.i("transpose_a") != 0 ? 2 : 1)];
}

// A matrix smaller than the blocks of the kernel leaves them partly empty.
int64_t shortest_of(const Facts& facts) {
  const Dims& y = facts.out[0].dims;
  return std::min({inner_of(facts), y[y.rank() - 1], y[y.rank() - 2]});
}

Cost cost(const Facts& facts) {
  const double efficiency = shortest_of(facts) > 128 ? 0.88 : 0.68;
  return {2.0 * static_cast<double>(facts.out[0].count()) * static_cast<double>(inner_of(facts)),
          computes_in_bf16(facts.attrs) ? kHalfSpeedup * efficiency : efficiency};
}

// Short sides leave the wider blocks of bf16 emptier than those of f32.
std::optional<HalfCompute> half_compute(const Facts& facts) {
  constexpr int64_t kShortest = 64;
  if (shortest_of(facts) < kShortest) return std::nullopt;
  return HalfCompute{.takes = 0b11};
}

// A contraction over the batch sums over the samples; anything else keeps them apart.
BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return sizes_of(attrs, in[0].shape, in[1].shape).inner_a.is_batch() ? BatchRule::Sums : BatchRule::Rows;
}

std::vector<Sample> samples() {
  return {
      {"plain",
       [](SampleBuilder& s) {
         return std::vector{matmul(s.input({Dim::batch(), 5}), s.input({5, 7}))};
       }},
      {"bias",
       [](SampleBuilder& s) {
         return std::vector{dense(s.input({Dim::batch(), 5}), s.input({5, 7}), s.input({7}))};
       }},
      {"over the batch",
       [](SampleBuilder& s) {
         return std::vector{matmul(s.input({Dim::batch(), 5}), s.input({Dim::batch(), 7}), true, false)};
       }},
      {"both transposed",
       [](SampleBuilder& s) {
         return std::vector{matmul(s.input({5, Dim::batch()}), s.input({7, 5}), true, true)};
       }},
      {"batched, b transposed",
       [](SampleBuilder& s) {
         return std::vector{matmul(s.input({Dim::batch(), 3, 4, 5}), s.input({Dim::batch(), 3, 6, 5}), false, true)};
       }},
      {"b broadcasts",
       [](SampleBuilder& s) {
         return std::vector{matmul(s.input({Dim::batch(), 4, 5}), s.input({1, 5, 6}))};
       }},
      {"dense over sequences",
       [](SampleBuilder& s) {
         return std::vector{dense(s.input({Dim::batch(), 4, 5}), s.input({5, 6}), s.input({6}))};
       }},
  };
}

const Op kMatmul{.name = "matmul",
                 .storable = true,
                 .infer = infer,
                 .grad = grad,
                 .prepare = prepare,
                 .cost = cost,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .batch_rule = batch_rule,
                 .onnx = "MatMul",
                 .fusion = {.applies_activation = true},
                 .half_compute = half_compute};

}  // namespace

Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, Name name) {
  Attrs attrs;
  if (transpose_a) attrs.set("transpose_a", int64_t{1});
  if (transpose_b) attrs.set("transpose_b", int64_t{1});
  return apply(kMatmul, {a, b}, attrs, name);
}

Tensor dense(Tensor x, Tensor kernel, Tensor bias, Name name) {
  // All leading dimensions are rows of one matrix.
  Shape out = x.shape();
  const bool flat = x.rank() == 2;
  if (!flat) x = reshape(x, {element_count(x.shape()) / x.dim(-1).fixed(), x.dim(-1)});
  Tensor y = bias.is_set() ? apply(kMatmul, {x, kernel, bias}, {}, name) : apply(kMatmul, {x, kernel}, {}, name);
  if (flat) return y;
  out[out.rank() - 1] = y.dim(-1);
  return reshape(y, out);
}

OpList matmul_ops() { return {&kMatmul}; }

}  // namespace plimsoll::ops
