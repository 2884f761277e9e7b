#include "checkpoints/run_directory.h"

#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/callback.h>
#include <plimsoll/error.h>
#include "memory/output_file.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "report/run_report.h"

namespace plimsoll::checkpoints {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const std::string& path, const std::string& why) {
  throw Error(fmt::format("run folder '{}': {}", path, why), ErrorKind::Usage);
}

void write_file(const std::string& path, const std::string& text) {
  memory::OutputFile file(path);
  file.write(text);
  if (!text.ends_with('\n')) file.write("\n");
  file.finish();
}

}  // namespace

Bytes run_log_bytes() { return report::MetricsCsv::kBytes + report::MetricsJson::kBytes + report::EventFile::kBytes; }

RunDirectory::RunDirectory(const std::string& path, bool resumes) : path_(path) {
  if (path.empty()) refuse_folder(path, "the name is empty; give the name of a folder");
  const bool holds_run = report::is_run_directory(path);
  if (holds_run && !resumes) refuse_folder(path, "holds a run already; give another folder, or --resume to go on");
  if (!holds_run && resumes)
    refuse_folder(path, "holds no run that could be resumed; leave --resume away to start one");
  if (const std::string fault = memory::find_folder_fault(path); !fault.empty()) refuse_folder(path, fault);
}

RunTexts::RunTexts(const report::Config& of, const train::Training& training) : config(report::config_json(of)) {
  const report::PlanFacts facts = train::plan_facts(training);
  plan = report::plan_text(facts);
  plan_json = report::plan_json(facts, 2);
}

void RunDirectory::create(const RunTexts& texts) const {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (failure) refuse_folder(path_, fmt::format("can't be made: {}", failure.message()));
  write_file(in(report::kPlanText), texts.plan);
  write_file(in(report::kPlanJson), texts.plan_json);
  // Written last, since this file marks the folder as one of a run.
  write_file(in(report::kConfigFile), texts.config);
}

Callbacks RunDirectory::logs(const RunTexts& texts, int64_t histogram_epochs) const {
  const auto as_code = [](const std::string& text) { return fmt::format("```\n{}\n```", text); };
  const EventFilesOptions options{.histogram_epochs = histogram_epochs,
                                  .texts = {{"config", as_code(texts.config)}, {"plan", as_code(texts.plan)}}};
  return {csv_log(in(report::kMetricsCsv)), json_log(in(report::kMetricsJson)),
          event_files(in(report::kEvents), options)};
}

}  // namespace plimsoll::checkpoints
