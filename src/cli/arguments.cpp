#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "checkpoints/run_directory.h"
#include "cli/maps.h"
#include "input/opening/follow_data.h"
#include "memory/output_file.h"
#include "memory/process.h"
#include "shrink/adapt.h"
#include "shrink/adapter_file.h"
#include "store/model_file.h"
#include "train/data_names.h"

namespace plimsoll::cli {
namespace {

Optimiser optimiser_of(const Arguments& arguments) {
  Optimiser optimiser = Optimiser::named(arguments.optimiser);
  if (arguments.momentum > 0) optimiser.set("momentum", arguments.momentum);
  if (arguments.global_clip_norm > 0) optimiser.global_clip_norm = arguments.global_clip_norm;
  return optimiser;
}

void set_half_storage(const std::vector<std::string>& words, train::Spec& spec) {
  for (const std::string& word : words) {
    if (word == "values")
      spec.policy = Policy::stored_bfloat16();
    else if (word == "state")
      spec.optimiser.state_bits = 16;
    else
      throw Error(fmt::format("--half-storage '{}' is unknown; known are values, state", word), ErrorKind::Usage);
  }
}

DType frozen_type_of(const std::string& word) {
  if (word.empty() || word == "f32") return DType::F32;
  if (word == "bf16") return DType::BF16;
  if (word == "int8") return DType::I8;
  throw Error(fmt::format("--frozen-type '{}' is unknown; known are f32, bf16, int8", word), ErrorKind::Usage);
}

// What is trained: all, some, or adapters beside the model.
void set_trained(const Arguments& arguments, train::Spec& spec) {
  const bool adapts = arguments.rank != 0 || !arguments.adapter.empty();
  const bool freezes = !arguments.freeze.empty() || !arguments.train_only.empty();
  if (adapts && freezes)
    throw Error("adapters are trained alone: leave --freeze and --train-only away", ErrorKind::Usage);
  spec.freeze = {.patterns = arguments.freeze, .all_but = arguments.train_only};
  if (adapts) {
    spec.own_model = std::make_shared<const ModelSpec>(shrink::adapt(model_of(spec), adapt_options_of(arguments)));
    spec.freeze = adapter_freeze();
  }
  spec.freeze.type = frozen_type_of(arguments.frozen_type);
  if (spec.freeze.type != DType::F32 && spec.freeze.is_empty())
    throw Error("--frozen-type says how frozen weights are kept: say which with --freeze or --train-only",
                ErrorKind::Usage);
}

std::vector<std::pair<std::string_view, bool*>> levers_of(train::Spec& spec) {
  Levers& levers = spec.levers;
  return {{"order", &levers.order},
          {"in-place", &levers.in_place},
          {"variants", &levers.variants},
          {"recompute", &levers.recompute},
          {"micro-batch", &levers.micro_batch},
          {"spill", &levers.spill},
          {"masks", &spec.masks}};
}

void take_away(const std::vector<std::string>& without, train::Spec& spec) {
  const auto levers = levers_of(spec);
  for (const std::string& name : without) {
    bool is_known = name == "none";
    for (const auto& [lever, is_on] : levers) {
      if (name == "none") *is_on = true;
      if (name != lever) continue;
      *is_on = false;
      is_known = true;
    }
    if (!is_known)
      throw Error(
          fmt::format(
              "lever '{}' is unknown; known are order, in-place, variants, recompute, micro-batch, spill, masks", name),
          ErrorKind::Usage);
  }
}

train::DiskLimit disk_limit_of(const Arguments& arguments) {
  if (arguments.disk_limit.empty()) return {};
  if (arguments.scratch.empty())
    throw Error("--disk-limit says how large the scratch file may be; say where it may be made with --scratch DIR",
                ErrorKind::Usage);
  constexpr Bytes kWhole = Bytes{1} << 52;  // large, so that the share is read back exactly
  const Bytes bytes = std::max<Bytes>(1, parse_bytes(arguments.disk_limit, kWhole));
  if (arguments.disk_limit.find('%') == std::string::npos) return {.bytes = bytes};
  return {.share = static_cast<double>(bytes) / static_cast<double>(kWhole)};
}

std::string without_flag(const train::Spec& after) {
  train::Spec spec = after;
  std::string flag = "--without none";
  for (const auto& [lever, is_on] : levers_of(spec))
    if (!*is_on) flag += fmt::format(",{}", lever);
  return flag;
}

// Sizes of a built-in model that no flag gives: those that its weights were trained with, else what follows from the
// data. Returns the latter for people.
std::string follow_data(const input::DataSpec& where, train::Purpose purpose, Arguments& arguments) {
  if (train::is_model_path(arguments.model)) return "";
  ModelOptions& options = arguments.model_options;
  const ModelOptions before = options;
  std::error_code ignored;  // what is not there is named when it is read, if it is
  const bool has_weights = std::filesystem::is_regular_file(arguments.weights, ignored);
  if (has_weights) train::read_model_options(arguments.weights, arguments.model, options);
  // Data to evaluate on may lack classes that weights of others know.
  if (!arguments.weights.empty() && purpose == train::Purpose::Evaluate && options == before) return "";
  const input::FollowedOptions followed = input::follow_data(arguments.model, options, where);
  options = followed.options;
  return followed.text;
}

}  // namespace

train::Spec spec_of(const Arguments& arguments, train::Purpose purpose) {
  train::Spec spec;
  spec.model = arguments.model;
  spec.model_options = arguments.model_options;
  if (train::is_model_path(spec.model))
    spec.stored_model = std::make_shared<const store::StoredModel>(store::read_model(spec.model));
  spec.batch = arguments.batch;
  spec.finds_batch = arguments.auto_batch;
  set_trained(arguments, spec);
  spec.optimiser = optimiser_of(arguments);
  if (arguments.learning_rate > 0) spec.learning_rate = arguments.learning_rate;
  spec.seed = arguments.seed;
  spec.purpose = purpose;
  if (purpose == train::Purpose::Profile && arguments.steps > 0) spec.profile_steps = arguments.steps;
  // Also true where a run may be resumed later: it then fits the line that it began with.
  spec.loads_weights =
      !arguments.weights.empty() || spec.stored_model || !arguments.run.empty() || !arguments.early_stopping.empty();
  if (purpose == train::Purpose::Evaluate && arguments.weights.empty() && arguments.run.empty() &&
      arguments.adapter.empty() && spec.stored_model)
    spec.weights_file = spec.stored_model->weights_path();
  spec.finds_bad_numbers = arguments.debug_nan;
  spec.predicts = arguments.predicts;
  if (arguments.predicts) spec.log_bytes = 2 * memory::OutputFile::kBufferBytes;
  if (!arguments.run.empty()) spec.log_bytes = checkpoints::run_log_bytes();
  set_half_storage(arguments.half_storage, spec);
  const train::Spec halved = spec;
  if (!arguments.policy.empty()) spec.policy = Policy::named(arguments.policy);
  if (halved.policy != Policy() && spec.policy != halved.policy)
    throw Error(
        fmt::format("--half-storage values and --policy {} contradict each other: give one of them", arguments.policy),
        ErrorKind::Usage);
  if (arguments.state_bits > 0) spec.optimiser.state_bits = arguments.state_bits;
  if (halved.optimiser.state_bits < 32 && spec.optimiser.state_bits != halved.optimiser.state_bits)
    throw Error(fmt::format("--half-storage state and --state-bits {} contradict each other: give one of them",
                            arguments.state_bits),
                ErrorKind::Usage);
  spec.accumulate = arguments.accumulate;
  if (!arguments.prune.empty()) spec.pruning = Pruning::parse(arguments.prune);
  if (arguments.prunes) spec.pruning = arguments.pruning;
  if (spec.pruning) spec.pruning->check();
  spec.shards = arguments.shards;
  if (arguments.sharding != "auto") spec.sharding = parse_sharding(arguments.sharding);
  spec.synchronises_norms = arguments.batch_norm == "synchronised";
  spec.stages = {arguments.pipeline, arguments.micro_batches};
  spec.log_bytes += arguments.rank_bytes;
  spec.network = arguments.network;
  for (const std::string& op : arguments.split)
    if (op != "batch_norm")
      throw Error(fmt::format("--split '{}' is unknown; what mixes samples and can be split is batch_norm", op),
                  ErrorKind::Usage);
  spec.split_ops = arguments.split;
  if (!arguments.memory.empty()) spec.line = std::max<Bytes>(1, line_of(arguments).bytes);
  spec.threads = arguments.threads;
  take_away(arguments.without, spec);
  spec.scratch_folder = arguments.scratch;
  spec.disk_limit = disk_limit_of(arguments);
  if (spec.disk_limit.is_given() && !spec.levers.spill)
    throw Error("--disk-limit does nothing with --without spill", ErrorKind::Usage);
  return spec;
}

AdaptOptions adapt_options_of(const Arguments& arguments) {
  if (!arguments.adapter.empty()) {
    if (arguments.rank != 0)
      throw Error("--adapter has a rank of its own: give one of --adapter and --rank", ErrorKind::Usage);
    return shrink::read_adapter(arguments.adapter);
  }
  return {.rank = arguments.rank,
          .alpha = arguments.alpha > 0 ? arguments.alpha : static_cast<double>(arguments.rank),
          .dropout = arguments.adapter_dropout,
          .targets = arguments.targets};
}

std::string flags_of(const train::Spec& before, const train::Spec& after) {
  std::vector<std::string> flags;
  if (after.batch != before.batch) flags.push_back(fmt::format("--batch {}", after.batch));
  if (after.finds_batch && !before.finds_batch) flags.emplace_back("--auto-batch");
  const double momentum = train::momentum_of(after.optimiser);
  const bool changes_momentum = momentum != train::momentum_of(before.optimiser);
  if (changes_momentum || after.optimiser.name() != before.optimiser.name()) {
    flags.push_back(fmt::format("--optimizer {}", after.optimiser.name()));
    if (changes_momentum) flags.push_back(fmt::format("--momentum {}", momentum));
  }
  if (after.split_ops != before.split_ops) flags.push_back(fmt::format("--split {}", fmt::join(after.split_ops, ",")));
  if (after.policy != before.policy) flags.push_back(fmt::format("--policy {}", after.policy.name()));
  if (after.freeze.type != before.freeze.type)
    flags.push_back(
        fmt::format("--frozen-type {}", after.freeze.type == DType::I8 ? "int8" : name_of(after.freeze.type)));
  if (after.optimiser.state_bits != before.optimiser.state_bits)
    flags.push_back(fmt::format("--state-bits {}", after.optimiser.state_bits));
  if (after.accumulate != before.accumulate) flags.push_back(fmt::format("--accumulate {}", after.accumulate));
  if (after.levers != before.levers || after.masks != before.masks) flags.push_back(without_flag(after));
  if (after.scratch_folder != before.scratch_folder) flags.push_back("--scratch " + after.scratch_folder);
  if (after.disk_limit != before.disk_limit)
    flags.push_back(after.disk_limit.share > 0 ? fmt::format("--disk-limit {:g}%", 100 * after.disk_limit.share)
                                               : fmt::format("--disk-limit {}", after.disk_limit.bytes));
  if (after.line != before.line) flags.push_back("--memory " + line_text(after.line));
  return fmt::format("{}", fmt::join(flags, " "));
}

train::Spec spec_with_data(const Arguments& given, train::Purpose purpose) {
  const input::DataSpec where = data_spec_of(given);
  Arguments arguments = given;
  // Each of these runs other code than the next one: without this their pages would add up before there is a plan.
  const std::string followed = follow_data(where, purpose, arguments);
  memory::drop_code_pages();
  train::Spec spec = spec_of(arguments, purpose);
  memory::drop_code_pages();
  ModelSpec model = model_of(spec);
  memory::drop_code_pages();
  // Trained weights know the classes and columns that they were trained on; training may start from others.
  if (!arguments.weights.empty() && purpose == train::Purpose::Evaluate)
    train::read_data_names(arguments.weights, model.preprocessing);
  spec.pipeline = pipeline_of(arguments, model);
  spec.data =
      purpose == train::Purpose::Evaluate ? input::open_test_data(where, model) : input::open_data(where, model);
  memory::drop_code_pages();
  if (!followed.empty()) spec.data.kind += fmt::format(" (so the model has {})", followed);
  expect_maps_fit(arguments, model, spec.data);
  return spec;
}

std::string weights_to_load(const Arguments& arguments, const train::Spec& spec) {
  if (!arguments.weights.empty()) return arguments.weights;
  if (!spec.stored_model)
    throw Error(fmt::format("'{}' is a built-in model without weights: give --weights FILE, or the directory of a "
                            "stored model",
                            spec.model),
                ErrorKind::Usage);
  store::expect_whole_weights(*spec.stored_model);
  return spec.stored_model->weights_path();
}

CheckpointOptions checkpoint_options_of(const Arguments& arguments) {
  CheckpointOptions options{.keep = arguments.keep};
  const std::string& text = arguments.checkpoint_every;
  if (text.empty()) return options;
  double count = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const bool is_whole = count == std::floor(count) && count < 1e15;
  const std::pair<std::string_view, double> seconds[] = {{"s", 1}, {"min", 60}, {"h", 3600}};
  if (status == std::errc() && count > 0) {
    if (is_whole && (unit.empty() || unit == "step" || unit == "steps"))
      options.every_steps = static_cast<int64_t>(count);
    else if (is_whole && (unit == "epoch" || unit == "epochs"))
      options.every_epochs = static_cast<int64_t>(count);
    for (const auto& [name, length] : seconds)
      if (unit == name) options.every_seconds = count * length;
  }
  if (options.every_steps == 0 && options.every_epochs == 0 && options.every_seconds == 0)
    throw Error(
        fmt::format("--checkpoint-every '{}' is no interval; give 500 (steps), 2epochs, 30s, 10min or 1h", text),
        ErrorKind::Usage);
  return options;
}

std::optional<EarlyStopping> early_stopping_of(const Arguments& arguments) {
  const std::string& text = arguments.early_stopping;
  if (text.empty()) return std::nullopt;
  // The best weights stay in the run; without one they are a temporary file.
  EarlyStopping options{.restore_best_weights = true, .folder = arguments.run};
  const size_t colon = text.find(':');
  if (colon != std::string::npos) options.monitor = text.substr(0, colon);
  const char* const begin = text.data() + (colon == std::string::npos ? 0 : colon + 1);
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(begin, end, options.patience);
  if (status != std::errc() || stop != end || options.patience < 1 || options.monitor.empty())
    throw Error(fmt::format("--early-stopping '{}' is no number of epochs; give 3, or val_accuracy:3 to watch another "
                            "number than val_loss",
                            text),
                ErrorKind::Usage);
  return options;
}

memory::DefaultLine line_of(const Arguments& arguments) {
  memory::MemoryFacts facts = memory::gather_memory_facts();
  if (arguments.memory.empty()) return memory::default_line(facts);
  // A line in percent is a share of what the machine and its limits allow.
  facts.plimsoll_memory = arguments.memory;
  facts.asked_with = "--memory";
  return {memory::default_line(facts).bytes, "as asked"};
}

}  // namespace plimsoll::cli
