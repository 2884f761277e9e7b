// One function for each verb of the command line; each returns the exit code.
#pragma once

#include "cli/settings.h"

namespace plimsoll::cli {

int run_train(const Settings& settings);
int run_eval(const Settings& settings);
int run_plan(const Settings& settings);
int run_profile(const Settings& settings);
int run_curve(const Settings& settings);
int run_doctor(const Settings& settings);
int run_inspect(const Settings& settings);
int inspect_plan(const Settings& settings);  // a file that plan --dump wrote
void complete_demo(Settings& settings);      // model, line and data of the demo, where none were given

struct PackSettings {
  std::string file;
  int64_t capacity = 0;  // 0: as low as possible
  std::string out;
};
int run_bench_pack(const PackSettings& settings);

// SIGINT, SIGTERM, SIGHUP, a closed pipe and a full standard output ask to stop: polled between stages and steps. A
// second SIGINT or SIGTERM ends the process at once.
void watch_signals();
bool is_stop_asked();
std::string stop_reason();  // "stopped by a signal"
void stop_if_asked();       // throws Error, mostly Stopped

}  // namespace plimsoll::cli
