#include "weights/weights_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "kernels/elementwise.h"

namespace plimsoll::weights {
namespace {

constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kOf = "-of-";
constexpr int kMostParts = 1 << 20;

std::string_view without_ending(std::string_view path) {
  return path.ends_with(kEnding) ? path.substr(0, path.size() - kEnding.size()) : path;
}

// Elements that lie in one of the files.
struct Piece {
  size_t file = 0;
  StoredTensor stored;  // without its name
  int64_t first = 0, count = 0;
};

class PartIndex {
 public:
  PartIndex(const graph::Body& graph, const std::vector<std::string>& paths, const LoadOptions& options)
      : graph_(graph), paths_(paths), options_(options), pieces_(graph.variables().size()) {
    for (const std::string& path : paths) files_.push_back(std::make_unique<WeightsReader>(path));
    for (size_t file = 0; file < files_.size(); ++file)
      files_[file]->for_each([&](const StoredTensor& stored) { add(file, stored); });
    for (size_t i = 0; i < pieces_.size(); ++i) expect_whole(i);
  }

  int64_t steps() const { return files_.front()->steps(); }
  int64_t left() const { return left_; }
  bool has(size_t variable) const { return !pieces_[variable].empty(); }

  void read(size_t variable, int64_t first, int64_t count, DType dtype, void* into) const {
    auto* const bytes = static_cast<std::byte*>(into);
    std::memset(bytes, 0, static_cast<size_t>(count * size_of(dtype)));
    for (const Piece& piece : pieces_[variable]) {
      const int64_t begin = std::max(first, piece.first), end = std::min(first + count, piece.first + piece.count);
      if (begin < end)
        read_elements(*files_[piece.file], piece.stored, begin - piece.first, end - begin, dtype,
                      bytes + (begin - first) * size_of(dtype));
    }
  }

 private:
  Dims whole_dims(const graph::Variable& variable) const {
    const Dims* const shared = options_.slices != nullptr ? options_.slices->find(variable.stored->name) : nullptr;
    return shared != nullptr ? *shared : at_batch(graph_.value(variable.value).type.shape, 1);
  }

  void add(size_t file, const StoredTensor& stored) {
    const bool is_known = graph_.has_value(stored.name) &&
                          graph_.value(graph_.find(stored.name)).kind == graph::ValueKind::Variable &&
                          holds(options_.part, graph_.variable_of(graph_.find(stored.name)));
    if (!is_known) {
      ++left_;
      return;
    }
    const graph::Value& value = graph_.value(graph_.find(stored.name));
    const graph::Variable& variable = graph_.variable_of(graph_.find(stored.name));
    const bool converts =
        variable.role() == VariableRole::Optimiser && is_float(stored.dtype) && is_float(value.type.dtype);
    std::vector<Piece>& pieces = pieces_[static_cast<size_t>(value.extra)];
    const Dims whole = whole_dims(variable);
    const bool fits = stored.dims == whole || stored.dims.rank() == 1;
    if ((stored.dtype != value.type.dtype && !converts) || !fits)
      throw Error(
          fmt::format("'{}': tensor '{}' is {}{} but the model has {}{}", paths_[file], stored.name,
                      name_of(stored.dtype), to_string(stored.dims), name_of(value.type.dtype), to_string(whole)),
          ErrorKind::BadData);
    const int64_t first = pieces.empty() ? 0 : pieces.back().first + pieces.back().count;
    pieces.push_back(
        {file, {{}, stored.dtype, stored.dims, stored.offset, stored.bytes}, first, element_count(stored.dims)});
  }

  void expect_whole(size_t i) const {
    const graph::Variable& variable = graph_.variables()[i];
    if (!holds(options_.part, variable)) return;
    const bool is_optimisers = variable.role() == VariableRole::Optimiser;
    if (pieces_[i].empty()) {
      const bool may_miss = (is_optimisers && options_.part == WeightsPart::All) ||
                            (options_.may_miss && options_.may_miss(variable.stored->name));
      if (may_miss) return;
      throw Error(fmt::format("'{}' and its other parts have no tensor '{}': they belong to another {}", paths_.front(),
                              variable.stored->name, is_optimisers ? "optimiser or model" : "model"),
                  ErrorKind::BadData);
    }
    const int64_t count = pieces_[i].back().first + pieces_[i].back().count;
    if (count != element_count(whole_dims(variable)))
      throw Error(fmt::format("'{}' and its other parts have {} elements of tensor '{}' but the model has {}",
                              paths_.front(), count, variable.stored->name, to_string(whole_dims(variable))),
                  ErrorKind::BadData);
  }

  const graph::Body& graph_;
  const std::vector<std::string>& paths_;
  const LoadOptions& options_;
  std::vector<std::unique_ptr<WeightsReader>> files_;
  std::vector<std::vector<Piece>> pieces_;  // by variable
  int64_t left_ = 0;
};

Bytes bytes_of(const StoredTensor& tensor) { return element_count(tensor.dims) * size_of(tensor.dtype); }

}  // namespace

std::string part_path(const std::string& path, int part, int parts) {
  if (parts == 1) return path;
  return fmt::format("{}-{}{}{}{}", without_ending(path), part + 1, kOf, parts, kEnding);
}

std::vector<std::string> list_part_paths(const std::string& path) {
  const std::string_view stem = without_ending(path);
  const size_t of = stem.rfind(kOf);
  if (of == std::string_view::npos || !stem.substr(0, of).ends_with("-1")) return {path};
  const std::string_view digits = stem.substr(of + kOf.size());
  int parts = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), parts);
  if (status != std::errc() || end != digits.data() + digits.size() || parts < 2 || parts > kMostParts) return {path};
  const std::string whole = std::string(stem.substr(0, of - 2)) + std::string(kEnding);
  std::vector<std::string> paths;
  for (int part = 0; part < parts; ++part) paths.push_back(part_path(whole, part, parts));
  return paths;
}

TensorList list_part(const Graph& graph, WeightsPart part, const VariableSlices& slices, kernels::Network& network) {
  return [&graph, part, &slices, &network](const VisitTensor& visit) {
    const TensorList all = list_variables(graph, part);
    Bytes total = 0, before = 0;
    all([&](const StoredTensor& tensor) { total += slices.find(tensor.name) != nullptr ? 0 : bytes_of(tensor); });
    all([&](const StoredTensor& tensor) {
      if (slices.find(tensor.name) != nullptr) {
        const int64_t count = slices.of_rank(network.rank(), tensor.name, tensor.dims).count;
        visit({tensor.name, tensor.dtype, Dims{count}});
        return;
      }
      // Variables that all ranks hold are divided among them by bytes, in their order.
      const auto writer = static_cast<int>(static_cast<double>(before) /
                                           static_cast<double>(std::max<Bytes>(1, total)) * network.size());
      before += bytes_of(tensor);
      if (writer == network.rank()) visit(tensor);
    });
  };
}

void save_part(VariableAccess& session, Graph& graph, const std::string& path, const SaveOptions& options,
               const TensorList& own) {
  session.open();
  const WriteTensor write = write_variables(session, graph);
  write_weights_file(path, own,
                     [&](const StoredTensor& tensor, const PutBytes& put) {
                       Bytes left = tensor.bytes;  // a slice may be shorter than its variable
                       write(tensor, [&](std::span<const std::byte> bytes) {
                         const size_t some = std::min(bytes.size(), static_cast<size_t>(left));
                         left -= static_cast<Bytes>(some);
                         if (some > 0) put(bytes.first(some));
                       });
                     },
                     {.steps = session.step_count(), .data_names = options.data_names, .watch = options.watch});
}

void read_elements(const WeightsReader& file, const StoredTensor& stored, int64_t first, int64_t count, DType dtype,
                   void* into) {
  const Bytes from = stored.offset + first * size_of(stored.dtype);
  if (stored.dtype == dtype) return file.read(from, into, count * size_of(dtype));
  constexpr int64_t kAtOnce = 4096;
  alignas(kAlignment) std::byte narrow[kAtOnce * sizeof(float)];
  alignas(kAlignment) float wide[kAtOnce];
  const kernels::LoadFn load = kernels::load_of(stored.dtype);
  const kernels::StoreFn store = kernels::store_of(dtype);
  for (int64_t at = 0; at < count; at += kAtOnce) {
    const int64_t some = std::min(kAtOnce, count - at);
    file.read(from + at * size_of(stored.dtype), narrow, some * size_of(stored.dtype));
    load(narrow, wide, static_cast<size_t>(some));
    store(wide, static_cast<std::byte*>(into) + at * size_of(dtype), static_cast<size_t>(some));
  }
}

LoadedWeights load_parts(VariableAccess& session, Graph& graph, const std::vector<std::string>& paths,
                         const LoadOptions& options) {
  session.open();
  const PartIndex index(graph.body(), paths, options);
  session.set_step_count(index.steps());
  LoadedWeights loaded{.left = index.left()};
  const VariableSlices none;
  const VariableSlices& slices = options.slices != nullptr ? *options.slices : none;
  for (size_t i = 0; i < graph.body().variables().size(); ++i) {
    if (!index.has(i)) continue;
    const graph::Variable& variable = graph.body().variables()[i];
    ++(variable.role() == VariableRole::Optimiser ? loaded.state : loaded.weights);
    const TensorType& type = graph.body().value(variable.value).type;
    const int64_t first = slices.of_rank(slices.rank(), variable.stored->name, at_batch(type.shape, 1)).first;
    session.fill({graph, variable.value}, [&](void* into, Bytes at, Bytes bytes) {
      index.read(i, first + at / size_of(type.dtype), bytes / size_of(type.dtype), type.dtype, into);
    });
  }
  return loaded;
}

void send_slices(VariableAccess& session, Graph& graph, const SaveOptions& options) {
  session.open();
  const VariableSlices& slices = *options.slices;
  for (const Bytes element : {8, 4, 2, 1})  // as a file has them
    list_variables(graph, options.part)([&](const StoredTensor& tensor) {
      if (size_of(tensor.dtype) != element || slices.find(tensor.name) == nullptr) return;
      const Bytes all = slices.of_rank(slices.rank(), tensor.name, tensor.dims).count * element;
      session.read({graph, graph.body().find(tensor.name)}, [&](std::span<const std::byte> bytes) {
        for (Bytes at = 0; at < all; at += kSentAtOnce)
          slices.network->exchange(0, bytes.data() + at, std::min(kSentAtOnce, all - at), nullptr, 0);
      });
    });
}

void gather_slices(VariableAccess& session, Tensor variable, const StoredTensor& whole, const VariableSlices& slices,
                   const PutBytes& put) {
  const Dims own = at_batch(variable.shape(), 1);
  const Bytes element = size_of(whole.dtype);
  session.read(variable, [&](std::span<const std::byte> bytes) {
    put(bytes.first(static_cast<size_t>(slices.of_rank(0, whole.name, own).count * element)));
  });
  std::array<std::byte, kSentAtOnce> piece;
  for (int rank = 1; rank < slices.ranks(); ++rank) {
    const Bytes all = slices.of_rank(rank, whole.name, own).count * element;
    for (Bytes at = 0; at < all; at += kSentAtOnce) {
      const Bytes bytes = std::min(kSentAtOnce, all - at);
      if (!slices.network->exchange(rank, nullptr, 0, piece.data(), bytes))
        throw Error(fmt::format("rank {} did not send its slice of '{}'", rank, whole.name), ErrorKind::RankLost);
      put({piece.data(), static_cast<size_t>(bytes)});
    }
  }
}

}  // namespace plimsoll::weights
