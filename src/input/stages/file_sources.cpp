// Sources in files beside plain arrays: CSV, TFRecord, images, npz archives.
#include <fmt/format.h>

#include <plimsoll/dataset.h>
#include "input/files/csv.h"
#include "input/files/npz.h"
#include "input/files/tf_table.h"
#include "input/image/image_files.h"
#include "input/stages/table_origin.h"

namespace plimsoll {

Dataset Dataset::csv(const std::string& path, const CsvOptions& options, int threads) {
  return input::from_table(input::open_csv(path, options), fmt::format("csv({})", path), threads);
}

Dataset Dataset::tfrecord(const std::vector<std::string>& paths, const std::vector<TfFeature>& features, int threads) {
  const bool is_guessed = features.empty() && !paths.empty();
  return input::from_table(input::open_tf_records(paths, is_guessed ? input::guess_features(paths[0]) : features),
                           fmt::format("tfrecord({})", fmt::join(paths, ",")), threads);
}

Dataset Dataset::images(const std::string& folder, const ImageOptions& options, int threads) {
  return input::from_table(input::open_image_folder(folder, options), fmt::format("images({})", folder), threads);
}

Dataset Dataset::image_list(const std::string& path, const ImageOptions& options, int threads) {
  return input::from_table(input::open_image_list(path, options), fmt::format("image_list({})", path), threads);
}

Dataset Dataset::npz(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> arrays;
  for (const std::string& name : input::list_npz(path)) arrays.emplace_back(name, fmt::format("{}:{}", path, name));
  return files(arrays);
}

}  // namespace plimsoll
