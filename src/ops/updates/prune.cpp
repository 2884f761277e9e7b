// prune: at the steps of a schedule, a mask of one bit an element marks the weights of largest magnitude; in every step
// the weights outside of the mask become zero. With t the number of the step and s the share of zeros:
//   the mask is renewed if begin <= t <= end (or end < 0), and (t - begin) % frequency = 0
//   p = min(1, max(0, (t - begin) / (end - begin))), s = (initial - final) (1 - p)^power + final
//   k = max(1, round(elements (1 - s))), mask = |w| >= the k-th largest |w|
// Blocks of a matrix are kept or not as a whole, by the mean or the largest of their magnitudes. Two of four: of each
// four weights along the inputs the two larger are kept, once, at step 1.
//
// The formulas are those of tfmot 0.8.1, in f32 as there. Its pools are padded on both sides where blocks do not divide
// the matrix, while its masks are not; blocks here are the same for both.
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/kth_largest.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/prune.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// Zeroes w where the bit is not set. Stretches of eight bytes with all bits set are skipped.
void apply_bits(const uint8_t* bits, float* w, int64_t count) {
  using Eight = hn::CappedTag<float, 8>;
  const Eight d;
  const hn::RebindToSigned<Eight> di;
  const auto bit = hn::Shl(hn::Set(di, 1), hn::Iota(di, 0));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / 8;
  for (int64_t b = 0; b < whole; ++b) {
    uint64_t word = 0;
    if (b % 8 == 0 && b + 8 <= whole) std::memcpy(&word, bits + b, sizeof word);
    if (word == ~uint64_t{0}) {
      b += 7;
      continue;
    }
    if (bits[b] == 255) continue;
    for (int64_t c = 0; c < 8; c += lanes) {
      const auto there = hn::RebindMask(d, hn::TestBit(hn::Set(di, static_cast<int32_t>(bits[b]) >> c), bit));
      float* const at = w + 8 * b + c;
      hn::StoreU(hn::IfThenElseZero(there, hn::LoadU(d, at)), d, at);
    }
  }
  for (int64_t i = 8 * whole; i < count; ++i)
    if (((bits[i / 8] >> (i % 8)) & 1) == 0) w[i] = 0;
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(apply_bits);

constexpr int64_t kGrainBytes = 4096;  // of a mask, for a thread

struct PruneSchedule {
  double initial, final, power;
  int64_t begin, end, frequency;
  bool is_two_of_four;

  explicit PruneSchedule(const Attrs& attrs)
      : initial(attrs.f("initial", attrs.f("final", 0.5))),
        final(attrs.f("final", 0.5)),
        power(attrs.f("power", 3)),
        begin(attrs.i("begin")),
        end(attrs.i("end", -1)),
        frequency(attrs.i("frequency", 100)),
        is_two_of_four(attrs.i("two_of_four") != 0) {}

  bool is_turn(int64_t step) const {
    if (is_two_of_four) return step == 1;
    return step >= begin && (step <= end || end < 0) && (step - begin) % frequency == 0;
  }
  // How many of `count` weights or blocks are kept.
  int64_t keeps(int64_t step, int64_t count) const {
    float sparsity = static_cast<float>(final);
    if (initial != final) {
      const float p = std::clamp(static_cast<float>(step - begin) / static_cast<float>(end - begin), 0.0F, 1.0F);
      sparsity += static_cast<float>(initial - final) * std::pow(1 - p, static_cast<float>(power));
    }
    const float kept = std::nearbyint(static_cast<float>(count) * (1 - sparsity));
    return std::clamp<int64_t>(static_cast<int64_t>(kept), 1, count);
  }
};

struct PruneBlocks {
  int64_t rows, columns, height, width;
  bool takes_largest;

  PruneBlocks(const Dims& dims, const Attrs& attrs)
      : rows(dims.rank() == 2 ? dims[0] : 1),
        columns(element_count(dims) / std::max<int64_t>(1, rows)),
        height(attrs.i("block_height", 1)),
        width(attrs.i("block_width", 1)),
        takes_largest(attrs.i("largest") != 0) {}

  bool are_single() const { return height == 1 && width == 1; }
  int64_t across() const { return (columns + width - 1) / width; }
  int64_t down() const { return (rows + height - 1) / height; }
  int64_t count() const { return across() * down(); }
  // The mean or largest magnitude of a block: over its height first, then over its width.
  float pooled(const float* w, int64_t block) const {
    const int64_t row = block / across() * height, column = block % across() * width;
    const int64_t last_row = std::min(rows, row + height), last_column = std::min(columns, column + width);
    float result = 0;
    for (int64_t c = column; c < last_column; ++c) {
      float of_column = 0;
      for (int64_t r = row; r < last_row; ++r) {
        const float x = std::abs(w[r * columns + c]);
        of_column = takes_largest ? std::max(of_column, x) : of_column + x;
      }
      if (!takes_largest) of_column /= static_cast<float>(last_row - row);
      result = takes_largest ? std::max(result, of_column) : result + of_column;
    }
    return takes_largest ? result : result / static_cast<float>(last_column - column);
  }
  void set(uint8_t* mask, int64_t block) const {
    const int64_t row = block / across() * height, column = block % across() * width;
    for (int64_t r = row; r < std::min(rows, row + height); ++r)
      for (int64_t c = column; c < std::min(columns, column + width); ++c) {
        const int64_t at = r * columns + c;
        mask[at / 8] = static_cast<uint8_t>(mask[at / 8] | (1U << (at % 8)));
      }
  }
};

// The bits of a mask from keeps(element), a byte at a time; bits behind the last element are zero.
template <class Keeps>
void write_mask(uint8_t* mask, int64_t count, const Keeps& keeps) {
  parallel_for((count + 7) / 8, kGrainBytes, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      unsigned byte = 0;
      for (int64_t i = 8 * b; i < std::min(count, 8 * b + 8); ++i) byte |= static_cast<unsigned>(keeps(i)) << (i % 8);
      mask[b] = static_cast<uint8_t>(byte);
    }
  });
}

class Pruner {
 public:
  explicit Pruner(const Facts& facts)
      : schedule_(facts.attrs), blocks_(facts.in[0].dims, facts.attrs), count_(facts.in[0].count()) {
    // [inputs, outputs] or [outputs, inputs, height, width]
    const Dims& dims = facts.in[0].dims;
    const int axis = dims.rank() == 2 ? 0 : std::min(1, dims.rank() - 1);
    inputs_ = dims.rank() > 0 ? dims[axis] : 1;
    for (int i = axis + 1; i < dims.rank(); ++i) stride_ *= dims[i];
  }

  Bytes workspace_bytes() const { return schedule_.is_two_of_four ? 0 : largest_.workspace_bytes(); }

  void run(int64_t step, float* w, uint8_t* mask, void* workspace) const {
    if (schedule_.is_turn(step)) {
      if (schedule_.is_two_of_four)
        mask_two_of_four(w, mask);
      else if (blocks_.are_single())
        mask_single(step, w, mask, workspace);
      else
        mask_blocks(step, w, mask, workspace);
    }
    parallel_for((count_ + 7) / 8, kGrainBytes, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(apply_bits)(mask + first, w + 8 * first, std::min(count_, 8 * last) - 8 * first);
    });
  }

 private:
  void mask_single(int64_t step, const float* w, uint8_t* mask, void* workspace) const {
    const uint32_t threshold = largest_.find(count_, 16384, schedule_.keeps(step, count_), workspace,
                                             [&](int64_t first, int64_t last, const auto& put) {
                                               for (int64_t i = first; i < last; ++i) put(magnitude_bits(w[i]));
                                             });
    write_mask(mask, count_, [&](int64_t i) { return magnitude_bits(w[i]) >= threshold; });
  }

  void mask_blocks(int64_t step, const float* w, uint8_t* mask, void* workspace) const {
    const int64_t grain = 1 + 16384 / (blocks_.height * blocks_.width);
    const uint32_t threshold = largest_.find(blocks_.count(), grain, schedule_.keeps(step, blocks_.count()), workspace,
                                             [&](int64_t first, int64_t last, const auto& put) {
                                               for (int64_t i = first; i < last; ++i)
                                                 put(magnitude_bits(blocks_.pooled(w, i)));
                                             });
    // By one thread: blocks share bytes.
    std::memset(mask, 0, static_cast<size_t>((count_ + 7) / 8));
    for (int64_t i = 0; i < blocks_.count(); ++i)
      if (magnitude_bits(blocks_.pooled(w, i)) >= threshold) blocks_.set(mask, i);
  }

  // Of equal magnitudes the first are kept.
  void mask_two_of_four(const float* w, uint8_t* mask) const {
    write_mask(mask, count_, [&](int64_t i) {
      const int64_t input = i / stride_ % inputs_, place = input % 4;
      const int64_t members = std::min<int64_t>(4, inputs_ - (input - place));
      const float* const group = w + i - place * stride_;
      const uint32_t own = magnitude_bits(w[i]);
      int larger = 0;
      for (int64_t j = 0; j < members; ++j) {
        const uint32_t other = magnitude_bits(group[j * stride_]);
        larger += static_cast<int>(other > own || (other == own && j < place));
      }
      return larger < 2;
    });
  }

  PruneSchedule schedule_;
  PruneBlocks blocks_;
  int64_t count_, inputs_ = 1, stride_ = 1;  // stride_: from one input to the next
  KthLargest largest_;
};

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  const int64_t count = element_count(n.in[0].shape).fixed();
  if (!(n.in[1].shape == Shape{(count + 7) / 8}))
    n.fail(fmt::format("the mask of {} must be u8[{}] but is {}", to_string(n.in[0]), (count + 7) / 8,
                       to_string(n.in[1])));
  if (!(n.in[2].shape == Shape{})) n.fail("the number of the step must be i64[]");
  const PruneSchedule schedule(n.attrs);
  for (const double sparsity : {schedule.initial, schedule.final})
    if (!(sparsity >= 0 && sparsity < 1))
      n.fail(fmt::format("a share of {} zeros makes no sense; give at least 0 and less than 1", sparsity));
  if (schedule.begin < 0 || (schedule.end >= 0 && schedule.end < schedule.begin))
    n.fail(fmt::format("a schedule from step {} to step {} ends before it begins", schedule.begin, schedule.end));
  if (schedule.initial != schedule.final && schedule.end <= schedule.begin)
    n.fail("a share of zeros that changes needs a step where it ends");
  if (schedule.frequency < 1) n.fail(fmt::format("a frequency of {} steps must be 1 or more", schedule.frequency));
  n.expect_positive("power", 3);
  const int64_t height = n.attrs.i("block_height", 1), width = n.attrs.i("block_width", 1);
  if (height < 1 || width < 1) n.fail(fmt::format("blocks of {} x {} must be 1 x 1 or larger", height, width));
  if (height * width > 1 && n.in[0].shape.rank() != 2)
    n.fail(
        fmt::format("blocks of {} x {} need a matrix but the weight is {}; leave that layer out, or take single "
                    "weights",
                    height, width, to_string(n.in[0])));
  n.out = {};
}

Prepared prepare(const Facts& facts) {
  const Pruner pruner(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            pruner.run(*args.input<int64_t>(2), args.updated<float>(0), args.updated<uint8_t>(1), args.workspace);
          }),
          .workspace_bytes = pruner.workspace_bytes()};
}

Sample sample(std::string name, const Shape& shape, int64_t step, const Attrs& settings) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor w = s.variable(shape);
            const int64_t bytes = (element_count(shape).fixed() + 7) / 8;
            const Tensor mask = s.variable({bytes}, 0, 256, DType::U8);
            const auto number = static_cast<double>(step);
            prune(w, mask, s.integers({}, number, number + 1, DType::I64), settings);
            return std::vector{w, mask};
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  const Attrs ramp{{"initial", 0.5}, {"final", 0.8}, {"begin", int64_t{100}}, {"end", int64_t{300}}};
  Attrs means = ramp, largest = ramp;
  for (Attrs* blocks : {&means, &largest}) {
    blocks->set("block_height", int64_t{2});
    blocks->set("block_width", int64_t{3});
  }
  largest.set("largest", int64_t{1});
  const Attrs pairs{{"two_of_four", int64_t{1}}};
  return {sample("no turn", {5, 7}, 150, ramp),
          sample("matrix", {5, 7}, 200, ramp),
          sample("filter", {4, 3, 3, 3}, 300, ramp),
          sample("large", {300, 200}, 200, ramp),
          sample("constant", {9}, 400, {{"initial", 0.25}, {"final", 0.25}}),
          sample("means of blocks", {7, 10}, 200, means),
          sample("largest of blocks", {6, 9}, 200, largest),
          sample("two of four", {10, 6}, 1, pairs),
          sample("two of four of a filter", {3, 6, 2, 2}, 1, pairs)};
}

const Op kPrune{.name = "prune",
                .infer = infer,
                .types = {DType::F32, DType::U8, DType::I64},
                .prepare = prepare,
                .samples = samples,
                .traits = {.updates = 0b11, .plain_updates = true}};

}  // namespace

NodeId prune(Tensor weight, Tensor mask, Tensor step, const Attrs& settings, Name name) {
  return apply(kPrune, {weight, mask, step}, settings, name).node();
}

OpList prune_ops() { return {&kPrune}; }

}  // namespace plimsoll::ops
#endif
