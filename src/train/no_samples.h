// One sample of zeros: a rank that has no samples of a batch must still exchange with the others.
#pragma once

#include <span>
#include <vector>

#include <plimsoll/session.h>
#include "train/training.h"

namespace plimsoll::train {

class ZeroSample {
 public:
  // What it takes; planned with the session as EngineOptions::caller_bytes.
  static Bytes bytes_of(const std::vector<input::FedTensor>& fed);

  explicit ZeroSample(const Training& training);
  std::span<const Feed> feeds() const { return feeds_; }

 private:
  struct alignas(kAlignment) Line {
    std::byte bytes[kAlignment];
  };
  std::vector<Line> zeros_;  // all feeds are the same bytes
  std::vector<Feed> feeds_;
};

}  // namespace plimsoll::train
