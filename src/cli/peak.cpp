#include "cli/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "memory/arena.h"
#include "ops/dnnl_kernel.h"

namespace plimsoll {
namespace {

constexpr int64_t kSide = 512;  // of a square matrix: long enough to be at full speed
constexpr Bytes kMatrixBytes = kSide * kSide * 4;
constexpr Bytes kCopyBytes = 128 * MiB;  // read and written; more than caches hold
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

double measure_flops_per_s(std::byte* memory) {
  const dnnl::memory::desc desc = plain_desc(DType::F32, {kSide, kSide});
  const dnnl::matmul::primitive_desc pd({desc, desc, desc}, dnnl::primitive_attr(), cpu_engine());
  const dnnl::matmul product(pd);
  const auto operand = [&](int64_t i) { return dnnl::memory(desc, cpu_engine(), memory + i * kMatrixBytes); };
  const std::unordered_map<int, dnnl::memory> args{
      {DNNL_ARG_SRC, operand(0)}, {DNNL_ARG_WEIGHTS, operand(1)}, {DNNL_ARG_DST, operand(2)}};
  const double seconds = fastest_s([&] {
    product.execute(cpu_stream(), args);
    dnnl::stream(cpu_stream()).wait();
  });
  return 2.0 * kSide * kSide * kSide / seconds;
}

}  // namespace

MachineSpeed measure_peak(Bytes most_bytes) {
  const Bytes bytes = std::clamp(most_bytes, 3 * kMatrixBytes, kCopyBytes);
  Arena memory(bytes);
  memory.commit(bytes);
  MachineSpeed peak;
  peak.flops_per_s = measure_flops_per_s(memory.data());
  const Bytes half = bytes / 2;
  peak.bytes_per_s =
      2.0 * static_cast<double>(half) / fastest_s([&] { copy_bytes(memory.data(), memory.data() + half, half); });
  peak.cache_bytes_per_s = std::max(peak.cache_bytes_per_s, peak.bytes_per_s);
  return peak;
}

}  // namespace plimsoll
