#include "train/no_samples.h"

#include <algorithm>

namespace plimsoll::train {
namespace {

Bytes sample_bytes(const input::FedTensor& fed) {
  return element_count(at_batch(fed.placeholder.shape(), 1)) * size_of(fed.placeholder.dtype());
}

}  // namespace

Bytes ZeroSample::bytes_of(const std::vector<input::FedTensor>& fed) {
  Bytes largest = 0;
  for (const input::FedTensor& one : fed) largest = std::max(largest, sample_bytes(one));
  return round_up(largest, kAlignment);
}

ZeroSample::ZeroSample(const Training& training) : zeros_(static_cast<size_t>(bytes_of(training.fed) / kAlignment)) {
  for (const input::FedTensor& one : training.fed)
    feeds_.emplace_back(one.placeholder, one.placeholder.dtype(), zeros_.data(), sample_bytes(one));
}

}  // namespace plimsoll::train
