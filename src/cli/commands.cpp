#include "cli/commands.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <plimsoll/error.h>
#include <plimsoll/version.h>
#include "cli/adapt_flags.h"
#include "cli/config.h"
#include "cli/flag_rules.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/output_paths.h"
#include "cli/rank_flags.h"
#include "cli/usage.h"

namespace plimsoll::cli {
namespace {

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

constexpr const char* kTrainExamples = R"(Examples:
  plimsoll train fashion --data /usr/share/datasets/fashion-mnist -m 48MiB -e 5
  plimsoll train resnet18 --data flowers/ --map flip -m 512MiB --run runs/1
)";

constexpr const char* kPruneGroup = "Pruning";
constexpr const char* kPruneExamples = R"(Examples:
  plimsoll prune fashion --data /usr/share/datasets/fashion-mnist --epochs 6 \
    --weights fashion.safetensors --from 0.5 --to 0.8 --begin 0 --end 2000 \
    --save-model pruned.plimsoll
  plimsoll strip pruned.plimsoll -o small.plimsoll
)";

using Run = int (*)(const Arguments&);
using Complete = void (*)(Arguments&);

void choose(CLI::App* verb, Command& command, MakeSpec make_spec, Run run, Complete complete = nullptr) {
  verb->callback([verb, &command, make_spec, run, complete] {
    command.make_spec = make_spec;
    command.arguments.given = given_options(*verb);
    if (complete != nullptr) complete(command.arguments);
    command.run = [&command, run] { return run(command.arguments); };
  });
}

// Flags of a run that take memory beside the step.
void add_kept_run(CLI::App* verb, Arguments& s, const char* save_model) {
  start_group(*verb, kStepGroup);
  verb->add_option(
          "--schedule", s.schedule,
          "Learning rate by updates: cosine:steps=1000,warmup=100. Also "
          "exponential:steps=1000,factor=0.9, polynomial:steps=1000,end=1e-4, restarts:steps=1000 (cosine, again "
          "and again), piecewise:1000=0.01,2000=0.001")
      ->option_text("KIND:...");
  add_run(*verb, s, save_model);
  start_group(*verb, kRunGroup);
  auto* weights = verb->add_option("--weights", s.weights, "Start from these weights")->option_text("FILE");
  declare(*verb, weights, {.contradicts_on_line = {"resume"}, .path = PathUse::Reads});
  auto* run = verb->add_option("--run", s.run,
                               "Keep config, metrics and checkpoints here. Also the plan and TensorBoard events");
  declare(*verb, run->option_text("DIR"), {.path = PathUse::WritesRun, .may_replace = {"config"}});
  verb->add_option("--early-stopping", s.early_stopping,
                   "Stop after N epochs without a better val_loss. val_accuracy:N watches another number. The best "
                   "weights are those "
                   "that are saved")
      ->option_text("N");
  start_group(*verb, kRunGroup, Listing::Rare);
  const FlagRule of_run{.needs = {"run"}};
  auto* every = verb->add_option(
      "--checkpoint-every", s.checkpoint_every,
      "With --run: write a checkpoint every 500 steps, 2epochs, 30s, 10min (default: after each epoch)");
  declare(*verb, every->option_text("N|TIME"), of_run);
  declare(*verb, verb->add_option("--keep", s.keep, "With --run: checkpoints that are kept (default: 3)"), of_run);
  verb->add_flag("--debug-nan", s.debug_nan,
                 "When a number is not finite, name the first operator that wrote one; slower: looks at all values");
  auto* histograms = verb->add_option("--histograms", s.histogram_epochs,
                                      "With --run: distributions of the weights as events, after every so many epochs");
  declare(*verb, histograms, of_run);
}

// Flags of a training, which `train`, `prune` and `adapt` share.
CLI::App* add_training_flags(CLI::App* verb, Arguments& s, const char* save_model = "-o,--save-model") {
  add_model(*verb, s);
  add_batch(*verb, s);
  add_training(*verb, s, true);
  add_training_line(*verb, s);
  add_auto_batch(*verb, s);
  add_data(*verb, s, true);
  add_kept_run(verb, s, save_model);
  start_group(*verb, kRunGroup);
  auto* resume = verb->add_flag("--resume", s.resume, "Go on from the newest checkpoint of --run, with its config");
  declare(*verb, resume, {.needs = {"run"}});
  add_config(*verb, s);
  add_output(*verb, s);
  return verb;
}

void add_output_directory(CLI::App& verb, Arguments& s, const char* what) {
  auto* output = verb.add_option("-o,--output", s.output, what)->required();
  declare(verb, output->option_text("DIR"), {.path = PathUse::WritesModel});
}

void add_train_verb(CLI::App& app, Command& command) {
  auto* verb =
      add_training_flags(add_verb(app, "train", "train a model; the plan is printed first"), command.arguments);
  add_rank_flags(*verb, command.arguments);
  verb->footer(kTrainExamples);
  choose(verb, command, spec_to_train, run_train);
}

void add_prune_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  Pruning& pruning = s.pruning;
  auto* verb = add_verb(app, "prune", "train a model while its small weights become zero, by a schedule");
  add_training_flags(verb, s);
  verb->remove_option(verb->get_option("--prune"));  // the flags below say it
  start_group(*verb, kPruneGroup);
  const auto add = [&](const char* flag, auto& number, const char* what, double least) {
    declare(*verb, verb->add_option(flag, number, what)->capture_default_str(), from(least));
  };
  add("--to", pruning.to, "Share of zeros in each weight", 0);
  auto* start =
      verb->add_option("--from", pruning.from, "Share of zeros at step --begin, rising to --to at step --end");
  declare(*verb, start, from(0));
  add("--begin", pruning.begin, "First step that prunes", 0);
  add("--end", pruning.end, "Last step that prunes; -1: no last one", -1);
  verb->add_option("--frequency", pruning.frequency, "Choose weights again each so many steps")->capture_default_str();
  verb->add_option("--layer", pruning.layers,
                   "Layers to prune, by name; * and ? stand for others (default: dense and convolution layers)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->option_text("NAME,...");
  start_group(*verb, kPruneGroup, Listing::Rare);
  auto* power = verb->add_option("--power", pruning.power, "Exponent of the rise from --from to --to");
  declare(*verb, power->capture_default_str(), {.needs = {"from"}});
  verb->add_option("--block-height", pruning.block_height, "Height of blocks of a matrix, kept or not as a whole");
  verb->add_option("--block-width", pruning.block_width, "Width of these blocks");
  auto* largest = verb->add_flag_callback(
      "--largest", [&] { pruning.pool = Pruning::Pool::Largest; },
      "Judge a block by its largest weight (default: by the mean)");
  declare(*verb, largest, {.needs = {"block-height|block-width"}});
  auto* two_of_four =
      verb->add_flag("--two-of-four", pruning.two_of_four, "Instead of a schedule: two of each four weights are zero");
  declare(*verb, two_of_four,
          {.contradicts = {"to", "from", "begin", "end", "frequency", "power", "block-height", "block-width"}});
  verb->footer(kPruneExamples);
  choose(verb, command, spec_to_train, run_prune, complete_prune);
}

void add_strip_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "strip", "store the pruned weights of a model directory as masks and values");
  declare(*verb, verb->add_option("model", s.model, "The directory of the pruned model")->required(),
          {.path = PathUse::Reads});
  add_output_directory(*verb, s, "The directory to write");
  add_memory(*verb, s);
  add_output(*verb, s);
  choose(verb, command, nullptr, run_strip);
}

void add_adapt_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_training_flags(
      add_verb(app, "adapt", "train adapters (LoRA) beside the weights of a model, which stay as they are"), s,
      "--save-model");
  add_trained_adapter_flag(*verb, s);
  expect_adapters(*verb);
  start_group(*verb, kRunGroup);
  auto* output = verb->add_option("-o,--output", s.output, "Write the adapters to this folder (PEFT's format)");
  declare(*verb, output->option_text("DIR"), {.path = PathUse::WritesAdapters, .may_replace = {"adapter"}});
  choose(verb, command, spec_to_train, run_adapt, complete_adapt);
}

void add_merge_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "merge", "add adapters into the weights that they stand beside");
  add_model(*verb, s);
  add_memory(*verb, s);
  add_weights(*verb, s);
  add_trained_adapter_flag(*verb, s);
  verb->get_option("--adapter")->required();
  start_group(*verb, kRunGroup);
  add_output_directory(*verb, s, "Write the merged model to this folder");
  add_output(*verb, s);
  choose(verb, command, nullptr, run_merge);
}

void add_eval_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "eval", "loss and accuracy of saved weights");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_line(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  add_trained_adapter_flag(*verb, s);
  add_config(*verb, s);
  add_output(*verb, s);
  choose(verb, command, spec_to_evaluate, run_eval);
}

void add_predict_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "predict", "what saved weights make of data: classes and probabilities, or outputs");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_line(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  add_trained_adapter_flag(*verb, s);
  start_group(*verb, kRunGroup);
  auto* output = verb->add_option(
      "-o,--output", s.output,
      "Write outputs to FILE.npy, or classes and probabilities to FILE.csv (default: CSV on standard output)");
  declare(*verb, output->option_text("FILE"), {.path = PathUse::WritesFile});
  add_config(*verb, s);
  add_output(*verb, s);
  verb->preparse_callback([&s](size_t) { s.predicts = true; });
  choose(verb, command, spec_to_evaluate, run_predict);
}

void add_plan_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "plan", "tell whether and how training fits; of --data only its index is read");
  add_planned_step(*verb, s);
  add_data(*verb, s, true);
  add_paper_rank_flags(*verb, s);
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every decision");
  auto* curve = verb->add_flag("--curve", s.curve, "Memory against time at some twenty lines");
  declare(*verb, curve, {.contradicts = {"all", "dump", "replicas", "pipeline", "memory"}});
  auto* dump = verb->add_option("-o,--dump", s.dump, "Write problem and plan as text to this file");
  declare(*verb, dump->option_text("FILE"), {.contradicts = {"pipeline"}, .path = PathUse::WritesFile});
  add_pipeline_flags(*verb, s);
  // What `train` keeps takes memory too: the flags of its command line count in the plan, and are not listed again.
  const std::vector<CLI::Option*> listed = verb->get_options();
  add_kept_run(verb, s, "--save-model");
  for (CLI::Option* option : verb->get_options())
    if (std::ranges::find(listed, option) == listed.end()) option->group("");
  verb->footer(kGlossary);
  choose(verb, command, spec_to_plan, run_plan);
}

void add_profile_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb =
      add_verb(app, "profile", "measure where the time of a training step goes, on --data or on synthetic data");
  add_planned_step(*verb, s);
  add_data(*verb, s, true);
  add_rank_number_flags(*verb, s);
  add_output(*verb, s);
  verb->add_option("--steps", s.steps, "Steps to measure (default: 5)");
  declare(*verb, verb->add_option("--top", s.top, "Show so many single tasks as well"), from(0));
  auto* trace =
      verb->add_option("-o,--trace", s.trace, "Write the fastest step as a Chrome or Perfetto trace to this file");
  declare(*verb, trace->option_text("FILE"), {.path = PathUse::WritesFile});
  choose(verb, command, spec_to_profile, run_profile);
}

void add_inspect_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "inspect", "show what a model, a weights file, a dumped plan or data holds");
  add_model(*verb, s, ", a file");
  add_training(*verb, s, true);
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every variable");
  verb->add_flag("--graph", s.graph, "The training graph as text");
  choose(verb, command, nullptr, run_inspect);
}

void add_report_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "report", "show the config, plan, epochs and checkpoints of a run (train --run)");
  declare(*verb, verb->add_option("run", s.run, "The folder of the run")->required(), {.path = PathUse::Reads});
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every epoch");
  choose(verb, command, nullptr, run_report);
}

void add_save_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "save", "make a model directory of a built-in model, or of a run, and its weights");
  add_model(*verb, s);
  add_data(*verb, s, false);
  for (const char* flag : {"--on-corrupt", "--data-threads"})
    verb->remove_option(verb->get_option(flag));  // of samples
  add_weights(*verb, s);
  auto* run = verb->add_option("--run", s.run, "Model, options and weights of this run (train --run)");
  declare(*verb, run->option_text("DIR"), {.contradicts = {"weights"}, .path = PathUse::Reads});
  auto* which =
      verb->add_option("--which", s.which, "Weights of the run's best epoch, or its last (default: the best)");
  declare(*verb, which->check(CLI::IsMember({"best", "last"}))->option_text("best|last"), {.needs = {"run"}});
  add_output_directory(*verb, s, "The directory to write");
  add_output(*verb, s);
  verb->preparse_callback([&s](size_t) { s.predicts = true; });
  choose(verb, command, nullptr, run_save);
}

void add_quantize_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb =
      add_verb(app, "quantize", "make a model of 8 bits of a trained one: for inference, a quarter of its bytes");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_line(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  verb->add_option("--calibration", s.calibration, "How ranges follow from the data")
      ->check(CLI::IsMember({"minmax", "percentile", "entropy"}))
      ->option_text("minmax|percentile|entropy");
  verb->add_option("--samples", s.samples, "Look at so many samples at most (default: 512)")->option_text("N");
  verb->add_flag("--all", s.all, "Every layer, also where f32 is predicted to be faster");
  verb->add_flag("--portable", s.portable, "Weights within [-64, 63], which processors without VNNI multiply exactly");
  add_output_directory(*verb, s, "The directory to write");
  add_output(*verb, s);
  verb->preparse_callback([&s](size_t) { s.predicts = true; });
  choose(verb, command, nullptr, run_quantize);
}

void add_doctor_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_verb(app, "doctor", "show what this machine offers and what the process itself costs");
  add_memory(*verb, s);
  add_scratch(*verb, s, "Folder on a disk to look at");
  verb->add_flag("--measure", s.measure, "Measure the speed of that disk again, and keep it");
  add_output(*verb, s);
  choose(verb, command, nullptr, run_doctor);
}

void add_demo_verb(CLI::App& app, Command& command) {
  auto* verb = add_verb(app, "demo", "train on Fashion-MNIST under 48 MiB");
  Arguments& d = command.demo;
  d.epochs = 5;
  add_batch(*verb, d);
  add_optimiser(*verb, d);
  add_training_line(*verb, d);
  start_group(*verb, kDataGroup);
  auto* data = verb->add_option("--data", d.data, "Folder of the data set")->option_text("DIR");
  declare(*verb, data->default_str(kDemoData), {.path = PathUse::ReadsData});
  add_run(*verb, d, "-o,--save-model");
  add_output(*verb, d);
  verb->callback([&command] {
    command.arguments = command.demo;
    command.make_spec = spec_to_train;
    complete_demo(command.arguments);
    command.run = [&command] { return run_train(command.arguments); };
  });
}

void add_bench_verb(CLI::App& app, Command& command) {
  PackArguments& pack = command.pack;
  auto* verb = add_verb(app, "bench", "benchmarks");
  verb->require_subcommand(1);
  auto* bench_pack = add_verb(*verb, "pack", "pack a table of lifetimes and sizes (CSV: id,lower,upper,size)");
  declare(*bench_pack, bench_pack->add_option("file", pack.file, "The table")->required(), {.path = PathUse::Reads});
  bench_pack->add_option("--capacity", pack.capacity, "Fit into this (default: as low as possible)");
  declare(*bench_pack, bench_pack->add_option("-o,--out", pack.out, "Write the offsets to this file"),
          {.path = PathUse::WritesFile});
  bench_pack->callback([&command] { command.run = [&command] { return run_bench_pack(command.pack); }; });
}

void add_verbs(CLI::App& app, Command& command) {
  add_train_verb(app, command);
  add_adapt_verb(app, command);
  add_merge_verb(app, command);
  add_eval_verb(app, command);
  add_predict_verb(app, command);
  add_plan_verb(app, command);
  add_profile_verb(app, command);
  add_inspect_verb(app, command);
  add_report_verb(app, command);
  add_save_verb(app, command);
  add_prune_verb(app, command);
  add_strip_verb(app, command);
  add_quantize_verb(app, command);
  add_doctor_verb(app, command);
  add_demo_verb(app, command);
  add_bench_verb(app, command);
}

// All verbs with their flags, and the parsed command.
class Parser {
 public:
  explicit Parser(Command& command) {
    app_.set_version_flag("--version", PLIMSOLL_VERSION_TEXT, "The version");
    app_.set_help_all_flag("--help-all", "Every flag");
    app_.require_subcommand(1);
    app_.formatter(std::make_shared<HelpFormatter>());
    // A later flag overrides an earlier one: remedies are flags to be appended to the command.
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_verbs(app_, command);
    guard_numbers(app_);
  }

  const CLI::App& app() const { return app_; }
  // The verb of the command line that was parsed.
  const CLI::App& verb() const {
    const CLI::App* verb = &app_;
    while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().back();
    return *verb;
  }

  void parse(std::vector<std::string> words) {
    std::ranges::reverse(words);  // as CLI11 takes them
    app_.parse(words);
  }
  // The same without required arguments: the config file may have them.
  const CLI::App& parse_some(const std::vector<std::string>& words) {
    for (CLI::App* verb : app_.get_subcommands({}))
      for (CLI::Option* option : verb->get_options()) option->required(false);
    parse(words);
    return *app_.get_subcommands().back();
  }

 private:
  CLI::App app_{"training inside a line of memory", "plimsoll"};
};

int answer(const CLI::App& app, const CLI::ParseError& e, const std::string& config) {
  std::ostringstream output, errors;
  if (app.exit(e, output, errors) == 0) {
    print_now(stdout, output.str());
    return 0;
  }
  const std::string origin = config.empty() ? "" : fmt::format("with the options of '{}': ", config);
  print_error(fmt::format("plimsoll: {}{}\n", origin, describe_misuse(app, e)));
  return static_cast<int>(ErrorKind::Usage);
}

}  // namespace

std::optional<int> parse_command(int argc, char** argv, Command& command) {
  std::vector<std::string> words(argv + 1, argv + argc);
  command.arguments.words = command.demo.words = words;
  const std::string config = find_config(words);
  if (!config.empty()) {
    Command unused;
    Parser parser(unused);
    try {
      const CLI::App& verb = parser.parse_some(words);
      check_rules_on_line(verb);
      std::vector<const CLI::App*> others;
      for (const char* name : {"adapt", "train", "prune"}) others.push_back(parser.app().get_subcommand(name));
      const std::vector<std::string> more = config_words(config, verb, others);
      command.arguments.flag_rate = unused.arguments.learning_rate;
      words.insert(std::ranges::find(words, verb.get_name()) + 1, more.begin(), more.end());
    } catch (const CLI::ParseError& e) {
      return answer(parser.app(), e, "");
    }
  }
  Parser parser(command);
  try {
    parser.parse(words);
    check_rules(parser.verb());
  } catch (const CLI::ParseError& e) {
    return answer(parser.app(), e, config);
  }
  check_paths(paths_of(parser.verb()));
  return std::nullopt;
}

}  // namespace plimsoll::cli
