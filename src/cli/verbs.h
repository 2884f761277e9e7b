// One function for each verb of the command line; each returns the exit code.
#pragma once

#include <functional>
#include <string>

#include <plimsoll/error.h>
#include "cli/arguments.h"

namespace plimsoll::cli {

constexpr int kIndent = 2;  // of JSON that people may read

int run_train(const Arguments& given);
int run_adapt(const Arguments& arguments);
int run_merge(const Arguments& arguments);
int run_eval(const Arguments& arguments);
int run_predict(const Arguments& arguments);
int run_quantize(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_profile(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_report(const Arguments& arguments);
int run_save(const Arguments& arguments);
int run_prune(const Arguments& arguments);
int run_strip(const Arguments& arguments);
int show_run(const Arguments& arguments, const std::string& path);  // what report and inspect say of a run
// Loads those weights, and the adapters of --adapter, into an open session.
void load_trained(train::Training& training, const std::string& weights, const Arguments& arguments);
void complete_demo(Arguments& arguments);  // model, line and data of the demo, where none were given

// Prints why it does not fit and what works instead: as text on standard error, or as one JSON document with --json.
int refuse(const Arguments& arguments, train::Purpose purpose, const DoesNotFit& e);
// The same for a spec that the verb made of the arguments itself.
int refuse(const Arguments& arguments, const std::function<train::Spec()>& make_spec, const DoesNotFit& e);

struct PackArguments {
  std::string file;
  int64_t capacity = 0;  // 0: as low as possible
  std::string out;
};
int run_bench_pack(const PackArguments& arguments);

// SIGINT, SIGTERM, SIGHUP, a closed pipe and a full standard output ask to stop: polled between stages and steps. A
// second SIGINT or SIGTERM ends the process at once.
void watch_signals();
bool is_stop_asked();
std::string stop_reason();  // "stopped by a signal"
void stop_if_asked();       // throws Error, mostly Stopped
void watch_rank_signals();  // of a rank: SIGUSR1 asks to stop as well
bool is_end_asked();        // by SIGINT or SIGTERM, which mpirun sends before it kills

}  // namespace plimsoll::cli
