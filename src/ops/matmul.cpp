// matmul: y = op(a) op(b) (+ bias) over the last two dimensions; the leading ones broadcast.
#include <algorithm>

#include <fmt/format.h>

#include "ops/activation.h"
#include "ops/dnnl_kernel.h"
#include "ops/ops.h"
#include "ops/product.h"
#include "ops/sample.h"

namespace plimsoll {
namespace {

struct Sizes {
  Dim rows, columns, inner_a, inner_b;
};

Sizes sizes_of(const Attrs& attrs, const Shape& a, const Shape& b) {
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
  const Sizes sizes = sizes_of(n.attrs, n.in[0].shape, n.in[1].shape);
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

// The matrix as oneDNN sees it: transposition is a matter of strides.
dnnl::memory::desc strided(const ConcreteType& type, bool transpose, int rank) {
  Dims dims = type.dims;
  while (dims.rank() < rank) dims.insert(0, 1);
  dnnl::memory::desc desc = plain_desc(type.dtype, dims);
  if (!transpose) return desc;
  dnnl::memory::dims swapped = to_dnnl(dims);
  std::swap(swapped[static_cast<size_t>(rank) - 1], swapped[static_cast<size_t>(rank) - 2]);
  dnnl::memory::dims strides(desc.data.format_desc.blocking.strides, desc.data.format_desc.blocking.strides + rank);
  std::swap(strides[static_cast<size_t>(rank) - 1], strides[static_cast<size_t>(rank) - 2]);
  return {swapped, to_dnnl(type.dtype), strides};
}

// Many products beside each other, which oneDNN shares out among the threads.
Prepared prepare_many(const Facts& facts) {
  const int rank = facts.out[0].dims.rank();
  const dnnl::memory::desc a = strided(facts.in[0], facts.attrs.i("transpose_a") != 0, rank);
  const dnnl::memory::desc b = strided(facts.in[1], facts.attrs.i("transpose_b") != 0, rank);
  const dnnl::memory::desc y = plain_desc(DType::F32, facts.out[0].dims);
  dnnl::memory::desc bias;
  if (facts.in.size() == 3) {
    Dims dims = Dims::filled(rank, 1);
    dims[rank - 1] = facts.in[2].dims[0];
    bias = plain_desc(DType::F32, dims);
  }
  dnnl::primitive_attr attr = user_scratchpad();
  dnnl::post_ops post;
  if (facts.accumulate) post.append_sum();
  append_activation(post, facts.attrs.s("activation"));
  attr.set_post_ops(post);
  const dnnl::matmul::desc desc =
      facts.in.size() == 3 ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
  const dnnl::matmul::primitive_desc pd(desc, attr, cpu_engine());

  std::vector<Binding> bindings{{DNNL_ARG_SRC, a, Binding::From::In, 0},
                                {DNNL_ARG_WEIGHTS, b, Binding::From::In, 1},
                                {DNNL_ARG_DST, y, Binding::From::Out, 0},
                                {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), Binding::From::Scratch}};
  if (facts.in.size() == 3) bindings.push_back({DNNL_ARG_BIAS, bias, Binding::From::In, 2});
  return {.kernel = std::make_shared<DnnlKernel>(dnnl::matmul(pd), bindings),
          .scratch_bytes = static_cast<Bytes>(pd.scratchpad_desc().get_size()),
          .library_bytes = gemm_library_bytes(facts.out[0].dims.back())};
}

Prepared prepare(const Facts& facts) {
  if (facts.out[0].dims.rank() > 2) return prepare_many(facts);
  const auto order = [&](size_t i, const char* transpose) {
    const MatrixOrder rows = MatrixOrder::by_rows(facts.in[i].dims[0], facts.in[i].dims[1]);
    return facts.attrs.i(transpose) != 0 ? rows.transposed() : rows;
  };
  const MatrixOrder a = order(0, "transpose_a"), b = order(1, "transpose_b");
  const Product product(a, b, b.columns, facts.accumulate, parse_activation(facts.attrs.s("activation")));
  const bool has_bias = facts.in.size() == 3;
  return {.kernel = make_kernel([=](const Args& args) {
            product.run(args.input<float>(0), args.input<float>(1), has_bias ? args.input<float>(2) : nullptr,
                        args.output<float>(0), args.scratch);
          }),
          .scratch_bytes = product.scratch_bytes()};
}

Cost cost(const Facts& facts) {
  const Dims& a = facts.in[0].dims;
  const int64_t inner = a[a.rank() - (facts.attrs.i("transpose_a") != 0 ? 2 : 1)];
  // A short side leaves the blocks of the kernel part empty.
  const Dims& y = facts.out[0].dims;
  const int64_t shortest = std::min({inner, y[y.rank() - 1], y[y.rank() - 2]});
  return {2.0 * static_cast<double>(facts.out[0].count()) * static_cast<double>(inner), shortest > 128 ? 0.88 : 0.68};
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
                 .infer = infer,
                 .grad = grad,
                 .prepare = prepare,
                 .cost = cost,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .batch_rule = batch_rule,
                 .onnx = "MatMul"};

}  // namespace

Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, Name name) {
  Attrs attrs;
  if (transpose_a) attrs.set("transpose_a", int64_t{1});
  if (transpose_b) attrs.set("transpose_b", int64_t{1});
  return add_node(kMatmul, {a, b}, attrs, name);
}

Tensor dense(Tensor x, Tensor kernel, Tensor bias, Name name) {
  // All leading dimensions are rows of one matrix.
  Shape out = x.shape();
  const bool flat = x.rank() == 2;
  if (!flat) x = reshape(x, {element_count(x.shape()) / x.dim(-1).fixed(), x.dim(-1)});
  const Tensor y =
      bias.is_set() ? add_node(kMatmul, {x, kernel, bias}, {}, name) : add_node(kMatmul, {x, kernel}, {}, name);
  if (flat) return y;
  out[out.rank() - 1] = y.dim(-1);
  return reshape(y, out);
}

OpList matmul_ops() { return {&kMatmul}; }

}  // namespace plimsoll
