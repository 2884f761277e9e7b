// plimsoll train: plan, then epochs of steps with progress, then what was planned against what was measured.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include <plimsoll/callback.h>
#include <plimsoll/error.h>
#include "checkpoints/run_directory.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/replicas.h"
#include "cli/verbs.h"
#include "forecast/batch_search.h"
#include "forecast/exchange_watch.h"
#include "forecast/sharding_search.h"
#include "memory/process.h"
#include "model/pruning.h"
#include "ranks/agreement.h"
#include "report/run_report.h"
#include "report/training_report.h"
#include "shrink/adapter_file.h"
#include "store/model_file.h"
#include "train/checkpoint_store.h"
#include "train/data_names.h"
#include "train/improvement.h"
#include "train/loop.h"
#include "train/pipeline_weights.h"
#include "weights/weights_file.h"

namespace plimsoll::cli {
namespace {

// Prints the progress, and stops for a signal.
class Screen : public Callback {
 public:
  explicit Screen(Progress::Form form) : progress_(form) {}
  std::string name() const override { return "screen"; }
  void before_training(FitRun& run) override { stop_if_signalled(run); }
  void after_step(FitRun& run) override {
    progress_.step(run);
    stop_if_signalled(run);
  }
  void after_validation_step(FitRun& run) override { stop_if_signalled(run); }
  void after_epoch(FitRun& run) override { progress_.epoch(run); }
  void after_training(FitRun& run) override {
    if (run.epoch_steps() > 0 && !run.is_epoch_over()) progress_.epoch(run);
  }
  bool has_stopped() const { return has_stopped_; }
  void set_stopped() { has_stopped_ = true; }

 private:
  void stop_if_signalled(FitRun& run) {
    if (!is_stop_asked() || run.is_stopping()) return;
    has_stopped_ = true;
    run.stop(stop_reason());
  }
  Progress progress_;
  bool has_stopped_ = false;
};

train::LoopOptions loop_options_of(const Arguments& arguments, const train::Spec& spec) {
  // Enough for the report at the end; metrics of all epochs are in the files of a run.
  constexpr int64_t kMostHistory = 1000;
  train::LoopOptions options{
      .epochs = arguments.epochs, .steps = arguments.steps, .most_history = kMostHistory, .seed = arguments.seed};
  options.advice = "try a smaller --lr, or --clip 1";
  if (!arguments.schedule.empty())
    options.schedule = RateSchedule::parse(arguments.schedule, train::optimiser_of(spec).learning_rate);
  return options;
}

// With replicas, what all of them have reserved of their one line.
Bytes planned_peak(const train::Training& training, const Together& together) {
  return together.line != nullptr ? training.line->used() : training.session->peak_bytes();
}

void print_plan(const train::Training& training, const Together& together, bool as_json) {
  report::PlanFacts facts = train::plan_facts(training);
  facts.peak_bytes = planned_peak(training, together);
  print_now(stdout, as_json ? report::plan_json(facts) + "\n" : report::plan_text(facts, {3, "--all"}));
}

// Prints what each rank of a pipeline holds; all ranks call it.
void print_stages(const train::Training& training, bool as_json) {
  const model::StagePlace& place = training.place;
  if (place.stages == 1) return;
  const std::string own =
      fmt::format("{} weights, the plan takes {} of {}", count_weights(training.graph),
                  format_bytes(training.session->peak_bytes()), format_bytes(training.line->limit()));
  std::string text = fmt::format("stages  {} micro-batches of {}\n", place.micro_batches, place.samples);
  const std::vector<std::string> all = training.spec.communicator->gather_texts(own);
  for (size_t rank = 0; rank < all.size(); ++rank)
    text += fmt::format("        rank {}{}: {}\n", rank,
                        rank > 0 ? fmt::format(", from {}", place.first_layers[rank - 1]) : "", all[rank]);
  if (!as_json) print_now(stdout, text);
}

// Prints what all replicas take; all of them call it.
void print_replicas(const train::Training& training, bool as_json) {
  Bytes held = 0;
  for (const std::string& text :
       training.spec.communicator->gather_texts(std::to_string(training.session->arena_bytes())))
    held += std::stoll(text);
  if (!as_json)
    print_now(stdout, fmt::format("replicas {} under this line: their tensors take {}, the process beside them {}\n",
                                  training.spec.communicator->size(), format_bytes(held),
                                  format_bytes(training.line->process_bytes())));
}

const char* name_of(train::StartingPoint::RateOrigin origin) {
  using Origin = train::StartingPoint::RateOrigin;
  return origin == Origin::Given ? "given" : origin == Origin::File ? "of the file" : "the optimiser's";
}

// The weights that training starts from; empty: initial ones.
std::string starting_weights(const Arguments& arguments, const train::Spec& spec) {
  return arguments.weights.empty() && !spec.stored_model ? "" : weights_to_load(arguments, spec);
}

void expect_room_for_model(const train::Training& training, const std::string& path) {
  const store::ModelFolder folder(path);
  weights::expect_disk_room(fmt::format("'{}'", path), folder.folder(),
                            weights::weights_file_bytes(training.graph, weights::WeightsPart::Model));
}

void save_trained_model(train::Training& training, const train::Spec& spec, const std::string& path) {
  ModelSpec model = training.model;
  model.preprocessing = train::preprocessing_of(spec, model);
  const store::ModelNotes notes = spec.stored_model ? spec.stored_model->notes : store::ModelNotes();
  store::save_model(path, model, model::trace(model), store::weights_of(*training.session, training.graph), notes);
}

void print_start(const train::StartingPoint& start, const std::string& file, const Arguments& arguments) {
  const report::StartFacts facts{.file = file,
                                 .tensors = start.loaded.weights,
                                 .state_tensors = start.loaded.state,
                                 .steps = start.steps,
                                 .learning_rate = start.learning_rate,
                                 .learning_rate_origin = name_of(start.rate_origin)};
  print_now(stdout, arguments.json ? report::start_json(facts) + "\n" : report::start_text(facts));
}

// The epoch of the weights that training ends with.
const EpochLog* last_scored(const History& history, const std::optional<EarlyStopping>& stopping) {
  const EpochLog* last = nullptr;
  train::Improvement best(stopping ? stopping->monitor : "", 0, "auto");
  for (const EpochLog& epoch : history.epochs) {
    if (!epoch.log("val_loss")) continue;
    const double value = stopping ? epoch.log(stopping->monitor).value_or(0) : 0;
    if (stopping && !best.is_better(value)) continue;
    best.set_best(value);
    last = &epoch;
  }
  return last;
}

void print_end(const train::Training& training, const Together& together, const History& history,
               const EpochLog* scored, bool is_finished, const std::optional<report::ExchangeFacts>& exchanges,
               bool as_json) {
  report::EndFacts facts{.is_finished = is_finished,
                         .loss = history.last_loss,
                         .test = {},
                         .planned_peak_bytes = planned_peak(training, together),
                         .measured_peak_bytes = peak_resident_bytes(),
                         .line_bytes = training.line->limit(),
                         .skipped = {history.skipped, history.last_skipped}};
  facts.exchanges = exchanges;
  if (is_finished) facts.stop_reason = history.stop_reason;
  if (scored != nullptr && history.validation_samples > 0)
    facts.test = {*scored->log("val_loss"),
                  scored->log("val_accuracy").value_or(std::numeric_limits<double>::quiet_NaN()),
                  history.validation_samples};
  print_now(stdout, as_json ? report::end_json(facts) + "\n" : report::end_text(facts));
}

// The given options with defaults and found values (batch, line) filled in: as --config they give the same training.
report::Config resolve_config(const Arguments& arguments, const train::Spec& spec, const train::Training& training) {
  using Kind = report::ConfigEntry::Kind;
  report::Config config = arguments.given;
  const auto set = [&](const char* name, Kind kind, const std::string& value) {
    report::set_entry(config, {name, kind, {value}});
  };
  for (const char* name : {"run", "resume", "json", "progress", "auto-batch"}) report::remove_entry(config, name);
  set("model", Kind::Text, arguments.model);
  set("batch", Kind::Whole, fmt::format("{}", training.spec.batch));
  set("memory", Kind::Text, fmt::format("{}", training.line->limit()));
  set("optimizer", Kind::Text, arguments.optimiser);
  if (arguments.weights.empty()) set("lr", Kind::Real, fmt::format("{}", train::optimiser_of(spec).learning_rate));
  set("epochs", Kind::Whole, fmt::format("{}", arguments.epochs));
  set("seed", Kind::Whole, fmt::format("{}", arguments.seed));
  std::ranges::sort(config, {}, &report::ConfigEntry::name);  // the same order, however it was given
  return config;
}

// Loads the newest good checkpoint of the run and lets the loop go on from there; false: there is none so far.
bool resume(train::TrainingLoop& loop, const std::string& checkpoints, const Arguments& arguments) {
  const auto loaded = train::CheckpointStore(checkpoints).load_newest(loop.training());
  report::ResumeFacts facts;
  if (loaded) {
    loop.restore(loaded->run);
    if (arguments.flag_rate > 0 && arguments.schedule.empty()) loop.set_learning_rate(arguments.flag_rate);
    facts = {loaded->place.path, loop.steps(), loaded->run.epoch, loaded->run.epoch_steps, loaded->damaged};
  }
  for (const std::string& damaged : facts.damaged) print_error(fmt::format("plimsoll: {}\n", damaged));
  print_now(stdout, arguments.json ? report::resume_json(facts) + "\n" : report::resume_text(facts));
  return loaded.has_value();
}

// Where the weights of a stopped training are.
std::string describe_kept(const Arguments& arguments) {
  if (!arguments.run.empty()) return fmt::format("go on with --run {} --resume", arguments.run);
  if (!arguments.save.empty()) return fmt::format("the weights are in '{}'", arguments.save);
  if (!arguments.save_model.empty()) return fmt::format("the model is in '{}'", arguments.save_model);
  return "with --run DIR or --save FILE the weights would have been kept";
}

bool writes_adapter(const Arguments& arguments) {
  return !arguments.output.empty() && (arguments.rank != 0 || !arguments.adapter.empty());
}

// Model directories are written from the variables of one rank.
void expect_pipeline_fits(const Arguments& arguments) {
  if (arguments.pipeline.empty()) return;
  if (!arguments.save_model.empty() || writes_adapter(arguments))
    throw Error("a pipeline writes its weights alone: give --save FILE or --run DIR, and make a model of that",
                ErrorKind::Usage);
}

// A training that ends before the first masks are made would prune nothing. One that is kept may go on later.
void expect_pruned(const Arguments& arguments, const train::Spec& spec, const train::TrainingLoop& loop) {
  const train::Training& training = loop.training();
  if (!spec.pruning || loop.steps_per_epoch() == 0) return;
  int64_t done = 0;
  training.session->get(training.pruned.step, &done, sizeof done);
  const int64_t groups = (loop.steps_per_epoch() + training.spec.accumulate - 1) / training.spec.accumulate;
  int64_t updates = arguments.epochs * groups;
  if (arguments.run.empty() && arguments.steps > 0)
    updates = std::min(updates, (arguments.steps + training.spec.accumulate - 1) / training.spec.accumulate);
  const int64_t first = model::first_pruning_step(*spec.pruning);
  if (done + updates + 1 < first)
    throw ranks::AgreedError(
        fmt::format("nothing would be pruned: masks are made at step {} first, and this training ends after {}; give a "
                    "lower frequency, an earlier begin or more epochs",
                    first, done + updates),
        ErrorKind::Usage);
}

[[noreturn]] void throw_stopped(const Arguments& arguments) {
  const std::string kept = describe_kept(arguments);
  if (const int failure = output_failure(); failure != 0 && failure != EPIPE) {
    print_error(fmt::format("plimsoll: {}\n", kept));
    expect_output();
  }
  throw ranks::AgreedError(fmt::format("{}; {}", stop_reason(), kept), ErrorKind::Stopped);
}

}  // namespace

namespace {

void choose_sharding(train::Spec& spec) {
  const forecast::ShardingChoice choice = forecast::choose_sharding(spec, Sharding::None, is_stop_asked);
  spec.sharding = choice.found.value_or(Sharding::Weights);
  spec.sharding_reason = choice.reason;
}

// Where the plan does not fit on some rank, looks for a --shard that does and adds it to the error.
void run_with_sharding(const train::Spec& spec, const std::function<std::string()>& plan) {
  try {
    ranks::run_together(spec.communicator.get(), plan);
  } catch (const ranks::AgreedError& e) {
    if (e.kind() != ErrorKind::DoesNotFit || spec.sharding == Sharding::Weights) throw;
    const auto next = static_cast<Sharding>(static_cast<int>(spec.sharding) + 1);
    const forecast::ShardingChoice choice = forecast::choose_sharding(spec, next, is_stop_asked);
    if (!choice.found) throw;
    throw ranks::AgreedError(fmt::format("{}\ntry --shard {}, which fits on every rank: {}", e.what(),
                                         name_of(*choice.found), choice.reason),
                             ErrorKind::DoesNotFit);
  }
}

int train_as(const Arguments& arguments, const Together& together) {
  const std::shared_ptr<ranks::Communicator>& communicator = together.communicator;
  expect_pipeline_fits(arguments);
  const bool writes = !communicator || communicator->rank() == 0;  // the first rank writes files and prints
  const Progress::Form form = Progress::parse_form(arguments.progress, arguments.json);
  std::optional<checkpoints::RunDirectory> run;
  if (!arguments.run.empty() && writes) run.emplace(arguments.run, arguments.resume);
  const std::optional<EarlyStopping> stopping = early_stopping_of(arguments);
  train::Spec spec;
  ranks::run_together(communicator.get(), [&] {
    spec = spec_to_train(arguments);
    spec.communicator = communicator;
    if (together.line != nullptr) {
      spec.own_line = together.line->line();
      spec.line = 0;
    }
    return std::string("has its data");
  });
  const train::LoopOptions options = loop_options_of(arguments, spec);
  if (stopping && !spec.data.test && stopping->monitor.starts_with("val_"))
    throw Error(fmt::format("--early-stopping watches {}, but there is no data to validate with: give --val PATH",
                            stopping->monitor),
                ErrorKind::Usage);
  if (arguments.sharding == "auto") choose_sharding(spec);
  if (spec.sharding == Sharding::Weights && (!arguments.save_model.empty() || writes_adapter(arguments)))
    throw ranks::AgreedError(
        "weights that ranks share are not saved as a model or an adapter; give --save FILE or --run DIR, "
        "and make the model of that with plimsoll save",
        ErrorKind::Usage);
  std::unique_ptr<train::Training> training;
  run_with_sharding(spec, [&] {
    together.plan([&] { training = make_training_of_rank(spec); });
    if (!arguments.save.empty() && writes)
      weights::expect_room_for_weights(training->graph, arguments.save, &training->slices);
    if (!arguments.save_model.empty() && writes) expect_room_for_model(*training, arguments.save_model);
    if (together.line != nullptr) return std::string("fits its part of the line");
    return fmt::format("fits: the plan takes {} of {}", format_bytes(training->session->peak_bytes()),
                       format_bytes(training->line->limit()));
  });
  if (communicator) expect_same_training(arguments, *training);
  print_plan(*training, together, arguments.json);
  print_stages(*training, arguments.json);
  if (together.line != nullptr) print_replicas(*training, arguments.json);
  stop_if_asked();
  const auto screen = std::make_shared<Screen>(form);
  Callbacks callbacks{screen};
  std::optional<checkpoints::RunTexts> texts;
  if (run) {
    texts.emplace(resolve_config(arguments, spec, *training), *training);
    for (const auto& log : run->logs(*texts, arguments.histogram_epochs)) callbacks.push_back(log);
  }
  // Ranks write checkpoints together.
  if (!arguments.run.empty())
    callbacks.push_back(
        checkpoint(checkpoints::RunDirectory::checkpoints_of(arguments.run), checkpoint_options_of(arguments)));
  if (stopping)
    callbacks.push_back(early_stopping(*stopping));
  else if (!arguments.run.empty() && !training->place.is_set() && training->slices.is_empty())  // has all weights
    callbacks.push_back(checkpoints::best_weights(arguments.run, report::best_number("", spec.data.test.has_value())));
  std::optional<train::TrainingLoop> loop;
  bool is_resumed = false;
  ranks::run_together(communicator.get(), [&] {
    loop.emplace(*training, options, callbacks);
    together.open([&] { loop->open(); });
    is_resumed = arguments.resume && resume(*loop, checkpoints::RunDirectory::checkpoints_of(arguments.run), arguments);
    return std::string("is ready");
  });
  stop_if_asked();
  if (const std::string start = is_resumed ? "" : starting_weights(arguments, spec); !start.empty())
    print_start(train::load_start(*training, start, spec.learning_rate), start, arguments);
  if (!is_resumed && !arguments.adapter.empty())
    shrink::load_adapter(*training->session, training->graph, training->model, arguments.adapter);
  stop_if_asked();
  if (!is_resumed) expect_pruned(arguments, spec, *loop);
  if (run) run->create(*texts);  // only now, so that a refusal leaves no run, or the run as it was
  const forecast::ExchangeWatch watch(*training);
  const int64_t steps_before = loop->steps();
  const History history = loop->run();
  const auto exchanges = watch.count(loop->steps() - steps_before);
  if (loop->was_stopped_elsewhere()) screen->set_stopped();
  // Without a step, the weights that an earlier run saved must not be replaced.
  if (!history.has_trained() && !(is_resumed && !screen->has_stopped()))
    throw Error(stop_reason() + " before the first step", ErrorKind::Stopped);
  if (!arguments.save.empty() && communicator && training->place.is_set())
    train::save_stage_weights(*training, arguments.save);
  else if (!arguments.save.empty())
    weights::save_weights(*training->session, training->graph, arguments.save,
                          {.data_names = train::data_names_text(training->model), .slices = &training->slices});
  if (writes_adapter(arguments) && writes) {
    shrink::save_adapter(*training->session, training->graph, training->model, adapt_options_of(arguments),
                         arguments.output);
    print_now(arguments.json ? stderr : stdout, fmt::format("adapter {}\n", arguments.output));
  }
  if (!arguments.save_model.empty() && writes) save_trained_model(*training, spec, arguments.save_model);
  print_end(*training, together, history, last_scored(history, stopping), !screen->has_stopped(), exchanges,
            arguments.json);
  memory::expect_line_kept(training->line->limit());
  checkpoints::expect_logs_written(callbacks);
  if (communicator) communicator->meet();
  if (screen->has_stopped()) throw_stopped(arguments);
  return 0;
}

}  // namespace

train::Spec spec_to_train(const Arguments& arguments) {
  train::Spec spec = spec_with_data(arguments, train::Purpose::Train);
  if (!spec.data.train)
    throw Error("no training data: give --data PATH, or inputs and labels with --train-x and --train-y",
                ErrorKind::Usage);
  return spec;
}

int run_train(const Arguments& given) {
  if (given.replicas > 1) return run_with_replicas(given, train_as);
  return run_with_ranks(given, [](const Arguments& arguments, const auto& communicator) {
    return train_as(arguments, {.communicator = communicator});
  });
}

void complete_demo(Arguments& arguments) {
  arguments.model = "fashion";
  if (arguments.memory.empty()) arguments.memory = "48MiB";
  if (!arguments.data.empty()) return;
  arguments.data = kDemoData;
  if (!std::filesystem::exists(arguments.data))
    throw Error(fmt::format("the demo trains on Fashion-MNIST, but there is no {}; install it (Debian: apt-get install "
                            "dataset-fashion-mnist) or name a folder that has it by --data",
                            arguments.data),
                ErrorKind::Usage);
}

}  // namespace plimsoll::cli
