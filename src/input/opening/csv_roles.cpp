#include "input/opening/csv_roles.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/class_names.h"
#include "input/opening/roles.h"

namespace plimsoll::input {
namespace {

using ColumnNames = std::vector<std::string>;

bool has_name(const ColumnNames& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

ColumnNames without(const ColumnNames& names, const ColumnNames& others) {
  ColumnNames rest;
  std::ranges::copy_if(names, std::back_inserter(rest),
                       [&](const std::string& name) { return !has_name(others, name); });
  return rest;
}

int64_t features_of(const ModelSpec& model) {
  int64_t features = 0;
  for (const NamedType& input : model.inputs) features += element_count(input.type.shape).count();
  return features;
}

// By its name, or its number from 0.
std::string asked_label(const ColumnNames& names, const std::string& asked, const std::string& path) {
  if (has_name(names, asked)) return asked;
  size_t number = 0;
  const auto [end, failure] = std::from_chars(asked.data(), asked.data() + asked.size(), number);
  if (failure == std::errc{} && end == asked.data() + asked.size() && number < names.size()) return names[number];
  throw Error(fmt::format("{}: has no column '{}' to take labels from; it has {}", path, asked, shown_names(names)),
              ErrorKind::Usage);
}

class ColumnChooser {
 public:
  ColumnChooser(CsvOptions guessed, const std::string& path, const DataSpec& spec, const ModelSpec& model,
                const KnownNames& known)
      : options_(std::move(guessed)), path_(path), spec_(spec), model_(model), known_(known) {
    for (const CsvColumn& column : options_.columns) names_.push_back(column.column);
  }

  CsvRoles choose() {
    const std::string label = choose_label();
    const CsvType label_type = type_of(label);
    ColumnNames features = choose_features(label);
    options_.label = label;
    // Where the model takes numbers of classes, a row that has another number is the mistake, not the column.
    if (!label.empty() && label_type == CsvType::Float && !is_float(model_.labels().dtype))
      options_.label_type = CsvType::Integer;
    KnownNames names{.from = path_, .columns = options_.has_header ? features : ColumnNames(), .label = label};
    if (!options_.has_header) names.label.clear();
    return {std::move(options_), std::move(names)};
  }

 private:
  CsvType type_of(const std::string& name) const {
    const auto found = std::ranges::find(options_.columns, name, &CsvColumn::column);
    return found == options_.columns.end() ? CsvType::Float : found->type;
  }

  bool may_have_no_label(size_t features) const { return !spec_.needs_labels && names_.size() == features; }

  // Empty: there is none.
  std::string choose_label() const {
    if (!spec_.label.empty()) return asked_label(names_, spec_.label, path_);
    const bool knows_columns = options_.has_header && known_.columns && !known_.columns->empty();
    if (!known_.label.empty() && options_.has_header) {
      if (has_name(names_, known_.label)) return known_.label;
      if (!spec_.needs_labels) return "";
      throw Error(fmt::format("{}: has no column '{}', which has the labels in {}; its columns are {}", path_,
                              known_.label, known_.from, shown_names(names_)),
                  ErrorKind::BadData);
    }
    const auto named = std::ranges::find_if(names_, is_label_name);
    if (named != names_.end()) return *named;
    const auto features = knows_columns ? known_.columns->size() : static_cast<size_t>(features_of(model_));
    return may_have_no_label(features) ? "" : names_.back();
  }

  // The names of all inputs, in their order. `options_.columns` says where they are, unless the file has that order.
  ColumnNames choose_features(const std::string& label) {
    const bool has_one_input = model_.inputs.size() == 1;
    const ColumnNames all = without(names_, label.empty() ? ColumnNames() : ColumnNames{label});
    const ColumnNames ordered = in_known_order(all);
    std::vector<CsvColumn> columns;
    for (const std::string& name : ordered) columns.push_back({name, type_of(name)});
    if (has_one_input) {
      for (CsvColumn& column : columns) column = {column.column, CsvType::Float, "x"};
      if (!label.empty() && ordered == all) columns.clear();
      options_.columns = std::move(columns);
      return ordered;
    }
    options_.columns = columns_of_inputs(columns, model_, path_);
    ColumnNames chosen;
    for (const CsvColumn& column : options_.columns) chosen.push_back(column.column);
    return chosen;
  }

  // Several inputs choose among the columns, so others may stand beside the known ones.
  ColumnNames in_known_order(const ColumnNames& all) const {
    if (!known_.columns) return all;
    const ColumnNames& known = *known_.columns;
    if (known.empty() == options_.has_header)
      throw Error(known.empty()
                      ? fmt::format("{}: its columns are named {}, but those of {} have no names; give both a header",
                                    path_, shown_names(names_), known_.from)
                      : fmt::format("{}: its columns have no names, but {} has {}; give it a header with these names",
                                    path_, known_.from, shown_names(known)),
                  ErrorKind::BadData);
    if (known.empty()) return all;
    const ColumnNames missing = without(known, all), more = without(all, known);
    if (!missing.empty() || (!more.empty() && model_.inputs.size() == 1)) refuse_columns(missing, more);
    ColumnNames ordered = known;
    if (model_.inputs.size() > 1) ordered.insert(ordered.end(), more.begin(), more.end());
    return ordered;
  }

  [[noreturn]] void refuse_columns(const ColumnNames& missing, const ColumnNames& more) const {
    std::string what;
    if (!missing.empty()) what += fmt::format(", without {}", shown_names(missing));
    if (!more.empty()) what += fmt::format(", with {} more: {}", more.size(), shown_names(more));
    throw Error(fmt::format("{}: its columns are {}, but {} has {}{}; give it the same ones, in any order", path_,
                            shown_names(names_), known_.from, shown_names(*known_.columns), what),
                ErrorKind::BadData);
  }

  CsvOptions options_;
  const std::string& path_;
  const DataSpec& spec_;
  const ModelSpec& model_;
  const KnownNames& known_;
  ColumnNames names_;
};

}  // namespace

CsvRoles choose_columns(CsvOptions guessed, const std::string& path, const DataSpec& spec, const ModelSpec& model,
                        const KnownNames& known) {
  return ColumnChooser(std::move(guessed), path, spec, model, known).choose();
}

}  // namespace plimsoll::input
