#include <plimsoll/callback.h>

#include <chrono>
#include <optional>

#include <plimsoll/error.h>
#include "checkpoints/run_directory.h"
#include "graph/body.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "train/loop.h"

namespace plimsoll {
namespace checkpoints {
namespace {

using Content = memory::AppendFile::Content;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

report::MetricsRow metrics_row(const FitRun& run, double seconds) {
  report::MetricsRow row{run.epoch(), run.steps()};
  for (const LogValue& log : run.logs()) row.values.push_back({log.name, log.value});
  row.values.push_back({"seconds", seconds});
  row.values.push_back({"planned_peak_bytes", static_cast<double>(run.planned_peak())});
  row.values.push_back({"measured_peak_bytes", static_cast<double>(run.measured_peak())});
  row.values.push_back({"line_bytes", static_cast<double>(run.line())});
  return row;
}

// A file that a training writes to: opened anew for each training, and given up when it can't be written.
template <class File>
class LogCallback : public FailingCallback {
 public:
  void before_training(FitRun& run) override {
    failure_.reset();
    started_ = Clock::now();
    file_.reset();  // of an earlier training, which still holds it
    open(run, file_);
  }
  void after_epoch(FitRun& run) override {
    attempt(run, [&](File& file) { write_epoch(run, file); });
  }
  void after_training(FitRun& /*run*/) override { file_.reset(); }

 protected:
  double seconds() const { return seconds_since(started_); }  // of this training
  virtual void open(FitRun& run, std::optional<File>& file) = 0;
  virtual void write_epoch(FitRun& run, File& file) = 0;

  // An error of a log file stops the training in order, so that its weights are kept.
  template <class Write>
  void attempt(FitRun& run, const Write& write) {
    if (!file_) return;
    try {
      write(*file_);
    } catch (const Error& e) {
      file_.reset();
      failure_ = e;
      run.stop(e.what());
    }
  }

 private:
  std::optional<File> file_;
  Clock::time_point started_;
};

class CsvLog final : public LogCallback<report::MetricsCsv> {
 public:
  CsvLog(std::string path, const CsvLogOptions& options) : path_(std::move(path)), options_(options) {}
  std::string name() const override { return "csv_log"; }
  Bytes bytes() const override { return report::MetricsCsv::kBytes; }

 private:
  void open(FitRun& run, std::optional<report::MetricsCsv>& file) override {
    const bool keeps = options_.append || run.is_resumed();
    file.emplace(path_, keeps ? Content::Kept : Content::Dropped, options_.separator);
    if (run.is_resumed()) file->truncate_after(run.steps(), run.epoch());
  }
  void write_epoch(FitRun& run, report::MetricsCsv& file) override { file.append(metrics_row(run, seconds())); }

  const std::string path_;
  const CsvLogOptions options_;
};

class JsonLog final : public LogCallback<report::MetricsJson> {
 public:
  JsonLog(std::string path, bool append) : path_(std::move(path)), append_(append) {}
  std::string name() const override { return "json_log"; }
  Bytes bytes() const override { return report::MetricsJson::kBytes; }

 private:
  void open(FitRun& run, std::optional<report::MetricsJson>& file) override {
    file.emplace(path_, append_ || run.is_resumed() ? Content::Kept : Content::Dropped);
    if (run.is_resumed()) file->truncate_after(run.steps(), run.epoch());
  }
  void write_epoch(FitRun& run, report::MetricsJson& file) override { file.append(metrics_row(run, seconds())); }

  const std::string path_;
  const bool append_;
};

class EventLog final : public LogCallback<report::EventFile> {
 public:
  EventLog(std::string folder, const EventFilesOptions& options) : folder_(std::move(folder)), options_(options) {}
  std::string name() const override { return "event_files"; }
  Bytes bytes() const override { return report::EventFile::kBytes; }

  void after_step(FitRun& run) override {
    if (options_.seconds_between <= 0) return;
    if (seconds_since(written_) < options_.seconds_between) return;
    written_ = Clock::now();
    attempt(run, [&](report::EventFile& file) {
      for (const LogValue& log : run.logs())
        if (log.name != "learning_rate") file.add_scalar("running/" + log.name, run.steps(), log.value);
      if (seconds_since(flushed_) < kSecondsToFlush) return;
      flushed_ = Clock::now();
      file.flush();
    });
  }

 private:
  static constexpr double kSecondsToFlush = 5;

  void open(FitRun& run, std::optional<report::EventFile>& file) override {
    written_ = flushed_ = Clock::now();
    // An epoch that is still to be ended writes its numbers again, maybe at this step.
    const int64_t kept = run.epoch_steps() > 0 ? run.steps() - 1 : run.steps();
    file.emplace(folder_, run.is_resumed() ? std::optional(kept) : std::nullopt);
    for (const auto& [title, text] : options_.texts) file->add_text(title, run.steps(), text);
    file->flush();
  }

  void write_epoch(FitRun& run, report::EventFile& file) override {
    for (const LogValue& log : run.logs()) file.add_scalar(log.name, run.steps(), log.value);
    const auto add_mib = [&](const char* tag, Bytes bytes) {
      file.add_scalar(tag, run.steps(), static_cast<double>(bytes) / static_cast<double>(MiB));
    };
    add_mib("memory/planned_peak_mib", run.planned_peak());
    add_mib("memory/measured_peak_mib", run.measured_peak());
    add_mib("memory/line_mib", run.line());
    if (options_.histogram_epochs > 0 && run.epoch() % options_.histogram_epochs == 0) add_histograms(run, file);
    file.flush();
    flushed_ = Clock::now();
  }

  static void add_histograms(FitRun& run, report::EventFile& file) {
    train::Training& training = train::loop_of(run).training();
    const graph::Body& graph = training.graph.body();
    for (const graph::Variable& variable : graph.variables()) {
      const graph::Value& value = graph.value(variable.value);
      if (variable.role() != VariableRole::Weight || value.type.dtype != DType::F32) continue;
      report::Histogram histogram;
      for (const auto pass : {&report::Histogram::widen, &report::Histogram::count})
        training.session->read({training.graph, variable.value}, [&](std::span<const std::byte> bytes) {
          (histogram.*pass)({reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
        });
      file.add_histogram(graph.name(value), run.steps(), histogram);
    }
  }

  const std::string folder_;
  const EventFilesOptions options_;
  Clock::time_point written_, flushed_;
};

}  // namespace

void expect_logs_written(const Callbacks& callbacks) {
  for (const auto& callback : callbacks)
    if (const auto* log = dynamic_cast<const FailingCallback*>(callback.get()); log != nullptr && log->failure())
      throw Error(*log->failure());
}

}  // namespace checkpoints

std::shared_ptr<Callback> csv_log(const std::string& path, const CsvLogOptions& options) {
  return std::make_shared<checkpoints::CsvLog>(path, options);
}

std::shared_ptr<Callback> json_log(const std::string& path, bool append) {
  return std::make_shared<checkpoints::JsonLog>(path, append);
}

std::shared_ptr<Callback> event_files(const std::string& folder, const EventFilesOptions& options) {
  if (options.seconds_between < 0 || options.histogram_epochs < 0)
    throw Error("event_files: seconds and epochs must not be negative; 0 switches them off", ErrorKind::Usage);
  return std::make_shared<checkpoints::EventLog>(folder, options);
}

}  // namespace plimsoll
