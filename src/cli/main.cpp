// The command line: verbs, flags, exit codes.
#include <cstdio>
#include <exception>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "cli/verbs.h"
#include "memory/process.h"

namespace plimsoll::cli {
namespace {

void add_output(CLI::App& app, Arguments& s) { app.add_flag("--json", s.json, "JSON on standard output"); }

void add_memory(CLI::App& app, Arguments& s) {
  app.add_option("-m,--memory", s.memory,
                 "The line: 512MiB, 1G (= 1GiB), 1.5GB (= 10^9), 80% (default: what the surroundings allow)");
}

void add_scratch(CLI::App& app, Arguments& s, const char* what) { app.add_option("--scratch", s.scratch, what); }

// What every plan has: of training and of evaluation.
void add_line(CLI::App& app, Arguments& s) {
  add_memory(app, s);
  app.add_option("--without", s.without,
                 "Levers not to pull: order,in-place,variants,recompute,micro-batch,spill,masks; none takes back")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  add_scratch(app, s,
              "Folder on a disk for temporary files, and for weights, optimiser state and values that the line has no "
              "room for");
  app.add_option("--disk-limit", s.disk_limit, "Of that: 20GiB, 50% (default: what is free there less 1 GiB)");
  add_output(app, s);
  app.add_option("--threads", s.threads, "Threads (default: all); results do not depend on it")
      ->check(CLI::PositiveNumber);
  app.add_flag("--no-remedies", s.no_remedies,
               "When it does not fit: the smallest line alone, no search for other flags");
}

// What only training can do to fit.
void add_training_line(CLI::App& app, Arguments& s) {
  add_line(app, s);
  app.add_option(
         "--split", s.split,
         "Changes results: batch_norm, which mixes samples and so forbids micro-batches, may take each of them for "
         "a batch of its own")
      ->delimiter(',');
  app.add_option("--half-storage", s.half_storage,
                 "Lossy: keep in 16 bits between uses values,state (activations; the optimiser's state)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
}

void add_batch(CLI::App& app, Arguments& s) {
  app.add_option("-b,--batch", s.batch, "Samples in a step (default: the model's)")->check(CLI::PositiveNumber);
}

void add_auto_batch(CLI::App& app, Arguments& s) {
  app.add_flag("--auto-batch", s.auto_batch, "The largest batch that fits the line whole; --batch is then the most");
}

void add_optimiser(CLI::App& app, Arguments& s) {
  app.add_option("--optimizer,--optimiser", s.optimiser, "sgd, adam, adamw, rmsprop")->capture_default_str();
}

void add_model(CLI::App& app, Arguments& s, const char* also = "") {
  app.add_option("model", s.model, fmt::format("Built-in model{}: {}", also, fmt::join(model_names(), ", ")))
      ->required();
  app.add_option("--image-size", s.model_options.image_size, "Height and width of the image");
  app.add_option("--channels", s.model_options.channels, "Channels of the image");
  app.add_option("--classes", s.model_options.classes, "Classes, or words");
  app.add_option("--sequence", s.model_options.sequence, "Positions of a sequence");
  app.add_option("--layers", s.model_options.layers, "Layers");
  app.add_option("--width", s.model_options.width, "Units of a layer");
}

// What a training step has besides the model. A plan does not depend on the rate: it takes the flag, so that the flags
// of a training can be pasted there, and does not list it.
void add_training(CLI::App& app, Arguments& s, bool lists_rate) {
  app.add_option("--dropout", s.model_options.dropout, "Dropout rate");
  add_optimiser(app, s);
  auto* rate =
      app.add_option("--lr", s.learning_rate, "Learning rate (default: that of --weights, else the optimiser's)")
          ->check(CLI::PositiveNumber);
  if (!lists_rate) rate->group("");
  app.add_option("--momentum", s.momentum, "Momentum of sgd and rmsprop");
  app.add_option("--clip", s.global_clip_norm, "Clip gradients to this global norm");
}

void add_data(CLI::App& app, Arguments& s, bool trains) {
  app.add_option("--data", s.data, "Folder with idx or npy files under their usual names");
  if (trains) {
    app.add_option("--train-x", s.train_x, "Training inputs: idx(.gz) or npy(.gz)");
    app.add_option("--train-y", s.train_y, "Training labels");
  }
  app.add_option("--test-x", s.test_x, "Test inputs: idx(.gz) or npy(.gz)");
  app.add_option("--test-y", s.test_y, "Test labels");
}

void add_run(CLI::App& app, Arguments& s) {
  app.add_option("-e,--epochs", s.epochs, "Epochs")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--steps", s.steps, "Stop after so many steps");
  app.add_option("--seed", s.seed, "Of initial weights, dropout and shuffling")->capture_default_str();
  app.add_option("--save", s.save, "Write the weights to this file (safetensors)");
  app.add_option("--progress", s.progress, "auto, bar, line, json, none")->capture_default_str();
}

constexpr const char* kGlossary = R"(
Levers, which make a step fit (--without takes them away, bit-identical unless said):
  order        tasks run in the order with the lowest peak that gives the same numbers
  in place     a result is written over an input that nobody needs any more
  variants     a kernel is run in a form that needs less workspace and more time
  masks        a bit for each element is kept instead of the output of relu or clip
  recompute    values are dropped after a use and computed again before the next
  micro-batch  the batch is cut, and the gradients of the pieces are added: sums are rounded differently
  spill        weights, optimiser state or values wait in a scratch file on a disk (only with --scratch)
Who holds the memory:
  weights, gradients, optimiser  what is trained, its slopes, and the optimiser's own numbers
  activations  values between forward and backward pass
  workspace    temporary memory of one kernel while it runs
  data         batches that are read ahead
  staging      what moves to and from the scratch file
  runtime      the program, its libraries, threads and tables
Numbers:
  line         the bytes that the whole process stays below
  as written   the peak without any lever; unconstrained: the time without a line
  lower bound  no plan of this step can have a lower peak
  micro-batch  so many samples of the batch that are computed at once)";

int run(int argc, char** argv) {
  Arguments s;
  PackArguments pack;
  int exit_code = 0;
  CLI::App app("Plimsoll: training inside a line of memory.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  // Flags put behind a command count more than those in it: remedies are pasted there.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  auto* train = app.add_subcommand("train", "Train a model; prints the plan first");
  add_model(*train, s);
  add_batch(*train, s);
  add_training(*train, s, true);
  add_data(*train, s, true);
  add_run(*train, s);
  add_training_line(*train, s);
  add_auto_batch(*train, s);
  train->add_option("--weights", s.weights, "Start from these weights");
  train->callback([&] { exit_code = run_train(s); });

  auto* eval = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  add_model(*eval, s);
  add_batch(*eval, s);
  add_data(*eval, s, false);
  add_line(*eval, s);
  eval->add_option("--weights", s.weights, "The weights")->required();
  eval->callback([&] { exit_code = run_eval(s); });

  auto* plan = app.add_subcommand("plan", "Tell whether and how training fits, without touching data");
  add_model(*plan, s);
  add_batch(*plan, s);
  add_training(*plan, s, false);
  add_training_line(*plan, s);
  add_auto_batch(*plan, s);
  plan->add_flag("--all", s.all, "Every decision");
  plan->add_flag("--curve", s.curve, "Memory against time at some twenty lines");
  plan->add_option("--dump", s.dump, "Write problem and plan as text to this file");
  plan->footer(kGlossary);
  plan->callback([&] { exit_code = run_plan(s); });

  auto* profile = app.add_subcommand("profile", "Measure where the time of a training step goes, on synthetic data");
  add_model(*profile, s);
  add_batch(*profile, s);
  add_training(*profile, s, false);
  add_training_line(*profile, s);
  add_auto_batch(*profile, s);
  profile->add_option("--steps", s.steps, "Steps to measure (default: 5)")->check(CLI::PositiveNumber);
  profile->add_option("--top", s.top, "Show so many single tasks as well")->check(CLI::NonNegativeNumber);
  profile->add_option("--trace", s.trace, "Write the fastest step as a Chrome or Perfetto trace to this file");
  profile->callback([&] { exit_code = run_profile(s); });

  auto* inspect = app.add_subcommand("inspect", "Show what a model, a weights file or a dumped plan holds");
  add_model(*inspect, s, " or file");
  add_training(*inspect, s, true);
  add_output(*inspect, s);
  inspect->add_flag("--all", s.all, "Every variable");
  inspect->add_flag("--graph", s.graph, "The training graph as text");
  inspect->callback([&] { exit_code = run_inspect(s); });

  auto* doctor = app.add_subcommand("doctor", "Show what this machine offers and what the process itself costs");
  add_memory(*doctor, s);
  add_scratch(*doctor, s, "Folder on a disk to look at");
  doctor->add_flag("--measure", s.measure, "Measure the speed of that disk again, and keep it");
  add_output(*doctor, s);
  doctor->callback([&] { exit_code = run_doctor(s); });

  auto* demo = app.add_subcommand("demo", "Train on Fashion-MNIST under 48 MiB");
  Arguments d;
  d.epochs = 5;
  demo->add_option("-e,--epochs", d.epochs, "Epochs")->check(CLI::PositiveNumber)->capture_default_str();
  demo->add_option("--seed", d.seed, "Seed")->capture_default_str();
  demo->add_option("--data", d.data, "Folder of the data set");
  demo->add_option("--save", d.save, "Write the weights to this file (safetensors)");
  demo->add_option("--progress", d.progress, "auto, bar, line, json, none")->capture_default_str();
  add_batch(*demo, d);
  add_optimiser(*demo, d);
  add_training_line(*demo, d);
  demo->callback([&] {
    complete_demo(d);
    exit_code = run_train(d);
  });

  auto* bench = app.add_subcommand("bench", "Benchmarks");
  bench->require_subcommand(1);
  auto* bench_pack = bench->add_subcommand("pack", "Pack a table of lifetimes and sizes (CSV: id,lower,upper,size)");
  bench_pack->add_option("file", pack.file, "The table")->required();
  bench_pack->add_option("--capacity", pack.capacity, "Fit into this (default: as low as possible)")
      ->check(CLI::PositiveNumber);
  bench_pack->add_option("--out", pack.out, "Write the offsets to this file");
  bench_pack->callback([&] { exit_code = run_bench_pack(pack); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream output, errors;
    const bool is_fine = app.exit(e, output, errors) == 0;
    print_now(stdout, output.str());
    print_error(errors.str());
    return is_fine ? 0 : static_cast<int>(ErrorKind::Usage);
  } catch (const DoesNotFit& e) {
    const train::Purpose purpose = eval->parsed()      ? train::Purpose::Evaluate
                                   : profile->parsed() ? train::Purpose::Profile
                                                       : train::Purpose::Train;
    return refuse(demo->parsed() ? d : s, purpose, e);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Stopped) stop_if_asked();  // says who asked
    throw;
  }
  return exit_code;
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using namespace plimsoll;
  cli::watch_signals();
  tame_allocator();
  int exit_code = 1;
  const auto complain = [](const char* what) {
    std::fflush(stdout);
    cli::print_error(std::string("plimsoll: ") + what + "\n");
  };
  try {
    exit_code = cli::run(argc, argv);
  } catch (const Error& e) {
    complain(e.what());
    exit_code = e.exit_code();
  } catch (const std::bad_alloc&) {
    complain("the machine has no memory left for the engine's own tables");
  } catch (const std::system_error& e) {
    // From fmt::print: the output failed, and what it failed with is told below.
    cli::note_output_failure(e.code().value());
    exit_code = 0;
  } catch (const std::exception& e) {
    complain(e.what());
  }
  return cli::finish_output(exit_code);
}
