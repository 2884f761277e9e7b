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
constexpr const char* kDemoData = "/usr/share/datasets/fashion-mnist";
// What a verb fills in where it was not given, before anything runs.
void complete_demo(Arguments& arguments);  // model, line and data
void complete_adapt(Arguments& arguments);
void complete_prune(Arguments& arguments);

// What a verb plans, made of its arguments: by its run, and again by a refusal, which tries it under other lines.
using MakeSpec = train::Spec (*)(const Arguments& arguments);
train::Spec spec_to_train(const Arguments& arguments);
train::Spec spec_to_evaluate(const Arguments& arguments);
train::Spec spec_to_profile(const Arguments& arguments);
train::Spec spec_to_plan(const Arguments& arguments);

// Prints why it does not fit and what works instead: as text on standard error, or as one JSON document with --json.
// Null: the verb plans nothing, so that there is nothing to try.
int refuse(const Arguments& arguments, MakeSpec make_spec, const DoesNotFit& e);
int refuse(const Arguments& arguments, const train::Spec& spec, const DoesNotFit& e);

struct PackArguments {
  std::string file;
  int64_t capacity = 0;  // 0: as low as possible
  std::string out;
};
int run_bench_pack(const PackArguments& arguments);

// SIGINT, SIGTERM, SIGHUP, a closed pipe and a full standard output ask to stop: polled between stages and steps. A
// SIGINT or SIGTERM ends the process at once when it comes a second or more after the first.
void watch_signals();
bool is_stop_asked();
std::string stop_reason();  // "stopped by a signal"
void stop_if_asked();       // throws Error, mostly Stopped
void watch_rank_signals();  // of a rank: SIGUSR1 asks to stop as well
bool is_end_asked();        // by SIGINT or SIGTERM, which mpirun sends before it kills

}  // namespace plimsoll::cli
