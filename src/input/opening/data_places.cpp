#include "input/opening/data_places.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/npz.h"

namespace plimsoll::input {
namespace {

namespace fs = std::filesystem;

// Usual names of array files: training inputs and labels, test inputs and labels; each also with .gz behind it.
constexpr const char* kUsualFiles[][4] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
    {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"},
};
constexpr const char* kUsualArrays[] = {"x_train", "y_train", "x_test", "y_test"};

std::string in_folder(const std::string& folder, const char* name) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = fs::path(folder) / (std::string(name) + ending);
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.string();
  }
  return {};
}

// Pairs of arrays under a usual name, in a folder or in an archive; empty where there are none.
DataFiles find_pairs(const std::string& path, DataKind kind) {
  if (kind == DataKind::Npz) {
    const std::vector<std::string> names = list_npz(path);
    const auto array = [&](const char* name) {
      return std::ranges::find(names, name) == names.end() ? std::string() : fmt::format("{}:{}", path, name);
    };
    return {array(kUsualArrays[0]), array(kUsualArrays[1]), array(kUsualArrays[2]), array(kUsualArrays[3])};
  }
  for (const auto& names : kUsualFiles) {
    DataFiles files{in_folder(path, names[0]), in_folder(path, names[1]), in_folder(path, names[2]),
                    in_folder(path, names[3])};
    if (!files.train_x.empty() || !files.test_x.empty()) return files;
  }
  return {};
}

Places places_of(const DataFiles& files) {
  for (const auto& [x, y] : {std::pair(files.train_x, files.train_y), std::pair(files.test_x, files.test_y)})
    if (x.empty() != y.empty())
      throw Error(fmt::format("'{}' is there without its {}", x + y, x.empty() ? "inputs" : "labels"),
                  ErrorKind::BadData);
  return {{"", files.train_x, files.train_y}, {"", files.test_x, files.test_y}};
}

Places find_places(const std::string& path) {
  const DataKind kind = find_kind(path);
  if (Places pairs = places_of(find_pairs(path, kind)); pairs.train.is_given() || pairs.test.is_given()) return pairs;
  if (const Halves halves = find_halves(path); !halves.train.empty())
    return {{halves.train, "", ""}, {halves.test, "", ""}};
  return {{path, "", ""}, {}};
}

}  // namespace

Places find_places(const DataSpec& spec) {
  Places places;
  const DataFiles& files = spec.files;
  const bool has_files = !(files.train_x + files.train_y + files.test_x + files.test_y).empty();
  if (has_files)
    places = places_of(files);
  else if (!spec.path.empty())
    places = find_places(spec.path);
  if (spec.validation.empty()) return places;
  const Places other = find_places(spec.validation);
  places.test = other.test.is_given() ? other.test : other.train;
  return places;
}

std::vector<std::string> list_data_paths(const std::string& path) {
  const Places places = find_places(path);
  std::vector<std::string> paths;
  for (const HalfPlace* half : {&places.train, &places.test})
    for (const std::string& one : {half->path, half->x, half->y})
      if (!one.empty()) paths.push_back(one);
  return paths;
}

std::string array_stem(const std::string& path) {
  if (const auto npz = split_npz_path(path)) return npz->second;
  const std::string name = fs::path(path).filename().string();
  return name.substr(0, name.find('.'));
}

const std::string& ArrayList::path_of(const std::string& name) const {
  return paths.at(static_cast<size_t>(std::ranges::find(names, name) - names.begin()));
}

ArrayList list_arrays(const std::string& path, DataKind kind) {
  ArrayList list;
  if (kind == DataKind::Npz) {
    list.names = list_npz(path);
    for (const std::string& name : list.names) list.paths.push_back(fmt::format("{}:{}", path, name));
    return list;
  }
  list.paths = list_files(path, DataKind::Array);
  for (const std::string& file : list.paths) list.names.push_back(array_stem(file));
  return list;
}

}  // namespace plimsoll::input
