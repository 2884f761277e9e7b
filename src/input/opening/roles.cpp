#include "input/opening/roles.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>

namespace plimsoll::input {
namespace {

constexpr std::string_view kLabelNames[] = {"label", "labels", "y", "class", "target", "targets", "image/class/label"};
constexpr std::string_view kInputNames[] = {"x", "image", "images", "input", "inputs", "features", "image/encoded"};

[[noreturn]] void refuse_names(const std::string& what) { throw Error(what, ErrorKind::BadData); }

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}
bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string list(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

std::string choose_label(const std::vector<std::string>& names, const ModelSpec& model, const std::string& asked,
                         const std::string& path) {
  if (!asked.empty()) {
    if (!holds(names, asked))
      refuse_names(fmt::format("{}: has no '{}' to take labels from; it has {}", path, asked, list(names)));
    return asked;
  }
  if (const std::string& own = model.targets.front().name; holds(names, own)) return own;
  const auto named = std::ranges::find_if(names, is_label_name);
  if (named == names.end())
    refuse_names(fmt::format("{}: none of {} is named like a label; name it y, or say which is", path, list(names)));
  return *named;
}

std::string choose_input(const std::vector<std::string>& names, const std::string& label, const std::string& path) {
  std::vector<std::string> others;
  std::ranges::copy_if(names, std::back_inserter(others), [&](const std::string& name) { return name != label; });
  const auto input = std::ranges::find_if(others, [](const std::string& name) { return is_among(name, kInputNames); });
  if (input == others.end() && others.size() != 1)
    refuse_names(fmt::format("{}: none of {} is named like the one input of a model; name it x", path, list(names)));
  return input == others.end() ? others[0] : *input;
}

void add_by_name(const std::vector<std::string>& names, const std::vector<NamedType>& wanted, const ModelSpec& model,
                 const std::string& path, Roles& roles) {
  for (const NamedType& one : wanted) {
    if (!holds(names, one.name))
      refuse_names(
          fmt::format("{}: has no '{}', which {} takes; it has {}", path, one.name, model.name(), list(names)));
    roles.push_back(one.name);
  }
}

// "left_12", "left.12" or "left[12]" is a part of "left", and so is "left".
bool is_column_of(std::string_view column, std::string_view input) {
  if (!column.starts_with(input)) return false;
  column.remove_prefix(input.size());
  if (column.empty()) return true;
  if (column.front() == '[' && column.ends_with(']')) column.remove_suffix(1);
  const std::string_view number = column.substr(1);
  return (column.front() == '_' || column.front() == '.' || column.front() == '[') && !number.empty() &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_image(const TensorType& input) { return input.shape.rank() == 4 && input.dtype == DType::F32; }

bool is_label_name(std::string_view name) { return is_among(name, kLabelNames); }

std::vector<std::string> component_names(const ModelSpec& model) {
  if (model.inputs.size() == 1 && model.targets.size() == 1) return {"x", "y"};
  std::vector<std::string> names;
  for (const auto* all : {&model.inputs, &model.targets})
    for (const NamedType& one : *all) names.push_back(one.name);
  return names;
}

std::vector<TensorType> component_types(const ModelSpec& model) {
  std::vector<TensorType> types;
  for (const auto* all : {&model.inputs, &model.targets})
    for (const NamedType& one : *all) types.push_back(one.type);
  return types;
}

Roles choose_roles(const std::vector<std::string>& names, const ModelSpec& model, const std::string& label,
                   const std::string& path) {
  Roles targets;
  if (model.targets.size() == 1)
    targets.push_back(choose_label(names, model, label, path));
  else
    add_by_name(names, model.targets, model, path, targets);
  Roles roles;
  if (model.inputs.size() == 1)
    roles.push_back(choose_input(names, targets.front(), path));
  else
    add_by_name(names, model.inputs, model, path, roles);
  roles.insert(roles.end(), targets.begin(), targets.end());
  return roles;
}

std::vector<CsvColumn> columns_of_inputs(const std::vector<CsvColumn>& columns, const ModelSpec& model,
                                         const std::string& path) {
  std::vector<CsvColumn> chosen;
  for (const auto& [input, type] : model.inputs) {
    const size_t before = chosen.size();
    for (const CsvColumn& column : columns)
      if (is_column_of(column.column, input))
        chosen.push_back({column.column, is_float(type.dtype) ? CsvType::Float : CsvType::Integer, input});
    if (chosen.size() == before)
      refuse_names(fmt::format("{}: no column is named '{}' or '{}_0', '{}_1' ..., which {} takes", path, input, input,
                               input, model.name()));
  }
  return chosen;
}

}  // namespace plimsoll::input
