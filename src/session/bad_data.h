// Error messages for bad data: labels and rows that kernels reported, and inputs that are not finite.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <plimsoll/session.h>
#include "lower/program.h"

namespace plimsoll::session {

struct PlannedStep;

// "sparse_cross_entropy 'loss': label 7 of sample 3 is not in [0, 4)". Samples are numbered within the batch.
std::string describe_bad_value(const kernels::StepStatus& status, const graph::Body& graph, const PlannedStep& planned);

struct BadNumber {
  std::string input;    // the placeholder
  int64_t sample = 0;   // within the batch; -1: the input does not grow with the batch
  int64_t element = 0;  // within the sample
  float value = 0;
};

// The first number among the feeds that is infinite or NaN.
std::optional<BadNumber> find_bad_number(std::span<const Feed> feeds);

// Says why a loss is not finite: Error(BadData) when the batch has such a number, else Error(BadNumbers) that ends with
// `advice`. `when` is "at step 12".
[[noreturn]] void throw_bad_loss(double loss, std::span<const Feed> feeds, std::string_view when,
                                 std::string_view advice);

// The same for the first number of a step that is not finite and the node that wrote it; -1: a change of layout.
[[noreturn]] void throw_bad_number(float value, NodeId node, const graph::Body& graph, std::span<const Feed> feeds,
                                   std::string_view when);

}  // namespace plimsoll::session
