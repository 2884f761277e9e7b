#include "cli/commands.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <plimsoll/error.h>
#include <plimsoll/version.h>
#include "cli/output.h"

namespace plimsoll::cli {
namespace {

void add_output(CLI::App& app, Arguments& s) { app.add_flag("--json", s.json, "JSON on standard output"); }

void add_memory(CLI::App& app, Arguments& s) {
  app.add_option("-m,--memory", s.memory,
                 "The line: 512MiB, 1G (= 1GiB), 1.5GB (= 10^9), 80% (default: what the machine and its limits allow)");
}

void add_scratch(CLI::App& app, Arguments& s, const char* what) { app.add_option("--scratch", s.scratch, what); }

// Flags of every plan, of training and of evaluation.
void add_line(CLI::App& app, Arguments& s) {
  add_memory(app, s);
  app.add_option(
         "--without", s.without,
         "Levers to switch off: order,in-place,variants,recompute,micro-batch,spill,masks; none switches all on")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  add_scratch(app, s,
              "Folder on a disk for temporary files, and for weights, optimiser state and values that the line has no "
              "room for");
  app.add_option("--disk-limit", s.disk_limit,
                 "Most bytes of the scratch file: 20GiB, 50% (default: the free disk space less 1 GiB)");
  add_output(app, s);
  app.add_option("--threads", s.threads, "Threads (default: all); results do not depend on it")
      ->check(CLI::PositiveNumber);
  app.add_flag("--no-remedies", s.no_remedies,
               "When it does not fit, name the smallest line only and search no other flags");
}

// Flags with which only training can fit.
void add_training_line(CLI::App& app, Arguments& s) {
  add_line(app, s);
  app.add_option("--split", s.split,
                 "Changes results: batch_norm normalises each micro-batch on its own, so that it does not forbid "
                 "micro-batches")
      ->delimiter(',');
  app.add_option("--half-storage", s.half_storage,
                 "Lossy: keep values,state (activations; optimiser state) in 16 bits between uses")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  app.add_option("--policy", s.policy,
                 "Lossy: float32, mixed_float16, mixed_bfloat16: the type in which activations are kept between uses");
  app.add_option("--state-bits", s.state_bits,
                 "Lossy: keep an element of the optimiser's state in 32, 16 or 8 bits (8: adam alone)")
      ->check(CLI::IsMember({32, 16, 8}));
}

void add_batch(CLI::App& app, Arguments& s) {
  app.add_option("-b,--batch", s.batch, "Samples in a step (default: the model's)")->check(CLI::PositiveNumber);
}

void add_auto_batch(CLI::App& app, Arguments& s) {
  app.add_flag("--auto-batch", s.auto_batch,
               "Use the largest batch, up to --batch, that fits the line without micro-batches");
}

void add_optimiser(CLI::App& app, Arguments& s) {
  app.add_option("--optimizer,--optimiser", s.optimiser, "sgd, adam, adamw, rmsprop, lion, adafactor")
      ->capture_default_str();
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

// Flags of a training step besides the model. A plan does not depend on the learning rate: `plan` accepts the flag, so
// that a `train` command line can be reused, and does not list it.
void add_training(CLI::App& app, Arguments& s, bool lists_rate) {
  app.add_option("--dropout", s.model_options.dropout, "Dropout rate");
  add_optimiser(app, s);
  auto* rate =
      app.add_option("--lr", s.learning_rate, "Learning rate (default: that of --weights, else the optimiser's)")
          ->check(CLI::PositiveNumber);
  if (!lists_rate) rate->group("");
  app.add_option("--momentum", s.momentum, "Momentum of sgd and rmsprop");
  app.add_option("--clip", s.global_clip_norm, "Clip gradients to this global norm");
  app.add_option("--accumulate", s.accumulate, "Batches whose gradients are added up for each update of the weights")
      ->check(CLI::PositiveNumber);
}

// A training step that is planned but not trained with.
void add_planned_step(CLI::App& app, Arguments& s) {
  add_model(app, s);
  add_batch(app, s);
  add_training(app, s, false);
  add_training_line(app, s);
  add_auto_batch(app, s);
}

void add_data(CLI::App& app, Arguments& s, bool trains) {
  app.add_option(
      "--data", s.data,
      "Folder of images (a sub-folder for each class), of array files or of TFRecord files; or a CSV, npz or "
      "TFRecord file, or a list of image paths and labels. Sub-folders or files named train and test are its "
      "halves");
  app.add_option("--label", s.label, "Column, feature or array with the labels (default: by its name, else the last)");
  app.add_option("--map", s.map,
                 "Images: resize[:bilinear|area|none] to the model's input, crop[:0.875] the middle part first, flip "
                 "half of the training images, normalise[:MEAN:DEVIATION] (default: of ImageNet for three channels, "
                 "else 0.5:0.5)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  app.add_option("--on-corrupt", s.on_corrupt,
                 "At a sample that can't be read: stop, or skip:N to pass over at most N an epoch (default: stop)");
  app.add_option(
         "--data-threads", s.data_threads,
         "Threads that read and decode images, CSV and TFRecord files, each with memory of its own (default: the "
         "one that fills batches)")
      ->check(CLI::PositiveNumber);
  if (trains) {
    app.add_option("--val", s.validation, "Data to validate with after each epoch (default: the test half of --data)");
    auto* shuffle = app.add_option("--shuffle", s.shuffle_window,
                                   "Shuffle training samples within a window of so many (default: among all)")
                        ->check(CLI::PositiveNumber);
    app.add_flag("--no-shuffle", s.no_shuffle, "Training samples in the order of the data")->excludes(shuffle);
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
  in place     a result is written over an input that no later task reads
  variants     a kernel is run in a form that needs less workspace and more time
  masks        a bit for each element is kept instead of the output of relu or clip
  recompute    values are dropped after a use and recomputed before the next
  micro-batch  the step runs on some samples at a time and adds their gradients: sums are rounded differently
  spill        weights, optimiser state or values are kept in a scratch file on a disk (only with --scratch)
What memory is held for:
  weights, gradients, optimiser  what is trained, its gradients, and the optimiser's state
  activations  values between forward and backward pass
  workspace    temporary memory of one kernel while it runs
  data         batches that are read ahead
  staging      buffers of transfers to and from the scratch file
  runtime      the program, its libraries, threads and tables
Numbers:
  line         the bytes that the whole process stays below
  limit        why the step is slower than without a line, and the next line with a faster plan
  as written   the peak without any lever; unconstrained: the time without a line
  lower bound  no plan of this step can have a lower peak
  micro-batch  the samples of the batch that are computed at once)";

void choose(CLI::App* verb, Command& command, train::Purpose purpose, int (*run)(const Arguments&)) {
  verb->callback([&command, purpose, run] {
    command.purpose = purpose;
    command.run = [&command, run] { return run(command.arguments); };
  });
}

void add_train_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("train", "Train a model; prints the plan first");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_training(*verb, s, true);
  add_data(*verb, s, true);
  add_run(*verb, s);
  add_training_line(*verb, s);
  add_auto_batch(*verb, s);
  verb->add_option("--weights", s.weights, "Start from these weights");
  choose(verb, command, train::Purpose::Train, run_train);
}

void add_eval_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_data(*verb, s, false);
  add_line(*verb, s);
  verb->add_option("--weights", s.weights, "The weights")->required();
  choose(verb, command, train::Purpose::Evaluate, run_eval);
}

void add_plan_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("plan", "Tell whether and how training fits; of --data only its index is read");
  add_planned_step(*verb, s);
  add_data(*verb, s, true);
  verb->add_flag("--all", s.all, "Every decision");
  verb->add_flag("--curve", s.curve, "Memory against time at some twenty lines");
  verb->add_option("--dump", s.dump, "Write problem and plan as text to this file");
  verb->footer(kGlossary);
  choose(verb, command, train::Purpose::Train, run_plan);
}

void add_profile_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb =
      app.add_subcommand("profile", "Measure where the time of a training step goes, on --data or on synthetic data");
  add_planned_step(*verb, s);
  add_data(*verb, s, true);
  verb->add_option("--steps", s.steps, "Steps to measure (default: 5)")->check(CLI::PositiveNumber);
  verb->add_option("--top", s.top, "Show so many single tasks as well")->check(CLI::NonNegativeNumber);
  verb->add_option("--trace", s.trace, "Write the fastest step as a Chrome or Perfetto trace to this file");
  choose(verb, command, train::Purpose::Profile, run_profile);
}

void add_inspect_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("inspect", "Show what a model, a weights file, a dumped plan or data holds");
  add_model(*verb, s, " or file");
  add_training(*verb, s, true);
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every variable");
  verb->add_flag("--graph", s.graph, "The training graph as text");
  choose(verb, command, train::Purpose::Train, run_inspect);
}

void add_doctor_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("doctor", "Show what this machine offers and what the process itself costs");
  add_memory(*verb, s);
  add_scratch(*verb, s, "Folder on a disk to look at");
  verb->add_flag("--measure", s.measure, "Measure the speed of that disk again, and keep it");
  add_output(*verb, s);
  choose(verb, command, train::Purpose::Train, run_doctor);
}

void add_demo_verb(CLI::App& app, Command& command) {
  auto* verb = app.add_subcommand("demo", "Train on Fashion-MNIST under 48 MiB");
  Arguments& d = command.demo;
  d.epochs = 5;
  add_run(*verb, d);
  verb->add_option("--data", d.data, "Folder of the data set");
  add_batch(*verb, d);
  add_optimiser(*verb, d);
  add_training_line(*verb, d);
  verb->callback([&command] {
    command.arguments = command.demo;
    complete_demo(command.arguments);
    command.run = [&command] { return run_train(command.arguments); };
  });
}

void add_bench_verb(CLI::App& app, Command& command) {
  PackArguments& pack = command.pack;
  auto* verb = app.add_subcommand("bench", "Benchmarks");
  verb->require_subcommand(1);
  auto* bench_pack = verb->add_subcommand("pack", "Pack a table of lifetimes and sizes (CSV: id,lower,upper,size)");
  bench_pack->add_option("file", pack.file, "The table")->required();
  bench_pack->add_option("--capacity", pack.capacity, "Fit into this (default: as low as possible)")
      ->check(CLI::PositiveNumber);
  bench_pack->add_option("--out", pack.out, "Write the offsets to this file");
  bench_pack->callback([&command] { command.run = [&command] { return run_bench_pack(command.pack); }; });
}

void add_verbs(CLI::App& app, Command& command) {
  add_train_verb(app, command);
  add_eval_verb(app, command);
  add_plan_verb(app, command);
  add_profile_verb(app, command);
  add_inspect_verb(app, command);
  add_doctor_verb(app, command);
  add_demo_verb(app, command);
  add_bench_verb(app, command);
}

}  // namespace

std::optional<int> parse_command(int argc, char** argv, Command& command) {
  CLI::App app("Plimsoll: training inside a line of memory.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION_TEXT);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  // Flags put behind a command count more than those in it: remedies are pasted there.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_verbs(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream output, errors;
    const bool is_fine = app.exit(e, output, errors) == 0;
    print_now(stdout, output.str());
    print_error(errors.str());
    return is_fine ? 0 : static_cast<int>(ErrorKind::Usage);
  }
  return std::nullopt;
}

}  // namespace plimsoll::cli
