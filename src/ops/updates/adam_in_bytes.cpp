// adam_in_bytes: adam whose state takes 8 bits an element. m and s = sqrt(v) are floats of 8 bits relative to the
// largest magnitude in each block of 256 elements:
//   m  sign, 4 bits of exponent, 3 of mantissa   |m| / largest from 2^-15.7 to 1, or 0
//   s  4 bits of exponent, 4 of mantissa          s / largest from 2^-15.8 to 1, or 0
// Rounding is up or down such that the mean is right: a change of v is a thousandth of it and would be lost otherwise.
// The threshold of an element moves through [0, 1) by the golden ratio from step to step, so that errors cancel sooner
// than with random thresholds. An s that is not 0 never becomes 0: m would be divided by epsilon.
#include <cmath>

#include <fmt/format.h>

#include "kernels/update.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/adam_in_bytes.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

#ifndef PLIMSOLL_OPS_ADAM_IN_BYTES_ONCE
#define PLIMSOLL_OPS_ADAM_IN_BYTES_ONCE
namespace plimsoll::ops {
namespace {
constexpr int64_t kBlock = kBlockOfBytes;
struct AdamBytesStep {
  float alpha, factor, limit, keep, coupled, rest1, rest2, epsilon;
  uint32_t turn;  // of this step, for rounding
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using Words = hn::Vec<WordTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;

constexpr uint32_t kOne = 0x3f800000U;  // 1 as a float

// The number in [0, 1] of a code: that of kLargest is 1, that of 0 is 0. A code lacks the lowest kShift bits of a
// float.
template <int kShift, uint32_t kLargest>
HWY_INLINE Floats decode(FloatTag d, Words code) {
  const WordTag dw;
  const Words bits = hn::Add(hn::ShiftLeft<kShift>(code), hn::Set(dw, kOne - (kLargest << kShift)));
  return hn::IfThenZeroElse(hn::RebindMask(d, hn::Eq(code, hn::Zero(dw))), hn::BitCast(d, bits));
}

// The code of x in [0, 1], for x above the number of the smallest code; `noise` is uniform over 32 bits.
template <int kShift, uint32_t kLargest>
HWY_INLINE hn::Vec<IntTag> encode(Floats x, Words noise) {
  const IntTag di;
  const WordTag dw;
  const Words up = hn::ShiftRight<32 - kShift>(noise);
  const auto above_one = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(dw, x), up)), hn::Set(di, int32_t{kOne}));
  return hn::Add(hn::ShiftRight<kShift>(above_one), hn::Set(di, int32_t{kLargest}));
}

HWY_INLINE Words load_bytes(const uint8_t* from) { return hn::PromoteTo(WordTag(), hn::LoadU(ByteTag(), from)); }
HWY_INLINE void store_bytes(hn::Vec<IntTag> code, uint8_t* to) {
  hn::StoreU(hn::DemoteTo(ByteTag(), code), ByteTag(), to);
}

constexpr int kShiftM = 20, kShiftS = 19;
constexpr uint32_t kLargestM = 127, kLargestS = 255, kSignM = 128;

// Encodes x = m / largest as magnitude and sign. A magnitude below that of code 1 becomes code 1 or 0, such that the
// mean is right.
HWY_INLINE hn::Vec<IntTag> encode_m(FloatTag d, Floats x, Words noise) {
  const IntTag di;
  const Floats magnitude = hn::Min(hn::Abs(x), hn::Set(d, 1.0F));
  auto code = encode<kShiftM, kLargestM>(magnitude, noise);
  const Floats least = decode<kShiftM, kLargestM>(d, hn::Set(WordTag(), 1U));
  const Floats even = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(noise))), hn::Set(d, 0x1p-24F));
  const auto is_small = hn::RebindMask(di, hn::Lt(magnitude, least));
  const auto is_one = hn::RebindMask(di, hn::Gt(magnitude, hn::Mul(even, least)));
  code = hn::IfThenElse(is_small, hn::IfThenElseZero(is_one, hn::Set(di, 1)), code);
  return hn::IfThenElse(hn::RebindMask(di, hn::Lt(x, hn::Zero(d))), hn::Add(code, hn::Set(di, int32_t{kSignM})), code);
}

HWY_INLINE Floats decode_m(FloatTag d, Words code) {
  const WordTag dw;
  const Floats magnitude = decode<kShiftM, kLargestM>(d, hn::And(code, hn::Set(dw, kLargestM)));
  return hn::Or(magnitude, hn::BitCast(d, hn::ShiftLeft<24>(hn::And(code, hn::Set(dw, kSignM)))));
}

HWY_INLINE hn::Vec<IntTag> encode_s(FloatTag d, Floats x, Words noise) {
  const IntTag di;
  const auto code = encode<kShiftS, kLargestS>(hn::Min(x, hn::Set(d, 1.0F)), noise);
  return hn::IfThenZeroElse(hn::RebindMask(di, hn::Eq(x, hn::Zero(d))), hn::Max(code, hn::Set(di, 1)));
}

float inverse_of(float largest) { return largest > 0 ? 1 / largest : 0.0F; }

// One whole block.
void adam_block(const AdamBytesStep& s, float* w, uint8_t* m, uint8_t* v, float* m_scale, float* v_scale,
                const float* g) {
  const FloatTag d;
  const WordTag dw;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float next_m[kBlock], next_s[kBlock];
  const Floats scale_m = hn::Set(d, *m_scale), scale_s = hn::Set(d, *v_scale);
  Floats largest_m = hn::Zero(d), largest_s = largest_m;
  for (int64_t i = 0; i < kBlock; i += lanes) {
    const Floats old_w = hn::LoadU(d, w + i);
    const Floats gradient = decayed(d, clipped(d, hn::LoadU(d, g + i), s.factor, s.limit), old_w, s.coupled);
    const Floats old_m = hn::Mul(decode_m(d, load_bytes(m + i)), scale_m);
    const Floats old_s = hn::Mul(decode<kShiftS, kLargestS>(d, load_bytes(v + i)), scale_s);
    const Floats old_v = hn::Mul(old_s, old_s);
    const Floats m_now = hn::MulAdd(hn::Sub(gradient, old_m), hn::Set(d, s.rest1), old_m);
    const Floats v_now = hn::MulAdd(hn::MulSub(gradient, gradient, old_v), hn::Set(d, s.rest2), old_v);
    const Floats s_now = hn::Sqrt(v_now);
    const Floats step = hn::Div(hn::Mul(hn::Set(d, s.alpha), m_now), hn::Add(s_now, hn::Set(d, s.epsilon)));
    hn::StoreU(hn::MulSub(old_w, hn::Set(d, s.keep), step), d, w + i);
    hn::Store(m_now, d, next_m + i);
    hn::Store(s_now, d, next_s + i);
    largest_m = hn::Max(largest_m, hn::Abs(m_now));
    largest_s = hn::Max(largest_s, s_now);
  }
  *m_scale = hn::GetLane(hn::MaxOfLanes(d, largest_m));
  *v_scale = hn::GetLane(hn::MaxOfLanes(d, largest_s));
  const Floats inverse_m = hn::Set(d, inverse_of(*m_scale)), inverse_s = hn::Set(d, inverse_of(*v_scale));
  for (int64_t i = 0; i < kBlock; i += lanes) {
    // Neighbours get thresholds far apart: multiples of 0.7549 and of 0.5698 fill a square evenly.
    const Words at = hn::Iota(dw, static_cast<uint32_t>(i));
    const Words noise_m = hn::Add(hn::Mul(at, hn::Set(dw, 0xc13fa9a9U)), hn::Set(dw, s.turn));
    const Words noise_s = hn::Add(hn::Mul(at, hn::Set(dw, 0x91e10da5U)), hn::Set(dw, s.turn));
    store_bytes(encode_m(d, hn::Mul(hn::Load(d, next_m + i), inverse_m), noise_m), m + i);
    store_bytes(encode_s(d, hn::Mul(hn::Load(d, next_s + i), inverse_s), noise_s), v + i);
  }
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(adam_block);

constexpr size_t kUpdated = 5;  // the variable, m, v and the scales of both

void infer(Infer& n) {
  const UpdateInputs inputs = update_inputs(n.attrs, kUpdated, true);
  n.expect_inputs(inputs.count(), inputs.count());
  const TensorType state{DType::U8, n.in[0].shape};
  const TensorType scales{DType::F32, {blocks_of_bytes(element_count(n.in[0].shape).fixed())}};
  for (const size_t i : {1, 2, 3, 4})
    if (const TensorType& wanted = i < 3 ? state : scales; !(n.in[i] == wanted))
      n.fail(fmt::format("state {} of {} is {} but should be {}", i, to_string(n.in[0]), to_string(n.in[i]),
                         to_string(wanted)));
  infer_gradient(n, inputs);
}

// The elements [first, first + count) of the dense gradient that the rows stand for.
void gather_gradient(const SortedRows& rows, const float* values, int64_t width, int64_t first, int64_t count,
                     float* into) {
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / width, column = (first + done) % width;
    const int64_t some = std::min(count - done, width - column);
    const int64_t at = rows.find(row);
    if (at < rows.count && row_of(rows.entries[at]) == row) {
      const float* sum = sum_entries(rows, at, rows.end_of_row(at), values, width, column, column + some, into + done);
      if (sum != into + done) std::copy_n(sum, some, into + done);
    } else {
      std::fill_n(into + done, some, 0.0F);
    }
    done += some;
  }
}

struct BlockArgs {
  float* w;
  uint8_t *m, *v;
  float *m_scales, *v_scales;

  explicit BlockArgs(const Args& args)
      : w(args.updated<float>(0)),
        m(args.updated<uint8_t>(1)),
        v(args.updated<uint8_t>(2)),
        m_scales(args.updated<float>(3)),
        v_scales(args.updated<float>(4)) {}

  // `g`: the gradient of the block's elements, of which the last block may have fewer.
  void run(const AdamBytesStep& step, int64_t block, int64_t count, const float* g) const {
    const int64_t first = block * kBlock;
    if (count == kBlock) {
      HWY_DYNAMIC_DISPATCH(adam_block)
      (step, w + first, m + first, v + first, m_scales + block, v_scales + block, g);
      return;
    }
    float some_w[kBlock] = {}, some_g[kBlock] = {};
    uint8_t some_m[kBlock] = {}, some_v[kBlock] = {};
    std::copy_n(w + first, count, some_w);
    std::copy_n(g, count, some_g);
    std::copy_n(m + first, count, some_m);
    std::copy_n(v + first, count, some_v);
    HWY_DYNAMIC_DISPATCH(adam_block)(step, some_w, some_m, some_v, m_scales + block, v_scales + block, some_g);
    std::copy_n(some_w, count, w + first);
    std::copy_n(some_m, count, m + first);
    std::copy_n(some_v, count, v + first);
  }
};

Prepared prepare(const Facts& facts) {
  const UpdateInputs inputs = update_inputs(facts.attrs, kUpdated, true);
  const double beta1 = facts.attrs.f("beta1", 0.9);
  const double beta2 = facts.attrs.f("beta2", 0.999);
  const DecaySettings decay(facts.attrs);
  const bool corrects_epsilon = facts.attrs.i("epsilon_after_correction") != 0;
  const AdamBytesStep settings{.alpha = 0,
                               .factor = 1,
                               .limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY)),
                               .keep = 1,
                               .coupled = static_cast<float>(decay.coupled),
                               .rest1 = static_cast<float>(1 - beta1),
                               .rest2 = static_cast<float>(1 - beta2),
                               .epsilon = static_cast<float>(facts.attrs.f("epsilon", 1e-7)),
                               .turn = 0};
  const int64_t count = facts.in[0].count();
  const int64_t ids = inputs.is_sparse ? facts.in[inputs.gradient()].dims[0] : 0;
  const int64_t table_rows = inputs.is_sparse ? facts.in[0].dims[0] : 0;
  const int64_t width = inputs.is_sparse ? facts.in[0].dims[1] : 0;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto rate = static_cast<double>(decay.rate(*args.input<float>(inputs.rate())));
            const int64_t number = *args.input<int64_t>(inputs.step());
            const auto t = static_cast<double>(number);
            AdamBytesStep step = settings;
            const double correction = std::sqrt(1 - std::pow(beta2, t));
            step.alpha = static_cast<float>(rate * correction / (1 - std::pow(beta1, t)));
            if (corrects_epsilon) step.epsilon = static_cast<float>(step.epsilon * correction);
            step.keep = static_cast<float>(1 - decay.decay * rate);
            step.factor = inputs.has_factor ? *args.input<float>(inputs.factor()) : 1.0F;
            step.turn = static_cast<uint32_t>(number) * 0x9e3779b9U;
            const BlockArgs blocks(args);
            const auto* g = args.input<float>(inputs.gradient());
            SortedRows rows{};
            if (inputs.is_sparse) {
              const auto* named = args.input<int32_t>(inputs.rows());
              rows = sort_rows(named, ids, table_rows, args.workspace);
              if (rows.count < ids) report_bad_rows(args, static_cast<int>(inputs.rows()), named, ids, table_rows);
            }
            parallel_for(blocks_of_bytes(count), 64, [&](int64_t from, int64_t to) {
              float gathered[kBlock];
              for (int64_t block = from; block < to; ++block) {
                const int64_t first = block * kBlock, some = std::min(kBlock, count - first);
                if (inputs.is_sparse) gather_gradient(rows, g, width, first, some, gathered);
                blocks.run(step, block, some, inputs.is_sparse ? gathered : g + first);
              }
            });
          }),
          .workspace_bytes = row_sort_bytes(ids)};
}

Sample sample(std::string name, const Shape& shape, bool sparse, bool factor, const Attrs& settings) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor w = s.variable(shape);
            const Tensor m = s.variable(shape, 0, 256, DType::U8);
            const Tensor v = s.variable(shape, 0, 256, DType::U8);
            const Shape blocks{blocks_of_bytes(element_count(shape).fixed())};
            const Tensor m_scale = s.variable(blocks, 0.1, 1);
            const Tensor v_scale = s.variable(blocks, 0.1, 1);
            const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), shape[1]}), s.integers({Dim::batch(3)}, 0, 5)}
                                      : Gradient{s.input(shape), {}};
            const Tensor rate = s.input({}, 0.1, 0.2);
            const Tensor step = s.integers({}, 1, 9, DType::I64);
            adam_in_bytes(w, g, rate, step, m, v, m_scale, v_scale, factor ? s.input({}, 0.3, 0.9) : Tensor(),
                          settings);
            return std::vector{w, m, v, m_scale, v_scale};
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  return {sample("whole blocks", {8, 64}, false, false, {}),
          sample("a block that is not full", {5, 70}, false, true, {{"weight_decay", 0.01}, {"clip_value", 0.5}}),
          sample("epsilon after correction", {300}, false, false, {{"epsilon_after_correction", int64_t{1}}}),
          sample("rows", {5, 70}, true, true, {})};
}

const Op kAdamInBytes{.name = "adam_in_bytes",
                      .infer = infer,
                      .types = {DType::F32, {DType::F32, DType::U8, DType::I32, DType::I64}},
                      .prepare = prepare,
                      .samples = samples,
                      .traits = {.updates = 0b11111, .plain_updates = true, .update_block = kBlock}};

}  // namespace

int64_t blocks_of_bytes(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

NodeId adam_in_bytes(Tensor variable, const Gradient& gradient, Tensor rate, Tensor step, Tensor m, Tensor v,
                     Tensor m_scale, Tensor v_scale, Tensor factor, const Attrs& settings, Name name) {
  return add_update(kAdamInBytes, {variable, m, v, m_scale, v_scale}, gradient, rate, step, factor, settings, name);
}

OpList adam_in_bytes_ops() { return {&kAdamInBytes}; }

}  // namespace plimsoll::ops
#endif
