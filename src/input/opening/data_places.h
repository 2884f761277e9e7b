// Where the halves of the data are, found out by names alone.
#pragma once

#include <string>
#include <vector>

#include "input/opening/data.h"
#include "input/opening/detect.h"

namespace plimsoll::input {

// Where one half is: a path of its own, or files of inputs and labels; neither: it is not there.
struct HalfPlace {
  std::string path = {}, x = {}, y = {};
  bool is_given() const { return !path.empty() || !x.empty(); }
};

struct Places {
  HalfPlace train, test;
};

// Halves of the spec's path under usual names, its files, and its path to validate with. Throws Error(BadData) for
// inputs without labels.
Places find_places(const DataSpec& spec);

// The files and folders that a path of data stands for, by their names alone.
std::vector<std::string> list_data_paths(const std::string& path);

// The arrays of an archive, or of a folder of array files.
struct ArrayList {
  std::vector<std::string> names, paths;
  const std::string& path_of(const std::string& name) const;  // of one that is there
};
ArrayList list_arrays(const std::string& path, DataKind kind);

// "y_train" of data.npz:y_train, "labels" of labels.npy.gz.
std::string array_stem(const std::string& path);

}  // namespace plimsoll::input
