#include "weights/weights_file.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/process.h"
#include "weights/finite.h"
#include "weights/weights_parts.h"

namespace plimsoll::weights {
namespace {

void expect_finite(const StoredTensor& tensor, std::span<const std::byte> bytes, const std::string& kept) {
  if (!is_finite(tensor.dtype, bytes))
    throw Error(fmt::format("'{}' holds NaN or infinity and is not saved{}", tensor.name, kept), ErrorKind::BadNumbers);
}

const Dims* whole_of(const VariableSlices* slices, std::string_view name) {
  return slices != nullptr ? slices->find(name) : nullptr;
}

// The variable that a tensor of the file belongs to; null when the part of the model has none. Throws when they do not
// match.
const graph::Variable* match(const graph::Body& graph, const LoadOptions& options, const std::string& path,
                             const StoredTensor& stored) {
  if (!graph.has_value(stored.name)) return nullptr;
  const graph::Value& value = graph.value(graph.find(stored.name));
  if (value.kind != graph::ValueKind::Variable) return nullptr;
  const graph::Variable& variable = graph.variables()[static_cast<size_t>(value.extra)];
  if (!holds(options.part, variable)) return nullptr;
  const TensorType& type = value.type;
  const bool converts = variable.role() == VariableRole::Optimiser && is_float(stored.dtype) && is_float(type.dtype);
  const Dims* const shared = whole_of(options.slices, stored.name);
  const Dims whole = shared != nullptr ? *shared : at_batch(type.shape, 1);
  if ((stored.dtype != type.dtype && !converts) || !(stored.dims == whole))
    throw Error(fmt::format("'{}': tensor '{}' is {}{} but the model has {}{}", path, stored.name,
                            name_of(stored.dtype), to_string(stored.dims), name_of(type.dtype), to_string(whole)),
                ErrorKind::BadData);
  return &variable;
}

// The variables of a part, with the sizes of whole ones where ranks hold slices.
TensorList list_whole(const Graph& graph, WeightsPart part, const VariableSlices* slices) {
  return [&graph, part, slices](const VisitTensor& visit) {
    list_variables(graph, part)([&](const StoredTensor& tensor) {
      const Dims* const whole = whole_of(slices, tensor.name);
      visit({tensor.name, tensor.dtype, whole != nullptr ? *whole : tensor.dims});
    });
  };
}

// One rank writes, the others send their slices.
WriteTensor write_whole(VariableAccess& session, Graph& graph, const std::string& kept, const VariableSlices* slices) {
  return [&session, &graph, kept, slices](const StoredTensor& tensor, const PutBytes& put) {
    if (whole_of(slices, tensor.name) == nullptr) return write_variables(session, graph, kept)(tensor, put);
    gather_slices(session, {graph, graph.body().find(tensor.name)}, tensor, *slices,
                  [&](std::span<const std::byte> bytes) {
                    expect_finite(tensor, bytes, kept);
                    put(bytes);
                  });
  };
}

}  // namespace

bool holds(WeightsPart part, const graph::Variable& variable) {
  if (variable.role() == VariableRole::Gradient) return false;
  return part == WeightsPart::All || (part == WeightsPart::Optimiser) == (variable.role() == VariableRole::Optimiser);
}

TensorList list_variables(const Graph& graph, WeightsPart part) {
  return [&graph, part](const VisitTensor& visit) {
    for (const graph::Variable& variable : graph.body().variables()) {
      if (!holds(part, variable)) continue;
      const graph::Value& value = graph.body().value(variable.value);
      visit({std::string(graph.body().name(value)), value.type.dtype, at_batch(value.type.shape, 1)});
    }
  };
}

WriteTensor write_variables(VariableAccess& session, Graph& graph, std::string kept) {
  return [&session, &graph, kept = std::move(kept)](const StoredTensor& tensor, const PutBytes& put) {
    session.read({graph, graph.body().find(tensor.name)}, [&](std::span<const std::byte> bytes) {
      expect_finite(tensor, bytes, kept);
      put(bytes);
    });
  };
}

Bytes weights_file_bytes(const Graph& graph, WeightsPart part, const VariableSlices* slices) {
  return weights_file_bytes(list_whole(graph, part, slices));
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

void expect_room_for_weights(const Graph& graph, const std::string& path, const VariableSlices* slices) {
  const memory::OutputTarget target = memory::find_output_target(path);
  const Bytes bytes = weights_file_bytes(graph, WeightsPart::All, slices);
  if (target.is_direct) return;
  memory::remove_abandoned_files(target);
  expect_disk_room(fmt::format("'{}'", path), target.folder, bytes);
}

void save_weights(VariableAccess& session, Graph& graph, const std::string& path, const SaveOptions& options) {
  session.open();  // first: it finalises the graph, whose lists move then
  const VariableSlices* const slices = options.slices;
  if (slices != nullptr && slices->rank() > 0) {
    if (!slices->is_empty()) send_slices(session, graph, options);
    return;
  }
  const bool replaces = memory::find_output_target(path).is_present;
  write_weights_file(path, list_whole(graph, options.part, slices),
                     write_whole(session, graph, replaces ? fmt::format("; '{}' stays as it was", path) : "", slices),
                     {.steps = session.step_count(), .data_names = options.data_names, .watch = options.watch});
}

LoadedWeights load_weights(VariableAccess& session, Graph& graph, const std::string& path, const LoadOptions& options) {
  const WeightsPart part = options.part;
  if (const std::vector<std::string> paths = list_part_paths(path); paths.size() > 1)
    return load_parts(session, graph, paths, options);
  session.open();  // as in save_weights
  const WeightsReader file(path);
  std::vector<bool> is_there(graph.body().variables().size(), false);
  file.for_each([&](const StoredTensor& stored) {
    if (const graph::Variable* variable = match(graph.body(), options, path, stored))
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
    const graph::Variable* variable = match(graph.body(), options, path, stored);
    if (variable == nullptr) {
      ++loaded.left;
      return;
    }
    ++(variable->role() == VariableRole::Optimiser ? loaded.state : loaded.weights);
    const TensorType type = graph.body().value(variable->value).type;
    const VariableSlices none;
    const VariableSlices& slices = options.slices != nullptr ? *options.slices : none;
    const kernels::RankSlice own = slices.of_rank(slices.rank(), stored.name, at_batch(type.shape, 1));
    session.fill({graph, variable->value}, [&](void* into, Bytes at, Bytes bytes) {
      const int64_t first = at / size_of(type.dtype), count = bytes / size_of(type.dtype);
      const int64_t there = std::clamp<int64_t>(own.count - first, 0, count);
      read_elements(file, stored, own.first + first, there, type.dtype, into);
      if (options.change && type.dtype == DType::F32)
        options.change(stored, own.first + first, {static_cast<float*>(into), static_cast<size_t>(there)});
      std::memset(static_cast<std::byte*>(into) + there * size_of(type.dtype), 0,
                  static_cast<size_t>((count - there) * size_of(type.dtype)));
    });
  });
  return loaded;
}

}  // namespace plimsoll::weights
