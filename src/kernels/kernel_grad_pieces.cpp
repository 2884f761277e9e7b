#include "kernels/kernel_grad_pieces.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/dnnl_kernel.h"
#include "kernels/parallel.h"
#include "kernels/thread_count.h"

namespace plimsoll::kernels {
namespace {

using Desc = dnnl::memory::desc;
using Gradient = dnnl::convolution_backward_weights;
using Description = Gradient::primitive_desc;

constexpr int64_t kMostPieces = 8;
constexpr Bytes kFloatBytes = sizeof(float);

Bytes bytes_of(const Desc& desc) { return static_cast<Bytes>(desc.get_size()); }
Bytes workspace_of(const Description& pd) { return bytes_of(pd.scratchpad_desc()); }

// How the work is cut. Groups of samples have sums of their own, which are added in their order. Where each group is
// one sample, ranges of output channels lie in one piece in all operands and are cut as well: they need no sums.
//
// In bf16, threads of oneDNN that share a gradient wait for each other at every sample. Ranges are cut there for all
// samples as well: the channels of a range are gathered first, into workspace.
struct Cut {
  int64_t groups = 1, ranges = 1;
  bool gathers = false;
  int64_t pieces() const { return groups * ranges; }
};

// Whether channels of one sample follow each other, blocks of them at least.
bool has_channels_in_order(const dnnl_memory_desc_t& md, int64_t block) {
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  return md.format_kind == dnnl_blocked && md.dims[1] == md.padded_dims[1] &&
         blocking.strides[1] * (md.dims[1] / block) == blocking.strides[0];
}

// Elements of the dimension that are stored beside each other.
int64_t block_of(const dnnl_memory_desc_t& md, int dimension) {
  int64_t block = 1;
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  for (int i = 0; i < blocking.inner_nblks; ++i)
    if (blocking.inner_idxs[i] == dimension) block *= blocking.inner_blks[i];
  return block;
}

int64_t most_ranges(const Description& whole, int64_t wanted) {
  const dnnl_memory_desc_t kernel = whole.diff_weights_desc().data, dy = whole.diff_dst_desc().data;
  const bool has_groups = kernel.ndims == 5;
  if (has_groups || kernel.format_kind != dnnl_blocked || dy.format_kind != dnnl_blocked) return 1;
  const auto* const strides = kernel.format_desc.blocking.strides;
  const bool is_output_outermost =
      kernel.dims[0] == kernel.padded_dims[0] && std::max_element(strides, strides + kernel.ndims) == strides;
  const int64_t block = std::max(block_of(kernel, 0), block_of(dy, 1));
  if (!is_output_outermost || !has_channels_in_order(dy, block_of(dy, 1))) return 1;
  for (int64_t ranges = wanted; ranges > 1; --ranges)
    if (kernel.dims[0] % (ranges * block) == 0) return ranges;
  return 1;
}

// The sums of all groups should be small beside the operands: then adding them costs little. Large filters of small
// images are not cut in f32; oneDNN divides their channels among the threads.
Cut cut_of(const Description& whole) {
  const int64_t samples = whole.src_desc().dims()[0];
  const Bytes operands = bytes_of(whole.src_desc()) + bytes_of(whole.diff_dst_desc());
  const Bytes affordable = operands / 2 / std::max<Bytes>(1, bytes_of(whole.diff_weights_desc()));
  Cut cut{std::clamp<int64_t>(std::min(samples, affordable), 1, kMostPieces), 1};
  if (cut.groups == samples) cut.ranges = most_ranges(whole, kMostPieces / cut.groups);
  if (cut.pieces() == 1 && whole.src_desc().data.data_type == dnnl_bf16) {
    cut.ranges = most_ranges(whole, kMostPieces);
    cut.gathers = cut.ranges > 1;
  }
  return cut;
}

// The description for `size` samples of an image, or `size` outputs of a filter or bias: these are outermost.
Desc with_first(Desc desc, int64_t size) {
  if (desc.data.dims[0] != size) desc.data.dims[0] = desc.data.padded_dims[0] = size;
  return desc;
}

// The description for a range of channels, sample after sample.
Desc with_channels(Desc desc, int64_t channels) {
  desc.data.format_desc.blocking.strides[0] = desc.data.format_desc.blocking.strides[0] / desc.data.dims[1] * channels;
  desc.data.dims[1] = desc.data.padded_dims[1] = channels;
  return desc;
}

// The most threads among which oneDNN divides channels alone, so that no sum is cut. It shows in the scratchpad: a cut
// sum needs the size of the filter for each part, more than anything else that grows with the threads.
int threads_without_cut_sums(const std::function<Description()>& make, int most) {
  Bytes alone = 0;
  {
    const ThreadCount one(1);
    const Description pd = make();
    if (is_by_product(pd)) return 1;  // it may cut sums without asking for room
    alone = workspace_of(pd);
  }
  for (int threads = most; threads > 1; --threads) {
    const ThreadCount these(threads);
    const Description pd = make();
    if (workspace_of(pd) == alone) return threads;
    const bool has_bias = bytes_of(pd.diff_bias_desc()) > 0;
    const Bytes of_threads = threads * alone;
    if (!has_bias && workspace_of(pd) <= of_threads && bytes_of(pd.diff_weights_desc()) > of_threads) return threads;
  }
  return 1;
}

class KernelGradPieces final : public Kernel {
 public:
  KernelGradPieces(const Facts& facts, const Description& whole, const KernelGradMaker& make);
  void run(const Args& args) noexcept override;
  Bytes workspace_bytes() const { return gathered_at() + (gathers_ ? ranges_ * samples_ * range_bytes_ : 0); }

 private:
  struct PieceOperand {
    dnnl::memory memory;
    Bytes offset_bytes = 0;
    void* last = nullptr;  // handles are set only when they change: setting one is not free in oneDNN
    void set(const void* base);
  };
  struct GradPiece {
    dnnl::primitive primitive;
    PieceOperand x, dy, kernel, bias;
    int64_t group = 0;
  };
  // Sums of groups lie in the output or behind each other in workspace.
  bool is_in_output(int64_t group) const { return group == 0 && !accumulate_; }
  int64_t sums_in_workspace() const { return accumulate_ ? groups_ : groups_ - 1; }
  Bytes sum_bytes() const { return round_up(kernel_bytes_, kAlignment) + round_up(bias_bytes_, kAlignment); }
  Bytes scratchpads_at() const { return sums_in_workspace() * sum_bytes(); }
  Bytes gathered_at() const { return scratchpads_at() + slots_ * scratchpad_bytes_; }
  std::byte* sum_of(int64_t group, void* workspace) const;
  void add_sums(float* into, Bytes offset, Bytes bytes, void* workspace) const;
  void gather(const void* dy, std::byte* to) const;
  void run_piece(const GradPiece& piece, int slot) const;

  std::vector<GradPiece> pieces_;
  std::vector<PieceOperand> scratchpads_;  // one for each slot
  int64_t groups_, ranges_, samples_;
  bool gathers_;
  Bytes range_bytes_ = 0;  // of dy, a sample and a range
  bool accumulate_;
  Bytes kernel_bytes_, bias_bytes_, scratchpad_bytes_ = 0;
  int threads_ = 1;  // of oneDNN, for a single piece
  int slots_ = 1;    // threads at work on pieces
};

dnnl::memory memory_of(const Desc& desc) { return {desc, cpu_engine(), DNNL_MEMORY_NONE}; }

KernelGradPieces::KernelGradPieces(const Facts& facts, const Description& whole, const KernelGradMaker& make)
    : accumulate_(facts.accumulate),
      kernel_bytes_(bytes_of(whole.diff_weights_desc())),
      bias_bytes_(bytes_of(whole.diff_bias_desc())) {
  const Desc x = whole.src_desc(), dy = whole.diff_dst_desc();
  const Desc kernel = whole.diff_weights_desc(), bias = whole.diff_bias_desc();
  const int64_t samples = x.dims()[0];
  const Cut cut = cut_of(whole);
  groups_ = cut.groups;
  ranges_ = cut.ranges;
  samples_ = samples;
  gathers_ = cut.gathers;
  const auto describe = [&](int64_t count) {
    if (cut.ranges == 1) return make(with_first(x, count), kernel, bias, with_first(dy, count));
    const int64_t range = dy.dims()[1] / cut.ranges;
    return make(with_first(x, count), with_first(kernel, range), bias_bytes_ > 0 ? with_first(bias, range) : bias,
                with_channels(with_first(dy, count), range));
  };
  if (cut.pieces() == 1)
    threads_ = threads_without_cut_sums([&] { return describe(samples); }, thread_slots());
  else
    slots_ = static_cast<int>(std::min<int64_t>(thread_slots(), cut.pieces()));

  // Groups differ by one sample at most.
  struct Made {
    int64_t samples;
    Description pd;
    dnnl::primitive primitive;
  };
  std::vector<Made> made;
  const ThreadCount these(threads_);
  const auto made_for = [&](int64_t count) -> const Made& {
    for (const Made& one : made)
      if (one.samples == count) return one;
    const Description pd = describe(count);
    if (!pd) throw Error("oneDNN has no kernel for a part of a convolution of these sizes");
    scratchpad_bytes_ = std::max(scratchpad_bytes_, round_up(workspace_of(pd), kAlignment));
    return made.emplace_back(Made{count, pd, Gradient(pd)});
  };
  const Bytes x_bytes = bytes_of(x) / samples, dy_bytes = bytes_of(dy) / samples;
  range_bytes_ = dy_bytes / cut.ranges;
  for (int64_t group = 0; group < cut.groups; ++group) {
    const int64_t first = samples * group / cut.groups;
    const Made& one = made_for(samples * (group + 1) / cut.groups - first);
    for (int64_t i = 0; i < cut.ranges; ++i) {
      GradPiece& piece = pieces_.emplace_back();
      piece.primitive = one.primitive;
      piece.group = group;
      piece.x = {memory_of(one.pd.src_desc()), first * x_bytes};
      piece.dy = {memory_of(one.pd.diff_dst_desc()), first * dy_bytes + range_bytes_ * i * (gathers_ ? samples : 1)};
      piece.kernel = {memory_of(one.pd.diff_weights_desc()), kernel_bytes_ / cut.ranges * i};
      if (bias_bytes_ > 0) piece.bias = {memory_of(one.pd.diff_bias_desc()), bias_bytes_ / cut.ranges * i};
    }
  }
  if (scratchpad_bytes_ == 0) return;
  const Desc scratchpad({scratchpad_bytes_}, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a);
  for (int slot = 0; slot < slots_; ++slot) scratchpads_.push_back({memory_of(scratchpad), slot * scratchpad_bytes_});
}

void KernelGradPieces::PieceOperand::set(const void* base) {
  void* pointer = static_cast<std::byte*>(const_cast<void*>(base)) + offset_bytes;
  if (pointer == last) return;
  dnnl_memory_set_data_handle(memory.get(), pointer);
  last = pointer;
}

std::byte* KernelGradPieces::sum_of(int64_t group, void* workspace) const {
  return static_cast<std::byte*>(workspace) + (accumulate_ ? group : group - 1) * sum_bytes();
}

void KernelGradPieces::gather(const void* dy, std::byte* to) const {
  const auto* from = static_cast<const std::byte*>(dy);
  constexpr Bytes kGrain = 64 * KiB;
  parallel_for(samples_ * ranges_, std::max<int64_t>(1, kGrain / std::max<Bytes>(1, range_bytes_)),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) {
                   const int64_t sample = i / ranges_, range = i % ranges_;
                   std::memcpy(to + (range * samples_ + sample) * range_bytes_, from + i * range_bytes_,
                               static_cast<size_t>(range_bytes_));
                 }
               });
}

void KernelGradPieces::run_piece(const GradPiece& piece, int slot) const {
  dnnl_exec_arg_t args[5];
  int count = 0;
  args[count++] = {DNNL_ARG_SRC, piece.x.memory.get()};
  args[count++] = {DNNL_ARG_DIFF_DST, piece.dy.memory.get()};
  args[count++] = {DNNL_ARG_DIFF_WEIGHTS, piece.kernel.memory.get()};
  if (bias_bytes_ > 0) args[count++] = {DNNL_ARG_DIFF_BIAS, piece.bias.memory.get()};
  if (!scratchpads_.empty())
    args[count++] = {DNNL_ARG_SCRATCHPAD, scratchpads_[static_cast<size_t>(slot)].memory.get()};
  [[maybe_unused]] const dnnl_status_t status =
      dnnl_primitive_execute(piece.primitive.get(), cpu_stream().get(), count, args);
  assert(status == dnnl_success);
}

void KernelGradPieces::add_sums(float* into, Bytes offset, Bytes bytes, void* workspace) const {
  const auto numbers_of = [&](int64_t group) { return reinterpret_cast<float*>(sum_of(group, workspace) + offset); };
  const auto add = [](float* to, const float* more, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] += more[i];
  };
  constexpr int64_t kTile = 4096;  // stays in the nearest cache while all sums are added to it
  const int64_t count = bytes / kFloatBytes;
  parallel_for((count + kTile - 1) / kTile, 1, [&](int64_t first_tile, int64_t last_tile) {
    for (int64_t tile = first_tile; tile < last_tile; ++tile) {
      const int64_t first = tile * kTile, last = std::min(first + kTile, count);
      float* sum = accumulate_ ? numbers_of(0) : into;
      for (int64_t group = 1; group < groups_; ++group) add(sum, numbers_of(group), first, last);
      if (accumulate_) add(into, sum, first, last);
    }
  });
}

void KernelGradPieces::run(const Args& args) noexcept {
  std::byte* const gathered = static_cast<std::byte*>(args.workspace) + gathered_at();
  if (gathers_) gather(args.in[1], gathered);
  for (GradPiece& piece : pieces_) {
    piece.x.set(args.in[0]);
    piece.dy.set(gathers_ ? gathered : args.in[1]);
    std::byte* sum = is_in_output(piece.group) ? nullptr : sum_of(piece.group, args.workspace);
    piece.kernel.set(sum == nullptr ? args.out[0] : sum);
    if (bias_bytes_ > 0) piece.bias.set(sum == nullptr ? args.out[1] : sum + round_up(kernel_bytes_, kAlignment));
  }
  for (PieceOperand& scratchpad : scratchpads_)
    scratchpad.set(static_cast<std::byte*>(args.workspace) + scratchpads_at());
  if (pieces_.size() == 1) {
    const ThreadCount these(threads_);
    run_piece(pieces_[0], 0);
  } else {
    const auto count = static_cast<int64_t>(pieces_.size());
#pragma omp parallel for schedule(dynamic) num_threads(slots_)
    for (int64_t i = 0; i < count; ++i) run_piece(pieces_[static_cast<size_t>(i)], omp_get_thread_num());
  }
  if (sums_in_workspace() == 0) return;
  add_sums(args.output<float>(0), 0, kernel_bytes_, args.workspace);
  if (bias_bytes_ > 0)
    add_sums(args.output<float>(1), round_up(kernel_bytes_, kAlignment), bias_bytes_, args.workspace);
}

}  // namespace

bool cuts_kernel_grad(const Description& whole) { return cut_of(whole).pieces() > 1; }

Prepared prepare_kernel_grad_pieces(const Facts& facts, const Description& whole, const KernelGradMaker& make) {
  const auto kernel = std::make_shared<KernelGradPieces>(facts, whole, make);
  Prepared prepared{.kernel = kernel,
                    .in = {Layout(whole.src_desc()), Layout(whole.diff_dst_desc())},
                    .out = {Layout(whole.diff_weights_desc())},
                    .workspace_bytes = kernel->workspace_bytes()};
  if (facts.out.size() == 2) prepared.out.emplace_back();
  return prepared;
}

}  // namespace plimsoll::kernels
