#include "kernels/elementwise.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "graph/shape.h"
#include "kernels/parallel.h"

namespace plimsoll::kernels {
namespace {

// Shorter inner runs are gathered into full tiles; longer ones are cut into tiles of their own, which need no copy.
constexpr int64_t kLongRun = 256;
// Registers lie a little further apart than a page: at equal offsets they would compete for the same cache lines.
constexpr int64_t kSlot = kTile + 48;
// Tiles that are worth another thread.
constexpr int64_t kGrain = 16;

// How an input is brought into its register.
struct TileSource {
  enum class Kind : uint8_t {
    Full,      // as large as the output
    Repeated,  // the same values in every tile
    Gathered,  // broadcast, run by run
  };
  Kind kind = Kind::Full;
  bool is_float = true;  // f32: may be read where it is
  LoadFn load = nullptr;
  Bytes item_bytes = 4;
  int slot = -1;
  Dims strides;  // in elements, over the collapsed dimensions
};

struct Target {
  int reg = 0;
  bool is_float = true;
  StoreFn store = nullptr;
  Bytes item_bytes = 4;
  bool is_read = false;  // by a later step
};

struct RunStep {
  TileFn run;
  std::vector<float> params;
  std::vector<int> in;
  int out;
  int slot = -1;            // where the result goes, unless straight into an output
  int target = -1;          // number of the output that the result is; -1: none
  StoreFn round = nullptr;  // then `load` back: what later steps read has the precision of its type
  LoadFn load = nullptr;
};

// The space that all operands are walked over: dimensions merged wherever every operand allows it.
struct ElementWalk {
  Dims dims;
  std::vector<Dims> strides;  // for each input
  int64_t count = 1;
};

Dims strides_in(const Dims& from, const Dims& to) {
  Dims strides = Dims::filled(to.rank(), 0);
  int64_t stride = 1;
  const int lead = to.rank() - from.rank();
  for (int d = to.rank() - 1; d >= lead; --d) {
    if (from[d - lead] != 1) strides[d] = stride;
    stride *= from[d - lead];
  }
  return strides;
}

ElementWalk collapse(const Dims& out, std::span<const ConcreteType> in) {
  ElementWalk walk;
  walk.count = element_count(out);
  std::vector<Dims> full;
  for (const ConcreteType& type : in) full.push_back(strides_in(type.dims, out));
  walk.strides.resize(in.size());
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == 1) continue;
    bool merges = !walk.dims.empty();
    for (size_t i = 0; merges && i < in.size(); ++i) merges = walk.strides[i].back() == full[i][d] * out[d];
    const int last = walk.dims.rank() - 1;
    if (merges) {
      walk.dims[last] *= out[d];
    } else {
      walk.dims.push_back(out[d]);
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (merges)
        walk.strides[i][last] = full[i][d];
      else
        walk.strides[i].push_back(full[i][d]);
    }
  }
  if (walk.dims.empty()) {
    walk.dims.push_back(walk.count);
    for (Dims& strides : walk.strides) strides.push_back(1);
  }
  return walk;
}

// After how many elements an input repeats itself: the whole count if it never does.
int64_t period_of(const ElementWalk& walk, const Dims& strides) {
  int64_t period = walk.count;
  for (int d = 0; d < walk.dims.rank() && strides[d] == 0; ++d) period /= walk.dims[d];
  return period;
}

class TileKernel final : public Kernel {
 public:
  TileKernel(const Facts& facts, const TileProgram& program, bool is_flat) {
    Dims space = facts.out[0].dims;
    std::vector<ConcreteType> in(facts.in.begin(), facts.in.end());
    if (is_flat) {
      // In one common layout the order of the elements does not matter.
      space = {facts.out[0].count()};
      for (ConcreteType& type : in) type.dims = {type.count()};
    }
    walk_ = collapse(space, in);
    cut_into_tiles();
    for (size_t i = 0; i < in.size(); ++i) add_source(in[i], walk_.strides[i]);
    add_steps(program, facts);
  }

  void run(const Args& args) noexcept override {
    parallel_for(tiles_, kGrain, [&](int64_t first, int64_t last) { run_tiles(args, first, last); });
  }

 private:
  void cut_into_tiles() {
    run_ = walk_.dims.back();
    tile_ = kTile;
    int64_t period = 0;  // the longest that a tile can hold
    for (const Dims& strides : walk_.strides) {
      const int64_t p = period_of(walk_, strides);
      if (p > 1 && p < walk_.count && p <= kTile) period = std::max(period, p);
    }
    if (walk_.dims.rank() > 1 && period > 0) {
      tile_ = kTile / period * period;
    } else if (walk_.dims.rank() > 1 && run_ >= kLongRun) {
      parts_ = (run_ + kTile - 1) / kTile;
      tile_ = round_up((run_ + parts_ - 1) / parts_, 16);
      parts_ = (run_ + tile_ - 1) / tile_;
      tiles_ = walk_.count / run_ * parts_;
      return;
    }
    parts_ = 0;
    tiles_ = (walk_.count + tile_ - 1) / tile_;
  }

  void add_source(const ConcreteType& type, const Dims& strides) {
    TileSource source;
    source.is_float = type.dtype == DType::F32;
    source.load = load_of(type.dtype);
    source.item_bytes = size_of(type.dtype);
    source.strides = strides;
    const int64_t period = period_of(walk_, strides);
    const bool repeats = period == 1 || (parts_ == 0 && period <= tile_ && tile_ % period == 0);
    if (period == walk_.count && type.count() == walk_.count)
      source.kind = TileSource::Kind::Full;
    else
      source.kind = repeats ? TileSource::Kind::Repeated : TileSource::Kind::Gathered;
    source.slot = slots_++;
    sources_.push_back(source);
  }

  void add_steps(const TileProgram& program, const Facts& facts) {
    const int inputs = static_cast<int>(sources_.size());
    const int registers = inputs + static_cast<int>(program.steps.size());
    std::vector<int> last_use(static_cast<size_t>(registers), -1);
    for (size_t s = 0; s < program.steps.size(); ++s)
      for (const int in : program.steps[s].in) last_use[static_cast<size_t>(in)] = static_cast<int>(s);
    const bool is_large = facts.out[0].count() * 4 > kStreamBytes && tile_ % 16 == 0 && parts_ == 0;
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const DType dtype = facts.out[o].dtype;
      targets_.push_back({program.outputs[o], dtype == DType::F32, store_of(dtype), size_of(dtype),
                          last_use[static_cast<size_t>(program.outputs[o])] >= 0});
    }
    stream_ = is_large ? streaming_store() : nullptr;
    std::vector<int> free;
    std::vector<int> slot_of(static_cast<size_t>(registers), -1);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const TileStep& from = program.steps[s];
      RunStep step{from.op->run, from.params, from.in, inputs + static_cast<int>(s)};
      for (size_t o = 0; o < targets_.size(); ++o)
        if (targets_[o].reg == step.out) step.target = static_cast<int>(o);
      // A register that no later step reads gives its slot back, even to this one's result; outputs stay until stored.
      for (const int in : step.in) {
        const auto at = static_cast<size_t>(in);
        if (in >= inputs && last_use[at] == static_cast<int>(s) && slot_of[at] >= 0) {
          free.push_back(slot_of[at]);
          slot_of[at] = -1;
        }
      }
      if (free.empty()) {
        step.slot = slots_++;
      } else {
        step.slot = free.back();
        free.pop_back();
      }
      if (from.dtype != DType::F32 && last_use[static_cast<size_t>(step.out)] >= 0) {
        step.round = store_of(from.dtype);
        step.load = load_of(from.dtype);
      }
      if (step.target < 0) slot_of[static_cast<size_t>(step.out)] = step.slot;
      steps_.push_back(std::move(step));
    }
    if (slots_ > kMaxRegisters)
      throw Error(
          fmt::format("an element-wise program needs {} registers but at most {} are there", slots_, kMaxRegisters));
  }

  void run_tiles(const Args& args, int64_t first, int64_t last) const {
    alignas(kAlignment) float memory[kMaxRegisters * kSlot];
    const float* registers[2 * kMaxRegisters];
    const auto slot = [&](int i) { return memory + i * kSlot; };
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].kind != TileSource::Kind::Repeated) continue;
      gather(sources_[i], args.in[i], 0, std::min(tile_, walk_.count), slot(sources_[i].slot));
      registers[i] = slot(sources_[i].slot);
    }
    for (int64_t t = first; t < last; ++t) {
      int64_t begin = t * tile_;
      int64_t count = std::min(tile_, walk_.count - begin);
      if (parts_ > 0) {
        const int64_t part = t % parts_;
        begin = t / parts_ * run_ + part * tile_;
        count = std::min(tile_, run_ - part * tile_);
      }
      for (size_t i = 0; i < sources_.size(); ++i)
        if (sources_[i].kind != TileSource::Kind::Repeated)
          registers[i] = fetch(sources_[i], args.in[i], begin, count, is_written(args, i), slot(sources_[i].slot));
      for (const RunStep& step : steps_) {
        float* out = slot(step.slot);
        const bool streams = step.target >= 0 && streams_straight(args, step.target);
        if (streams || (step.target >= 0 && writes_straight(args, step.target)))
          out = args.output<float>(static_cast<size_t>(step.target)) + begin;
        Tile tile{{}, out, static_cast<size_t>(count), step.params.data(), begin, args.state, streams};
        for (size_t i = 0; i < step.in.size(); ++i) tile.in[i] = registers[step.in[i]];
        step.run(tile);
        if (step.round != nullptr) {
          alignas(kAlignment) std::byte rounded[kTile * sizeof(int64_t)];
          step.round(out, rounded, tile.count);
          step.load(rounded, out, tile.count);
        }
        registers[step.out] = out;
      }
      for (size_t o = 0; o < targets_.size(); ++o) {
        const Target& target = targets_[o];
        if (writes_straight(args, static_cast<int>(o)) || streams_straight(args, static_cast<int>(o))) continue;
        const StoreFn store = target.is_float ? stream_ : target.store;
        store(registers[target.reg], args.output<std::byte>(o) + begin * target.item_bytes, static_cast<size_t>(count));
      }
    }
  }

  // Whether a step writes its result into the output at once, through the caches: also where large results are
  // streamed, if the output takes the place of an input, which is in the caches already, or is not aligned.
  bool writes_straight(const Args& args, int target) const {
    if (!targets_[static_cast<size_t>(target)].is_float) return false;
    if (stream_ == nullptr) return true;
    const void* out = args.out[target];
    for (size_t i = 0; i < sources_.size(); ++i)
      if (args.in[i] == out) return true;
    return reinterpret_cast<uintptr_t>(out) % kAlignment != 0;
  }

  // Whether a step writes its result into the output at once, past the caches: only if no later step reads it.
  bool streams_straight(const Args& args, int target) const {
    const Target& to = targets_[static_cast<size_t>(target)];
    return stream_ != nullptr && to.is_float && !to.is_read && !writes_straight(args, target);
  }

  // An input that an early step's output is written over must be copied before a later step reads it.
  bool is_written(const Args& args, size_t input) const {
    if (steps_.size() == 1) return false;
    for (size_t o = 0; o < targets_.size(); ++o)
      if (args.out[o] == args.in[input]) return true;
    return false;
  }

  const float* fetch(const TileSource& source, const void* from, int64_t begin, int64_t count, bool copy,
                     float* slot) const {
    int64_t at = begin;
    if (source.kind == TileSource::Kind::Gathered) {
      if (begin % run_ + count > run_ || source.strides.back() == 0) {
        gather(source, from, begin, count, slot);
        return slot;
      }
      at = offset_of(source, begin);
    }
    const auto* bytes = static_cast<const std::byte*>(from) + at * source.item_bytes;
    if (source.is_float && !copy) return reinterpret_cast<const float*>(bytes);
    source.load(bytes, slot, static_cast<size_t>(count));
    return slot;
  }

  int64_t offset_of(const TileSource& source, int64_t index) const {
    int64_t offset = 0;
    for (int d = walk_.dims.rank() - 1; d >= 0; --d) {
      offset += index % walk_.dims[d] * source.strides[d];
      index /= walk_.dims[d];
    }
    return offset;
  }

  // Copies `count` elements from the one at `begin` on, run by run.
  void gather(const TileSource& source, const void* from, int64_t begin, int64_t count, float* to) const {
    const int last = walk_.dims.rank() - 1;
    Dims at = Dims::filled(last + 1, 0);
    int64_t offset = 0;
    for (int d = last; d >= 0; --d) {
      at[d] = begin % walk_.dims[d];
      begin /= walk_.dims[d];
      offset += at[d] * source.strides[d];
    }
    while (true) {
      const int64_t length = std::min(count, run_ - at[last]);
      load_run(source, static_cast<const std::byte*>(from) + offset * source.item_bytes, length, to);
      to += length;
      count -= length;
      if (count == 0) return;
      offset += length * source.strides[last];
      at[last] += length;
      for (int d = last; d > 0 && at[d] == walk_.dims[d]; --d) {
        at[d] = 0;
        ++at[d - 1];
        offset += source.strides[d - 1] - walk_.dims[d] * source.strides[d];
      }
    }
  }

  static void load_run(const TileSource& source, const std::byte* from, int64_t length, float* to) {
    if (source.strides.back() == 0) {
      float value = 0;
      if (source.is_float)
        std::memcpy(&value, from, sizeof value);
      else
        source.load(from, &value, 1);
      for (int64_t i = 0; i < length; ++i) to[i] = value;
    } else if (source.is_float && length < 64) {
      const auto* x = reinterpret_cast<const float*>(from);
      for (int64_t i = 0; i < length; ++i) to[i] = x[i];
    } else {
      source.load(from, to, static_cast<size_t>(length));
    }
  }

  ElementWalk walk_;
  int64_t run_ = 1;    // length of the innermost dimension
  int64_t tile_ = 0;   // elements of a tile
  int64_t parts_ = 0;  // tiles of one inner run; 0: tiles cross runs
  int64_t tiles_ = 0;
  int slots_ = 0;
  StoreFn stream_ = nullptr;
  std::vector<TileSource> sources_;
  std::vector<Target> targets_;
  std::vector<RunStep> steps_;
};

// The layout in which all full-sized operands can be walked alike: that of the first input which has one.
const ConcreteType* find_model(const Facts& facts, const TileProgram& program) {
  for (const TileStep& step : program.steps)
    if (step.op->uses_index) return nullptr;
  const ConcreteType* model = nullptr;
  for (const ConcreteType& in : facts.in) {
    if (in.count() == 1) continue;
    if (!(in.dims == facts.out[0].dims) || in.dtype == DType::I64) return nullptr;
    if (model == nullptr && !in.layout.is_plain() && !in.layout.is_padded(in.dtype, in.dims)) model = &in;
  }
  for (const ConcreteType& out : facts.out)
    if (out.dtype == DType::I64) return nullptr;
  return model;
}

}  // namespace

Prepared prepare_program(const Facts& facts, const TileProgram& program) {
  const ConcreteType* model = find_model(facts, program);
  Prepared prepared{.kernel = std::make_shared<TileKernel>(facts, program, model != nullptr)};
  if (model == nullptr) return prepared;
  for (const ConcreteType& in : facts.in)
    prepared.in.push_back(in.count() == 1 ? Layout() : model->layout.retyped(model->dtype, in.dtype, in.dims));
  for (const ConcreteType& out : facts.out)
    prepared.out.push_back(model->layout.retyped(model->dtype, out.dtype, out.dims));
  return prepared;
}

Prepared prepare_tile(const Facts& facts, const TileOp& op) {
  TileStep step{&op, std::vector<float>(static_cast<size_t>(op.params)), {}};
  if (op.fill_params != nullptr) op.fill_params(facts.attrs, step.params.data());
  for (size_t i = 0; i < facts.in.size(); ++i) step.in.push_back(static_cast<int>(i));
  const int result = static_cast<int>(facts.in.size());
  return prepare_program(facts, {{std::move(step)}, {result}});
}

void infer_map(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {n.in[0]};
}

Shape broadcast_inputs(const Infer& n, size_t first) {
  Shape shape = n.in[first].shape;
  for (size_t i = first + 1; i < n.in.size(); ++i) {
    try {
      shape = broadcast(shape, n.in[i].shape);
    } catch (const Error& e) {
      n.fail(e.what());
    }
  }
  return shape;
}

DType common_dtype(const Infer& n, size_t a, size_t b) {
  if (n.in[a].dtype == n.in[b].dtype) return n.in[a].dtype;
  if (!is_float(n.in[a].dtype) || !is_float(n.in[b].dtype))
    n.fail(fmt::format("{} and {} don't mix; cast one of them", to_string(n.in[a]), to_string(n.in[b])));
  return DType::F32;
}

void infer_broadcast(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {{common_dtype(n, 0, 1), broadcast_inputs(n, 0)}};
}

void infer_same(Infer& n) {
  n.expect_inputs(2, 2);
  for (size_t i = 1; i < n.in.size(); ++i)
    if (!(n.in[i].shape == n.in[0].shape))
      n.fail(fmt::format("{} and {} must have the same shape", to_string(n.in[0]), to_string(n.in[i])));
  n.out = {n.in[0]};
}

}  // namespace plimsoll::kernels
