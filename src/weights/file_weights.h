// Weights of models that lie in weights files, and a temporary file for those that nobody else holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/model_weights.h"
#include "weights/weights_reader.h"

namespace plimsoll::weights {

// Reads from the file as it was when it was opened, also when another one takes its name since.
class FileWeights final : public graph::WeightSource {
 public:
  // The first of several parts stands for all of them. `keeps` lives as long as this. Throws Error(BadData).
  explicit FileWeights(const std::string& path, std::shared_ptr<const void> keeps = {});

  bool offers(std::string_view name, const TensorType& type) const override;
  void read(std::string_view name, const graph::ModelWeight& weight, Bytes at,
            std::span<std::byte> into) const override;

  const std::string& path() const { return path_; }
  int64_t steps() const { return readers_.front()->steps(); }
  // The tensors of the file that no weight of these has, such as the optimiser's state.
  std::vector<StoredTensor> list_others(const graph::ModelWeights& weights, const std::string& prefix) const;
  void read_all(const StoredTensor& tensor, const graph::PutPiece& put) const;

 private:
  struct Place {
    size_t reader;
    StoredTensor tensor;
  };

  const std::string path_;
  const std::shared_ptr<const void> keeps_;
  std::vector<std::unique_ptr<WeightsReader>> readers_;
  std::unordered_map<std::string, std::vector<Place>> places_;  // slices in order
};

// Writes the newest numbers of these weights to a temporary file, in constant memory, which is a source of them then.
void keep_in_file(std::span<const std::shared_ptr<graph::ModelWeight>> weights);
// The weights among these that have their newest numbers with holders alone.
std::vector<std::shared_ptr<graph::ModelWeight>> list_held(const graph::ModelWeights& weights);

}  // namespace plimsoll::weights
