// What to do when a training does not fit: each way was planned before it is named, and has its price.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <plimsoll/error.h>
#include "train/spec.h"

namespace plimsoll::forecast {

// A changed spec under which a plan was made.
struct PlannedRemedy {
  train::Spec spec;
  std::string what;              // in words
  double slowdown = 1;           // predicted time for a sample over that of the requested step without a line
  bool changes_results = false;  // another batch or optimiser; micro-batches and the disk do not count
  bool is_lossy = false;         // numbers are kept in 16 bits
  Bytes scratch_file_bytes = 0;
};

// Asked before each planning whether it may start: within the first `share` (0 to 1) of the time that the search has.
using MayGoOn = std::function<bool(double share)>;
bool always_goes_on(double share);
// Says no once another planning, if it takes as long as the longest so far, would end after so many seconds from now.
// They are seconds of computation of this thread, so that other programs on the machine change nothing.
MayGoOn within_seconds(double seconds);
double seconds_of_thread();  // of computation, so far

// The same refusal with a smallest line that a plan was made under: what is named is accepted.
Refusal verify_smallest_line(const train::Spec& spec, Refusal refusal, const StopQuestion& is_stop_asked = never_stops);

// Remedies that keep results first, then by price. `not_tried` gets the words for those that there was no time for.
std::vector<PlannedRemedy> find_remedies(const train::Spec& spec, const Refusal& refused,
                                         const MayGoOn& may_go_on = always_goes_on,
                                         const StopQuestion& is_stop_asked = never_stops,
                                         std::vector<std::string>* not_tried = nullptr);

}  // namespace plimsoll::forecast
