#include "train/predict.h"

namespace plimsoll::train {

void predict(Training& training, Inputs& inputs, const TakeOutputs& take, int64_t most_samples) {
  input::BatchFeeds feeds(training.fed, inputs.element());
  inputs.start_epoch(0);
  for (int64_t samples = 0; samples < most_samples;) {
    const ElementView* const batch = inputs.next();
    if (batch == nullptr) break;
    const int64_t count = input::samples_of(*batch);
    take(Results(training.session->run_like(training.predict_step, feeds.of(*batch))), count);
    samples += count;
  }
  inputs.stop();
}

}  // namespace plimsoll::train
