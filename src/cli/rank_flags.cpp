#include "cli/rank_flags.h"

#include "cli/help.h"
#include "cli/usage.h"

namespace plimsoll::cli {

namespace {

void add_pipeline_options(CLI::App& app, Arguments& s) {
  app.add_option("--pipeline", s.pipeline,
                 "Layers on ranks: each of these layers begins the stage of the next rank, so one less than ranks")
      ->delimiter(',')
      ->option_text("LAYER[,LAYER]");
  app.add_option("--micro-batches", s.micro_batches,
                 "With --pipeline: cut a batch into so many, which the ranks work through one after another")
      ->check(positive_number());
}

}  // namespace

void add_pipeline_flags(CLI::App& app, Arguments& s) {
  start_group(app, kRanksGroup, Listing::Rare);
  add_pipeline_options(app, s);
}

void add_rank_flags(CLI::App& app, Arguments& s) {
  start_group(app, kRanksGroup, Listing::Rare);
  app.add_option("--ranks", s.ranks, "Train with so many processes, each with its own --memory; auto: as Slurm says")
      ->option_text("N|auto");
  app.add_option(
         "--shards", s.shards,
         "Cut a batch into so many parts, a power of two: the weights then have the same bits for any number of "
         "ranks")
      ->check(positive_number());
  add_pipeline_options(app, s);
  app.add_option("--rank-timeout", s.rank_timeout, "Seconds without an answer after which a rank counts as lost")
      ->check(positive_number())
      ->capture_default_str();
  app.add_option("--restarts", s.restarts,
                 "With --run: start all ranks again from the last checkpoint, so often at most, when one was lost")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace plimsoll::cli
