#include "cli/adapt_flags.h"

#include "cli/flag_rules.h"
#include "cli/help.h"

namespace plimsoll::cli {
namespace {

CLI::Option* add_list(CLI::App& verb, const char* flag, std::vector<std::string>& words, const char* what,
                      const char* form) {
  return verb.add_option(flag, words, what)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->option_text(form);
}

}  // namespace

void add_freeze_flags(CLI::App& verb, Arguments& arguments) {
  start_group(verb, kStepGroup, Listing::Rare);
  add_list(verb, "--freeze", arguments.freeze,
           "Weights that are not trained, by patterns of their names: 'resnet18/stem/*' (inspect lists names)",
           "PATTERN,...");
  add_list(verb, "--train-only", arguments.train_only, "Freeze all weights but those that match", "PATTERN,...");
  verb.add_option("--frozen-type", arguments.frozen_type,
                  "Lossy: keep frozen weights in bf16 or int8 (a scale for each 64 weights)")
      ->option_text("TYPE");
}

void add_adapter_flags(CLI::App& verb, Arguments& arguments) {
  start_group(verb, kStepGroup, Listing::Rare);
  verb.add_option("--rank", arguments.rank, "Train adapters (LoRA) of this rank instead of the weights")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.find_first_not_of("0123456789") == std::string::npos &&
                           text.find_first_not_of('0') != std::string::npos
                       ? std::string()
                       : "the rank of adapters must be at least 1 but is " + text;
          },
          "", "rank"))
      ->option_text("N");
  declare(verb, verb.add_option("--alpha", arguments.alpha, "Adapters are scaled by alpha / rank (default: the rank)"),
          {.needs = {"rank"}});
  auto* targets =
      add_list(verb, "--targets", arguments.targets,
               "Layers that get adapters: the end of their path, a pattern, or PEFT's name (default: c_attn of gpt2; "
               "query,value of bert)",
               "LAYER,...");
  declare(verb, targets, {.needs = {"rank"}});
  auto* dropout =
      verb.add_option("--adapter-dropout", arguments.adapter_dropout, "Dropout rate of what goes into adapters");
  declare(verb, dropout->check(CLI::Range(0.0, 0.999)), {.least = 0, .is_least_refused = false, .needs = {"rank"}});
}

void expect_adapters(CLI::App& verb) {
  // The folder of --adapter says what they are; else they have a rank, which has a default.
  for (const char* flag : {"rank", "alpha", "targets"})
    declare(verb, verb.get_option(std::string("--") + flag), {.contradicts = {"adapter"}});
  declare(verb, verb.get_option("--adapter-dropout"),
          {.least = 0, .is_least_refused = false, .contradicts = {"adapter"}});
}

void add_trained_adapter_flag(CLI::App& verb, Arguments& arguments) {
  start_group(verb, kRunGroup, Listing::Rare);
  auto* adapter =
      verb.add_option("--adapter", arguments.adapter, "Adapters of this folder (PEFT's format), beside the weights");
  declare(verb, adapter->option_text("DIR"), {.path = PathUse::Reads});
}

}  // namespace plimsoll::cli
