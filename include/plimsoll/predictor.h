// Loads a stored model and runs inference; also in a build without training (PLIMSOLL_INFERENCE_ONLY).
//
//   Predictor net("small.plimsoll", MemoryLine::process("12MiB"));
//   std::span<const float> answers = net.predict(image).floats();
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/memory_line.h>
#include <plimsoll/session.h>

namespace plimsoll {

struct PredictorOptions {
  // Batch norms are folded into the weights of the convolution or dense layer before them while these are read. Answers
  // then differ from those of Model::predict by rounding; false: they are the same bits.
  bool folds_norms = true;
};

class Predictor {
 public:
  // Reads the directory of a model, plans its step for so many samples at a time, and takes the memory. Throws
  // Error(BadData) for what is damaged or no model, DoesNotFit.
  Predictor(const std::string& path, const MemoryLine& line, int64_t batch = 1, const PredictorOptions& options = {});
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;
  ~Predictor();

  const std::vector<std::string>& inputs() const;   // names, in the order in which they are fed
  const std::vector<std::string>& outputs() const;  // names, in the order of the results
  int64_t batch() const;
  // Elements of an input for the whole batch, row-major; and its placeholder, for feeds of another type than f32.
  int64_t input_elements(size_t input = 0) const;
  Tensor input(size_t input = 0) const;

  // The first output, for a model of one input. It stays where it is until the next call.
  View predict(std::span<const float> numbers);
  Results predict(std::span<const Feed> feeds);

 private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace plimsoll
