#include "session/weights_file.h"

#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/elementwise.h"
#include "memory/process.h"
#include "session/finite.h"

namespace plimsoll::session {
namespace {

// Floats of one width into those of another: the optimiser's state may be kept in 16 bits now and not then, or the
// other way round.
void read_converted(const WeightsReader& file, const StoredTensor& stored, DType dtype, void* into) {
  constexpr int64_t kAtOnce = 4096;
  alignas(kAlignment) std::byte narrow[kAtOnce * sizeof(float)];
  alignas(kAlignment) float wide[kAtOnce];
  const kernels::LoadFn load = kernels::load_of(stored.dtype);
  const kernels::StoreFn store = kernels::store_of(dtype);
  const int64_t all = element_count(stored.dims);
  for (int64_t first = 0; first < all; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, all - first);
    file.read(stored.offset + first * size_of(stored.dtype), narrow, count * size_of(stored.dtype));
    load(narrow, wide, static_cast<size_t>(count));
    store(wide, static_cast<std::byte*>(into) + first * size_of(dtype), static_cast<size_t>(count));
  }
}

bool holds(WeightsPart part, const graph::Variable& variable) {
  return part == WeightsPart::All || (part == WeightsPart::Optimiser) == (variable.role() == VariableRole::Optimiser);
}

// The variable that a tensor of the file belongs to; null when the part of the model has none. Throws when they do not
// match.
const graph::Variable* match(const graph::Body& graph, WeightsPart part, const std::string& path,
                             const StoredTensor& stored) {
  if (!graph.has_value(stored.name)) return nullptr;
  const graph::Value& value = graph.value(graph.find(stored.name));
  if (value.kind != graph::ValueKind::Variable) return nullptr;
  const graph::Variable& variable = graph.variables()[static_cast<size_t>(value.extra)];
  if (!holds(part, variable)) return nullptr;
  const TensorType& type = value.type;
  const bool converts = variable.role() == VariableRole::Optimiser && is_float(stored.dtype) && is_float(type.dtype);
  if ((stored.dtype != type.dtype && !converts) || !(stored.dims == at_batch(type.shape, 1)))
    throw Error(fmt::format("'{}': tensor '{}' is {}{} but the model has {}", path, stored.name, name_of(stored.dtype),
                            to_string(stored.dims), to_string(type)),
                ErrorKind::BadData);
  return &variable;
}

}  // namespace

TensorList list_variables(const Graph& graph, WeightsPart part) {
  return [&graph, part](const VisitTensor& visit) {
    for (const graph::Variable& variable : graph.body().variables()) {
      if (!holds(part, variable)) continue;
      const graph::Value& value = graph.body().value(variable.value);
      visit({std::string(graph.body().name(value)), value.type.dtype, at_batch(value.type.shape, 1)});
    }
  };
}

WriteTensor write_variables(Engine& session, Graph& graph, std::string kept) {
  return [&session, &graph, kept = std::move(kept)](const StoredTensor& tensor, const PutBytes& put) {
    session.read({graph, graph.body().find(tensor.name)}, [&](std::span<const std::byte> bytes) {
      if (!is_finite(tensor.dtype, bytes))
        throw Error(fmt::format("'{}' holds NaN or infinity and is not saved{}", tensor.name, kept),
                    ErrorKind::BadNumbers);
      put(bytes);
    });
  };
}

Bytes weights_file_bytes(const Graph& graph, WeightsPart part) {
  return weights_file_bytes(list_variables(graph, part));
}

void expect_disk_room(const std::string& what, const std::string& folder, Bytes bytes) {
  if (const Bytes free = memory::available_disk_bytes(folder); free < bytes)
    throw Error(fmt::format("{} needs {} but '{}' has {} free; free some space or save elsewhere", what,
                            format_bytes(bytes), folder, format_bytes(free)),
                ErrorKind::DiskFull);
  rlimit largest{};
  // Past this limit the kernel would end the process with a signal.
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && static_cast<rlim_t>(bytes) > largest.rlim_cur)
    throw Error(fmt::format("{} needs {} but 'ulimit -f' allows a file {} only; raise that limit", what,
                            format_bytes(bytes), format_bytes(static_cast<Bytes>(largest.rlim_cur))),
                ErrorKind::DiskFull);
}

void expect_room_for_weights(const Graph& graph, const std::string& path) {
  const memory::OutputTarget target = memory::find_output_target(path);
  const Bytes bytes = weights_file_bytes(graph);
  if (target.is_direct) return;
  memory::remove_abandoned_files(target);
  expect_disk_room(fmt::format("'{}'", path), target.folder, bytes);
}

void save_weights(Engine& session, Graph& graph, const std::string& path, const SaveOptions& options) {
  session.open();  // first: it finalises the graph, whose lists move then
  const bool replaces = memory::find_output_target(path).is_present;
  write_weights_file(path, list_variables(graph, options.part),
                     write_variables(session, graph, replaces ? fmt::format("; '{}' stays as it was", path) : ""),
                     {.steps = session.step_count(), .watch = options.watch});
}

LoadedWeights load_weights(Engine& session, Graph& graph, const std::string& path, const LoadOptions& options) {
  const WeightsPart part = options.part;
  session.open();  // as in save_weights
  const WeightsReader file(path);
  std::vector<bool> is_there(graph.body().variables().size(), false);
  file.for_each([&](const StoredTensor& stored) {
    if (const graph::Variable* variable = match(graph.body(), part, path, stored))
      is_there[static_cast<size_t>(variable - graph.body().variables().data())] = true;
  });
  for (size_t i = 0; i < is_there.size(); ++i) {
    const graph::Variable& variable = graph.body().variables()[i];
    const bool is_optimisers = variable.role() == VariableRole::Optimiser;
    if (is_there[i] || !holds(part, variable) || (is_optimisers && part == WeightsPart::All)) continue;
    if (options.may_miss && options.may_miss(variable.stored->name)) continue;
    throw Error(fmt::format("'{}' has no tensor '{}': it belongs to another {}", path,
                            graph.body().name(graph.body().value(variable.value)),
                            is_optimisers ? "optimiser or model" : "model"),
                ErrorKind::BadData);
  }
  session.set_step_count(file.steps());
  LoadedWeights loaded;
  file.for_each([&](const StoredTensor& stored) {
    const graph::Variable* variable = match(graph.body(), part, path, stored);
    if (variable == nullptr) {
      ++loaded.left;
      return;
    }
    ++(variable->role() == VariableRole::Optimiser ? loaded.state : loaded.weights);
    const DType dtype = graph.body().value(variable->value).type.dtype;
    session.fill({graph, variable->value}, [&](void* into, Bytes at, Bytes bytes) {
      if (stored.dtype == dtype)
        file.read(stored.offset + at, into, bytes);
      else
        read_converted(file, stored, dtype, into);
    });
  });
  return loaded;
}

}  // namespace plimsoll::session
