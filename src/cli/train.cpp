// plimsoll train: plan, then epochs of steps with progress, then what was planned against what was measured.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/auto_batch.h"
#include "cli/evaluate.h"
#include "cli/plan_report.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "session/bad_data.h"
#include "session/weights_file.h"

namespace plimsoll {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Totals {
  double loss = 0;
  double correct = 0;
  int64_t samples = 0;
};

class Training {
 public:
  Training(const Settings& settings, Workload& load, const DataFiles& files)
      : settings_(settings),
        load_(load),
        train_(load, need(files.train_x, "training inputs"), need(files.train_y, "training labels"), settings, true,
               true),
        progress_(Progress::parse_form(settings.progress, settings.json), settings.epochs, train_.steps_per_epoch(),
                  load.line->limit()) {
    if (!files.test_x.empty() && !files.test_y.empty())
      test_ = std::make_unique<Inputs>(load, files.test_x, files.test_y, settings, false, false);
  }

  // Before the session opens: the last batch of the test data may be smaller.
  void plan_rest() {
    if (test_) plan_last_batch(load_, *test_);
  }

  // False when a signal asked to stop.
  bool run() {
    for (int64_t epoch = 1; epoch <= settings_.epochs; ++epoch) {
      Totals totals;
      Prefetch& batches = train_.start_epoch(epoch);
      int64_t step = 0;
      while (const Slot* slot = batches.next()) {
        if (is_stop_asked()) return false;
        one_step(*slot, totals);
        ++step;
        progress_.step(epoch, step, slot->samples, totals.loss / static_cast<double>(step), accuracy(totals));
        if (settings_.steps > 0 && ++steps_ >= settings_.steps) return true;
      }
      train_.stop();
      if (test_) score_ = evaluate(load_, *test_);
      if (score_.stopped) return false;
      progress_.epoch(epoch, totals.loss / static_cast<double>(step), accuracy(totals), test_ ? score_.loss : kNone,
                      test_ ? score_.accuracy : kNone);
    }
    return true;
  }

  bool has_score() const { return test_ != nullptr && score_.samples > 0; }
  const Score& score() const { return score_; }
  double last_loss() const { return last_loss_; }

 private:
  static const std::string& need(const std::string& file, const char* what) {
    if (file.empty())
      throw Error(fmt::format("the {} are missing; give them with --train-x and --train-y", what), ErrorKind::Usage);
    return file;
  }

  double accuracy(const Totals& totals) const {
    if (!load_.training.correct.is_set()) return kNone;
    return totals.correct / static_cast<double>(totals.samples);
  }

  void one_step(const Slot& slot, Totals& totals) {
    const auto row = [](const TensorType& type) { return element_count(type.shape).count() * size_of(type.dtype); };
    const auto feed = [&](Tensor to, const TensorType& type, const void* rows) {
      return Feed(to, type.dtype, rows, slot.samples * row(type));
    };
    const Feed feeds[] = {feed(load_.training.input, load_.spec.input, slot.rows[0]),
                          feed(load_.training.labels, load_.spec.labels, slot.rows[1])};
    const auto views = load_.session->run_step(Workload::Train, feeds);
    last_loss_ = static_cast<double>(views[0].floats()[0]);
    if (!std::isfinite(last_loss_))
      throw_bad_loss(last_loss_, feeds, fmt::format("at step {}", load_.session->step_count()),
                     "try a smaller --lr, or --clip 1");
    totals.loss += last_loss_;
    if (views.size() > 1) totals.correct += static_cast<double>(views[1].floats()[0]);
    totals.samples += slot.samples;
  }

  const Settings& settings_;
  Workload& load_;
  Inputs train_;
  std::unique_ptr<Inputs> test_;
  Progress progress_;
  Score score_;
  double last_loss_ = kNone;
  int64_t steps_ = 0;
};

void report_end(const Settings& settings, const Workload& load, const Training& training, bool finished) {
  const Bytes planned = load.session->peak_bytes();
  const Bytes measured = peak_resident_bytes();
  const Bytes line = load.line->limit();
  if (settings.json) {
    nlohmann::json end{{"event", "end"},
                       {"finished", finished},
                       {"loss", training.last_loss()},
                       {"planned_peak_bytes", planned},
                       {"measured_peak_bytes", measured},
                       {"line_bytes", line}};
    if (training.has_score()) {
      end["test_loss"] = training.score().loss;
      if (!std::isnan(training.score().accuracy)) end["test_accuracy"] = training.score().accuracy;
    }
    fmt::print("{}\n", end.dump());
    return;
  }
  if (training.has_score() && !std::isnan(training.score().accuracy))
    fmt::print("test    accuracy {:.2f} % on {} samples\n", 100 * training.score().accuracy, training.score().samples);
  fmt::print("peak    planned {}\n        measured {} (VmHWM)\n        line {}\n", format_exact_bytes(planned),
             format_exact_bytes(measured), format_exact_bytes(line));
}

}  // namespace

int run_train(const Settings& settings) {
  watch_signals();
  Progress::parse_form(settings.progress, settings.json);  // a wrong word is refused before anything else
  const DataFiles files = find_data(settings);             // names only: nothing is opened before the plan stands
  const auto load = make_sized_workload(settings, Purpose::Train);
  if (!settings.save.empty()) expect_room_for_weights(load->graph, settings.save);
  if (settings.json)
    fmt::print("{}\n", plan_json(*load).dump());
  else
    fmt::print("{}", plan_text(*load, 3));
  std::fflush(stdout);
  Training training(settings, *load, files);
  training.plan_rest();
  load->session->open();
  if (!settings.weights.empty()) load_weights(*load->session, load->graph, settings.weights);
  const bool finished = training.run();
  if (!settings.save.empty()) save_weights(*load->session, load->graph, settings.save);
  report_end(settings, *load, training, finished);
  expect_line_kept(load->line->limit());
  if (finished) return 0;
  throw Error(settings.save.empty() ? "stopped by a signal; with --save FILE the weights would have been kept"
                                    : fmt::format("stopped by a signal; the weights are in '{}'", settings.save),
              ErrorKind::Stopped);
}

void complete_demo(Settings& settings) {
  settings.model = "fashion";
  if (settings.memory.empty()) settings.memory = "48MiB";
  if (settings.data.empty()) settings.data = "/usr/share/datasets/fashion-mnist";
}

}  // namespace plimsoll
