#include "input/opening/data_report.h"

#include <nlohmann/json.hpp>

namespace plimsoll::input {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson field_json(const TableField& field) {
  return {{"name", field.name}, {"dtype", name_of(field.dtype)}, {"shape", field.shape}};
}

}  // namespace

std::string data_json(const DataFacts& facts, const TableSummary& summary, int indent) {
  OrderedJson parts = OrderedJson::array(), fields = OrderedJson::array();
  for (const DataPart& part : facts.parts) {
    OrderedJson of_part = OrderedJson::array();
    for (const TableField& field : part.fields) of_part.push_back(field_json(field));
    parts.push_back({{"name", part.name}, {"elements", part.elements}, {"fields", of_part}});
  }
  for (const FieldSummary& field : summary.fields)
    fields.push_back({{"name", field.field.name},
                      {"least", field.least},
                      {"mean", field.mean},
                      {"most", field.most},
                      {"not_a_number", field.nan_count},
                      {"first", field.first}});
  const OrderedJson all{{"path", facts.path},
                        {"kind", name_of(facts.kind)},
                        {"parts", parts},
                        {"classes", facts.classes},
                        {"statistics", {{"elements", summary.elements}, {"fields", fields}}}};
  return all.dump(indent);
}

}  // namespace plimsoll::input
