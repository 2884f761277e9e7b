#include "graph/op.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace plimsoll::graph {
namespace {

DType first_of(DTypes types) {
  return *std::find_if(std::begin(kEveryType), std::end(kEveryType), [&](DType type) { return types.has(type); });
}

}  // namespace

void Infer::fail(const std::string& why) const { throw Error(fmt::format("{} '{}': {}", op, name, why)); }

void Infer::expect_inputs(size_t least, size_t most) const {
  if (in.size() >= least && in.size() <= most) return;
  const std::string count = least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
  fail(fmt::format("takes {} inputs but got {}", count, in.size()));
}

void Infer::expect_rank(size_t input, int rank) const {
  if (in[input].shape.rank() == rank) return;
  fail(fmt::format("input {} must have {} dimensions but is {}", input, rank, to_string(in[input])));
}

void Infer::expect_finite(std::string_view key, double otherwise) const {
  const double value = attrs.f(key, otherwise);
  if (!std::isfinite(value)) fail(fmt::format("{} must be a number but is {}", key, value));
}

void Infer::expect_positive(std::string_view key, double otherwise) const {
  const double value = attrs.f(key, otherwise);
  if (!(std::isfinite(value) && value > 0)) fail(fmt::format("{} must be positive but is {}", key, value));
}

void Infer::expect_between(std::string_view key, double least, double most, double otherwise) const {
  const double value = attrs.f(key, otherwise);
  if (!(value >= least && value <= most))
    fail(fmt::format("{} must be from {} to {} but is {}", key, least, most, value));
}

void Infer::expect_types(const InputTypes& types) const {
  for (size_t i = 0; i < in.size(); ++i) {
    const DTypes known = types.at(i);
    if (known.has(in[i].dtype)) continue;
    fail(fmt::format("input {} is {} but must be {}; cast it to {} first", i, to_string(in[i]), to_string(known),
                     name_of(first_of(known))));
  }
}

}  // namespace plimsoll::graph
