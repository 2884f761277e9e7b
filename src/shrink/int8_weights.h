// The weights of a quantised model, from those of the model that it was made of: tensor by tensor, in bounded memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shrink/int8_rewrite.h"
#include "weights/weights_reader.h"
#include "weights/weights_writer.h"

namespace plimsoll::shrink {

class Int8Weights {
 public:
  static constexpr Bytes kPieceBytes = 4 * MiB;  // of weights at once, or one channel

  // Reads all weights once, for scales and sums of channels. Throws Error(BadData) for a file of another model,
  // BadNumbers for weights that are not finite.
  Int8Weights(const Int8Plan& plan, const std::string& path);

  // Whether the tensor is one of those that quantising makes, by its full name; then writes its bytes.
  bool write(const std::string& name, const weights::PutBytes& put) const;
  // All bytes of a tensor that stays as it is.
  void copy(const std::string& name, const weights::PutBytes& put) const;

 private:
  struct Layer {
    const Int8Unit* unit = nullptr;
    weights::StoredTensor kernel = {};
    int64_t channels = 0, inner = 0;  // inner: weights of one channel
    bool lies_by_channel = true;      // else [inner, channels]
    std::vector<float> steps = {};    // of the weights of each channel
    std::vector<float> scale = {}, offset = {};
  };
  // Calls use(first channel, channels, weights by channel) for pieces of the kernel.
  template <class Use>
  void for_each_piece(const Layer& layer, const Use& use) const;
  Layer make_layer(const Int8Unit& unit) const;
  void fill_numbers(Layer& layer) const;
  const weights::StoredTensor& find(const std::string& name) const;
  std::vector<float> read_numbers(ValueId variable, int64_t count) const;
  std::vector<float> numbers_or(ValueId variable, int64_t count, float otherwise) const;

  const Int8Plan& plan_;
  const std::string path_;
  const weights::WeightsReader file_;
  std::map<std::string, weights::StoredTensor> tensors_;
  struct Part {
    size_t layer;
    enum class Kind : uint8_t { Kernel, Scale, Offset } kind;
  };
  std::vector<Layer> layers_;
  std::map<std::string, Part> parts_;  // by full name
};

}  // namespace plimsoll::shrink
