#include "train/predict.h"

#include "memory/process.h"

namespace plimsoll::train {

void predict(Training& training, Inputs& inputs, const TakeOutputs& take, int64_t most_samples) {
  input::BatchFeeds feeds(training.fed, inputs.element());
  // Reading, computing and writing run different code: near the line their pages do not add up.
  const auto drop_code = [line = training.line->covers_process() ? training.line->limit() : MemoryLine::kUnlimited] {
    memory::drop_code_near(line);
  };
  inputs.start_epoch(0);
  for (int64_t samples = 0; samples < most_samples;) {
    const ElementView* const batch = inputs.next();
    if (batch == nullptr) break;
    const int64_t count = input::samples_of(*batch);
    drop_code();
    const Results results(training.session->run_like(training.predict_step, feeds.of(*batch)));
    drop_code();
    take(results, count);
    samples += count;
  }
  inputs.stop();
}

}  // namespace plimsoll::train
