// plimsoll train: plan, then epochs of steps with progress, then what was planned against what was measured.
#include <cerrno>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/auto_batch.h"
#include "cli/evaluate.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "memory/process.h"
#include "session/bad_data.h"
#include "session/weights_file.h"

namespace plimsoll::cli {
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

  // False when it was asked to stop.
  bool run() {
    for (int64_t epoch = 1; epoch <= settings_.epochs && !is_stop_asked(); ++epoch) {
      Totals totals;
      data::Prefetch& batches = train_.start_epoch(epoch);
      int64_t step = 0;
      bool is_cut = false;
      while (const data::BatchSlot* slot = is_cut || is_stop_asked() ? nullptr : batches.next()) {
        one_step(*slot, totals);
        ++step;
        progress_.step(epoch, step, slot->samples, totals.loss / static_cast<double>(step), accuracy(totals));
        is_cut = settings_.steps > 0 && ++steps_ >= settings_.steps;
      }
      train_.stop();
      // An epoch that was cut short has a line too, and no score.
      const bool is_whole = !is_cut && !is_stop_asked();
      if (is_whole && test_) score_ = evaluate(load_, *test_);
      const bool has_score = is_whole && test_ && !score_.stopped;
      if (step > 0)
        progress_.epoch(epoch, step, totals.loss / static_cast<double>(step), accuracy(totals),
                        has_score ? score_.loss : kNone, has_score ? score_.accuracy : kNone);
      if (is_cut) return true;
    }
    return !is_stop_asked();
  }

  bool has_score() const { return test_ != nullptr && score_.samples > 0 && !score_.stopped; }
  bool has_trained() const { return !std::isnan(last_loss_); }
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

  void one_step(const data::BatchSlot& slot, Totals& totals) {
    const auto row = [](const TensorType& type) { return element_count(type.shape).count() * size_of(type.dtype); };
    const auto feed = [&](Tensor to, const TensorType& type, const void* rows) {
      return Feed(to, type.dtype, rows, slot.samples * row(type));
    };
    const Feed feeds[] = {feed(load_.training.input, load_.spec.input, slot.rows[0]),
                          feed(load_.training.labels, load_.spec.labels, slot.rows[1])};
    const auto views = load_.session->run_step(Workload::Train, feeds);
    last_loss_ = static_cast<double>(views[0].floats()[0]);
    if (!std::isfinite(last_loss_))
      session::throw_bad_loss(last_loss_, feeds, fmt::format("at step {}", load_.session->step_count()),
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
    print_now(stdout, end.dump() + "\n");
    return;
  }
  if (training.has_score() && !std::isnan(training.score().accuracy))
    print_now(stdout, fmt::format("test    accuracy {:.2f} % on {} samples\n", 100 * training.score().accuracy,
                                  training.score().samples));
  print_now(stdout, fmt::format("peak    planned {}\n        measured {} (VmHWM)\n        line {}\n",
                                format_exact_bytes(planned), format_exact_bytes(measured), format_exact_bytes(line)));
}

// A rate that was asked for counts more than the one in the file.
void take_weights(const Settings& settings, Workload& load) {
  const session::LoadedWeights loaded = session::load_weights(*load.session, load.graph, settings.weights);
  auto rate = static_cast<float>(settings.learning_rate);
  const bool is_given = settings.learning_rate > 0;
  if (is_given)
    load.session->set(load.training.learning_rate, &rate, sizeof rate);
  else
    load.session->get(load.training.learning_rate, &rate, sizeof rate);
  const char* origin = is_given ? "given" : loaded.state > 0 ? "of the file" : "the optimiser's";
  const int64_t steps = load.session->step_count();
  if (settings.json) {
    print_now(stdout, nlohmann::json{{"event", "weights"},
                                     {"file", settings.weights},
                                     {"tensors", loaded.weights},
                                     {"state_tensors", loaded.state},
                                     {"steps", steps},
                                     {"learning_rate", static_cast<double>(rate)},
                                     {"learning_rate_origin", origin}}
                              .dump() +
                          "\n");
    return;
  }
  print_now(stdout, fmt::format("weights from '{}': {} tensors, {}, {} steps done, rate {} ({})\n", settings.weights,
                                loaded.weights, loaded.state > 0 ? "optimiser state" : "no optimiser state", steps,
                                rate, origin));
}

}  // namespace

int run_train(const Settings& settings) {
  Progress::parse_form(settings.progress, settings.json);  // a wrong word is refused before anything else
  const DataFiles files = find_data(settings);             // names only: nothing is opened before the plan stands
  const auto load = make_sized_workload(settings, Purpose::Train);
  if (!settings.save.empty()) session::expect_room_for_weights(load->graph, settings.save);
  print_now(stdout, settings.json ? plan_json(*load).dump() + "\n" : plan_text(*load, 3));
  stop_if_asked();
  Training training(settings, *load, files);
  training.plan_rest();
  load->session->open();
  stop_if_asked();
  if (!settings.weights.empty()) take_weights(settings, *load);
  stop_if_asked();
  const bool finished = training.run();
  // Nothing was learned: what an earlier run saved there is worth more.
  if (!training.has_trained()) throw Error(stop_reason() + " before the first step", ErrorKind::Stopped);
  if (!settings.save.empty()) session::save_weights(*load->session, load->graph, settings.save);
  report_end(settings, *load, training, finished);
  expect_line_kept(load->line->limit());
  if (finished) return 0;
  const std::string kept = settings.save.empty() ? "with --save FILE the weights would have been kept"
                                                 : fmt::format("the weights are in '{}'", settings.save);
  if (const int failure = output_failure(); failure != 0 && failure != EPIPE) {
    print_error(fmt::format("plimsoll: {}\n", kept));
    expect_output();
  }
  throw Error(fmt::format("{}; {}", stop_reason(), kept), ErrorKind::Stopped);
}

void complete_demo(Settings& settings) {
  settings.model = "fashion";
  if (settings.memory.empty()) settings.memory = "48MiB";
  if (settings.data.empty()) settings.data = "/usr/share/datasets/fashion-mnist";
}

}  // namespace plimsoll::cli
