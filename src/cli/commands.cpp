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
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output.h"
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
  plimsoll train fashion --data /usr/share/datasets/fashion-mnist --memory 48MiB --epochs 5
  plimsoll train resnet18 --data flowers/ --map flip,normalise -m 512MiB --run runs/1
)";

constexpr const char* kPruneGroup = "Pruning";
constexpr const char* kPruneExamples = R"(Examples:
  plimsoll prune fashion --data /usr/share/datasets/fashion-mnist --weights fashion.safetensors --from 0.5 --to 0.8 \
    --begin 0 --end 2000 --epochs 6 --save-model pruned.plimsoll
  plimsoll strip pruned.plimsoll -o small.plimsoll
)";

void choose(CLI::App* verb, Command& command, train::Purpose purpose, int (*run)(const Arguments&)) {
  verb->callback([verb, &command, purpose, run] {
    command.purpose = purpose;
    command.arguments.given = given_options(*verb);
    command.run = [&command, run] { return run(command.arguments); };
  });
}

// Flags of a training, which `train`, `prune` and `adapt` share.
CLI::App* add_training_flags(CLI::App* verb, Arguments& s) {
  add_model(*verb, s);
  add_batch(*verb, s);
  add_training(*verb, s, true);
  start_group(*verb, kStepGroup);
  verb->add_option(
          "--schedule", s.schedule,
          "Learning rate by updates: cosine:steps=1000,warmup=100. Also "
          "exponential:steps=1000,factor=0.9, polynomial:steps=1000,end=1e-4, restarts:steps=1000 (cosine, again "
          "and again), piecewise:1000=0.01,2000=0.001")
      ->option_text("KIND:...");
  add_training_line(*verb, s);
  add_auto_batch(*verb, s);
  add_data(*verb, s, true);
  add_run(*verb, s);
  start_group(*verb, kRunGroup);
  verb->add_option("--weights", s.weights, "Start from these weights")->option_text("FILE");
  verb->add_option("--run", s.run, "Keep config, plan, metrics, checkpoints and TensorBoard events here")
      ->option_text("DIR");
  verb->add_flag("--resume", s.resume, "Go on from the newest good checkpoint of --run, with its config");
  verb->add_option(
          "--early-stopping", s.early_stopping,
          "Stop after N epochs without a better val_loss, or val_accuracy:N. The best weights are those that are saved")
      ->option_text("N");
  add_config(*verb, s);
  add_output(*verb, s);
  start_group(*verb, kRunGroup, Listing::Rare);
  verb->add_option("--checkpoint-every", s.checkpoint_every,
                   "With --run: write a checkpoint every 500 steps, 2epochs, 30s, 10min (default: after each epoch)")
      ->option_text("N|TIME");
  verb->add_option("--keep", s.keep, "With --run: checkpoints that are kept (default: 3)")->check(positive_number());
  verb->add_flag("--debug-nan", s.debug_nan,
                 "When a number is not finite, name the first operator that wrote one; slower: looks at all values");
  verb->add_option("--histograms", s.histogram_epochs,
                   "With --run: distributions of the weights as events, after every so many epochs")
      ->check(positive_number());
  return verb;
}

void add_train_verb(CLI::App& app, Command& command) {
  auto* verb =
      add_training_flags(app.add_subcommand("train", "train a model; the plan is printed first"), command.arguments);
  add_rank_flags(*verb, command.arguments);
  verb->footer(kTrainExamples);
  choose(verb, command, train::Purpose::Train, run_train);
}

void add_prune_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  Pruning& pruning = s.pruning;
  auto* verb = app.add_subcommand("prune", "train a model while its small weights become zero, by a schedule");
  add_training_flags(verb, s);
  start_group(*verb, kPruneGroup);
  verb->add_option("--to", pruning.to, "Share of zeros in each weight")->capture_default_str();
  verb->add_option("--from", pruning.from, "Share of zeros at step --begin, rising to --to at step --end");
  verb->add_option("--begin", pruning.begin, "First step that prunes")->capture_default_str();
  verb->add_option("--end", pruning.end, "Last step that prunes; -1: no last one")->capture_default_str();
  verb->add_option("--frequency", pruning.frequency, "Choose weights again each so many steps")->capture_default_str();
  verb->add_option("--layer", pruning.layers,
                   "Layers to prune, by name; * and ? stand for others (default: dense and convolution layers)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->option_text("NAME,...");
  start_group(*verb, kPruneGroup, Listing::Rare);
  verb->add_option("--power", pruning.power, "Exponent of the rise from --from to --to")->capture_default_str();
  verb->add_option("--block-height", pruning.block_height, "Height of blocks of a matrix, kept or not as a whole");
  verb->add_option("--block-width", pruning.block_width, "Width of these blocks");
  verb->add_flag_callback(
      "--largest", [&] { pruning.pool = Pruning::Pool::Largest; },
      "Judge a block by its largest weight (default: by the mean)");
  verb->add_flag("--two-of-four", pruning.two_of_four, "Instead of a schedule: two of each four weights are zero");
  verb->footer(kPruneExamples);
  choose(verb, command, train::Purpose::Train, run_prune);
}

void add_strip_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("strip", "store the pruned weights of a model directory as masks and values");
  verb->add_option("model", s.model, "The directory of the pruned model")->required();
  verb->add_option("-o,--output", s.output, "The directory to write")->required()->option_text("DIR");
  add_memory(*verb, s);
  add_output(*verb, s);
  choose(verb, command, train::Purpose::Evaluate, run_strip);
}

void add_adapt_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = add_training_flags(
      app.add_subcommand("adapt", "train adapters (LoRA) beside the weights of a model, which stay as they are"), s);
  add_trained_adapter_flag(*verb, s);
  start_group(*verb, kRunGroup);
  verb->add_option("--output", s.output, "Write the adapters to this folder (PEFT's format)")->option_text("DIR");
  choose(verb, command, train::Purpose::Train, run_adapt);
}

void add_merge_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("merge", "add adapters into the weights that they stand beside");
  add_model(*verb, s);
  add_memory(*verb, s);
  add_weights(*verb, s);
  add_trained_adapter_flag(*verb, s);
  verb->get_option("--adapter")->required();
  start_group(*verb, kRunGroup);
  verb->add_option("--output", s.output, "Write the merged model to this folder")->required()->option_text("DIR");
  add_output(*verb, s);
  choose(verb, command, train::Purpose::Evaluate, run_merge);
}

void add_eval_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("eval", "loss and accuracy of saved weights");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_line(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  add_trained_adapter_flag(*verb, s);
  add_config(*verb, s);
  add_output(*verb, s);
  choose(verb, command, train::Purpose::Evaluate, run_eval);
}

void add_predict_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("predict", "what saved weights make of data: classes and probabilities, or outputs");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_line(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  add_trained_adapter_flag(*verb, s);
  start_group(*verb, kRunGroup);
  verb->add_option(
          "--output", s.output,
          "Write outputs to FILE.npy, or classes and probabilities to FILE.csv (default: CSV on standard output)")
      ->option_text("FILE");
  add_config(*verb, s);
  add_output(*verb, s);
  verb->preparse_callback([&s](size_t) { s.predicts = true; });
  choose(verb, command, train::Purpose::Evaluate, run_predict);
}

void add_plan_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("plan", "tell whether and how training fits; of --data only its index is read");
  add_planned_step(*verb, s);
  add_data(*verb, s, true);
  add_paper_rank_flags(*verb, s);
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every decision");
  verb->add_flag("--curve", s.curve, "Memory against time at some twenty lines");
  verb->add_option("--dump", s.dump, "Write problem and plan as text to this file")->option_text("FILE");
  add_pipeline_flags(*verb, s);
  verb->footer(kGlossary);
  choose(verb, command, train::Purpose::Train, run_plan);
}

void add_profile_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb =
      app.add_subcommand("profile", "measure where the time of a training step goes, on --data or on synthetic data");
  add_planned_step(*verb, s);
  add_data(*verb, s, true);
  add_rank_number_flags(*verb, s);
  add_output(*verb, s);
  verb->add_option("--steps", s.steps, "Steps to measure (default: 5)")->check(positive_number());
  verb->add_option("--top", s.top, "Show so many single tasks as well")->check(CLI::NonNegativeNumber);
  verb->add_option("--trace", s.trace, "Write the fastest step as a Chrome or Perfetto trace to this file")
      ->option_text("FILE");
  choose(verb, command, train::Purpose::Profile, run_profile);
}

void add_inspect_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("inspect", "show what a model, a weights file, a dumped plan or data holds");
  add_model(*verb, s, ", a file");
  add_training(*verb, s, true);
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every variable");
  verb->add_flag("--graph", s.graph, "The training graph as text");
  choose(verb, command, train::Purpose::Train, run_inspect);
}

void add_report_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("report", "show the config, plan, epochs and checkpoints of a run (train --run)");
  verb->add_option("run", s.run, "The folder of the run")->required();
  add_output(*verb, s);
  verb->add_flag("--all", s.all, "Every epoch");
  choose(verb, command, train::Purpose::Train, run_report);
}

void add_save_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("save", "make a model directory of a built-in model, or of a run, and its weights");
  add_model(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  verb->add_option("--run", s.run, "Model, options and weights of this run (train --run)")->option_text("DIR");
  verb->add_option("-o,--output", s.output, "The directory to write")->required()->option_text("DIR");
  add_output(*verb, s);
  verb->preparse_callback([&s](size_t) { s.predicts = true; });
  choose(verb, command, train::Purpose::Evaluate, run_save);
}

void add_quantize_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb =
      app.add_subcommand("quantize", "make a model of 8 bits of a trained one: for inference, a quarter of its bytes");
  add_model(*verb, s);
  add_batch(*verb, s);
  add_line(*verb, s);
  add_data(*verb, s, false);
  add_weights(*verb, s);
  verb->add_option("--calibration", s.calibration, "How ranges follow from the data")
      ->check(CLI::IsMember({"minmax", "percentile", "entropy"}))
      ->option_text("minmax|percentile|entropy");
  verb->add_option("--samples", s.samples, "Look at so many samples at most (default: 512)")
      ->check(positive_number())
      ->option_text("N");
  verb->add_flag("--all", s.all, "Every layer, also where f32 is predicted to be faster");
  verb->add_flag("--portable", s.portable, "Weights within [-64, 63], which processors without VNNI multiply exactly");
  verb->add_option("-o,--output", s.output, "The directory to write")->required()->option_text("DIR");
  add_output(*verb, s);
  verb->preparse_callback([&s](size_t) { s.predicts = true; });
  choose(verb, command, train::Purpose::Evaluate, run_quantize);
}

void add_doctor_verb(CLI::App& app, Command& command) {
  Arguments& s = command.arguments;
  auto* verb = app.add_subcommand("doctor", "show what this machine offers and what the process itself costs");
  add_memory(*verb, s);
  add_scratch(*verb, s, "Folder on a disk to look at");
  verb->add_flag("--measure", s.measure, "Measure the speed of that disk again, and keep it");
  add_output(*verb, s);
  choose(verb, command, train::Purpose::Train, run_doctor);
}

void add_demo_verb(CLI::App& app, Command& command) {
  auto* verb = app.add_subcommand("demo", "train on Fashion-MNIST under 48 MiB");
  Arguments& d = command.demo;
  d.epochs = 5;
  add_batch(*verb, d);
  add_optimiser(*verb, d);
  add_training_line(*verb, d);
  start_group(*verb, kDataGroup);
  verb->add_option("--data", d.data, "Folder of the data set")->option_text("DIR");
  add_run(*verb, d);
  add_output(*verb, d);
  verb->callback([&command] {
    command.arguments = command.demo;
    complete_demo(command.arguments);
    command.run = [&command] { return run_train(command.arguments); };
  });
}

void add_bench_verb(CLI::App& app, Command& command) {
  PackArguments& pack = command.pack;
  auto* verb = app.add_subcommand("bench", "benchmarks");
  verb->require_subcommand(1);
  auto* bench_pack = verb->add_subcommand("pack", "pack a table of lifetimes and sizes (CSV: id,lower,upper,size)");
  bench_pack->add_option("file", pack.file, "The table")->required();
  bench_pack->add_option("--capacity", pack.capacity, "Fit into this (default: as low as possible)")
      ->check(positive_number());
  bench_pack->add_option("--out", pack.out, "Write the offsets to this file");
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
  }

  const CLI::App& app() const { return app_; }

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
  } catch (const CLI::ParseError& e) {
    return answer(parser.app(), e, config);
  }
  return std::nullopt;
}

}  // namespace plimsoll::cli
