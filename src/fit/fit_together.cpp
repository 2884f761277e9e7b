#include "fit/fit_together.h"

#include <omp.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "forecast/forecast.h"
#include "together/join_ranks.h"
#include "together/replica_group.h"
#include "together/replica_line.h"
#include "together/strategy.h"
#include "train/agreement.h"

namespace plimsoll::fit {
namespace {

// Restores the number of OpenMP threads of the calling thread, which planning changes.
class KeptThreads {
 public:
  KeptThreads() = default;
  KeptThreads(const KeptThreads&) = delete;
  KeptThreads& operator=(const KeptThreads&) = delete;
  ~KeptThreads() { omp_set_num_threads(before_); }
  int share(int index, int count) const { return std::max(1, before_ / count + (index < before_ % count ? 1 : 0)); }

 private:
  const int before_ = omp_get_max_threads();
};

// Ends the session that was planned for all replicas or ranks: its weights go to the model's file, also after an error.
class Ending {
 public:
  explicit Ending(Compiled& compiled) : compiled_(compiled) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    try {
      compiled_.release();
    } catch (const Error&) {
      compiled_.drop();  // numbers that are not finite, or a full disk: the error of the training says more
    }
  }

 private:
  Compiled& compiled_;
};

std::chrono::milliseconds timeout_of(const together::StrategyContents& strategy) {
  return std::chrono::milliseconds(static_cast<int64_t>(strategy.options.timeout * 1000));
}

class MirroredFit {
 public:
  MirroredFit(Compiled& compiled, train::Spec call, const together::StrategyContents& strategy)
      : compiled_(compiled),
        call_(std::move(call)),
        group_(strategy.replicas, timeout_of(strategy)),
        ending_(compiled) {
    call_.shards = strategy.options.shards;
    call_.network = group_.network();
  }

  History run(const train::LoopOptions& options, Callbacks callbacks) {
    plan();
    for (const auto& other : others_)
      if (train::rank_facts(*other) != train::rank_facts(*compiled_.open_training()))
        throw Error("the plans of the replicas do not exchange the same");
    train::LoopOptions following = options;
    following.follows_first_rank = true;
    std::deque<train::TrainingLoop>
        loops;  // all live until the last replica has read the batch that the first one holds
    loops.emplace_back(*compiled_.open_training(), following, std::move(callbacks));
    for (const auto& other : others_) loops.emplace_back(*other, following);
    compiled_.set_trained();
    History history;
    group_.run([&](int replica) {
      History own = loops[static_cast<size_t>(replica)].run();
      if (replica == 0) history = std::move(own);
    });
    return history;
  }

 private:
  // One after another, each on its own thread: kernels are made for the number of threads that they run with.
  void plan() {
    const int count = group_.count();
    together::ReplicaLine line(*call_.own_line, count);
    for (int i = 0; i < count; ++i) {
      train::Spec call = call_;
      if (count > 1) call.communicator = group_.end(i);
      call.threads = group_.threads_of(i);
      call.shares_batches = count > 1;
      line.plan(i, [&] {
        group_.run_on(i, [&] {
          if (i == 0) {
            compiled_.ready(call);
            return;
          }
          others_.push_back(train::make_training(compiled_.complete(call)));
          others_.back()->session->open();
        });
      });
    }
  }

  Compiled& compiled_;
  train::Spec call_;
  together::ReplicaGroup group_;
  const Ending ending_;
  std::vector<std::unique_ptr<train::Training>> others_;
};

// MPI is started once in a process, whoever asks; it ends with the process.
const together::JoinedRanks& own_ranks(const together::StrategyContents& strategy) {
  static const together::JoinedRanks joined = together::join_ranks(strategy.options.timeout);
  return joined;
}

// Adds what this rank is among the others to the call, and holds the bytes of MPI while it lives.
struct RankPlace {
  RankPlace(train::Spec& call, const together::StrategyContents& strategy) {
    call.shards = strategy.options.shards;
    call.stages = strategy.stages;
    if (!together::is_one_of_several()) return;
    const together::JoinedRanks& joined = own_ranks(strategy);
    call.communicator = joined.communicator;
    call.network = joined.network;
    call.threads = joined.threads;
    if (call.own_line->covers_process()) mpi = call.own_line->reserve(Tag::Runtime, joined.bytes);
  }
  Reservation mpi;
};

ranks::RankFacts fit_facts(const train::Training& training, const train::LoopOptions& options, uint64_t seed) {
  ranks::RankFacts facts = train::rank_facts(training);
  const auto add = [&](const char* name, const auto& value) { facts.emplace_back(name, fmt::format("{}", value)); };
  add("seed", seed);
  add("seed of the order of samples", options.seed);
  add("number of epochs", options.epochs);
  add("first epoch", options.initial_epoch);
  add("steps per epoch", options.steps_per_epoch);
  add("steps of validation", options.validation_steps);
  add("frequency of validation", options.validation_frequency);
  return facts;
}

History fit_as_rank(Compiled& compiled, train::Spec call, const together::StrategyContents& strategy,
                    train::LoopOptions options, Callbacks callbacks) {
  const KeptThreads kept;
  const RankPlace place(call, strategy);
  const Ending ending(compiled);
  ranks::Communicator* const ranks = call.communicator.get();
  options.follows_first_rank = true;
  if (ranks != nullptr && ranks->rank() > 0) callbacks.clear();
  try {
    ranks::run_together(ranks, [&] {
      const train::Training& training = compiled.ready(call);
      return fmt::format("fits: the plan takes {} of {}", format_bytes(training.session->peak_bytes()),
                         format_bytes(training.line->limit()));
    });
    train::Training& training = *compiled.open_training();
    if (ranks != nullptr) {
      ranks::expect_same_on_ranks(*ranks, fit_facts(training, options, compiled.options().seed));
      train::expect_matching_exchanges(training);
    }
    train::TrainingLoop loop(training, options, std::move(callbacks));
    compiled.set_trained();
    History history = loop.run();
    if (training.place.stages > 1) compiled.keep_stages();
    return history;
  } catch (const ranks::AgreedError& e) {
    if (e.kind() == ErrorKind::DoesNotFit) throw DoesNotFit({}, e.what());
    throw;
  } catch (const std::exception& e) {
    if (ranks == nullptr || ranks->has_failed()) throw;
    const auto* error = dynamic_cast<const Error*>(&e);
    const std::string message = fmt::format("rank {}: {}", ranks->rank(), e.what());
    ranks->announce(message, error == nullptr ? 1 : error->exit_code());
    if (error == nullptr) throw;
    throw Error(message, error->kind());
  }
}

}  // namespace

History fit_together(Compiled& compiled, train::Spec call, const together::StrategyContents& strategy,
                     train::LoopOptions options, Callbacks callbacks) {
  compiled.release_all();
  if (strategy.kind == together::StrategyKind::Mirrored)
    return MirroredFit(compiled, std::move(call), strategy).run(options, std::move(callbacks));
  return fit_as_rank(compiled, std::move(call), strategy, std::move(options), std::move(callbacks));
}

Forecast plan_together(Compiled& compiled, train::Spec call, const together::StrategyContents& strategy) {
  compiled.release_all();
  const KeptThreads kept;
  if (strategy.kind != together::StrategyKind::Mirrored) {
    const RankPlace place(call, strategy);
    return forecast::forecast(compiled.complete(call));
  }
  call.shards = strategy.options.shards;
  call.threads = kept.share(0, strategy.replicas);
  if (strategy.replicas > 1) call.communicator = ranks::make_replicas(strategy.replicas, timeout_of(strategy))[0];
  call.shares_batches = strategy.replicas > 1;
  std::optional<Forecast> planned;
  together::ReplicaLine(*call.own_line, strategy.replicas).plan(0, [&] {
    planned = forecast::forecast(compiled.complete(call));
  });
  return *planned;
}

}  // namespace plimsoll::fit
