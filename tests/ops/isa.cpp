// That `./test --isa` does limit what it says: a library that is not preloaded would be no error of its own.
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace plimsoll::testing {
namespace {

TEST(Isa, IsLimitedAsAsked) {
  const char* const limit = std::getenv("PLIMSOLL_TEST_ISA");
  if (limit == nullptr) GTEST_SKIP() << "only ./test --isa limits the instructions";
  const bool has_avx2 = std::string_view(limit) == "AVX2";
  EXPECT_EQ(hwy::SupportedTargets() & (has_avx2 ? HWY_AVX2 - 1 : HWY_SSE4 - 1), 0);
  EXPECT_EQ(dnnl::get_effective_cpu_isa(), has_avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41);
}

}  // namespace
}  // namespace plimsoll::testing
