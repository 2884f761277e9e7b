// Loaded before the program (LD_PRELOAD): our vector code runs as on a processor without AVX-512
// (PLIMSOLL_TEST_ISA=AVX2), or also without AVX2 (SSE41). oneDNN has a variable of its own for that,
// ONEDNN_MAX_CPU_ISA.
#include <cstdlib>
#include <string_view>

#include <hwy/targets.h>

namespace {

[[gnu::constructor]] void limit_vectors() {
  const char* const limit = std::getenv("PLIMSOLL_TEST_ISA");
  if (limit == nullptr) return;
  // A processor lacks what was added after the limit: each set of instructions has the bit below that of the one
  // before.
  const int64_t best = std::string_view(limit) == "AVX2" ? HWY_AVX2 : HWY_SSE4;
  hwy::DisableTargets(best - 1);
}

}  // namespace
