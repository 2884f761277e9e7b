#include "cli/rank_flags.h"

#include "cli/flag_rules.h"
#include "cli/help.h"

namespace plimsoll::cli {
namespace {

void add_number(CLI::App& app, Arguments& s, const char* what) {
  start_group(app, kRanksGroup, Listing::Rare);
  app.add_option("--ranks", s.ranks, what)->option_text("N|auto");
}

void add_batch_norm(CLI::App& app, Arguments& s) {
  app.add_option("--batch-norm", s.batch_norm,
                 "Whose statistics batch norm takes: those of the samples of each rank, or of the whole batch")
      ->option_text("own|synchronised")
      ->check(CLI::IsMember({"own", "synchronised"}));
}

void add_replicas(CLI::App& app, Arguments& s) {
  app.add_option("--replicas", s.replicas,
                 "Train with so many threads of this process that share each batch and the line");
}

void add_timeout(CLI::App& app, Arguments& s) {
  auto* timeout =
      app.add_option("--rank-timeout", s.rank_timeout, "Seconds without an answer after which a rank counts as lost");
  declare(app, timeout->capture_default_str(), {.needs = {"ranks|replicas|pipeline"}});
}

}  // namespace

void add_rank_number_flags(CLI::App& app, Arguments& s) {
  add_number(app, s, "Measure with so many processes, which share each batch; auto: as Slurm says");
  add_batch_norm(app, s);
  add_timeout(app, s);
}

void add_paper_rank_flags(CLI::App& app, Arguments& s) {
  add_number(app, s, "Plan for so many ranks on a network of the speed of --network; they need not exist");
  app.add_option("--network", s.network_text,
                 "Speed of the network between ranks in one direction, and the time of a message: 10Gb/s, 1.2GB/s,50us")
      ->option_text("SPEED");
  add_replicas(app, s);
  add_batch_norm(app, s);
}

namespace {

void add_pipeline_options(CLI::App& app, Arguments& s) {
  app.add_option("--pipeline", s.pipeline,
                 "Layers on ranks: each of these layers begins the stage of the next rank; one layer less than ranks")
      ->delimiter(',')
      ->option_text("LAYER[,LAYER]");
  app.add_option("--micro-batches", s.micro_batches,
                 "With --pipeline: cut a batch into so many, which the ranks work through one after another");
}

}  // namespace

void add_pipeline_flags(CLI::App& app, Arguments& s) {
  start_group(app, kRanksGroup, Listing::Rare);
  add_pipeline_options(app, s);
}

void add_rank_flags(CLI::App& app, Arguments& s) {
  add_number(app, s, "Train with so many processes, each with its own --memory; auto: as Slurm says");
  add_replicas(app, s);
  app.add_option(
      "--shards", s.shards,
      "Cut a batch into so many parts, a power of two: the weights then have the same bits for any number of "
      "ranks");
  auto* shared = app.add_option(
      "--shard", s.sharding,
      "What ranks share, each with a slice: the optimiser's state; gradients too; weights too; auto: the fastest "
      "that fits");
  declare(app, shared, {.needs = {"ranks|replicas|pipeline"}});
  shared->option_text("none|state|gradients|weights|auto")
      ->check(CLI::IsMember({"none", "state", "gradients", "weights", "auto"}));
  add_batch_norm(app, s);
  add_pipeline_options(app, s);
  add_timeout(app, s);
  auto* restarts =
      app.add_option("--restarts", s.restarts,
                     "With --run: start all ranks again from the last checkpoint, so often at most, when one was lost");
  declare(app, restarts, {.least = 0, .is_least_refused = false, .needs = {"run", "ranks|pipeline"}});
}

}  // namespace plimsoll::cli
