#include "report/forecast.h"

#include <utility>

#include <fmt/format.h>

namespace plimsoll {

// Holds texts and numbers instead of the plan, which may be large.
struct ForecastFacts {
  bool fits = false;
  Bytes line = 0;
  Bytes peak = 0;
  Bytes smallest_line = 0;
  double slowdown_percent = 0;
  bool is_bit_identical = false;
  int64_t micro_batches = 0;
  std::vector<Remedy> remedies = {};
  std::string text, json;
};

bool Forecast::fits() const { return facts_->fits; }
Bytes Forecast::line() const { return facts_->line; }
Bytes Forecast::peak() const { return facts_->peak; }
Bytes Forecast::smallest_line() const { return facts_->smallest_line; }
double Forecast::slowdown() const { return facts_->slowdown_percent; }
bool Forecast::is_bit_identical() const { return facts_->is_bit_identical; }
int64_t Forecast::micro_batches() const { return facts_->micro_batches; }
const std::vector<Remedy>& Forecast::remedies() const { return facts_->remedies; }
std::string Forecast::text() const { return facts_->text; }
std::string Forecast::json() const { return facts_->json; }

namespace report {
namespace {

double percent_of(double ratio) { return 100 * (ratio - 1); }

}  // namespace

Forecast make_forecast(const PlanFacts& facts) {
  const plan::Plan& plan = facts.plan;
  ForecastFacts forecast;
  forecast.fits = true;
  forecast.line = facts.line_bytes;
  forecast.peak = facts.peak_bytes;
  forecast.smallest_line = facts.smallest_line;
  if (plan.unconstrained_ns > 0) forecast.slowdown_percent = percent_of(plan.predicted_ns / plan.unconstrained_ns);
  forecast.is_bit_identical = exactness_word(plan, facts.changes) == name_of(plan::Exactness::BitIdentical);
  forecast.micro_batches = static_cast<int64_t>(plan.micro_batches.size());
  forecast.text = plan_text(facts);
  forecast.json = plan_json(facts);
  return Forecast(std::make_shared<const ForecastFacts>(std::move(forecast)));
}

Forecast make_forecast(const Refusal& refusal, const std::vector<RemedyRow>& remedies,
                       const std::vector<std::string>& not_tried) {
  ForecastFacts forecast;
  forecast.line = refusal.line;
  forecast.peak = refusal.need;
  forecast.smallest_line = refusal.smallest_line;
  for (const RemedyRow& row : remedies)
    forecast.remedies.emplace_back(fmt::format("{}: {}", row.change, row.what), percent_of(row.slowdown),
                                   row.changes_results);
  forecast.text = describe(refusal) + "\n" + remedies_text(remedies, not_tried);
  forecast.json = refusal_json(refusal, remedies, kOneLine, not_tried);
  return Forecast(std::make_shared<const ForecastFacts>(std::move(forecast)));
}

}  // namespace report
}  // namespace plimsoll
