// TFRecord files of tf.Example as a table: numbers and decoded images, by the number of their record.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "input/files/label_source.h"
#include "input/files/sparse_index.h"
#include "input/files/table.h"
#include "input/image/image.h"

namespace plimsoll::input {

// What the first record holds: floats, integers and images; other strings have no fixed size and are left out. Throws
// Error(BadData).
std::vector<TfFeature> guess_features(const std::string& path, const ImageOptions& image = {},
                                      const std::string& scratch_dir = {});

// Throws Error(BadData) that names file and byte, Error(Usage) for features that cannot be.
std::unique_ptr<Table> open_tf_records(const std::vector<std::string>& paths, const std::vector<TfFeature>& features,
                                       Bytes index_bytes = SparseIndex::kBytes, const std::string& scratch_dir = {},
                                       const LabelBound& bound = {});

}  // namespace plimsoll::input
