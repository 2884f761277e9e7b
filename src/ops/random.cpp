// random_normal, random_uniform, bernoulli: tensors of random numbers, without inputs. An element is a function of
// seed, step, node and its number within the batch (kernels/draws.h): each run draws others, and a run that is repeated
// draws the same.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <plimsoll/random.h>
#include "base/random.h"
#include "graph/draws.h"
#include "graph/recorder.h"
#include "graph/shape.h"
#include "kernels/draws.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/random.cpp"
#include "hwy/foreach_target.h"
#include "kernels/draws-inl.h"
#include "kernels/tile_math-inl.h"

#ifndef PLIMSOLL_OPS_RANDOM_ONCE
#define PLIMSOLL_OPS_RANDOM_ONCE
namespace plimsoll::ops {
namespace {
struct FillNumbers {
  float a = 0, b = 0, top = 0;
  int32_t limit = 0;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

using Integers = hn::Vec<hn::RebindToSigned<FloatTag>>;

// 31 of the bits: conversions and comparisons of signed numbers are fast everywhere.
HWY_INLINE Integers draw_31(Words counter, Words key_low, Words key_high) {
  return hn::BitCast(hn::RebindToSigned<FloatTag>(), hn::ShiftRight<1>(draw(counter, key_low, key_high)));
}

// make(counters) gives the numbers; those of the last, partial vector go through the same code.
template <class Make>
HWY_INLINE void fill(float* y, size_t count, uint32_t counter, const Make& make) {
  const FloatTag d;
  const WordTag words;
  const size_t lanes = hn::Lanes(d);
  Words counters = hn::Iota(words, counter);
  const Words stride = hn::Set(words, static_cast<uint32_t>(lanes));
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(make(counters), d, y + i);
    counters = hn::Add(counters, stride);
  }
  if (i == count) return;
  HWY_ALIGN float rest[hn::MaxLanes(FloatTag())];
  hn::Store(make(counters), d, rest);
  std::memcpy(y + i, rest, (count - i) * sizeof(float));
}

// Box and Muller: one number of each pair, so that an element needs no other.
void fill_normal(float* y, size_t count, uint64_t key, uint32_t counter, const FillNumbers& by) {
  const FloatTag d;
  const WordTag words;
  const uint64_t second = mix_bits(key, 1);
  const Words low = hn::Set(words, static_cast<uint32_t>(key)), high = hn::Set(words, static_cast<uint32_t>(key >> 32));
  const Words low2 = hn::Set(words, static_cast<uint32_t>(second));
  const Words high2 = hn::Set(words, static_cast<uint32_t>(second >> 32));
  const Floats mean = hn::Set(d, by.a), deviation = hn::Set(d, by.b);
  fill(y, count, counter, [&](Words counters) HWY_ATTR {
    // In (0, 1]: its logarithm is finite.
    const Floats u =
        hn::MulAdd(hn::ConvertTo(d, draw_31(counters, low, high)), hn::Set(d, 0x1.0p-31F), hn::Set(d, 0x1.0p-32F));
    const Floats turn = hn::Mul(hn::ConvertTo(d, draw_31(counters, low2, high2)), hn::Set(d, 0x1.921fb6p-29F));
    const Floats radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0F), log_of(hn::Min(u, hn::Set(d, 1.0F)))));
    return hn::MulAdd(deviation, hn::Mul(radius, hn::Cos(d, turn)), mean);
  });
}

// a + u b for u in [0, 1), at most `top`.
void fill_uniform(float* y, size_t count, uint64_t key, uint32_t counter, const FillNumbers& by) {
  const FloatTag d;
  const WordTag words;
  const Words low = hn::Set(words, static_cast<uint32_t>(key)), high = hn::Set(words, static_cast<uint32_t>(key >> 32));
  const Floats begin = hn::Set(d, by.a), width = hn::Set(d, by.b), top = hn::Set(d, by.top);
  fill(y, count, counter, [&](Words counters) HWY_ATTR {
    const auto bits = hn::ShiftRight<8>(draw(counters, low, high));
    const Floats u =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<FloatTag>(), bits)), hn::Set(d, 0x1.0p-24F));
    return hn::Min(hn::MulAdd(u, width, begin), top);
  });
}

// 1 where 31 bits are below `limit`, else 0.
void fill_bernoulli(float* y, size_t count, uint64_t key, uint32_t counter, const FillNumbers& by) {
  const FloatTag d;
  const WordTag words;
  const hn::RebindToSigned<FloatTag> integers;
  const Words low = hn::Set(words, static_cast<uint32_t>(key)), high = hn::Set(words, static_cast<uint32_t>(key >> 32));
  const auto limit = hn::Set(integers, by.limit);
  fill(y, count, counter, [&](Words counters) HWY_ATTR {
    const auto is_one = hn::RebindMask(d, hn::Lt(draw_31(counters, low, high), limit));
    return hn::IfThenElse(is_one, hn::Set(d, 1.0F), hn::Zero(d));
  });
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(fill_normal);
HWY_EXPORT(fill_uniform);
HWY_EXPORT(fill_bernoulli);

using Fill = void (*)(float* y, size_t count, uint64_t key, uint32_t counter, const FillNumbers& by);

constexpr double kLargestWhole = 0x1.0p53;  // beyond, not every whole number is a double

DType dtype_of(const Attrs& attrs) { return parse_dtype(attrs.s("dtype", "f32")); }

void infer_shape(Infer& n) {
  n.expect_inputs(0, 0);
  const Shape shape = n.attrs.shape("shape");
  for (const Dim dim : shape)
    if (dim.count() < 1) n.fail(fmt::format("the shape is {}; its sizes must be positive", to_string(shape)));
  n.out = {{dtype_of(n.attrs), shape}};
}

void infer_normal(Infer& n) {
  n.expect_finite("mean");
  n.expect_between("deviation", 0, std::numeric_limits<float>::max(), 1);
  infer_shape(n);
}

void infer_uniform(Infer& n) {
  n.expect_finite("low");
  n.expect_finite("high");
  const double low = n.attrs.f("low"), high = n.attrs.f("high", 1);
  const DType dtype = dtype_of(n.attrs);
  if (dtype != DType::F32 && dtype != DType::I32 && dtype != DType::I64)
    n.fail(fmt::format("numbers of {} can't be drawn; draw f32 or i32 and cast", name_of(dtype)));
  if (dtype == DType::F32) {
    if (!(low <= high) || !std::isfinite(static_cast<float>(high - low)))
      n.fail(fmt::format("there are no numbers from {} to {}", low, high));
    return infer_shape(n);
  }
  const double most = dtype == DType::I32 ? 0x1.0p31 : kLargestWhole;
  if (std::floor(low) != low || std::floor(high) != high || !(low < high) || low < -most || high > most)
    n.fail(fmt::format("there are no whole numbers of {} in [{}, {}): both must be whole, and the first the lower one",
                       name_of(dtype), low, high));
  infer_shape(n);
}

void infer_bernoulli(Infer& n) {
  n.expect_between("p", 0, 1, 0.5);
  infer_shape(n);
}

// Where the elements of a node's output lie among all numbers that the node draws in a step.
struct DrawPlaces {
  uint64_t node = 0;
  uint64_t per_sample = 0;    // elements; 0: there is no batch, each micro-batch and each rank draws the same
  uint64_t first_sample = 0;  // of this node: in a pipeline, other nodes take the micro-batches before it

  explicit DrawPlaces(const Facts& facts)
      : node(static_cast<uint64_t>(facts.attrs.i("key"))),
        first_sample(static_cast<uint64_t>(facts.attrs.i("first_sample"))) {
    if (element_count(facts.attrs.shape("shape")).is_batch())
      per_sample = static_cast<uint64_t>(facts.out[0].count() / std::max<int64_t>(1, facts.batch));
  }
  uint64_t key(const Args& args) const { return draw_key(*args.state, node); }
  uint64_t first(const Args& args) const {
    return (static_cast<uint64_t>(args.state->first_sample) + first_sample) * per_sample;
  }
};

constexpr int64_t kGrain = 16384;

Prepared prepare_fill(const Facts& facts, Fill fill, const FillNumbers& by) {
  const int64_t count = facts.out[0].count();
  return {.kernel = make_kernel([=, places = DrawPlaces(facts)](const Args& args) {
            auto* y = args.output<float>(0);
            parallel_for(count, kGrain, [&](int64_t first, int64_t last) {
              for_each_range(places.key(args), places.first(args) + static_cast<uint64_t>(first),
                             static_cast<uint64_t>(last - first),
                             [&](uint64_t done, uint64_t some, uint64_t key, uint32_t counter) {
                               fill(y + first + static_cast<int64_t>(done), some, key, counter, by);
                             });
            });
          })};
}

Prepared prepare_normal(const Facts& facts) {
  return prepare_fill(
      facts, PLIMSOLL_BEST(fill_normal),
      {.a = static_cast<float>(facts.attrs.f("mean")), .b = static_cast<float>(facts.attrs.f("deviation", 1))});
}

uint64_t high_half(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
}

// low + the high half of (64 random bits) x (high - low): whole numbers that are equally likely to one part in 2^11.
template <class T>
Prepared prepare_whole(const Facts& facts) {
  const int64_t count = facts.out[0].count();
  const auto low = static_cast<int64_t>(facts.attrs.f("low"));
  const auto width = static_cast<uint64_t>(static_cast<int64_t>(facts.attrs.f("high")) - low);
  return {.kernel = make_kernel([=, places = DrawPlaces(facts)](const Args& args) {
            auto* y = args.output<T>(0);
            parallel_for(count, kGrain, [&](int64_t first, int64_t last) {
              const auto draw = [&](uint64_t done, uint64_t some, uint64_t key, uint32_t counter) {
                T* to = y + first + static_cast<int64_t>(done);
                const uint64_t second = mix_bits(key, 1);
                for (uint64_t i = 0; i < some; ++i) {
                  const auto at = counter + static_cast<uint32_t>(i);
                  const uint64_t bits =
                      uint64_t{random_bits(static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), at)} << 32 |
                      random_bits(static_cast<uint32_t>(second), static_cast<uint32_t>(second >> 32), at);
                  to[i] = static_cast<T>(low + static_cast<int64_t>(high_half(bits, width)));
                }
              };
              for_each_range(places.key(args), places.first(args) + static_cast<uint64_t>(first),
                             static_cast<uint64_t>(last - first), draw);
            });
          })};
}

Prepared prepare_uniform(const Facts& facts) {
  const DType dtype = dtype_of(facts.attrs);
  if (dtype == DType::I32) return prepare_whole<int32_t>(facts);
  if (dtype == DType::I64) return prepare_whole<int64_t>(facts);
  const auto low = static_cast<float>(facts.attrs.f("low")), high = static_cast<float>(facts.attrs.f("high", 1));
  return prepare_fill(facts, PLIMSOLL_BEST(fill_uniform),
                      {.a = low,
                       .b = static_cast<float>(facts.attrs.f("high", 1) - facts.attrs.f("low")),
                       .top = low < high ? std::nextafter(high, low) : low});
}

Prepared prepare_bernoulli(const Facts& facts) {
  const double limit = facts.attrs.f("p", 0.5) * 0x1.0p31;
  const bool is_always = limit >= 0x1.0p31;
  Prepared prepared =
      prepare_fill(facts, PLIMSOLL_BEST(fill_bernoulli), {.limit = is_always ? 0 : static_cast<int32_t>(limit)});
  if (!is_always) return prepared;
  const int64_t count = facts.out[0].count();
  return {.kernel = make_kernel([=](const Args& args) { std::fill_n(args.output<float>(0), count, 1.0F); })};
}

Cost cost(const Facts& facts) { return {.flops = 40 * static_cast<double>(facts.out[0].count()), .efficiency = 0.1}; }

// Elements are numbered in row-major order: a micro-batch is a range of these numbers only if samples are outermost.
BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType>) {
  const Shape shape = attrs.shape("shape");
  const bool is_batched = element_count(shape).is_batch();
  return is_batched && graph::elements_before_batch(shape) > 1 ? BatchRule::Mixes : BatchRule::Rows;
}

// What a draw is: two of one graph never draw the same, and nodes added elsewhere change none.
Tensor draw_of(const Op& op, Graph& graph, const Shape& shape, Attrs attrs, const Name& name) {
  const std::string_view wanted = std::string_view(name).empty() ? op.name : std::string_view(name);
  const Body& body = graph.body();
  const std::string full = body.store()->full_name(wanted);
  attrs.set("shape", shape);
  // A node of that name may have drawn before; without one the key is free.
  attrs.set("key", graph::free_key(body, op, hash_text(full),
                                   body.has_value(full) ? 0 : static_cast<NodeId>(body.nodes().size())));
  return graph::apply_in(graph, op, attrs, name);
}

// While a function is traced, eager tensors that it captures give the shape to nodes of the trace.
Graph& graph_of(const Tensor& like) {
  if (!like.is_set()) throw Error("a tensor whose shape random numbers are to have is unset");
  graph::Recorder* const recorder = like.is_eager() ? like.held()->recorder : nullptr;
  return recorder != nullptr && recorder->traced() != nullptr ? *recorder->traced() : like.graph();
}

std::vector<Sample> normal_samples() {
  return {
      {"batch",
       [](SampleBuilder& s) {
         return std::vector{random_normal(s.graph(), {Dim::batch(), 3, 5}, 1, 2)};
       },
       1e-4, false},
      {"two in one graph",
       [](SampleBuilder& s) {
         return std::vector{random_normal(s.graph(), {Dim::batch(2), 7}), random_normal(s.graph(), {Dim::batch(2), 7})};
       },
       1e-4, false},
      {"no batch",
       [](SampleBuilder& s) {
         return std::vector{random_normal(s.graph(), {3, 7})};
       },
       1e-4, false},
      {"a number", [](SampleBuilder& s) { return std::vector{random_normal(s.graph(), {})}; }, 1e-4, false},
      {"batch second",
       [](SampleBuilder& s) {
         return std::vector{random_normal(s.graph(), {3, Dim::batch()})};
       },
       1e-4, false},
      {"added", [](SampleBuilder& s) {
         const Tensor x = s.input({Dim::batch(), 9});
         return std::vector{mul(x, random_normal(s.graph(), x.shape()))};
       }}};
}

std::vector<Sample> uniform_samples() {
  return {{"batch",
           [](SampleBuilder& s) {
             return std::vector{random_uniform(s.graph(), {Dim::batch(), 11}, -2, 3)};
           },
           1e-4, false},
          {"i32",
           [](SampleBuilder& s) {
             return std::vector{random_uniform(s.graph(), {Dim::batch(), 4}, -3, 9, DType::I32)};
           },
           1e-4, false},
          {"i64",
           [](SampleBuilder& s) {
             return std::vector{random_uniform(s.graph(), {5, 3}, 0, 0x1.0p50, DType::I64)};
           },
           1e-4, false},
          {"added", [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 9});
             return std::vector{mul(x, random_uniform(s.graph(), x.shape(), 0.5, 1.5))};
           }}};
}

std::vector<Sample> bernoulli_samples() {
  return {{"half",
           [](SampleBuilder& s) {
             return std::vector{bernoulli(s.graph(), {Dim::batch(), 3, 5}, 0.5)};
           },
           1e-4, false},
          {"always",
           [](SampleBuilder& s) {
             return std::vector{bernoulli(s.graph(), {Dim::batch(), 3}, 1)};
           },
           1e-4, false},
          {"never", [](SampleBuilder& s) { return std::vector{bernoulli(s.graph(), {7}, 0)}; }, 1e-4, false},
          {"masked", [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 9});
             return std::vector{mul(x, bernoulli(s.graph(), x.shape(), 0.75))};
           }}};
}

const Op kRandomNormal{.name = "random_normal",
                       .storable = true,
                       .infer = infer_normal,
                       .prepare = prepare_normal,
                       .cost = cost,
                       .samples = normal_samples,
                       .traits = {.recomputable = true, .source = true},
                       .batch_rule = batch_rule,
                       .onnx = "RandomNormal"};
const Op kRandomUniform{.name = "random_uniform",
                        .storable = true,
                        .infer = infer_uniform,
                        .prepare = prepare_uniform,
                        .cost = cost,
                        .samples = uniform_samples,
                        .traits = {.recomputable = true, .source = true},
                        .batch_rule = batch_rule,
                        .onnx = "RandomUniform"};
const Op kBernoulli{.name = "bernoulli",
                    .storable = true,
                    .infer = infer_bernoulli,
                    .prepare = prepare_bernoulli,
                    .cost = cost,
                    .samples = bernoulli_samples,
                    .traits = {.recomputable = true, .source = true},
                    .batch_rule = batch_rule,
                    .onnx = "Bernoulli"};

}  // namespace

Tensor random_normal(Graph& graph, const Shape& shape, double mean, double deviation, Name name) {
  return draw_of(kRandomNormal, graph, shape, {{"mean", mean}, {"deviation", deviation}}, name);
}

Tensor random_uniform(Graph& graph, const Shape& shape, double low, double high, DType dtype, Name name) {
  Attrs attrs{{"low", low}, {"high", high}};
  if (dtype != DType::F32) attrs.set("dtype", std::string(name_of(dtype)));
  return draw_of(kRandomUniform, graph, shape, std::move(attrs), name);
}

Tensor bernoulli(Graph& graph, const Shape& shape, double p, Name name) {
  return draw_of(kBernoulli, graph, shape, {{"p", p}}, name);
}

Tensor random_normal(Tensor like, double mean, double deviation, Name name) {
  return random_normal(graph_of(like), like.shape(), mean, deviation, name);
}
Tensor random_uniform(Tensor like, double low, double high, Name name) {
  return random_uniform(graph_of(like), like.shape(), low, high, DType::F32, name);
}
Tensor random_integers(Tensor like, int64_t low, int64_t high, DType dtype, Name name) {
  if (dtype == DType::F32) throw Error("random_integers: whole numbers are i32 or i64; for f32 use random_uniform");
  return random_uniform(graph_of(like), like.shape(), static_cast<double>(low), static_cast<double>(high), dtype, name);
}
Tensor bernoulli(Tensor like, double p, Name name) { return bernoulli(graph_of(like), like.shape(), p, name); }

OpList random_ops() { return {&kRandomNormal, &kRandomUniform, &kBernoulli}; }

}  // namespace plimsoll::ops
#endif
