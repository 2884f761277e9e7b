#include "input/files/tf_table.h"

#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/tf_example.h"
#include "input/files/tf_record.h"

namespace plimsoll::input {
namespace {

Feature plain_feature(const TfFeature& feature, int64_t classes = 0) {
  const TableField field = feature.image ? ImageReader::field(feature.name, *feature.image)
                                         : TableField{feature.name, feature.dtype, feature.shape};
  return {field, feature.fallback, feature.image.has_value(), feature.is_label, feature.is_label ? classes : 0};
}

class TfTable final : public Table {
 public:
  TfTable(const std::vector<std::string>& paths, std::vector<TfFeature> features, Bytes index_bytes,
          const std::string& scratch_dir, const LabelBound& bound)
      : records_(paths, index_bytes, scratch_dir), features_(std::move(features)), bound_(bound) {
    for (const TfFeature& feature : features_) fields_.push_back(plain_feature(feature).field);
    if (features_.empty())
      throw Error(fmt::format("{}: no feature is wanted; name one that the records have", name()), ErrorKind::Usage);
  }

  const std::string& name() const override { return records_.name(); }
  int64_t elements() const override { return records_.count(); }
  const std::vector<TableField>& fields() const override { return fields_; }
  uint64_t contents() const override { return records_.contents(); }
  Bytes held_bytes() const override { return records_.held_bytes(); }
  Bytes reader_bytes() const override {
    Bytes bytes = TfRecordCursor::bytes(records_);
    for (const TfFeature& feature : features_)
      if (feature.image) bytes += ImageReader::bytes(*feature.image);
    return bytes;
  }
  std::unique_ptr<TableReader> open_reader() const override;

  const TfRecords& records() const { return records_; }
  std::vector<Feature> plain_features() const {
    std::vector<Feature> plain;
    for (const TfFeature& feature : features_) plain.push_back(plain_feature(feature, bound_.classes));
    return plain;
  }
  const std::vector<TfFeature>& features() const { return features_; }

 private:
  const TfRecords records_;
  const std::vector<TfFeature> features_;
  const LabelBound bound_;
  std::vector<TableField> fields_;
};

class TfReader final : public TableReader {
 public:
  explicit TfReader(const TfTable& table)
      : cursor_(table.records()), parser_(table.plain_features()), targets_(table.features().size()) {
    for (const TfFeature& feature : table.features())
      images_.push_back(feature.image ? std::make_unique<ImageReader>(*feature.image) : nullptr);
  }

  void read(int64_t element, std::span<std::byte* const> into) override {
    const TfRecord record = cursor_.read(element);
    for (size_t i = 0; i < targets_.size(); ++i) targets_[i] = {into[i], {}};
    const std::string fault = parser_.parse(record.data, targets_);
    if (!fault.empty()) throw Error(fmt::format("{}: {}", record.place(), fault), ErrorKind::BadData);
    for (size_t i = 0; i < targets_.size(); ++i)
      if (images_[i]) images_[i]->read(targets_[i].encoded, record.place(), into[i]);
  }

 private:
  TfRecordCursor cursor_;
  ExampleParser parser_;
  std::vector<FeatureTarget> targets_;
  std::vector<std::unique_ptr<ImageReader>> images_;  // null for numbers
};

std::unique_ptr<TableReader> TfTable::open_reader() const { return std::make_unique<TfReader>(*this); }

}  // namespace

std::vector<TfFeature> guess_features(const std::string& path, const ImageOptions& image,
                                      const std::string& scratch_dir) {
  const TfRecords records({path}, SparseIndex::kBytes, scratch_dir);
  TfRecordCursor cursor(records);
  const TfRecord first = cursor.read(0);
  std::vector<TfFeature> features;
  for (const FoundFeature& found : list_features(first.data, first.place())) {
    using Kind = FoundFeature::Kind;
    TfFeature feature{.name = found.name};
    if (found.kind == Kind::Bytes && found.is_image && found.values == 1) {
      feature.image = image;
    } else if ((found.kind == Kind::Floats || found.kind == Kind::Integers) && found.values > 0) {
      feature.dtype = found.kind == Kind::Floats ? DType::F32 : DType::I64;
      if (found.values > 1) feature.shape = {found.values};
    } else {
      continue;
    }
    features.push_back(std::move(feature));
  }
  return features;
}

std::unique_ptr<Table> open_tf_records(const std::vector<std::string>& paths, const std::vector<TfFeature>& features,
                                       Bytes index_bytes, const std::string& scratch_dir, const LabelBound& bound) {
  return std::make_unique<TfTable>(paths, features, index_bytes, scratch_dir, bound);
}

}  // namespace plimsoll::input
