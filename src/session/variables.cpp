#include "session/variables.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/element.h"
#include "graph/body.h"
#include "kernels/dnnl_kernel.h"
#include "kernels/parallel.h"

namespace plimsoll::session {
namespace {

void reorder(const kernels::ConcreteType& from, const kernels::Layout& to, const void* source, void* target) {
  Bytes workspace_bytes = 0;
  const std::shared_ptr<kernels::Kernel> kernel = make_reorder(from, to, &workspace_bytes);
  if (workspace_bytes > 0) throw Error("a reorder of a variable asks for workspace");
  const kernels::StepState state;
  kernel->run({&source, &target, nullptr, &state});
}

void fill_plain(const Init& init, uint64_t seed, std::string_view name, const kernels::ConcreteType& type,
                std::byte* place) {
  const int64_t count = type.count();
  if (type.dtype == DType::F32) {
    auto* out = reinterpret_cast<float*>(place);
    kernels::parallel_for(count, 4096, [&](int64_t first, int64_t last) {
      graph::fill(init, seed, name, first, last - first, out + first);
    });
    return;
  }
  const auto value = init.kind == Init::Kind::Constant ? element_bytes(type.dtype, init.a) : std::nullopt;
  if (!value)
    throw Error(fmt::format("variable '{}' of type {} can't start as {}; try zeros", name, name_of(type.dtype),
                            to_string(init)));
  fill_elements(place, count, *value);
}

}  // namespace

Bytes piece_bytes(const kernels::PackedWeights& form) {
  return round_up(form.rows_within(kPieceBytes) * form.columns * static_cast<Bytes>(sizeof(float)), kAlignment);
}

void initialize_packed(const Init& init, uint64_t seed, std::string_view name, const kernels::PackedWeights& form,
                       std::byte* place, float* piece) {
  const int64_t rows = form.rows_within(kPieceBytes);
  for (int64_t first = 0; first < form.rows; first += rows) {
    const int64_t count = std::min(rows, form.rows - first);
    kernels::parallel_for(count * form.columns, 4096, [&](int64_t begin, int64_t end) {
      graph::fill(init, seed, name, first * form.columns + begin, end - begin, piece + begin);
    });
    form.pack(piece, first, count, place);
  }
}

void initialize_variable(const Init& init, uint64_t seed, std::string_view name, const kernels::ConcreteType& type,
                         std::byte* place, std::byte* staging) {
  if (type.layout.is_plain()) return fill_plain(init, seed, name, type, place);
  fill_plain(init, seed, name, type, staging);
  copy_from_plain(type, staging, place);
}

void copy_to_plain(const kernels::ConcreteType& type, const void* from, void* into) {
  if (type.layout.is_plain())
    std::memcpy(into, from, static_cast<size_t>(type.bytes()));
  else
    reorder(type, kernels::Layout(), from, into);
}

void copy_from_plain(const kernels::ConcreteType& type, const void* from, void* into) {
  kernels::ConcreteType plain = type;
  plain.layout = kernels::Layout();
  if (type.layout.is_plain())
    std::memcpy(into, from, static_cast<size_t>(type.bytes()));
  else
    reorder(plain, type.layout, from, into);
}

int state_bits(const graph::Body& graph) {
  int bits = 32;
  for (const graph::Variable& variable : graph.variables())
    if (variable.role() == VariableRole::Optimiser && !variable.stored->name.ends_with("/mask"))  // bits by nature
      bits = std::min(bits, 8 * static_cast<int>(size_of(graph.value(variable.value).type.dtype)));
  return bits;
}

void expect_bytes(Tensor variable, Bytes bytes) {
  const Bytes want = element_count(variable.shape()).fixed() * size_of(variable.dtype());
  if (bytes != want)
    throw Error(fmt::format("variable '{}' {} has {} bytes but {} were given", variable.name(),
                            to_string(variable.type()), want, bytes));
}

}  // namespace plimsoll::session
