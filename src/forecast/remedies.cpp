#include "forecast/remedies.h"
#include "memory/temporary_file.h"

#include <time.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "autodiff/updates.h"
#include "forecast/batch_search.h"
#include "input/files/inflate.h"
#include "ops/updates/rule.h"
#include "report/words.h"
#include "train/training_passes.h"

namespace plimsoll::forecast {
namespace {

// A line is named only when planning under it succeeds; otherwise a higher one is tried.
constexpr int kLineTries = 4;
// Smaller batches are searched in the first half of the time: the disk, which takes longest, comes after them.
constexpr double kShareOfBatches = 0.5;
constexpr double kLargestDiskShare = 0.9;

class RemedySearch {
 public:
  RemedySearch(const train::Spec& spec, const Refusal& refused, const MayGoOn& may_go_on,
               const StopQuestion& is_stop_asked, std::vector<std::string>* not_tried)
      : spec_(spec), refused_(refused), may_go_on_(may_go_on), is_stop_asked_(is_stop_asked), not_tried_(not_tried) {
    batch_ = spec.batch > 0 ? spec.batch : train::model_of(spec).batch;
  }

  std::vector<PlannedRemedy> run() {
    const bool trains = spec_.purpose == train::Purpose::Train || spec_.purpose == train::Purpose::Profile;
    raise_line();
    take_back_levers();
    allow_more_disk();
    if (trains) drop_state();
    if (trains) split_norms();
    lower_batch();
    use_a_disk();
    if (trains) keep_in_half();
    if (trains) keep_frozen_smaller();
    // Prices are relative to the requested step without a line, whose time every plan holds.
    for (size_t i = 0; i < found_.size(); ++i)
      found_[i].slowdown = baseline_ns_ > 0 ? std::max(sample_ns_[i] / baseline_ns_, 1.0) : 1.0;
    std::stable_sort(found_.begin(), found_.end(), [](const PlannedRemedy& a, const PlannedRemedy& b) {
      return std::tie(a.is_lossy, a.changes_results, a.slowdown) < std::tie(b.is_lossy, b.changes_results, b.slowdown);
    });
    return std::move(found_);
  }

 private:
  // `what` is said to be not tried when there is none.
  bool has_time(const char* what, double share = 1) {
    if (is_stop_asked_()) return false;
    if (may_go_on_(share)) return true;
    if (not_tried_ != nullptr && (not_tried_->empty() || not_tried_->back() != what)) not_tried_->emplace_back(what);
    return false;
  }
  Attempt plan(const train::Spec& spec) const { return attempt(spec, is_stop_asked_); }

  void keep(const train::Spec& spec, const train::Training& training, std::string what, bool changes_results) {
    const plan::Plan& plan = training.main_step().plan;
    const auto samples = static_cast<double>(training.spec.batch);
    if (baseline_ns_ == 0 && (training.spec.batch == batch_ || spec_.finds_batch))
      baseline_ns_ = plan.unconstrained_ns / samples;
    if (plan.exactness == plan::Exactness::WithinTolerance && !changes_results)
      what += ", " + report::exactness_text(plan);
    found_.push_back({spec, std::move(what), 1, changes_results, false, training.session->file_bytes()});
    sample_ns_.push_back(plan.predicted_ns / samples);
  }

  bool try_line(train::Spec spec, Bytes line, const std::string& what) {
    for (int i = 0; i < kLineTries && has_time("a larger line"); ++i) {
      spec.line = line;
      const Attempt tried = plan(spec);
      if (tried.training) {
        keep(spec, *tried.training, what + beyond_machine(line), false);
        smallest_line_ = line;
        return true;
      }
      line = std::max(line, tried.refusal->smallest_line);
    }
    return false;
  }

  // A remark for a line that this machine can't give; what other programs hold is not considered.
  static std::string beyond_machine(Bytes line) {
    const Bytes allowed = memory::default_line(memory::gather_memory_facts()).bytes;
    return line > allowed
               ? fmt::format(", more than the {} that the machine and its limits allow", format_bytes(allowed))
               : "";
  }

  void raise_line() { try_line(spec_, refused_.smallest_line, "the smallest line that works as asked"); }

  void take_back_levers() {
    train::Spec all = spec_;
    all.levers = {};
    all.masks = true;
    if ((spec_.levers == all.levers && spec_.masks) || !has_time("all levers")) return;
    const Attempt tried = plan(all);
    if (tried.training) return keep(all, *tried.training, "all levers switched on", false);
    if (tried.refusal->smallest_line < smallest_line_)
      try_line(all, tried.refusal->smallest_line, "all levers switched on, at its smallest line");
  }

  void allow_more_disk() {
    if (spec_.scratch_folder.empty() || !spec_.disk_limit.is_given() || !has_time("a larger scratch file")) return;
    train::Spec more = spec_;
    more.disk_limit = {.share = kLargestDiskShare};
    const Attempt tried = plan(more);
    if (tried.training) keep(more, *tried.training, "a larger scratch file", false);
  }

  void use_a_disk() {
    if (!spec_.scratch_folder.empty() || !spec_.levers.spill || !has_time("a scratch file")) return;
    train::Spec disk = spec_;
    disk.scratch_folder = memory::choose_scratch_dir("");
    try {
      const Attempt tried = plan(disk);
      if (tried.training)
        return keep(disk, *tried.training,
                    fmt::format("a scratch file of {} there", format_bytes(tried.training->session->file_bytes())),
                    false);
      // Only when the disk helps much.
      if (tried.refusal->smallest_line < smallest_line_ - smallest_line_ / 20)
        try_line(disk, tried.refusal->smallest_line, "a scratch file there, at its smallest line");
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      // No folder here can hold such a file: then this is no remedy.
    }
  }

  void drop_state() {
    const Optimiser& optimiser = spec_.optimiser;
    if (!optimiser.keeps_state() || !has_time("an optimiser without state")) return;
    train::Spec plain = spec_;
    plain.optimiser = Optimiser::sgd();
    plain.optimiser.clip_norm = optimiser.clip_norm;
    plain.optimiser.clip_value = optimiser.clip_value;
    plain.optimiser.global_clip_norm = optimiser.global_clip_norm;
    plain.optimiser.state_bits = optimiser.state_bits;
    const Attempt tried = plan(plain);
    if (tried.training)
      keep(plain, *tried.training, "an optimiser without state: other results, and another learning rate", true);
  }

  void split_norms() {
    if (!spec_.split_ops.empty() || !spec_.levers.micro_batch || !has_time("batch norm by micro-batches")) return;
    train::Spec split = spec_;
    split.split_ops = {"batch_norm"};
    const Attempt tried = plan(split);
    // Not a remedy for a model without batch norm: it is cut into micro-batches anyway.
    if (tried.training && tried.training->main_step().plan.micro_batches.size() > 1)
      keep(split, *tried.training, "statistics of each micro-batch instead of the batch: other results", true);
  }

  // 16 bits for the optimiser's state, for values, or for both: the first of these that fits.
  void keep_in_half() {
    const bool has_values = spec_.policy.values != DType::F32;
    const bool has_state = spec_.optimiser.state_bits < 32;
    const bool can_have_state = autodiff::rule_of(spec_.optimiser).whole_state.empty();
    for (const auto& [values, state] : {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
      const bool adds = (values && !has_values) || (state && !has_state);
      const bool drops = (has_values && !values) || (has_state && !state);
      if (!adds || drops || (state && !can_have_state) || !has_time("16 bits")) continue;
      train::Spec half = spec_;
      if (values && !has_values) half.policy = Policy::mixed_bfloat16();
      if (state && !has_state) half.optimiser.state_bits = 16;
      const Attempt tried = plan(half);
      if (!tried.training) continue;
      keep(half, *tried.training,
           fmt::format("lossy: {} between uses", report::storage_text(half.policy.values, half.optimiser.state_bits)),
           true);
      found_.back().is_lossy = true;
      return;
    }
  }

  // The type that loses least among those that are enough.
  void keep_frozen_smaller() {
    if (spec_.freeze.is_empty()) return;
    for (const DType type : {DType::BF16, DType::I8}) {
      if (size_of(type) >= size_of(spec_.freeze.type) || !has_time("frozen weights in fewer bits")) continue;
      train::Spec smaller = spec_;
      smaller.freeze.type = type;
      const Attempt tried = plan(smaller);
      if (!tried.training) continue;
      keep(smaller, *tried.training, fmt::format("lossy: {}", report::storage_text(DType::F32, 32, type)), true);
      found_.back().is_lossy = true;
      return;
    }
  }

  void lower_batch() {
    if (batch_ <= 1 || spec_.finds_batch || !has_time("a smaller batch", kShareOfBatches)) return;
    const auto in_time = [&] { return !is_stop_asked_() && may_go_on_(kShareOfBatches); };
    const LargestBatch found = find_largest_batch(spec_, batch_ - 1, in_time, is_stop_asked_);
    if (found.batch == 0) return;
    train::Spec smaller = spec_;
    smaller.batch = found.batch;
    const Attempt tried = plan(smaller);
    if (tried.training) keep(smaller, *tried.training, "the largest batch found that fits: other results", true);
    if (tried.training && trains(spec_)) find_batch_at_once(found.batch, in_time);
  }

  // As Spec::finds_batch does it: without micro-batches, so that the batch may be smaller.
  void find_batch_at_once(int64_t at_most, const std::function<bool()>& in_time) {
    train::Spec at_once = spec_;
    at_once.levers.micro_batch = false;
    at_once.batch = find_largest_batch(at_once, at_most, in_time, is_stop_asked_).batch;
    const Attempt tried = at_once.batch > 0 ? plan(at_once) : Attempt();
    if (!tried.training) return;
    train::Spec finds = spec_;
    finds.finds_batch = true;
    keep(finds, *tried.training,
         fmt::format("finds the largest batch that fits at once, here {}: other results", at_once.batch), true);
  }

  const train::Spec& spec_;
  const Refusal& refused_;
  const MayGoOn& may_go_on_;
  const StopQuestion& is_stop_asked_;
  std::vector<std::string>* const not_tried_;
  int64_t batch_ = 0;
  double baseline_ns_ = 0;                        // for a sample
  Bytes smallest_line_ = MemoryLine::kUnlimited;  // that works as asked
  std::vector<PlannedRemedy> found_;
  std::vector<double> sample_ns_;  // of each found
};

}  // namespace

bool always_goes_on(double) { return true; }

double seconds_of_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

MayGoOn within_seconds(double seconds) {
  const double began = seconds_of_thread();
  return [=, last = began, longest = 0.0](double share) mutable {
    const double now = seconds_of_thread();
    longest = std::max(longest, now - last);
    last = now;
    return now + longest - began <= share * seconds;
  };
}

Refusal verify_smallest_line(const train::Spec& spec, Refusal refusal, const StopQuestion& is_stop_asked) {
  train::Spec at = spec;
  for (int i = 0; i < kLineTries && refusal.smallest_line > 0; ++i) {
    at.line = refusal.smallest_line;
    const Attempt tried = attempt(at, is_stop_asked);
    if (tried.training) break;
    refusal.need = refusal.smallest_line = std::max(refusal.smallest_line + 1, tried.refusal->smallest_line);
  }
  // A refusal adds a margin for the growth of a process between runs. For the smallest lines of inference that margin
  // is large, and such a process grows less: lower lines are tried.
  constexpr Bytes kSmallLine = 16 * MiB, kLess = MiB / 4;
  const bool trains = spec.purpose == train::Purpose::Train || spec.purpose == train::Purpose::Profile;
  for (int i = 0; i < kLineTries && !trains && refusal.smallest_line <= kSmallLine; ++i) {
    at.line = refusal.smallest_line - kLess;
    if (at.line <= refusal.line || !attempt(at, is_stop_asked).training) break;
    refusal.need = refusal.smallest_line = at.line;
  }
  return refusal;
}

std::vector<PlannedRemedy> find_remedies(const train::Spec& spec, const Refusal& refused, const MayGoOn& may_go_on,
                                         const StopQuestion& is_stop_asked, std::vector<std::string>* not_tried) {
  return RemedySearch(spec, refused, may_go_on, is_stop_asked, not_tried).run();
}

}  // namespace plimsoll::forecast
