// One training step, measured: as a table, as JSON and as a trace.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lower/predict.h"
#include "lower/program.h"
#include "report/exchange_report.h"
#include "report/plan_report.h"

namespace plimsoll::report {

// An action of the plan, or the sum of all that run the same operator.
struct ProfileRow {
  std::string name;  // of the operator
  std::string task;  // of a single task; empty: a sum
  int64_t runs = 0;
  double ns = 0;  // median
  double fastest_ns = 0;
  double predicted_ns = 0;  // as the plan was made
  double flops = 0;
  double bytes = 0;  // that its kernel moves
};

struct Profile {
  std::string model;
  int64_t batch = 1;
  Bytes line_bytes = 0;
  std::vector<ProfileRow> longest;      // single actions of the plan, as many as were asked for
  std::vector<ProfileRow> operators;    // longest first
  std::vector<int64_t> fastest_run_ns;  // of each action of the plan, in the fastest run
  int64_t runs = 0;
  double step_ns = 0;  // median of whole steps
  double fastest_step_ns = 0;
  double slowest_step_ns = 0;
  double predicted_ns = 0;       // by the plan, at the speed of the machine it was made for
  double predicted_here_ns = 0;  // the same work at the peak of this machine
  lower::MachineSpeed peak;      // of this machine
  Bytes planned_bytes = 0;       // of the process
  Bytes measured_bytes = 0;
  DataProfile data;
  std::optional<ExchangeFacts> exchanges;  // with other ranks

  // Predicted share of the step over measured share: 1 is a perfect prediction, whatever the machine's speed.
  double predicted_over_measured(const ProfileRow& row) const;
};

// Describes an action of the plan, with its predicted time; without measured times.
ProfileRow describe_step(const lower::Program& program, const plan::Plan& plan, const plan::Action& step);

// The profile's rows from the times of the plan's actions, one list for each run.
using StepTimes = std::vector<std::vector<int64_t>>;
Profile make_profile(const lower::Program& program, const plan::Plan& plan, const StepTimes& times, size_t most_tasks);

std::string profile_text(const Profile& profile);
std::string profile_json(const Profile& profile, int indent = kOneLine);

// Events for chrome://tracing and Perfetto: a track for each tag of what actions write, and the bytes that each tag
// holds. Written one by one: a deep model has a hundred thousand.
void write_trace(const Profile& profile, const lower::Program& program, const plan::Plan& plan,
                 const std::function<void(std::string_view text)>& write);

}  // namespace plimsoll::report
