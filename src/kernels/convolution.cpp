#include "kernels/convolution.h"

#include <algorithm>

#include "kernels/activation.h"
#include "kernels/dnnl_kernel.h"
#include "kernels/half_product.h"
#include "kernels/image_order.h"
#include "kernels/kernel_grad_pieces.h"
#include "kernels/one_channel_filter_grad.h"
#include "kernels/parallel.h"
#include "kernels/thread_count.h"

namespace plimsoll::kernels {
namespace {

using Desc = dnnl::memory::desc;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
constexpr double kAloneFlops = 1e6;  // less is not worth waking threads

void append_activation(dnnl::post_ops& post, std::string_view name) {
  switch (parse_activation(name)) {
    case Activation::None:
      return;
    case Activation::Relu:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    case Activation::Relu6:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_clip, 0, 6);
    case Activation::Sigmoid:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0);
    case Activation::Tanh:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_tanh, 0, 0);
  }
}

// What oneDNN wants to know besides the descriptions of memory.
struct DnnlWindow {
  explicit DnnlWindow(const ConvolutionSizes& sizes)
      : strides(sizes.window.strides.begin(), sizes.window.strides.end()),
        dilations{sizes.window.dilations[0] - 1, sizes.window.dilations[1] - 1},
        begin{sizes.window.pads[0], sizes.window.pads[1]},
        end{sizes.window.pads[2], sizes.window.pads[3]} {}
  dnnl::memory::dims strides, dilations, begin, end;
};

Dims kernel_dims(const ConvolutionSizes& sizes) {
  Dims dims = sizes.kernel;
  if (const int64_t groups = sizes.window.groups; groups > 1) {
    dims[0] /= groups;
    dims.insert(0, groups);
  }
  return dims;
}

Desc any_image(const Dims& dims, DType dtype = DType::F32) { return any_desc(dtype, dims); }
Desc any_kernel(const ConvolutionSizes& sizes, DType dtype = DType::F32) { return any_desc(dtype, kernel_dims(sizes)); }

Forward::primitive_desc forward(const ConvolutionSizes& sizes, const Desc& x, const Desc& kernel, const Desc& bias,
                                const Desc& y, const dnnl::primitive_attr& attr) {
  const DnnlWindow g(sizes);
  const Forward::desc desc(dnnl::prop_kind::forward_training, kAlgorithm, x, kernel, bias, y, g.strides, g.dilations,
                           g.begin, g.end);
  return {desc, attr, cpu_engine(), true};
}

// The forward pass with every layout free. Gradients take their hints from it, and the filter its layout.
Forward::primitive_desc plain_forward(const ConvolutionSizes& sizes, DType dtype = DType::F32) {
  return forward(sizes, any_image(sizes.x, dtype), any_kernel(sizes, dtype), Desc(), any_image(sizes.y, dtype),
                 user_scratchpad());
}

template <class PrimitiveDesc>
void expect_made(const PrimitiveDesc& pd) {
  if (!pd) throw Error("oneDNN has no kernel for a convolution of these sizes");
}

// make(layout of the filter) with oneDNN's choice, or with `wish` where the implementation stays the same.
template <class Make>
auto make_with_wish(const Make& make, const Desc& any, const Desc& wish) {
  auto best = make(any);
  expect_made(best);
  auto wished = make(wish);
  return wished && std::string_view(wished.impl_info_str()) == best.impl_info_str() ? wished : best;
}

Desc wish_for_kernel(const ConcreteType& kernel, const ConvolutionSizes& sizes) {
  if (kernel.is_open) return any_kernel(sizes);
  return kernel.layout.is_plain() ? plain_desc(DType::F32, kernel_dims(sizes)) : kernel.layout.desc(DType::F32, {});
}

using FormatTag = dnnl::memory::format_tag;

bool lies_as(const Desc& desc, const Dims& dims, FormatTag tag) {
  return desc == Desc({dims.begin(), dims.end()}, dnnl::memory::data_type::f32, tag);
}

// Whether oneDNN wants images and filters in the same blocks: then Winograd's algorithm or oneDNN may be chosen for
// each layer and direction, and nothing is reordered between them.
bool lies_in_blocks(const ConvolutionSizes& sizes, const Forward::primitive_desc& plain) {
  const bool is_eight = Winograd::block() == 8;
  const FormatTag image = is_eight ? FormatTag::nChw8c : FormatTag::nChw16c;
  return plain && lies_as(plain.src_desc(), sizes.x, image) && lies_as(plain.dst_desc(), sizes.y, image) &&
         lies_as(plain.weights_desc(), sizes.kernel, is_eight ? FormatTag::OIhw8i8o : FormatTag::OIhw16i16o);
}

Prepared prepare_winograd(const Facts& facts, const Winograd& winograd, const Forward::primitive_desc& plain,
                          bool is_backward) {
  const bool has_residual = facts.attrs.i("residual") != 0;
  const size_t others = facts.in.size() - 2;
  const bool has_bias = others == (has_residual ? 2U : 1U);
  const Layout image(plain.src_desc()), result(plain.dst_desc());
  std::vector<Layout> in{is_backward ? result : image, Layout(plain.weights_desc())};
  if (has_bias) in.emplace_back();
  if (has_residual) in.push_back(result);
  const size_t residual_at = facts.in.size() - 1;
  return {.kernel = make_kernel([=](const Args& args) {
            winograd.run({args.input<float>(0), args.input<float>(1), has_bias ? args.input<float>(2) : nullptr,
                          has_residual ? args.input<float>(residual_at) : nullptr, args.output<float>(0)},
                         args.workspace);
          }),
          .in = std::move(in),
          .out = {is_backward ? image : result},
          .workspace_bytes = winograd.workspace_bytes()};
}

// The sizes for our own filter gradient for one channel, where oneDNN wants result and filter in the layouts that it
// needs.
std::optional<OneChannelFilterGrad::Sizes> one_channel_sizes(const ConvolutionSizes& sizes,
                                                             const Forward::primitive_desc& plain) {
  if (!has_one_channel(sizes)) return std::nullopt;
  const int64_t block = ImageOrder(Layout(plain.dst_desc()), sizes.y).block();
  if (block < 8 || !lies_as(plain.weights_desc(), sizes.kernel, block == 8 ? FormatTag::Ohwi8o : FormatTag::Ohwi16o))
    return std::nullopt;
  return OneChannelFilterGrad::Sizes{sizes.x[0],
                                     sizes.y[1],
                                     block,
                                     {sizes.x[2], sizes.x[3]},
                                     {sizes.y[2], sizes.y[3]},
                                     {sizes.kernel[2], sizes.kernel[3]},
                                     sizes.window};
}

// The filter gradient by one of our own kernels: Winograd's, or that for one channel.
template <class Way>
Prepared prepare_own_kernel_grad(const Facts& facts, const Way& way, const Layout& image,
                                 const Forward::primitive_desc& plain) {
  const bool has_bias = facts.out.size() == 2;
  const bool adds = facts.accumulate;
  Prepared prepared{.kernel = make_kernel([=](const Args& args) {
                      way.run({args.input<float>(0), args.input<float>(1), args.output<float>(0),
                               has_bias ? args.output<float>(1) : nullptr, adds},
                              args.workspace);
                    }),
                    .in = {image, Layout(plain.dst_desc())},
                    .out = {Layout(plain.weights_desc())},
                    .workspace_bytes = way.workspace_bytes()};
  if (has_bias) prepared.out.emplace_back();
  return prepared;
}

Bytes workspace_of(const auto& pd) { return static_cast<Bytes>(pd.scratchpad_desc().get_size()); }

Desc with_samples(Desc desc, int64_t samples) {
  desc.data.dims[0] = desc.data.padded_dims[0] = samples;
  return desc;
}

struct SampleBinding {
  Binding whole;
  bool has_samples;  // in its first dimension
};

// A primitive that keeps samples apart. Where oneDNN computes it by its matrix product, whose bits depend on the number
// of threads, one thread runs each of a fixed number of groups of samples; `make` describes it for so many samples.
template <class Primitive, class PrimitiveDesc, class Make>
Prepared prepare_by_samples(const PrimitiveDesc& pd, const std::vector<SampleBinding>& bindings,
                            const std::vector<Layout>& in, const Layout& out, const Make& make,
                            Bytes scratchpads_at = 0) {
  constexpr int64_t kMostGroups = 8;
  const auto whole = static_cast<int64_t>(bindings[0].whole.desc.data.dims[0]);
  const int64_t groups = is_by_product(pd) ? std::clamp<int64_t>(whole, 1, kMostGroups) : 1;
  const ThreadCount threads(is_by_product(pd) ? 1 : thread_slots());
  std::vector<std::shared_ptr<Kernel>> kernels;
  Bytes workspace_bytes = scratchpads_at;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = whole * group / groups, samples = whole * (group + 1) / groups - first;
    const PrimitiveDesc piece = is_by_product(pd) ? make(samples) : pd;
    expect_made(piece);
    std::vector<Binding> bound;
    for (const auto& [binding, has_samples] : bindings) {
      bound.push_back(binding);
      if (!has_samples || groups == 1) continue;
      bound.back().desc = with_samples(binding.desc, samples);
      bound.back().offset_bytes = static_cast<Bytes>(binding.desc.get_size()) / whole * first;
    }
    bound.push_back({DNNL_ARG_SCRATCHPAD, piece.scratchpad_desc(), Binding::From::Workspace, 0, workspace_bytes});
    workspace_bytes += round_up(workspace_of(piece), kAlignment);
    kernels.push_back(std::make_shared<DnnlKernel>(Primitive(piece), bound));
  }
  return {.kernel = is_by_product(pd) ? make_pieces(std::move(kernels)) : kernels[0],
          .in = in,
          .out = {out},
          .workspace_bytes = workspace_bytes};
}

// The filter, rounded to bf16 at the start of the workspace.
struct HalfFilter {
  HalfFilter(const ConcreteType& kernel, const ConvolutionSizes& sizes, const Desc& wanted)
      : layout(kernel.is_open ? Layout(plain_forward(sizes).weights_desc()) : kernel.layout),
        binding{DNNL_ARG_WEIGHTS, wanted, Binding::From::Workspace} {
    const Desc from = layout.desc(DType::F32, kernel_dims(sizes));
    const dnnl::reorder::primitive_desc pd(cpu_engine(), from, cpu_engine(), wanted, user_scratchpad());
    const Bytes at = round_up(static_cast<Bytes>(wanted.get_size()), kAlignment);
    round = std::make_shared<DnnlKernel>(
        dnnl::reorder(pd),
        std::vector<Binding>{{DNNL_ARG_FROM, from, Binding::From::In, 1},
                             {DNNL_ARG_TO, wanted, Binding::From::Workspace},
                             {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), Binding::From::Workspace, 0, at}});
    bytes = at + round_up(workspace_of(pd), kAlignment);
  }
  // Rounds first, then runs the kernel.
  void put_before(Prepared& prepared) const {
    prepared.kernel = make_kernel([first = round, then = prepared.kernel](const Args& args) {
      first->run(args);
      then->run(args);
    });
  }

  Layout layout;  // in which the f32 filter arrives
  Binding binding;
  std::shared_ptr<Kernel> round;
  Bytes bytes;  // of the workspace that are taken
};

Prepared prepare_half_forward(const Facts& facts, const ConvolutionSizes& sizes) {
  const bool has_bias = facts.in.size() == 3;
  const Desc bias = has_bias ? plain_desc(DType::F32, facts.in[2].dims) : Desc();
  const auto make = [&](const Desc& x, const Desc& kernel, const Desc& y) {
    dnnl::primitive_attr attr = user_scratchpad();
    dnnl::post_ops post;
    append_activation(post, facts.attrs.s("activation"));
    attr.set_post_ops(post);
    return forward(sizes, x, kernel, bias, y, attr);
  };
  const auto pd =
      make(any_image(sizes.x, DType::BF16), any_kernel(sizes, DType::BF16), any_image(sizes.y, facts.out[0].dtype));
  expect_made(pd);
  const HalfFilter filter(facts.in[1], sizes, pd.weights_desc());
  std::vector<SampleBinding> bindings{{{DNNL_ARG_SRC, pd.src_desc(), Binding::From::In, 0}, true},
                                      {filter.binding, false},
                                      {{DNNL_ARG_DST, pd.dst_desc(), Binding::From::Out, 0}, true}};
  std::vector<Layout> in{Layout(pd.src_desc()), filter.layout};
  if (has_bias) {
    bindings.push_back({{DNNL_ARG_BIAS, bias, Binding::From::In, 2}, false});
    in.emplace_back();
  }
  Prepared prepared = prepare_by_samples<Forward>(
      pd, bindings, in, Layout(pd.dst_desc()),
      [&](int64_t samples) {
        return make(with_samples(pd.src_desc(), samples), pd.weights_desc(), with_samples(pd.dst_desc(), samples));
      },
      filter.bytes);
  filter.put_before(prepared);
  return prepared;
}

BackwardData::primitive_desc half_input_grad(const ConvolutionSizes& sizes, const Desc& x, const Desc& kernel,
                                             const Desc& y) {
  const DnnlWindow g(sizes);
  const BackwardData::desc desc(kAlgorithm, x, kernel, y, g.strides, g.dilations, g.begin, g.end);
  return {desc, user_scratchpad(), cpu_engine(), plain_forward(sizes, DType::BF16), true};
}

BackwardData::primitive_desc half_input_grad(const ConvolutionSizes& sizes) {
  return half_input_grad(sizes, any_image(sizes.x), any_kernel(sizes, DType::BF16), any_image(sizes.y, DType::BF16));
}

Prepared prepare_half_input_grad(const Facts& facts, const ConvolutionSizes& sizes) {
  const auto pd = half_input_grad(sizes);
  expect_made(pd);
  const HalfFilter filter(facts.in[1], sizes, pd.weights_desc());
  Prepared prepared = prepare_by_samples<BackwardData>(
      pd,
      {{{DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), Binding::From::In, 0}, true},
       {filter.binding, false},
       {{DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), Binding::From::Out, 0}, true}},
      {Layout(pd.diff_dst_desc()), filter.layout}, Layout(pd.diff_src_desc()),
      [&](int64_t samples) {
        return half_input_grad(sizes, with_samples(pd.diff_src_desc(), samples), pd.weights_desc(),
                               with_samples(pd.diff_dst_desc(), samples));
      },
      filter.bytes);
  filter.put_before(prepared);
  return prepared;
}

BackwardWeights::primitive_desc half_kernel_grad(const ConvolutionSizes& sizes, const Desc& x, const Desc& kernel,
                                                 const Desc& bias, const Desc& y) {
  const DnnlWindow g(sizes);
  const BackwardWeights::desc desc(kAlgorithm, x, kernel, bias, y, g.strides, g.dilations, g.begin, g.end);
  return {desc, user_scratchpad(), cpu_engine(), plain_forward(sizes, DType::BF16), true};
}

Prepared prepare_half_kernel_grad(const Facts& facts, const ConvolutionSizes& sizes) {
  const Desc bias = facts.out.size() == 2 ? plain_desc(DType::F32, facts.out[1].dims) : Desc();
  // The update needs the gradient in the order of the variable, and that is the f32 forward's.
  const auto whole = make_with_wish(
      [&](const Desc& kernel) {
        return half_kernel_grad(sizes, any_image(sizes.x, DType::BF16), kernel, bias, any_image(sizes.y, DType::BF16));
      },
      any_kernel(sizes), plain_forward(sizes).weights_desc());
  return prepare_kernel_grad_pieces(facts, whole,
                                    [sizes](const Desc& x, const Desc& kernel, const Desc& of_bias, const Desc& y) {
                                      return half_kernel_grad(sizes, x, kernel, of_bias, y);
                                    });
}

// Whether oneDNN's implementation multiplies bf16 itself and does not convert to f32 first.
template <class PrimitiveDesc>
bool is_native(const PrimitiveDesc& pd) {
  return pd && !is_by_product(pd) && std::string_view(pd.impl_info_str()).find("bf16") != std::string_view::npos;
}

}  // namespace

bool has_half_convolution(const ConvolutionSizes& sizes, ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::Forward:
      return is_native(plain_forward(sizes, DType::BF16));
    case ConvolutionPass::InputGrad:
      return is_native(half_input_grad(sizes));
    case ConvolutionPass::KernelGrad: {
      // Threads of oneDNN that share a gradient wait for each other at every sample, and lose what bf16 gains.
      const auto pd = half_kernel_grad(sizes, any_image(sizes.x, DType::BF16), any_kernel(sizes), Desc(),
                                       any_image(sizes.y, DType::BF16));
      return is_native(pd) && cuts_kernel_grad(pd);
    }
  }
  return false;
}

double ConvolutionSizes::flops() const {
  const int64_t products = element_count(kernel) / kernel[0];  // for each element of the result
  return 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(products);
}

bool has_one_channel(const ConvolutionSizes& sizes) { return sizes.x[1] == 1; }

std::optional<Winograd::Sizes> winograd_sizes(const Facts& facts, const ConvolutionSizes& sizes, ConvolutionPass pass) {
  const bool is_backward = pass == ConvolutionPass::InputGrad;
  const Window& w = sizes.window;
  const bool is_small = sizes.kernel[2] == 3 && sizes.kernel[3] == 3 && w.groups == 1 && w.strides[0] == 1 &&
                        w.strides[1] == 1 && w.dilations[0] == 1 && w.dilations[1] == 1;
  // With vectors of sixteen only the forward pass was measured to be faster.
  const bool has_way = pass == ConvolutionPass::Forward || Winograd::block() == 8;
  if (!is_small || !has_way) return std::nullopt;
  const Dims &from = is_backward ? sizes.y : sizes.x, &to = is_backward ? sizes.x : sizes.y;
  const auto zeros = [&](size_t side) { return is_backward ? 2 - w.pads[side] : w.pads[side]; };
  const Winograd::Sizes found{from[0], from[1], to[1], from[2], from[3], to[2], to[3], zeros(0), zeros(1)};
  Winograd::Sizes whole = found;
  if (found.samples == facts.batch) whole.samples = facts.whole_batch;
  return Winograd::suits(whole) ? std::optional(found) : std::nullopt;
}

bool uses_winograd(const Facts& facts, const ConvolutionSizes& sizes, ConvolutionPass pass) {
  return winograd_sizes(facts, sizes, pass) && lies_in_blocks(sizes, plain_forward(sizes));
}

Prepared prepare_convolution(const Facts& facts, const ConvolutionSizes& sizes) {
  if (computes_in_bf16(facts.attrs)) return prepare_half_forward(facts, sizes);
  // oneDNN cuts the work by the number of threads when the primitive is made.
  const bool is_small = sizes.flops() < kAloneFlops;
  const ThreadCount threads(is_small ? 1 : thread_slots());
  const auto plain = plain_forward(sizes);
  if (const auto found = winograd_sizes(facts, sizes, ConvolutionPass::Forward); found && lies_in_blocks(sizes, plain))
    return prepare_winograd(facts, Winograd(*found, false, parse_activation(facts.attrs.s("activation"))), plain,
                            false);
  const bool residual = facts.attrs.i("residual") != 0;
  const bool has_bias = facts.in.size() == (residual ? 4 : 3);
  const Desc bias = has_bias ? plain_desc(DType::F32, facts.in[2].dims) : Desc();
  const auto residual_at = static_cast<int>(facts.in.size()) - 1;

  const auto make = [&](const Desc& x, const Desc& kernel, const Desc& y) {
    dnnl::primitive_attr attr = user_scratchpad();
    dnnl::post_ops post;
    if (residual) post.append_binary(dnnl::algorithm::binary_add, y);
    append_activation(post, facts.attrs.s("activation"));
    attr.set_post_ops(post);
    return forward(sizes, x, kernel, bias, y, attr);
  };
  // The residual must have the layout of the result.
  const Desc any_y = residual ? plain.dst_desc() : any_image(sizes.y);
  const auto pd = make_with_wish([&](const Desc& kernel) { return make(any_image(sizes.x), kernel, any_y); },
                                 any_kernel(sizes), wish_for_kernel(facts.in[1], sizes));

  std::vector<SampleBinding> bindings{{{DNNL_ARG_SRC, pd.src_desc(), Binding::From::In, 0}, true},
                                      {{DNNL_ARG_WEIGHTS, pd.weights_desc(), Binding::From::In, 1}, false},
                                      {{DNNL_ARG_DST, pd.dst_desc(), Binding::From::Out, 0}, true}};
  std::vector<Layout> in{Layout(pd.src_desc()), Layout(pd.weights_desc())};
  if (has_bias) {
    bindings.push_back({{DNNL_ARG_BIAS, bias, Binding::From::In, 2}, false});
    in.emplace_back();
  }
  if (residual) {
    bindings.push_back(
        {{DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, pd.dst_desc(), Binding::From::In, residual_at}, true});
    in.emplace_back(pd.dst_desc());
  }
  Prepared prepared = prepare_by_samples<Forward>(pd, bindings, in, Layout(pd.dst_desc()), [&](int64_t samples) {
    return make(with_samples(pd.src_desc(), samples), pd.weights_desc(), with_samples(pd.dst_desc(), samples));
  });
  if (is_small) prepared.kernel = make_alone(std::move(prepared.kernel));
  return prepared;
}

Prepared prepare_convolution_input_grad(const Facts& facts, const ConvolutionSizes& sizes) {
  if (computes_in_bf16(facts.attrs)) return prepare_half_input_grad(facts, sizes);
  const auto hint = plain_forward(sizes);
  expect_made(hint);
  if (const auto found = winograd_sizes(facts, sizes, ConvolutionPass::InputGrad); found && lies_in_blocks(sizes, hint))
    return prepare_winograd(facts, Winograd(*found, true), hint, true);
  const DnnlWindow g(sizes);
  const auto make = [&](const Desc& x, const Desc& kernel, const Desc& y) {
    const BackwardData::desc desc(kAlgorithm, x, kernel, y, g.strides, g.dilations, g.begin, g.end);
    return BackwardData::primitive_desc(desc, user_scratchpad(), cpu_engine(), hint, true);
  };
  const auto pd =
      make_with_wish([&](const Desc& kernel) { return make(any_image(sizes.x), kernel, any_image(sizes.y)); },
                     any_kernel(sizes), wish_for_kernel(facts.in[1], sizes));
  Prepared prepared = prepare_by_samples<BackwardData>(
      pd,
      {{{DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), Binding::From::In, 0}, true},
       {{DNNL_ARG_WEIGHTS, pd.weights_desc(), Binding::From::In, 1}, false},
       {{DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), Binding::From::Out, 0}, true}},
      {Layout(pd.diff_dst_desc()), Layout(pd.weights_desc())}, Layout(pd.diff_src_desc()), [&](int64_t samples) {
        return make(with_samples(pd.diff_src_desc(), samples), pd.weights_desc(),
                    with_samples(pd.diff_dst_desc(), samples));
      });
  if (facts.in.size() == 2) return prepared;

  // oneDNN adds no bias in this direction.
  prepared.in.emplace_back();
  const ImageOrder order(prepared.out[0], sizes.x);
  if (!order.is_known()) throw Error("a transposed convolution gave an order of elements that has no bias kernel");
  prepared.kernel = make_kernel([kernel = prepared.kernel, order](const Args& args) {
    kernel->run(args);
    const auto* bias = args.input<float>(2);
    auto* y = args.output<float>(0);
    parallel_for(order.planes(), 1, [&](int64_t first, int64_t last) {
      for (int64_t plane = first; plane < last; ++plane) {
        const int64_t channel = plane % order.blocks() * order.block();
        const int64_t lanes = std::min(order.block(), order.channels() - channel);
        float* at = y + plane * order.pixels() * order.block();
        for (int64_t pixel = 0; pixel < order.pixels(); ++pixel, at += order.block())
          for (int64_t lane = 0; lane < lanes; ++lane) at[lane] += bias[channel + lane];
      }
    });
  });
  return prepared;
}

Prepared prepare_convolution_kernel_grad(const Facts& facts, const ConvolutionSizes& sizes) {
  if (computes_in_bf16(facts.attrs)) return prepare_half_kernel_grad(facts, sizes);
  const bool has_bias = facts.out.size() == 2;
  const auto hint = plain_forward(sizes);
  expect_made(hint);
  if (const auto found = winograd_sizes(facts, sizes, ConvolutionPass::KernelGrad);
      found && lies_in_blocks(sizes, hint))
    return prepare_own_kernel_grad(facts, WinogradKernelGrad(*found), Layout(hint.src_desc()), hint);
  if (const auto found = one_channel_sizes(sizes, hint))
    return prepare_own_kernel_grad(facts, OneChannelFilterGrad(*found), Layout(), hint);
  const DnnlWindow g(sizes);
  const Desc bias = has_bias ? plain_desc(DType::F32, facts.out[1].dims) : Desc();
  const auto make = [&](const Desc& x, const Desc& kernel, const Desc& of_bias, const Desc& y) {
    const BackwardWeights::desc desc(kAlgorithm, x, kernel, of_bias, y, g.strides, g.dilations, g.begin, g.end);
    return BackwardWeights::primitive_desc(desc, user_scratchpad(), cpu_engine(), hint, true);
  };
  // The update needs the gradient in the order of the variable, and that is the forward's.
  const auto whole =
      make_with_wish([&](const Desc& kernel) { return make(any_image(sizes.x), kernel, bias, any_image(sizes.y)); },
                     any_kernel(sizes), hint.weights_desc());
  return prepare_kernel_grad_pieces(facts, whole, make);
}

}  // namespace plimsoll::kernels
