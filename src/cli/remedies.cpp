#include "cli/remedies.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/auto_batch.h"
#include "cli/plan_words.h"
#include "cli/verbs.h"
#include "data/inflate.h"
#include "memory/process.h"

namespace plimsoll::cli {
namespace {

// No planning starts later, and none for smaller batches after half of it: the disk, which takes longest, comes last.
constexpr double kSeconds = 8;
// A line is named when a plan under it was made: the next is tried where it was not.
constexpr int kLineTries = 4;
class Search {
 public:
  Search(const Settings& settings, Purpose purpose, const Refusal& refused)
      : settings_(settings), purpose_(purpose), refused_(refused), started_(Clock::now()) {
    batch_ = settings.batch > 0 ? settings.batch : find_model(settings.model, settings.model_options).batch;
  }

  std::vector<Remedy> run() {
    raise_line();
    take_back_levers();
    allow_more_disk();
    if (purpose_ != Purpose::Evaluate) drop_state();
    if (purpose_ != Purpose::Evaluate) split_norms();
    lower_batch();
    use_a_disk();
    if (purpose_ != Purpose::Evaluate) keep_in_half();
    // A price is one against the step as it was asked for, whose time every plan of it knows.
    for (auto& [remedy, plan_ns] : found_)
      remedy.slowdown = baseline_ns_ > 0 ? std::max(plan_ns / baseline_ns_, 1.0) : 1.0;
    std::vector<Remedy> remedies;
    for (auto& [remedy, plan_ns] : found_) remedies.push_back(std::move(remedy));
    std::stable_sort(remedies.begin(), remedies.end(), [](const Remedy& a, const Remedy& b) {
      return std::tie(a.is_lossy, a.changes_results, a.slowdown) < std::tie(b.is_lossy, b.changes_results, b.slowdown);
    });
    return remedies;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool has_time(double share = 1) const {
    return !is_stop_asked() && std::chrono::duration<double>(Clock::now() - started_).count() < share * kSeconds;
  }

  static double sample_ns(const Workload& load) {
    return load.session->steps().front().plan.predicted_ns / static_cast<double>(load.batch);
  }

  void keep(const Workload& load, std::string flags, std::string what, bool changes_results) {
    const plan::Plan& plan = load.session->steps().front().plan;
    if (baseline_ns_ == 0 && (load.batch == batch_ || settings_.auto_batch))
      baseline_ns_ = plan.unconstrained_ns / static_cast<double>(load.batch);
    if (plan.exactness == plan::Exactness::WithinTolerance && !changes_results) what += ", " + exactness_text(plan);
    found_.emplace_back(
        Remedy{std::move(flags), std::move(what), 1, changes_results, false, load.session->file_bytes()},
        sample_ns(load));
  }

  static std::string memory_flag(Bytes line) { return "--memory " + line_text(line); }
  bool try_line(Settings settings, Bytes line, const std::string& flags, const std::string& what) {
    for (int i = 0; i < kLineTries && has_time(); ++i) {
      settings.memory = fmt::format("{}", line);
      const Attempt tried = attempt(settings, purpose_);
      if (tried.load) {
        keep(*tried.load, (flags.empty() ? "" : flags + " ") + memory_flag(line), what + surroundings(line), false);
        smallest_line_ = line;
        return true;
      }
      line = std::max(line, tried.fit->smallest_line);
    }
    return false;
  }

  // Planning can't know what else runs here, but it can say that the machine is too small.
  std::string surroundings(Bytes line) const {
    Settings none = settings_;
    none.memory.clear();
    const Bytes allowed = resolve_line(none).bytes;
    return line > allowed ? fmt::format(", more than the {} that the surroundings allow", format_bytes(allowed)) : "";
  }

  void raise_line() { try_line(settings_, refused_.smallest_line, "", "the smallest line that works as asked"); }

  void take_back_levers() {
    if (parse_without(settings_.without) == Allowed{} || !has_time()) return;
    Settings all = settings_;
    all.without.clear();
    const Attempt tried = attempt(all, purpose_);
    if (tried.load) return keep(*tried.load, "--without none", "every lever may be pulled", false);
    if (tried.fit->smallest_line < smallest_line_)
      try_line(all, tried.fit->smallest_line, "--without none", "every lever may be pulled, at its smallest line");
  }

  void allow_more_disk() {
    if (settings_.scratch.empty() || settings_.disk_limit.empty() || !has_time()) return;
    Settings more = settings_;
    more.disk_limit = "90%";
    const Attempt tried = attempt(more, purpose_);
    if (tried.load) keep(*tried.load, "--disk-limit 90%", "a larger scratch file", false);
  }

  void use_a_disk() {
    if (!settings_.scratch.empty() || !parse_without(settings_.without).levers.spill || !has_time()) return;
    Settings disk = settings_;
    disk.scratch = data::choose_scratch_dir("");
    try {
      const Attempt tried = attempt(disk, purpose_);
      const std::string flag = "--scratch " + disk.scratch;
      if (tried.load)
        return keep(*tried.load, flag,
                    fmt::format("a scratch file of {} there", format_bytes(tried.load->session->file_bytes())), false);
      // Only when the disk helps much.
      if (tried.fit->smallest_line < smallest_line_ - smallest_line_ / 20)
        try_line(disk, tried.fit->smallest_line, flag, "a scratch file there, at its smallest line");
    } catch (const Error&) {
      // No folder here can hold such a file: then this is no remedy.
    }
  }

  void drop_state() {
    if ((settings_.optimiser == "sgd" && settings_.momentum == 0) || !has_time()) return;
    Settings plain = settings_;
    plain.optimiser = "sgd";
    plain.momentum = 0;
    const Attempt tried = attempt(plain, purpose_);
    if (tried.load)
      keep(*tried.load, settings_.momentum > 0 ? "--optimizer sgd --momentum 0" : "--optimizer sgd",
           "an optimiser without state: other results, and another --lr", true);
  }

  void split_norms() {
    if (!settings_.split.empty() || !parse_without(settings_.without).levers.micro_batch || !has_time()) return;
    Settings split = settings_;
    split.split = {"batch_norm"};
    const Attempt tried = attempt(split, purpose_);
    // A model without it goes in parts anyway.
    if (tried.load && tried.load->session->steps().front().plan.part_samples.size() > 1)
      keep(*tried.load, "--split batch_norm", "statistics of each part instead of the batch: other results", true);
  }

  // The least of it that is enough.
  void keep_in_half() {
    const HalfStorage now = parse_half_storage(settings_.half_storage);
    for (const HalfStorage more : {HalfStorage{false, true}, HalfStorage{true, false}, HalfStorage{true, true}}) {
      const bool adds = (more.values && !now.values) || (more.state && !now.state);
      const bool drops = (now.values && !more.values) || (now.state && !more.state);
      if (!adds || drops || !has_time()) continue;
      Settings half = settings_;
      half.half_storage.clear();
      if (more.values) half.half_storage.emplace_back("values");
      if (more.state) half.half_storage.emplace_back("state");
      const Attempt tried = attempt(half, purpose_);
      if (!tried.load) continue;
      keep(*tried.load, fmt::format("--half-storage {}", fmt::join(half.half_storage, ",")),
           fmt::format("lossy: {} in 16 bits between uses", to_string(more)), true);
      found_.back().first.is_lossy = true;
      return;
    }
  }

  void lower_batch() {
    if (batch_ <= 1 || settings_.auto_batch || !has_time(0.5)) return;
    const LargestBatch found = find_largest_batch(settings_, purpose_, batch_ - 1, [&] { return has_time(0.5); });
    if (found.batch == 0) return;
    Settings smaller = settings_;
    smaller.batch = found.batch;
    const Attempt tried = attempt(smaller, purpose_);
    if (tried.load)
      keep(*tried.load, fmt::format("--batch {}", found.batch), "the largest batch found that fits: other results",
           true);
  }

  Settings settings_;
  const Purpose purpose_;
  const Refusal& refused_;
  const Clock::time_point started_;
  int64_t batch_ = 0;
  double baseline_ns_ = 0;
  Bytes smallest_line_ = MemoryLine::kUnlimited;  // that works as asked
  std::vector<std::pair<Remedy, double>> found_;  // with the time for a sample
};

}  // namespace

Refusal verify_smallest_line(const Settings& settings, Purpose purpose, Refusal refusal) {
  Settings at = settings;
  for (int i = 0; i < kLineTries && refusal.smallest_line > 0; ++i) {
    at.memory = fmt::format("{}", refusal.smallest_line);
    const Attempt tried = attempt(at, purpose);
    if (tried.load) break;
    refusal.need = refusal.smallest_line = std::max(refusal.smallest_line + 1, tried.fit->smallest_line);
  }
  return refusal;
}

std::vector<Remedy> find_remedies(const Settings& settings, Purpose purpose, const Refusal& refused) {
  return Search(settings, purpose, refused).run();
}

std::string remedies_text(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) return "";
  size_t width = 0;
  for (const Remedy& remedy : remedies) width = std::max(width, remedy.flags.size());
  std::string text = "what works instead, planned just now, with the predicted time for a sample against no line:\n";
  for (const Remedy& remedy : remedies)
    text += fmt::format("  {:<{}}  {:>9}  {}\n", remedy.flags, width, percent_more(remedy.slowdown, 1), remedy.what);
  return text;
}

nlohmann::json remedies_json(const std::vector<Remedy>& remedies) {
  nlohmann::json list = nlohmann::json::array();
  for (const Remedy& remedy : remedies)
    list.push_back({{"flags", remedy.flags},
                    {"what", remedy.what},
                    {"slowdown", remedy.slowdown},
                    {"changes_results", remedy.changes_results},
                    {"lossy", remedy.is_lossy},
                    {"scratch_file_bytes", remedy.scratch_file_bytes}});
  return list;
}

}  // namespace plimsoll::cli
