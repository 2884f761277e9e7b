#include "train/pipeline_weights.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "train/data_names.h"
#include "weights/weights_file.h"

namespace plimsoll::train {
namespace {

constexpr Bytes kPiece = 64 * KiB;

struct OwnedTensor {
  weights::StoredTensor tensor;
  int rank = 0;
  bool is_state = false;  // of the optimiser
};

// A line for each variable: whether it is the optimiser's, its type, its sizes and its name.
std::string list_own(const Training& training) {
  const graph::Body& body = training.graph.body();
  std::string text;
  weights::list_variables(training.graph, weights::WeightsPart::All)([&](const weights::StoredTensor& tensor) {
    const bool is_state = body.variable_of(body.find(tensor.name)).role() == VariableRole::Optimiser;
    text += fmt::format("{} {} {}", is_state ? 1 : 0, static_cast<int>(tensor.dtype), tensor.dims.rank());
    for (const int64_t size : tensor.dims) text += fmt::format(" {}", size);
    text += fmt::format(" {}\n", tensor.name);
  });
  return text;
}

void parse_list(const std::string& text, int rank, std::vector<OwnedTensor>& to) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    OwnedTensor one{.tensor = {}, .rank = rank};
    int is_state = 0, dtype = 0, sizes = 0;
    words >> is_state >> dtype >> sizes;
    for (int i = 0; i < sizes; ++i) {
      int64_t size = 0;
      words >> size;
      one.tensor.dims.push_back(size);
    }
    std::getline(words >> std::ws, one.tensor.name);
    one.tensor.dtype = static_cast<DType>(dtype);
    one.is_state = is_state != 0;
    to.push_back(one);
  }
}

// The variables of all ranks, each once: weights, then the optimiser's.
std::vector<OwnedTensor> list_all(Training& training) {
  std::vector<OwnedTensor> all, merged;
  const std::vector<std::string> texts = training.spec.communicator->gather_texts(list_own(training));
  for (size_t rank = 0; rank < texts.size(); ++rank) parse_list(texts[rank], static_cast<int>(rank), all);
  std::set<std::string> names;
  for (const bool is_state : {false, true})
    for (const OwnedTensor& one : all)
      if (one.is_state == is_state && names.insert(one.tensor.name).second) merged.push_back(one);
  return merged;
}

Bytes bytes_of(const weights::StoredTensor& tensor) { return element_count(tensor.dims) * size_of(tensor.dtype); }

// Gives the numbers of a variable of this rank to `put`, where that is set, and to other ranks.
void give(Training& training, const weights::StoredTensor& tensor, const std::vector<int>& receivers,
          const weights::PutBytes& put) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, std::max<Bytes>(1, bytes_of(tensor)))));
  size_t filled = 0;
  const auto flush = [&] {
    for (const int receiver : receivers)
      if (filled > 0)
        training.spec.communicator->exchange(receiver, piece.data(), static_cast<Bytes>(filled), nullptr, 0);
    filled = 0;
  };
  const weights::WriteTensor read = weights::write_variables(*training.session, training.graph);
  read(tensor, [&](std::span<const std::byte> bytes) {
    if (put) put(bytes);
    while (!bytes.empty() && !receivers.empty()) {
      const size_t count = std::min(bytes.size(), piece.size() - filled);
      std::ranges::copy(bytes.first(count), piece.begin() + static_cast<std::ptrdiff_t>(filled));
      filled += count;
      bytes = bytes.subspan(count);
      if (filled == piece.size()) flush();
    }
  });
  flush();
  training.spec.communicator->expect_good();
}

void receive(Training& training, const OwnedTensor& one, const weights::PutBytes& put) {
  std::vector<std::byte> piece(static_cast<size_t>(kPiece));
  for (Bytes left = bytes_of(one.tensor); left > 0;) {
    const Bytes count = std::min(left, kPiece);
    training.spec.communicator->exchange(one.rank, nullptr, 0, piece.data(), count);
    training.spec.communicator->expect_good();
    put({piece.data(), static_cast<size_t>(count)});
    left -= count;
  }
}

}  // namespace

void save_stage_weights(Training& training, const std::string& path, bool on_all_ranks) {
  const std::vector<OwnedTensor> all = list_all(training);
  const int rank = training.spec.communicator->rank();
  std::vector<int> receivers;
  for (int other = 0; other < training.spec.communicator->size(); ++other)
    if (other != rank && (other == 0 || on_all_ranks)) receivers.push_back(other);
  if (rank > 0 && !on_all_ranks) {
    // In the order in which the file asks for tensors: larger elements first.
    for (const Bytes element : {8, 4, 2, 1})
      for (const OwnedTensor& one : all)
        if (one.rank == rank && size_of(one.tensor.dtype) == element) give(training, one.tensor, receivers, {});
    return;
  }
  std::vector<weights::StoredTensor> tensors;
  for (const OwnedTensor& one : all) tensors.push_back(one.tensor);
  weights::write_weights_file(path, weights::list_of(tensors),
                              [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
                                const auto at = std::ranges::find_if(
                                    all, [&](const OwnedTensor& o) { return o.tensor.name == tensor.name; });
                                at->rank == rank ? give(training, tensor, receivers, put) : receive(training, *at, put);
                              },
                              {.steps = training.session->step_count(), .data_names = data_names_text(training.model)});
}

std::set<std::string> list_held_before(Training& training) {
  std::vector<OwnedTensor> before;
  const std::vector<std::string> texts = training.spec.communicator->gather_texts(list_own(training));
  for (int rank = 0; rank < training.spec.communicator->rank(); ++rank)
    parse_list(texts[static_cast<size_t>(rank)], rank, before);
  std::set<std::string> names;
  for (const OwnedTensor& one : before) names.insert(one.tensor.name);
  return names;
}

}  // namespace plimsoll::train
