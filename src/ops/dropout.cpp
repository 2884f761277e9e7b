// dropout: zeroes elements at random and scales up the rest. The mask is a function of seed, step, node and element, so
// that it is never stored: the gradient recomputes it.
#include <bit>

#include <fmt/format.h>

#include "base/random.h"
#include "graph/draws.h"
#include "graph/shape.h"
#include "kernels/draws.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout.cpp"
#include "hwy/foreach_target.h"
#include "kernels/draws-inl.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

HWY_INLINE void drop(const float* x, float* y, size_t count, uint64_t key, uint32_t first, int32_t threshold,
                     float factor, bool streams) {
  const FloatTag d;
  const WordTag words;
  const hn::RebindToSigned<FloatTag> integers;
  const size_t lanes = hn::Lanes(d);
  const Words key_low = hn::Set(words, static_cast<uint32_t>(key));
  const Words key_high = hn::Set(words, static_cast<uint32_t>(key >> 32));
  const Floats scale = hn::Set(d, factor);
  const auto limit = hn::Set(integers, threshold);
  Words counter = hn::Iota(words, first);
  const Words stride = hn::Set(words, static_cast<uint32_t>(lanes));
  const auto apply = [&](Floats value) HWY_ATTR {
    // 31 of the bits: comparisons of signed numbers are fast everywhere.
    const auto bits = hn::BitCast(integers, hn::ShiftRight<1>(draw(counter, key_low, key_high)));
    return hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(bits, limit)), hn::Mul(value, scale));
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    put(apply(hn::LoadU(d, x + i)), y + i, streams);
    counter = hn::Add(counter, stride);
  }
  if (i == count) return;
  HWY_ALIGN float rest[hn::MaxLanes(FloatTag())] = {};
  std::memcpy(rest, x + i, (count - i) * sizeof(float));
  hn::Store(apply(hn::Load(d, rest)), d, rest);
  std::memcpy(y + i, rest, (count - i) * sizeof(float));
}

void dropout_tile(const Tile& t) {
  uint32_t params[8];
  std::memcpy(params, t.params, sizeof params);
  const uint64_t node = params[0] | static_cast<uint64_t>(params[1]) << 32;
  const uint64_t per_sample = params[2] | static_cast<uint64_t>(params[3]) << 32;
  const uint64_t before_node = params[6] | static_cast<uint64_t>(params[7]) << 32;
  const uint64_t index =
      (static_cast<uint64_t>(t.state->first_sample) + before_node) * per_sample + static_cast<uint64_t>(t.index);
  const auto threshold = static_cast<int32_t>(params[4]);
  for_each_range(draw_key(*t.state, node), index, t.count,
                 [&](uint64_t done, uint64_t count, uint64_t key, uint32_t first) HWY_ATTR {
                   drop(t.in[0] + done, t.out + done, count, key, first, threshold, t.params[5],
                        t.streams && done == 0);
                 });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

void fill_params(const Attrs& attrs, float* params) {
  const double rate = attrs.f("rate");
  const auto key = static_cast<uint64_t>(attrs.i("key"));
  const auto per_sample = static_cast<uint64_t>(attrs.i("per_sample"));
  const double limit = rate * 0x1.0p31;
  params[0] = std::bit_cast<float>(static_cast<uint32_t>(key));
  params[1] = std::bit_cast<float>(static_cast<uint32_t>(key >> 32));
  params[2] = std::bit_cast<float>(static_cast<uint32_t>(per_sample));
  params[3] = std::bit_cast<float>(static_cast<uint32_t>(per_sample >> 32));
  params[4] = std::bit_cast<float>(limit >= 0x1.0p31 ? uint32_t{0x7fffffff} : static_cast<uint32_t>(limit));
  params[5] = rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0F;
  // The number of samples of the batch before this node's: in a pipeline, those of earlier micro-batches, which other
  // nodes of the same step take.
  const auto first = static_cast<uint64_t>(attrs.i("first_sample"));
  params[6] = std::bit_cast<float>(static_cast<uint32_t>(first));
  params[7] = std::bit_cast<float>(static_cast<uint32_t>(first >> 32));
}

PLIMSOLL_TILE(dropout, 8, fill_params, true)

void infer(Infer& n) {
  const double rate = n.attrs.f("rate");
  if (!(rate >= 0 && rate <= 1)) n.fail(fmt::format("the rate must be from 0 to 1 but is {}", rate));
  infer_map(n);
}

extern const Op kDropout;

// Recomputes the mask of the forward pass.
void grad(Backward& b) { b.give(0, apply(kDropout, {b.dy[0]}, b.attrs)); }

// Elements are counted in row-major order: a micro-batch is a range of that count only if samples are outermost.
BatchRule batch_rule(const Attrs&, std::span<const TensorType> in) {
  const bool is_batched = element_count(in[0].shape).is_batch();
  return is_batched && graph::elements_before_batch(in[0].shape) > 1 ? BatchRule::Mixes : BatchRule::Rows;
}

// Two dropouts of one graph never share a mask, and adding nodes elsewhere changes none. Only those of the same x can
// want the same key: they come after what makes it.
int64_t key_of(Tensor x, const Name& name) {
  const Body& graph = x.graph().body();
  const NodeId maker = graph.value(x.id()).producer;
  return graph::free_key(graph, kDropout, hash_text(fmt::format("{} {}", x.name(), name)), maker + 1);
}

std::vector<Sample> samples() {
  return {{"half",
           [](SampleBuilder& s) {
             return std::vector{dropout(s.input({Dim::batch(), 3, 5}), 0.5)};
           }},
          {"few",
           [](SampleBuilder& s) {
             return std::vector{dropout(s.input({Dim::batch(), 11}), 0.1)};
           }},
          {"none",
           [](SampleBuilder& s) {
             return std::vector{dropout(s.input({Dim::batch(2), 7}), 0)};
           }},
          {"all",
           [](SampleBuilder& s) {
             return std::vector{dropout(s.input({Dim::batch(), 7}), 1)};
           }},
          {"no batch",
           [](SampleBuilder& s) {
             return std::vector{dropout(s.input({3, 7}), 0.3)};
           }},
          {"batch second",
           [](SampleBuilder& s) {
             return std::vector{dropout(s.input({3, Dim::batch()}), 0.3)};
           }},
          {"twice", [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 9});
             return std::vector{dropout(x, 0.5), dropout(x, 0.5)};
           }}};
}

const Op kDropout{.name = "dropout",
                  .storable = true,
                  .infer = infer,
                  .types = {kFloats},
                  .grad = grad,
                  .prepare = prepare_tile<tile_of_dropout>,
                  .samples = samples,
                  .traits = map_traits(0b1),
                  .batch_rule = batch_rule,
                  .tile = tile_of_dropout,
                  .onnx = "Dropout"};

}  // namespace

Tensor dropout(Tensor x, double rate, Name name) {
  const Dim count = element_count(x.shape());
  return apply(kDropout, {x},
               {{"rate", rate}, {"key", key_of(x, name)}, {"per_sample", count.is_batch() ? count.count() : 0}}, name);
}

OpList dropout_ops() { return {&kDropout}; }

}  // namespace plimsoll::ops
#endif
