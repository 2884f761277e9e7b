#include "weights/file_weights.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/temporary_file.h"
#include "weights/weights_parts.h"
#include "weights/weights_writer.h"

namespace plimsoll::weights {

FileWeights::FileWeights(const std::string& path, std::shared_ptr<const void> keeps)
    : path_(path), keeps_(std::move(keeps)) {
  for (const std::string& part : list_part_paths(path)) {
    readers_.push_back(std::make_unique<WeightsReader>(part));
    readers_.back()->for_each([&](const StoredTensor& tensor) {
      places_[tensor.name].push_back({readers_.size() - 1, tensor});
      places_[tensor.name].back().tensor.name = {};
    });
  }
}

bool FileWeights::offers(std::string_view name, const TensorType& type) const {
  const auto at = places_.find(std::string(name));
  if (at == places_.end()) return false;
  const Dims dims = at_batch(type.shape, 1);
  Bytes bytes = 0;
  bool fits = true;
  for (const Place& place : at->second) {
    bytes += place.tensor.bytes;
    fits = fits && place.tensor.dtype == type.dtype && (place.tensor.dims == dims || place.tensor.dims.rank() == 1);
  }
  if (fits && bytes == element_count(dims) * size_of(type.dtype)) return true;
  const StoredTensor& found = at->second.front().tensor;
  throw Error(fmt::format("'{}': tensor '{}' is {}{} but the model has {}{}", path_, name, name_of(found.dtype),
                          to_string(found.dims), name_of(type.dtype), to_string(dims)),
              ErrorKind::BadData);
}

void FileWeights::read(std::string_view name, const graph::ModelWeight& /*weight*/, Bytes at,
                       std::span<std::byte> into) const {
  Bytes begin = 0;
  for (const Place& place : places_.at(std::string(name))) {
    const Bytes from = std::max(at, begin), to = std::min(at + std::ssize(into), begin + place.tensor.bytes);
    if (from < to)
      readers_[place.reader]->read(place.tensor.offset + (from - begin), into.data() + (from - at), to - from);
    begin += place.tensor.bytes;
  }
}

std::vector<StoredTensor> FileWeights::list_others(const graph::ModelWeights& weights,
                                                   const std::string& prefix) const {
  std::vector<StoredTensor> others;
  for (const std::unique_ptr<WeightsReader>& reader : readers_)
    reader->for_each([&](const StoredTensor& tensor) {
      const bool is_weight = tensor.name.starts_with(prefix) &&
                             weights.find(std::string_view(tensor.name).substr(prefix.size())) != nullptr;
      if (!is_weight) others.push_back(tensor);
    });
  return others;
}

void FileWeights::read_all(const StoredTensor& tensor, const graph::PutPiece& put) const {
  alignas(8) std::array<std::byte, 64 * KiB> piece;
  for (const Place& place : places_.at(tensor.name))
    for (Bytes at = 0; at < place.tensor.bytes; at += std::ssize(piece)) {
      const Bytes count = std::min<Bytes>(std::ssize(piece), place.tensor.bytes - at);
      readers_[place.reader]->read(place.tensor.offset + at, piece.data(), count);
      put({piece.data(), static_cast<size_t>(count)});
    }
}

void keep_in_file(std::span<const std::shared_ptr<graph::ModelWeight>> weights) {
  if (weights.empty()) return;
  const auto file = std::make_shared<memory::TemporaryFile>();
  file->create("", "plimsoll-weights");
  const TensorList list = [&](const VisitTensor& visit) {
    for (size_t i = 0; i < weights.size(); ++i)
      visit({fmt::format("{}", i), weights[i]->type().dtype, at_batch(weights[i]->type().shape, 1)});
  };
  write_weights_file(file->path(), list, [&](const StoredTensor& tensor, const PutBytes& put) {
    weights[static_cast<size_t>(std::stoul(tensor.name))]->read(put);
  });
  const auto source = std::make_shared<const FileWeights>(file->path(), file);
  for (size_t i = 0; i < weights.size(); ++i) weights[i]->keep(source, fmt::format("{}", i));
}

std::vector<std::shared_ptr<graph::ModelWeight>> list_held(const graph::ModelWeights& weights) {
  std::vector<std::shared_ptr<graph::ModelWeight>> held;
  weights.for_each([&](const graph::ModelWeights::Member& member) {
    if (member.weight->has_numbers() && !member.weight->is_kept()) held.push_back(member.weight);
  });
  return held;
}

}  // namespace plimsoll::weights
