// A training on 1 to 1024 ranks, as it is predicted: a table for each way to share its state.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <plimsoll/types.h>
#include "base/sharding.h"

namespace plimsoll::report {

// Predicted for one step.
struct ScaleTime {
  double step_ns = 0;
  double exposed_ns = 0;  // of it, the time that the computation waits for other ranks
  double sent_bytes = 0;  // by one rank
  double efficiency = 0;  // work done in the time of all ranks, against one rank alone
};

struct ScaleRow {
  int64_t ranks = 1;
  int64_t samples = 0;  // of the batch, for one rank; 0: there are more ranks than samples
  Bytes rank_bytes = 0;
  bool fits = true;                      // below the line; if not, `rank_bytes` is what it would need
  std::optional<ScaleTime> strong = {};  // the batch is shared by these ranks; unset: it can't be, or does not fit
  std::optional<ScaleTime> weak = {};    // each rank has as many samples as with the ranks that were asked for
};

struct ScaleBlock {
  Sharding part = Sharding::None;
  std::vector<ScaleRow> rows = {};
  // The first number of ranks for which twice as many shorten the step by less than a quarter. 0: it scales throughout.
  int64_t stops_at = 0;
};

struct ScaleFacts {
  int64_t ranks = 1;         // that were asked for
  int64_t batch = 0;         // of all
  int64_t rank_samples = 0;  // of the batch, for one of them
  Bytes line_bytes = std::numeric_limits<Bytes>::max();
  double bytes_per_s = 0, message_ns = 0;
  std::string network = {};  // the same in words
  std::vector<ScaleBlock> blocks = {};
};

// See ScaleBlock::stops_at.
int64_t find_end_of_scaling(const std::vector<ScaleRow>& rows);

std::string scale_text(const ScaleFacts& facts);
nlohmann::json scale_json(const ScaleFacts& facts);

}  // namespace plimsoll::report
