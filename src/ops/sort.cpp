// sort, argsort, top_k: elements of each line in order, and where they were. Equal ones keep their order; NaN is the
// largest of all.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "kernels/joined.h"
#include "kernels/parallel.h"
#include "ops/gather_along.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  Shape out = n.in[0].shape;
  if (out.rank() == 0) n.fail("a scalar has no order");
  const int last = out.rank() - 1;
  const int64_t count = n.attrs.i("count");
  if (out[last].is_batch()) {
    if (count != 0)
      n.fail(fmt::format("the last axis of {} is the batch: it is sorted as a whole", to_string(n.in[0])));
  } else {
    const int64_t size = out[last].fixed();
    if (size >= int64_t{1} << 31) n.fail(fmt::format("{} has lines of 2^31 elements and more", to_string(n.in[0])));
    if (count < 0 || count > size) n.fail(fmt::format("lines of {} have no {} elements", to_string(n.in[0]), count));
    if (count != 0) out[last] = count;
  }
  n.out = {{n.in[0].dtype, out}, {DType::I32, out}};
}

// A key that sorts as the number does; `down` turns the order round.
uint32_t key_of(float number, bool down) {
  auto bits = number == 0 ? 0 : std::bit_cast<uint32_t>(number);
  if (number != number) bits = 0x7fffffff;
  bits = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return down ? ~bits : bits;
}
uint32_t key_of(int32_t number, bool down) {
  const auto bits = static_cast<uint32_t>(number) ^ 0x80000000U;
  return down ? ~bits : bits;
}
uint64_t key_of(int64_t number, bool down) {
  const auto bits = static_cast<uint64_t>(number) ^ (uint64_t{1} << 63);
  return down ? ~bits : bits;
}

// The place breaks ties, so that no two entries are equal.
struct Wide {
  uint64_t key;
  int64_t place;
  friend bool operator<(const Wide& a, const Wide& b) { return a.key != b.key ? a.key < b.key : a.place < b.place; }
};
uint64_t entry_of(uint32_t key, int64_t place) {
  return static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(place);
}
Wide entry_of(uint64_t key, int64_t place) { return {key, place}; }
int64_t place_of(uint64_t entry) { return static_cast<int64_t>(entry & 0xffffffffU); }
int64_t place_of(const Wide& entry) { return entry.place; }

template <class T>
Prepared prepare_of(const Facts& facts) {
  using Entry = decltype(entry_of(key_of(T{}, false), 0));
  const int64_t size = facts.in[0].dims.back(), kept = facts.out[0].dims.back();
  const int64_t lines = facts.in[0].count() / std::max<int64_t>(1, size);
  const bool down = facts.attrs.i("descending") != 0;
  const int64_t most = std::min<int64_t>(lines, thread_slots());
  const int slots = static_cast<int>(std::max<int64_t>(1, std::min(lines * size / 2048, most)));
  return {.kernel = make_kernel([=](const Args& args) {
            const T* x = args.input<T>(0);
            T* values = args.output<T>(0);
            auto* places = args.output<int32_t>(1);
            parallel_items(lines, slots, [&](int64_t line, int slot) {
              Entry* entries = static_cast<Entry*>(args.workspace) + slot * size;
              const T* from = x + line * size;
              for (int64_t i = 0; i < size; ++i) entries[i] = entry_of(key_of(from[i], down), i);
              if (kept < size) std::nth_element(entries, entries + kept, entries + size);
              std::sort(entries, entries + kept);
              for (int64_t i = 0; i < kept; ++i) {
                const int64_t place = place_of(entries[i]);
                values[line * kept + i] = from[place];
                places[line * kept + i] = static_cast<int32_t>(place);
              }
            });
          }),
          .workspace_bytes = slots * size * static_cast<Bytes>(sizeof(Entry))};
}

Prepared prepare(const Facts& facts) {
  if (facts.in[0].dtype == DType::F32) return prepare_of<float>(facts);
  return facts.in[0].dtype == DType::I32 ? prepare_of<int32_t>(facts) : prepare_of<int64_t>(facts);
}

Cost cost(const Facts& facts) { return {.bytes = 16 * facts.operand_bytes()}; }

void grad(Backward& b) {
  if (b.dy[0].is_set()) b.give(0, put_along_axis(b.dy[0], b.y[1], b.x[0].rank() - 1, b.x[0].shape()));
}

BatchRule batch_rule(const Attrs&, std::span<const TensorType> in) {
  return in[0].shape.back().is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

std::vector<Sample> samples() {
  return {
      {"last axis",
       [](SampleBuilder& s) {
         return std::vector{sort(s.input({Dim::batch(), 3, 7}, -30, 30))};
       }},
      {"columns down",
       [](SampleBuilder& s) {
         return std::vector{sort(s.input({Dim::batch(), 5, 2}, -30, 30), 1, true)};
       }},
      {"places",
       [](SampleBuilder& s) {
         return std::vector{argsort(s.input({Dim::batch(), 7})), argsort(s.integers({Dim::batch(), 9}, 0, 4), 1, true)};
       },
       1e-4, false},
      {"largest",
       [](SampleBuilder& s) {
         return top_k(s.input({Dim::batch(), 3, 9}, -30, 30), 4);
       }},
      {"smallest",
       [](SampleBuilder& s) {
         return top_k(s.input({Dim::batch(), 9, 2}, -30, 30), 2, 1, false);
       }},
      {"batch",
       [](SampleBuilder& s) {
         return std::vector{sort(s.input({Dim::batch(), 2}, -30, 30), 0)};
       }},
      {"integers",
       [](SampleBuilder& s) {
         return std::vector{sort(s.integers({Dim::batch(), 9}, -50, 50)),
                            sort(s.integers({Dim::batch(), 9}, -50, 50, DType::I64), 1, true)};
       },
       1e-4, false}};
}

const Op kSort{.name = "sort",
               .storable = true,
               .infer = infer,
               .types = {{DType::F32, DType::I32, DType::I64}},
               .grad = grad,
               .prepare = prepare,
               .cost = cost,
               .samples = samples,
               .traits = {.batch = BatchRule::Rows, .recomputable = true},
               .batch_rule = batch_rule,
               .onnx = "TopK"};

// The axis and the last one change places.
Dims swapped(const Tensor& x, int axis) {
  Dims order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[axis], order[x.rank() - 1]);
  return order;
}

std::vector<Tensor> sorted(std::string_view function, Tensor x, int64_t count, int axis, bool descending, Name name) {
  const int at = resolve_axis(function, name, axis, x.type());
  const bool moves = at != x.rank() - 1;
  const graph::Outputs out = apply(kSort, {moves ? transpose(x, swapped(x, at)) : x},
                                   {{"count", count}, {"descending", int64_t{descending}}}, name);
  if (!moves) return {out[0], out[1]};
  return {transpose(out[0], swapped(x, at)), transpose(out[1], swapped(x, at))};
}

std::vector<Sample> samples_sparsemax() {
  return {{"last axis",
           [](SampleBuilder& s) {
             return std::vector{sparsemax(s.input({Dim::batch(), 3, 5}, -2, 2))};
           }},
          {"channels", [](SampleBuilder& s) {
             return std::vector{sparsemax(s.input({Dim::batch(), 4, 3}, -0.3, 0.3), 1)};
           }}};
}
const Op kSparsemax{.name = "sparsemax", .samples = samples_sparsemax};

}  // namespace

Tensor sort(Tensor x, int axis, bool descending, Name name) { return sorted("sort", x, 0, axis, descending, name)[0]; }
Tensor argsort(Tensor x, int axis, bool descending, Name name) {
  return sorted("argsort", x, 0, axis, descending, name)[1];
}
std::vector<Tensor> top_k(Tensor x, int64_t k, int axis, bool largest, Name name) {
  if (k < 1) throw Error(fmt::format("top_k '{}': k must be at least 1 but is {}", std::string_view(name), k));
  return sorted("top_k", x, k, axis, largest, name);
}

// Elements above a limit that makes them sum up to 1, less that limit: k of the largest count where 1 + k x_k is above
// their sum.
Tensor sparsemax(Tensor x, int axis, Name name) {
  const Tensor down = sort(x, axis, true), sums = cumsum(down, axis);
  const Tensor numbers = cumsum(scale(stop_gradient(down), 0, 1), axis);
  const Tensor counts = greater(scale(mul(numbers, down), 1, 1), sums);
  const Dims along{axis};
  const Tensor count = reduce_sum(cast(counts, DType::F32), along, true);
  const Tensor sum = reduce_sum(where(counts, down, x.graph().scalar(0)), along, true);
  return relu(sub(x, div(scale(sum, 1, -1), count)), name);
}

OpList sort_ops() { return {&kSort, &kSparsemax}; }

}  // namespace plimsoll::ops
