#include "cli/rank_flags.h"

#include "cli/help.h"
#include "cli/usage.h"

namespace plimsoll::cli {

void add_rank_flags(CLI::App& app, Arguments& s) {
  start_group(app, kRanksGroup, Listing::Rare);
  app.add_option("--ranks", s.ranks, "Train with so many processes, each with its own --memory; auto: as Slurm says")
      ->option_text("N|auto");
  app.add_option(
         "--shards", s.shards,
         "Cut a batch into so many parts, a power of two: the weights then have the same bits for any number of "
         "ranks")
      ->check(positive_number());
  app.add_option(
         "--shard", s.sharding,
         "What ranks share, each with a slice: the optimiser's state; gradients too; weights too; auto: the fastest "
         "that fits")
      ->option_text("none|state|gradients|weights|auto")
      ->check(CLI::IsMember({"none", "state", "gradients", "weights", "auto"}));
  app.add_option("--rank-timeout", s.rank_timeout, "Seconds without an answer after which a rank counts as lost")
      ->check(positive_number())
      ->capture_default_str();
  app.add_option("--restarts", s.restarts,
                 "With --run: start all ranks again from the last checkpoint, so often at most, when one was lost")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace plimsoll::cli
