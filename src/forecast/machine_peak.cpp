#include "forecast/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "kernels/dnnl_kernel.h"
#include "kernels/product.h"
#include "memory/arena.h"

namespace plimsoll::forecast {
namespace {

constexpr int64_t kSides[] = {1024, 768, 512, 256};  // of square matrices: the first that fits; smaller ones are slower
constexpr Bytes kCopyBytes = 128 * MiB;              // read and written; more than caches hold
constexpr int kRepeats = 8;

// Seconds of the fastest run after one to warm up.
template <class Run>
double fastest_s(const Run& run) {
  using Clock = std::chrono::steady_clock;
  run();
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const auto started = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - started).count());
  }
  return best;
}

void copy_bytes(const std::byte* from, std::byte* to, int64_t bytes) {
  constexpr int64_t kPiece = 64 * 1024;
  const int64_t pieces = (bytes + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < pieces; ++i)
    std::memcpy(to + i * kPiece, from + i * kPiece, static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)));
}

kernels::Product square_product(int64_t side) {
  const kernels::MatrixOrder square = kernels::MatrixOrder::by_rows(side, side);
  return {square, square, side};
}

Bytes bytes_for_product(int64_t side) { return 3 * side * side * 4 + square_product(side).workspace_bytes(); }

double product_flops_per_s(std::byte* memory, int64_t side) {
  const kernels::Product product = square_product(side);
  auto* a = reinterpret_cast<float*>(memory);
  const int64_t count = side * side;
  const double seconds = fastest_s([&] { product.run(a, a + count, nullptr, a + 2 * count, a + 3 * count); });
  return 2.0 * static_cast<double>(count * side) / seconds;
}

// 3 x 3 over images of 64 channels: what oneDNN does best. Its memory is less than that of the product of 768.
constexpr Bytes kConvolutionBytes = 4 * MiB;
double convolution_flops_per_s(std::byte* memory) {
  const Dims image{2, 64, 56, 56}, kernel{64, 64, 3, 3};
  const dnnl::memory::desc any = kernels::any_desc(DType::F32, image);
  const dnnl::convolution_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any,
       kernels::any_desc(DType::F32, kernel), any, dnnl::memory::dims{1, 1}, dnnl::memory::dims{1, 1},
       dnnl::memory::dims{1, 1}},
      kernels::user_scratchpad(), kernels::cpu_engine());
  const auto bytes = [](const dnnl::memory::desc& desc) { return round_up(static_cast<Bytes>(desc.get_size()), 64); };
  if (pd.scratchpad_desc().get_size() > 0 ||
      bytes(pd.src_desc()) + bytes(pd.dst_desc()) + bytes(pd.weights_desc()) > kConvolutionBytes)
    return 0;
  std::byte* y = memory + bytes(pd.src_desc());
  std::byte* weights = y + bytes(pd.dst_desc());
  const std::unordered_map<int, dnnl::memory> args{
      {DNNL_ARG_SRC, dnnl::memory(pd.src_desc(), kernels::cpu_engine(), memory)},
      {DNNL_ARG_WEIGHTS, dnnl::memory(pd.weights_desc(), kernels::cpu_engine(), weights)},
      {DNNL_ARG_DST, dnnl::memory(pd.dst_desc(), kernels::cpu_engine(), y)}};
  const dnnl::convolution_forward convolution(pd);
  const double seconds = fastest_s([&] {
    convolution.execute(kernels::cpu_stream(), args);
    dnnl::stream(kernels::cpu_stream()).wait();
  });
  const int64_t products = element_count(image) * (element_count(kernel) / kernel[0]);
  return 2.0 * static_cast<double>(products) / seconds;
}

}  // namespace

lower::MachineSpeed measure_peak(Bytes most_bytes) {
  int64_t side = kSides[std::size(kSides) - 1];
  for (const int64_t one : kSides)
    if (one > side && bytes_for_product(one) <= most_bytes) side = one;
  const Bytes bytes = std::clamp(most_bytes, bytes_for_product(side), kCopyBytes);
  memory::Arena memory(bytes);
  memory.commit(bytes);
  lower::MachineSpeed peak;
  peak.flops_per_s = product_flops_per_s(memory.data(), side);
  if (bytes >= kConvolutionBytes) peak.flops_per_s = std::max(peak.flops_per_s, convolution_flops_per_s(memory.data()));
  const Bytes half = bytes / 2;
  peak.bytes_per_s =
      2.0 * static_cast<double>(half) / fastest_s([&] { copy_bytes(memory.data(), memory.data() + half, half); });
  peak.cache_bytes_per_s = std::max(peak.cache_bytes_per_s, peak.bytes_per_s);
  return peak;
}

}  // namespace plimsoll::forecast
