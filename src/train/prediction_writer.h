// Predictions as rows of text or as an npy file, batch by batch in constant memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/model.h>
#include <plimsoll/session.h>

namespace plimsoll::train {

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  virtual void write(const View& outputs) = 0;  // of one batch
  virtual void finish() {}                      // on return all rows are in the file
};

struct PredictionFacts {
  int64_t samples = 0;                  // of all batches
  TensorType output = {};               // the first dimension is the batch
  int64_t classes = 0;                  // of the model
  std::vector<std::string> names = {};  // of the classes; empty: they have numbers only
};
// Whether an output is one number for each class, to be read as logits.
bool has_classes(const PredictionFacts& facts);

// The ending of `path` decides: .npy holds the outputs as they are; .csv a row for each sample, with its class and the
// probabilities of all where the model has classes. Throws Error(Usage) for other endings, and for outputs that are no
// rows of numbers.
std::unique_ptr<PredictionWriter> make_prediction_file(const std::string& path, const PredictionFacts& facts);

// Rows of CSV, or JSON lines, handed to `put`.
using PutText = std::function<void(std::string_view text)>;
std::unique_ptr<PredictionWriter> make_prediction_rows(const PutText& put, bool as_json, const PredictionFacts& facts);

}  // namespace plimsoll::train
