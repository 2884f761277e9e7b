// The input of a training: what the data is, and what each stage of its pipeline holds and does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/forecast.h>
#include <plimsoll/types.h>

namespace plimsoll::report {

struct InputFacts {
  std::string path;  // empty: the plan knows of no data
  std::string kind;  // "a CSV file"
  std::string fields;
  int64_t elements = 0;
  int64_t test_elements = 0;  // 0: there is no test half
  std::vector<std::string> classes;
  std::vector<StageReport> stages;  // from the source on
};

// "flowers: a folder of images, 3,670 elements of x u8[3,64,64], y i64[]; 5 classes: daisy, ...": one line.
std::string data_text(const InputFacts& facts);
// "prefetch() 2.1 MiB · read(...) 8.3 MiB": stages that hold memory, from the source on.
std::string stages_text(const std::vector<StageReport>& stages);

// What one measured run of steps did for its data.
struct DataProfile {
  std::vector<StageReport> stages;  // empty: the data was synthetic
  int64_t waited_ns = 0;            // by the steps, for batches
  int64_t all_ns = 0;               // of the run
  double waiting_share() const { return all_ns > 0 ? static_cast<double>(waited_ns) / static_cast<double>(all_ns) : 0; }
};
std::string data_profile_text(const DataProfile& profile);

}  // namespace plimsoll::report
