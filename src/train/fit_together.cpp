#include "train/fit_together.h"

#include <omp.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "train/agreement.h"
#include "train/forecast.h"
#include "train/join_ranks.h"
#include "train/replica_thread.h"
#include "train/strategy.h"

namespace plimsoll::train {
namespace {

// Planning sets the number of threads of the thread that calls it.
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

// The session is that of all together: what was learned goes to the file, also after an error.
class Ending {
 public:
  explicit Ending(Compiled& compiled) : compiled_(compiled) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    try {
      compiled_.release();
    } catch (const Error&) {
      compiled_.drop();  // numbers that are not finite, or a full disk: the error that is thrown says more
    }
  }

 private:
  Compiled& compiled_;
};

std::chrono::milliseconds timeout_of(const StrategyContents& strategy) {
  return std::chrono::milliseconds(static_cast<int64_t>(strategy.options.timeout * 1000));
}

// What the replicas that are planned later get is held meanwhile: each has the same part of what the line has free.
class SharedLine {
 public:
  SharedLine(const MemoryLine& line, int replicas) : line_(line), left_(replicas) {
    line_.measure_process();
    held_ = line_.reserve(Tag::Runtime, 0);
  }
  void begin_next() {
    const Bytes free = line_.free() + held_.bytes();
    held_.resize(0);
    held_.resize(free / left_ * (left_ - 1));
    --left_;
  }

  // One replica was refused under its part: says what all of them need.
  [[noreturn]] void refuse(const DoesNotFit& of, int replica, int count) const {
    Refusal all = of.refusal();
    const Bytes own = all.need - all.runtime - all.others;
    const Bytes other_replicas = own * (count - 1 - replica);
    all.others += std::max<Bytes>(0, other_replicas - held_.bytes());
    all.need = all.runtime + all.others + own;
    all.smallest_line = round_line(all.need);
    all.reason = fmt::format("replica {} of {} must fit its part of what the line leaves for all", replica, count);
    throw DoesNotFit(all);
  }

 private:
  MemoryLine line_;
  int left_;
  Reservation held_;
};

// The error of the replica that failed first; the others fail because it ended them.
class FirstFailure {
 public:
  void set(std::exception_ptr failure, int replica) {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    replica_ = replica;
  }
  void rethrow() const {
    if (!failure_) return;
    if (replica_ == 0) std::rethrow_exception(failure_);
    try {
      std::rethrow_exception(failure_);
    } catch (const DoesNotFit&) {
      throw;
    } catch (const Error& e) {
      throw Error(fmt::format("replica {}: {}", replica_, e.what()), e.kind());
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  int replica_ = 0;
};

class MirroredFit {
 public:
  MirroredFit(Compiled& compiled, SessionNeed need, const StrategyContents& strategy)
      : compiled_(compiled),
        need_(std::move(need)),
        count_(strategy.replicas),
        ends_(ranks::make_replicas(count_, timeout_of(strategy))),
        ending_(compiled),
        threads_(static_cast<size_t>(count_ - 1)) {
    need_.shards = strategy.options.shards;
    need_.shares_batches = true;
    start_threads();
  }

  History run(const LoopOptions& options, Callbacks callbacks) {
    plan();
    for (const auto& other : others_)
      if (rank_facts(*other) != rank_facts(*compiled_.open_training()))
        throw Error("the plans of the replicas do not exchange the same");
    LoopOptions following = options;
    following.follows_first_rank = true;
    std::deque<TrainingLoop> loops;  // all live until the last replica is done with the batch of the first
    loops.emplace_back(*compiled_.open_training(), following, std::move(callbacks));
    for (const auto& other : others_) loops.emplace_back(*other, following);
    compiled_.set_trained();
    History history;
    FirstFailure failure;
    const auto run_replica = [&](int replica) {
      try {
        History own = loops[static_cast<size_t>(replica)].run();
        if (replica == 0) history = std::move(own);
      } catch (const std::exception& e) {
        failure.set(std::current_exception(), replica);
        const auto* error = dynamic_cast<const Error*>(&e);
        ends_[static_cast<size_t>(replica)]->abort(e.what(), error == nullptr ? 1 : error->exit_code());
      }
    };
    for (int i = 1; i < count_; ++i) thread(i).start([&run_replica, i] { run_replica(i); });
    run_replica(0);
    for (int i = 1; i < count_; ++i) thread(i).wait();
    failure.rethrow();
    return history;
  }

 private:
  ReplicaThread& thread(int replica) { return threads_[static_cast<size_t>(replica - 1)]; }

  // Their pools of threads exist before the process is measured.
  void start_threads() {
    const auto begin = [this](int replica) {
      omp_set_num_threads(kept_.share(replica, count_));
#pragma omp parallel
      {}
      const ranks::NetworkSpeed speed = ranks::measure_network(*ends_[static_cast<size_t>(replica)]);
      if (replica == 0) need_.network = speed;
    };
    for (int i = 1; i < count_; ++i) thread(i).start([begin, i] { begin(i); });
    begin(0);
    for (int i = 1; i < count_; ++i) thread(i).wait();
  }

  // One after another, each on its own thread: kernels are made for the number of threads that they run with.
  void plan() {
    SharedLine line(need_.line, count_);
    for (int i = 0; i < count_; ++i) {
      line.begin_next();
      SessionNeed need = need_;
      if (count_ > 1) need.communicator = ends_[static_cast<size_t>(i)];
      need.threads = kept_.share(i, count_);
      need.shares_batches = count_ > 1;
      try {
        if (i == 0)
          compiled_.ready(need);
        else
          thread(i).run([&] {
            others_.push_back(make_training(compiled_.spec_for(need)));
            others_.back()->session->open();
          });
      } catch (const DoesNotFit& e) {
        line.refuse(e, i, count_);
      }
    }
  }

  Compiled& compiled_;
  SessionNeed need_;
  const int count_;
  const KeptThreads kept_;
  std::vector<std::shared_ptr<ranks::Communicator>> ends_;
  const Ending ending_;
  std::vector<std::unique_ptr<Training>> others_;
  std::deque<ReplicaThread> threads_;  // last: they end first
};

// MPI is started once in a process, whoever asks; it ends with the process.
const JoinedRanks& own_ranks(const StrategyContents& strategy) {
  static const JoinedRanks joined = join_ranks(strategy.options.timeout);
  return joined;
}

// Of this rank. What MPI holds counts as long as it is used.
struct RankPlace {
  RankPlace(SessionNeed& need, const StrategyContents& strategy) {
    need.shards = strategy.options.shards;
    need.stages = strategy.stages;
    if (!is_one_of_several()) return;
    const JoinedRanks& joined = own_ranks(strategy);
    need.communicator = joined.communicator;
    need.network = joined.network;
    need.threads = joined.threads;
    if (need.line.covers_process()) mpi = need.line.reserve(Tag::Runtime, joined.bytes);
  }
  Reservation mpi;
};

RankFacts fit_facts(const Training& training, const LoopOptions& options, uint64_t seed) {
  RankFacts facts = rank_facts(training);
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

History fit_as_rank(Compiled& compiled, SessionNeed need, const StrategyContents& strategy, LoopOptions options,
                    Callbacks callbacks) {
  const KeptThreads kept;
  const RankPlace place(need, strategy);
  const Ending ending(compiled);
  ranks::Communicator* const ranks = need.communicator.get();
  options.follows_first_rank = true;
  if (ranks != nullptr && ranks->rank() > 0) callbacks.clear();
  try {
    run_together(ranks, [&] {
      const Training& training = compiled.ready(need);
      return fmt::format("fits: the plan takes {} of {}", format_bytes(training.session->peak_bytes()),
                         format_bytes(training.line->limit()));
    });
    Training& training = *compiled.open_training();
    if (ranks != nullptr) {
      expect_same_on_ranks(*ranks, fit_facts(training, options, compiled.options().seed));
      expect_matching_exchanges(training);
    }
    TrainingLoop loop(training, options, std::move(callbacks));
    compiled.set_trained();
    History history = loop.run();
    if (training.place.stages > 1) compiled.keep_stages();
    return history;
  } catch (const AgreedError& e) {
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

History fit_together(Compiled& compiled, SessionNeed need, const StrategyContents& strategy, LoopOptions options,
                     Callbacks callbacks) {
  compiled.release();
  if (strategy.kind == StrategyKind::Mirrored)
    return MirroredFit(compiled, std::move(need), strategy).run(options, std::move(callbacks));
  return fit_as_rank(compiled, std::move(need), strategy, std::move(options), std::move(callbacks));
}

Forecast plan_together(Compiled& compiled, SessionNeed need, const StrategyContents& strategy) {
  compiled.release();
  const KeptThreads kept;
  if (strategy.kind != StrategyKind::Mirrored) {
    const RankPlace place(need, strategy);
    return forecast(compiled.spec_for(need));
  }
  need.shards = strategy.options.shards;
  need.threads = kept.share(0, strategy.replicas);
  if (strategy.replicas > 1) need.communicator = ranks::make_replicas(strategy.replicas, timeout_of(strategy))[0];
  need.shares_batches = strategy.replicas > 1;
  SharedLine line(need.line, strategy.replicas);
  line.begin_next();
  return forecast(compiled.spec_for(need));
}

}  // namespace plimsoll::train
