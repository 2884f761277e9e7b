#include <plimsoll/types.h>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

constexpr Policy kPolicies[] = {{DType::F32}, {DType::F16}, {DType::BF16}, {DType::BF16, false}};

}  // namespace

std::string_view Policy::name() const {
  switch (values) {
    case DType::F16:
      return "mixed_float16";
    case DType::BF16:
      return half_products ? "mixed_bfloat16" : "stored_bfloat16";
    default:
      return "float32";
  }
}

Policy Policy::named(std::string_view name) {
  for (const Policy& policy : kPolicies)
    if (policy.name() == name) return policy;
  throw Error(
      fmt::format("policy '{}' is unknown; known are float32, mixed_float16, mixed_bfloat16, stored_bfloat16", name),
      ErrorKind::Usage);
}

}  // namespace plimsoll
