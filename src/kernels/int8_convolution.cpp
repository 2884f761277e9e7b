#include "kernels/int8_convolution.h"

#include <algorithm>
#include <limits>

#include "kernels/dnnl_kernel.h"
#include "kernels/parallel.h"
#include "kernels/pixel_order.h"

namespace plimsoll::kernels {
namespace {

using ByteForward = dnnl::convolution_forward;
using MemoryDesc = dnnl::memory::desc;

Dims grouped_filter(const ConvolutionSizes& sizes) {
  Dims dims = sizes.kernel;
  if (const int64_t groups = sizes.window.groups; groups > 1) {
    dims[0] /= groups;
    dims.insert(0, groups);
  }
  return dims;
}

MemoryDesc image_of(DType dtype, const Dims& dims) {
  return {to_dnnl(dims), to_dnnl(dtype), dnnl::memory::format_tag::nhwc};
}

MemoryDesc number_for_each_channel(const ConvolutionSizes& sizes) {
  return plain_desc(DType::F32, {1, sizes.y[1], 1, 1});
}

struct ResultLimits {
  explicit ResultLimits(const Attrs& attrs)
      : low(static_cast<float>(attrs.f("low", -std::numeric_limits<float>::max()))),
        high(static_cast<float>(attrs.f("high", std::numeric_limits<float>::max()))),
        is_set(attrs.has("low") || attrs.has("high")) {}
  float low, high;
  bool is_set;
};

// scale[c] * sum + offset[c] within the limits. Scales and offsets are operands of the run and stay in their variables.
dnnl::primitive_attr finishing(const ConvolutionSizes& sizes, const ResultLimits& limits) {
  dnnl::primitive_attr attr = user_scratchpad();
  dnnl::post_ops post;
  post.append_binary(dnnl::algorithm::binary_mul, number_for_each_channel(sizes));
  post.append_binary(dnnl::algorithm::binary_add, number_for_each_channel(sizes));
  if (limits.is_set) post.append_eltwise(1, dnnl::algorithm::eltwise_clip, limits.low, limits.high);
  attr.set_post_ops(post);
  return attr;
}

// Skips oneDNN's matrix product for bytes, which allocates memory of its own when it runs.
ByteForward::primitive_desc describe(const ConvolutionSizes& sizes, const MemoryDesc& filter, DType result,
                                     const dnnl::primitive_attr& attr) {
  const Window& w = sizes.window;
  const ByteForward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                               image_of(DType::U8, sizes.x), filter, image_of(result, sizes.y),
                               {w.strides[0], w.strides[1]}, {w.dilations[0] - 1, w.dilations[1] - 1},
                               {w.pads[0], w.pads[1]}, {w.pads[2], w.pads[3]});
  ByteForward::primitive_desc pd(desc, attr, cpu_engine(), true);
  while (pd && is_by_product(pd))
    if (!pd.next_impl()) return {};
  return pd;
}

bool has_isa(dnnl::cpu_isa wanted) {
  const auto isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

// oneDNN would choose blocks by the number of samples. These are as fast, and every batch and micro-batch can read
// them: a filter is never copied into another order.
MemoryDesc filter_in_blocks(const ConvolutionSizes& sizes) {
  using FormatTag = dnnl::memory::format_tag;
  const Dims dims = grouped_filter(sizes);
  if (!has_isa(dnnl::cpu_isa::avx512_core_vnni)) return any_desc(DType::I8, dims);
  const bool is_depthwise = sizes.kernel[1] == 1 && sizes.kernel[0] == sizes.window.groups;
  const FormatTag tag = sizes.window.groups == 1 ? FormatTag::OIhw4i16o4i
                        : is_depthwise           ? FormatTag::Goihw16g
                                                 : FormatTag::gOIhw4i16o4i;
  return {to_dnnl(dims), to_dnnl(DType::I8), tag};
}

bool is_reference(const ByteForward::primitive_desc& pd) {
  return std::string_view(pd.impl_info_str()).starts_with("ref");
}

ByteForward::primitive_desc describe_for(const ConcreteType& filter, const ConvolutionSizes& sizes, DType result,
                                         const dnnl::primitive_attr& attr) {
  const Dims dims = grouped_filter(sizes);
  auto best = describe(sizes, filter_in_blocks(sizes), result, attr);
  if (!best || is_reference(best)) best = describe(sizes, any_desc(DType::I8, dims), result, attr);
  if (!best) throw Error("oneDNN has no kernel for an int8 convolution of these sizes; leave this layer in f32");
  if (filter.is_open) return best;
  // The layout that the filter has, where the same implementation takes it.
  auto wished =
      describe(sizes, filter.layout.is_plain() ? plain_desc(DType::I8, dims) : filter.layout.desc(DType::I8, dims),
               result, attr);
  return wished && std::string_view(wished.impl_info_str()) == best.impl_info_str() ? wished : best;
}

// The same arithmetic as oneDNN's, so that a sample's bits do not depend on how many samples there are.
void finish_sums(const int32_t* sums, const float* scale, const float* offset, int64_t count,
                 const ResultLimits& limits, DType result, void* y) {
  for (int64_t i = 0; i < count; ++i) {
    const float product = scale[i] * static_cast<float>(sums[i]);
    const float number = std::clamp(product + offset[i], limits.low, limits.high);
    if (result == DType::U8)
      static_cast<uint8_t*>(y)[i] = to_saturated_byte(number);
    else
      static_cast<float*>(y)[i] = number;
  }
}

std::vector<Binding> bindings_of(const ByteForward::primitive_desc& pd, Binding::From result, Bytes sums_bytes) {
  return {{DNNL_ARG_SRC, pd.src_desc(), Binding::From::In, 0},
          {DNNL_ARG_WEIGHTS, pd.weights_desc(), Binding::From::In, 1},
          {DNNL_ARG_DST, pd.dst_desc(), result, 0},
          {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), Binding::From::Workspace, 0, sums_bytes}};
}

// Whether the sums are finished here. For a result of one pixel oneDNN has no fast kernel, because the shape of the
// sums is that of the scales; for depthwise filters without AVX-512 it takes wrong scales in the last, partly filled
// block of channels.
bool finishes_sums(const ConvolutionSizes& sizes) {
  constexpr int64_t kBlock = 8;
  const bool is_depthwise = sizes.window.groups > 1 && sizes.kernel[1] == 1 && sizes.kernel[0] == sizes.window.groups;
  return sizes.y[0] * sizes.y[2] * sizes.y[3] == 1 ||
         (is_depthwise && sizes.y[1] % kBlock != 0 && !has_isa(dnnl::cpu_isa::avx512_core));
}

Prepared prepare_sums(const Facts& facts, const ConvolutionSizes& sizes, const ResultLimits& limits) {
  const auto pd = describe_for(facts.in[1], sizes, DType::I32, user_scratchpad());
  const int64_t channels = sizes.y[1], pixels = sizes.y[0] * sizes.y[2] * sizes.y[3];
  const Bytes sums_bytes = round_up(pixels * channels * Bytes{sizeof(int32_t)}, kAlignment);
  const auto sums =
      std::make_shared<DnnlKernel>(ByteForward(pd), bindings_of(pd, Binding::From::Workspace, sums_bytes));
  const DType result = facts.out[0].dtype;
  return {.kernel = make_kernel([=](const Args& args) {
            sums->run(args);
            parallel_for(pixels, 1 + 4096 / channels, [&](int64_t first, int64_t last) {
              for (int64_t at = first * channels; at < last * channels; at += channels)
                finish_sums(static_cast<const int32_t*>(args.workspace) + at, args.input<float>(2),
                            args.input<float>(3), channels, limits, result,
                            static_cast<std::byte*>(args.out[0]) + at * size_of(result));
            });
          }),
          .in = {Layout(pd.src_desc()), Layout(pd.weights_desc()), {}, {}},
          .out = {Layout(DnnlDesc(image_of(result, sizes.y)))},
          .workspace_bytes = sums_bytes + static_cast<Bytes>(pd.scratchpad_desc().get_size())};
}

void expect_exact(const Facts& facts) {
  if (facts.attrs.i("full_range") == 0 || adds_bytes_exactly()) return;
  throw Error(
      "the int8 weights of this model use all of [-127, 127], which this processor can't multiply exactly: it adds "
      "pairs "
      "of products in 16 bits; quantise the model for processors without VNNI, with weights within [-64, 63]");
}

}  // namespace

bool adds_bytes_exactly() { return has_isa(dnnl::cpu_isa::avx512_core_vnni) || has_isa(dnnl::cpu_isa::avx2_vnni); }

Prepared prepare_int8_convolution(const Facts& facts, const ConvolutionSizes& sizes) {
  expect_exact(facts);
  const ResultLimits limits(facts.attrs);
  if (finishes_sums(sizes)) return prepare_sums(facts, sizes, limits);
  const auto pd = describe_for(facts.in[1], sizes, facts.out[0].dtype, finishing(sizes, limits));
  std::vector<Binding> bindings = bindings_of(pd, Binding::From::Out, 0);
  for (const int i : {0, 1})
    bindings.push_back(
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, number_for_each_channel(sizes), Binding::From::In, 2 + i});
  return {.kernel = std::make_shared<DnnlKernel>(ByteForward(pd), bindings),
          .in = {Layout(pd.src_desc()), Layout(pd.weights_desc()), {}, {}},
          .out = {Layout(pd.dst_desc())},
          .workspace_bytes = static_cast<Bytes>(pd.scratchpad_desc().get_size())};
}

Prepared prepare_int8_product(const Facts& facts) {
  const Dims &x = facts.in[0].dims, &filter = facts.in[1].dims;
  // One image whose pixels are the rows: the same bytes.
  const ConvolutionSizes sizes{{1, x[1], x[0], 1}, {filter[0], filter[1], 1, 1}, {1, filter[0], x[0], 1}, {}};
  Prepared prepared = prepare_int8_convolution(facts, sizes);
  prepared.in[0] = prepared.out[0] = Layout();
  return prepared;
}

// Measured beside f32 products, as shares of their speed: with VNNI and without.
Cost cost_of_int8_convolution(const ConvolutionSizes& sizes) {
  const bool is_fast = adds_bytes_exactly();
  const int64_t inputs = sizes.kernel[1], outputs = sizes.kernel[0] / sizes.window.groups;
  double efficiency = is_fast ? 3.3 : 1.8;
  if (sizes.window.groups > 1 && inputs == 1 && outputs == 1)
    efficiency = is_fast ? 0.2 : 0.12;  // depthwise: bound by the conversions around each product
  else if (sizes.window.groups > 1 && (inputs % 16 != 0 || outputs % 16 != 0))
    efficiency = 0.02;  // the reference kernel
  else if (inputs <= 4)
    efficiency = outputs <= 16 ? 0.25 : is_fast ? 1.8 : 1.1;  // blocks of four inputs are partly empty
  else if (inputs < 64 || outputs < 64)
    efficiency = is_fast ? 2 : 1.3;
  return {sizes.flops(), efficiency};
}

}  // namespace plimsoll::kernels
