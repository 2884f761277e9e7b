// max_pool, average_pool and their global forms. Max pooling remembers which element of each window won, mostly in 8
// bits, so that its input need not be kept.
#include <fmt/format.h>

#include "kernels/dnnl_kernel.h"
#include "kernels/image_order.h"
#include "kernels/max_pool_blocks.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

using Desc = dnnl::memory::desc;
using Forward = dnnl::pooling_forward;
using Backwards = dnnl::pooling_backward;

// oneDNN stores the place within the window, in as few bytes as that needs.
DType index_type(std::array<int64_t, 2> size) { return size[0] * size[1] <= 256 ? DType::U8 : DType::I32; }

std::array<int64_t, 2> size_of_window(const Attrs& attrs) {
  const Dims size = attrs.dims("size");
  if (size.rank() != 2) throw Error("a pooling window needs two sizes");
  return {size[0], size[1]};
}

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_rank(0, 4);
  const Shape& x = n.in[0].shape;
  const auto size = size_of_window(n.attrs);
  const Window window = window_of(n.attrs);
  if (window.dilations != std::array<int64_t, 2>{1, 1} || window.groups != 1) n.fail("takes no dilations or groups");
  for (size_t i = 0; i < 4; ++i)
    if (window.pads[i] >= size[i % 2])
      n.fail(fmt::format("pads [{}] must be smaller than the {}x{} window, or some windows would see padding alone",
                         fmt::join(window.pads, ","), size[0], size[1]));
  const auto out = output_size(n, {x[2].fixed(), x[3].fixed()}, size);
  n.out = {{DType::F32, {x[0], x[1], out[0], out[1]}}};
  if (n.op == "max_pool" && n.attrs.i("indices", 1) != 0) n.out.push_back({index_type(size), n.out[0].shape});
}

dnnl::algorithm algorithm_of(const Attrs& attrs, bool is_max) {
  if (is_max) return dnnl::algorithm::pooling_max;
  return attrs.i("count_pads") != 0 ? dnnl::algorithm::pooling_avg_include_padding
                                    : dnnl::algorithm::pooling_avg_exclude_padding;
}

struct DnnlWindow {
  explicit DnnlWindow(const Attrs& attrs) {
    const Window window = window_of(attrs);
    const auto kernel = size_of_window(attrs);
    strides = {window.strides[0], window.strides[1]};
    size = {kernel[0], kernel[1]};
    begin = {window.pads[0], window.pads[1]};
    end = {window.pads[2], window.pads[3]};
  }
  dnnl::memory::dims strides, size, begin, end;
};

Forward::primitive_desc forward(const Attrs& attrs, bool is_max, bool for_training, const Desc& x, const Desc& y) {
  const DnnlWindow g(attrs);
  const Forward::desc desc(for_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
                           algorithm_of(attrs, is_max), x, y, g.strides, g.size, g.begin, g.end);
  return {desc, user_scratchpad(), cpu_engine()};
}

// Blocked images are pooled by our own kernels: oneDNN's take several times as long when they keep indices.
bool is_pooled_in_blocks(const Attrs& attrs, const ImageOrder& order) {
  return order.block() > 1 && order.block() % 8 == 0 && index_type(size_of_window(attrs)) == DType::U8;
}

PoolGeometry geometry_of(const Attrs& attrs, const Dims& image, const Dims& result) {
  return {{image[2], image[3]}, {result[2], result[3]}, size_of_window(attrs), window_of(attrs)};
}

Prepared prepare_max_blocks(const Facts& facts, const ImageOrder& order) {
  const PoolGeometry g = geometry_of(facts.attrs, facts.in[0].dims, facts.out[0].dims);
  const bool with_indices = facts.out.size() == 2;
  std::vector<Layout> out;
  for (const ConcreteType& type : facts.out) out.push_back(order.layout(type.dtype, type.dims));
  return {.kernel = make_kernel([=](const Args& args) {
            max_pool_blocks(g, order, args.input<float>(0), args.output<float>(0),
                            with_indices ? args.output<uint8_t>(1) : nullptr);
          }),
          .in = {order.layout(DType::F32, facts.in[0].dims)},
          .out = std::move(out)};
}

Prepared prepare_max_blocks_grad(const Facts& facts, const ImageOrder& order) {
  const PoolGeometry g = geometry_of(facts.attrs, facts.out[0].dims, facts.in[0].dims);
  return {.kernel = make_kernel([=](const Args& args) {
            max_pool_blocks_grad(g, order, args.input<float>(0), args.input<uint8_t>(1), args.output<float>(0));
          }),
          .in = {order.layout(DType::F32, facts.in[0].dims), order.layout(DType::U8, facts.in[1].dims)},
          .out = {order.layout(DType::F32, facts.out[0].dims)}};
}

template <bool kIsMax>
Prepared prepare(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  if (kIsMax && is_pooled_in_blocks(facts.attrs, order)) return prepare_max_blocks(facts, order);
  const Dims& from = facts.in[0].dims;
  const Dims& to = facts.out[0].dims;
  const bool with_indices = facts.out.size() == 2;
  const auto pd = forward(facts.attrs, kIsMax, with_indices, order.desc(DType::F32, from), order.desc(DType::F32, to));
  std::vector<Binding> bindings{{DNNL_ARG_SRC, pd.src_desc(), Binding::From::In, 0},
                                {DNNL_ARG_DST, pd.dst_desc(), Binding::From::Out, 0},
                                {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), Binding::From::Workspace}};
  std::vector<Layout> out{Layout(pd.dst_desc())};
  if (with_indices) {
    const Desc indices = pd.workspace_desc();
    if (indices.data_type() != to_dnnl(facts.out[1].dtype)) throw Error("oneDNN pools with indices of another type");
    bindings.push_back({DNNL_ARG_WORKSPACE, indices, Binding::From::Out, 1});
    out.emplace_back(indices);
  }
  return {.kernel = std::make_shared<DnnlKernel>(Forward(pd), bindings),
          .in = {Layout(pd.src_desc())},
          .out = std::move(out),
          .workspace_bytes = static_cast<Bytes>(pd.scratchpad_desc().get_size())};
}

void infer_grad(Infer& n) {
  n.expect_inputs(1, 2);
  n.out = {{DType::F32, n.attrs.shape("shape")}};
}

template <bool kIsMax>
Prepared prepare_grad(const Facts& facts) {
  // The indices can't be put in another order cheaply, so the gradient takes theirs.
  const ImageOrder order = blocked_if_free(order_or_plain(facts.in[kIsMax ? 1 : 0]), facts.in[0].dims);
  if (kIsMax && is_pooled_in_blocks(facts.attrs, order)) return prepare_max_blocks_grad(facts, order);
  const Dims& from = facts.in[0].dims;
  const Dims& to = facts.out[0].dims;
  const Desc dy_desc = order.desc(DType::F32, from);
  const Desc dx_desc = order.desc(DType::F32, to);
  const auto hint = forward(facts.attrs, kIsMax, true, dx_desc, dy_desc);
  const DnnlWindow g(facts.attrs);
  const Backwards::desc desc(algorithm_of(facts.attrs, kIsMax), dx_desc, dy_desc, g.strides, g.size, g.begin, g.end);
  const Backwards::primitive_desc pd(desc, user_scratchpad(), cpu_engine(), hint);
  std::vector<Binding> bindings{{DNNL_ARG_DIFF_DST, dy_desc, Binding::From::In, 0},
                                {DNNL_ARG_DIFF_SRC, dx_desc, Binding::From::Out, 0},
                                {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), Binding::From::Workspace}};
  std::vector<Layout> in{Layout(dy_desc)};
  if (kIsMax) {
    const Desc indices = hint.workspace_desc();
    bindings.push_back({DNNL_ARG_WORKSPACE, indices, Binding::From::In, 1});
    in.emplace_back(indices);
  }
  return {.kernel = std::make_shared<DnnlKernel>(Backwards(pd), bindings),
          .in = std::move(in),
          .out = {Layout(dx_desc)},
          .workspace_bytes = static_cast<Bytes>(pd.scratchpad_desc().get_size())};
}

// oneDNN's averages are far slower than a copy; overlapping windows read more bytes than are counted.
template <int passes_percent>
Cost cost(const Facts& facts) {
  return {.bytes = passes_percent / 100.0 * facts.operand_bytes()};
}

const Traits kTraits{.batch = BatchRule::Rows, .recomputable = true};
extern const Op kMaxPool;

const Op kMaxPoolGrad{.name = "max_pool_grad",
                      .infer = infer_grad,
                      .types = {DType::F32, {DType::U8, DType::I32}},
                      .prepare = prepare_grad<true>,
                      .cost = cost<150>,
                      .traits = kTraits,
                      .fusion = {.gradient_of = &kMaxPool}};
const Op kAveragePoolGrad{.name = "average_pool_grad",
                          .infer = infer_grad,
                          .prepare = prepare_grad<false>,
                          .cost = cost<260>,
                          .traits = kTraits};

void max_grad(Backward& b) {
  if (b.y.size() != 2) throw Error("max_pool without indices has no gradient");
  Attrs attrs = b.attrs;
  attrs.set("shape", b.x[0].shape());
  attrs.erase("indices");
  b.give(0, apply(kMaxPoolGrad, {b.dy[0], b.y[1]}, attrs));
}

void average_grad(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.set("shape", b.x[0].shape());
  b.give(0, apply(kAveragePoolGrad, {b.dy[0]}, attrs));
}

// A convolution hands its result on in a blocked order; this one changes nothing else.
Tensor unit_kernel(Graph& graph) {
  float kernel[8][8] = {};
  for (size_t i = 0; i < 8; ++i) kernel[i][i] = 1;
  return graph.constant(DType::F32, {8, 8, 1, 1}, std::as_bytes(std::span(kernel)));
}

std::vector<Sample> max_samples() {
  const Dim batch = Dim::batch();
  return {
      {"2x2",
       [=](SampleBuilder& s) {
         return std::vector{max_pool(s.input({batch, 3, 4, 2}), {2, 2}, Window::strided(2))};
       }},
      {"overlapping, padded",
       [=](SampleBuilder& s) {
         return std::vector{max_pool(s.input({batch, 2, 4, 3}), {3, 3}, Window::strided(2, 1))};
       }},
      {"asymmetric",
       [=](SampleBuilder& s) {
         return std::vector{max_pool(s.input({batch, 2, 4, 3}), {2, 3}, {{1, 2}, {1, 0, 0, 2}, {1, 1}, 1})};
       }},
      {"global",
       [=](SampleBuilder& s) {
         return std::vector{global_max_pool(s.input({batch, 5, 3, 2}))};
       }},
      {"wide window",
       [=](SampleBuilder& s) {
         return std::vector{max_pool(s.input({batch, 1, 3, 100}), {3, 90}, Window::strided(2, 1))};
       },
       1e-4, false},
      {"blocked",
       [=](SampleBuilder& s) {
         const Tensor x = conv2d(s.input({batch, 8, 2, 2}, -20, 20), unit_kernel(s.graph()));
         return std::vector{max_pool(x, {2, 2}, Window::strided(2))};
       }},
      {"blocked, overlapping, padded",
       [=](SampleBuilder& s) {
         const Tensor x = conv2d(s.input({batch, 8, 3, 2}, -20, 20), unit_kernel(s.graph()));
         return std::vector{max_pool(x, {3, 3}, Window::strided(2, 1))};
       }},
      {"no indices",
       [=](SampleBuilder& s) {
         Attrs attrs = attrs_of(Window::strided(2));
         attrs.set("size", Shape{2, 2});
         attrs.set("indices", int64_t{0});
         return std::vector<Tensor>{apply(*find_op("max_pool"), {s.input({batch, 3, 4, 2})}, attrs)};
       },
       1e-4, false},
  };
}

std::vector<Sample> average_samples() {
  const Dim batch = Dim::batch();
  return {
      {"2x2",
       [=](SampleBuilder& s) {
         return std::vector{average_pool(s.input({batch, 3, 4, 2}), {2, 2}, Window::strided(2))};
       }},
      {"padded",
       [=](SampleBuilder& s) {
         return std::vector{average_pool(s.input({batch, 2, 4, 3}), {3, 3}, Window::strided(2, 1))};
       }},
      {"counting pads",
       [=](SampleBuilder& s) {
         return std::vector{average_pool(s.input({batch, 2, 4, 3}), {3, 3}, Window::strided(2, 1), true)};
       }},
      {"asymmetric",
       [=](SampleBuilder& s) {
         return std::vector{average_pool(s.input({batch, 2, 4, 3}), {2, 3}, {{1, 2}, {1, 0, 0, 2}, {1, 1}, 1})};
       }},
      {"global",
       [=](SampleBuilder& s) {
         return std::vector{global_average_pool(s.input({batch, 5, 3, 2}))};
       }},
      {"blocked",
       [=](SampleBuilder& s) {
         const Tensor x = conv2d(s.input({batch, 8, 4, 2}), s.input({8, 8, 1, 1}));
         return std::vector{global_average_pool(x), average_pool(x, {2, 2}, Window::strided(2))};
       }},
  };
}

const Op kMaxPool{.name = "max_pool",
                  .storable = true,
                  .infer = infer,
                  .grad = max_grad,
                  .prepare = prepare<true>,
                  .cost = cost<200>,
                  .samples = max_samples,
                  .traits = kTraits,
                  .onnx = "MaxPool",
                  .fusion = {.selects = true}};
const Op kAveragePool{.name = "average_pool",
                      .storable = true,
                      .infer = infer,
                      .grad = average_grad,
                      .prepare = prepare<false>,
                      .cost = cost<260>,
                      .samples = average_samples,
                      .traits = kTraits,
                      .onnx = "AveragePool"};

std::array<int64_t, 2> whole(Tensor x, Name name) {
  if (x.rank() != 4)
    throw Error(fmt::format("'{}': an image batch has 4 dimensions but it is {}", name, to_string(x.type())));
  return {x.dim(2).fixed(), x.dim(3).fixed()};
}

}  // namespace

Tensor max_pool(Tensor x, std::array<int64_t, 2> size, const Window& window, Name name) {
  Attrs attrs = attrs_of(window);
  attrs.set("size", Shape::from(size));
  return apply(kMaxPool, {x}, attrs, name);
}

Tensor average_pool(Tensor x, std::array<int64_t, 2> size, const Window& window, bool count_pads, Name name) {
  Attrs attrs = attrs_of(window);
  attrs.set("size", Shape::from(size));
  if (count_pads) attrs.set("count_pads", int64_t{1});
  return apply(kAveragePool, {x}, attrs, name);
}

Tensor global_average_pool(Tensor x, Name name) {
  return average_pool(x, whole(x, name), {}, false, name.empty() ? Name("global_average_pool") : name);
}

Tensor global_max_pool(Tensor x, Name name) {
  return max_pool(x, whole(x, name), {}, name.empty() ? Name("global_max_pool") : name);
}

OpList pool_ops() { return {&kMaxPool, &kMaxPoolGrad, &kAveragePool, &kAveragePoolGrad}; }

}  // namespace plimsoll::ops
