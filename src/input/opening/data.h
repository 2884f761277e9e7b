// The data of a training: what a path holds, found out and opened as samples of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <plimsoll/dataset.h>
#include <plimsoll/model.h>

namespace plimsoll::input {

// Files of inputs and labels, side by side.
struct DataFiles {
  std::string train_x = {}, train_y = {}, test_x = {}, test_y = {};  // empty: not there
};

// How encoded images come to the size of the model's input.
struct ImageMaps {
  ResizeMethod resize = ResizeMethod::Bilinear;
  double central_crop = 1;  // the part of each side that is kept, before resizing
};

// How samples become batches.
struct Pipeline {
  bool shuffles = true;        // training samples, differently in each epoch
  int64_t shuffle_window = 0;  // among so many; 0: all
  int64_t most_corrupt = 0;    // bad samples that are passed over, each epoch
  bool flips = false;          // images left to right, half of the training samples at random
  // y = (x - mean) / deviation, of numbers in [0, 1] where the data is bytes; empty: none. One for each channel, or one
  // for all.
  std::vector<float> mean = {}, deviation = {};
};

// Where the data is.
struct DataSpec {
  std::string path = {};        // a file or a folder of any kind that is known
  DataFiles files = {};         // or arrays, file by file
  std::string validation = {};  // a path of its own; empty: the test half of `path`, if it has one
  std::string label = {};       // the column, feature or array with the labels; empty: by its name, else the last
  ImageMaps maps = {};
  std::string scratch_folder = {};  // for what is unpacked; empty: one for temporary files
  bool needs_labels = true;         // false: an array of inputs alone is accepted, and its labels are 0
  int threads = AUTOTUNE;           // that read and decode files which are no plain arrays
};

// One half of the data, opened: elements of the inputs and their targets, as they are stored.
struct Samples {
  Dataset elements;
  std::vector<std::string> paths;  // of each component, for messages
};

struct Data {
  std::optional<Samples> train, test;
  // For people.
  std::string path, kind;
  // Names, where there are any: of classes, of the columns that are inputs and of that with the labels.
  std::vector<std::string> classes, columns;
  std::string label;
  bool is_empty() const { return !train && !test; }
};

// Bounded memory; reads as much as an index of the elements needs. Classes and columns have the numbers that the model
// knows, else those of the half that trains: names decide, not places. Throws Error(BadData) for what is damaged, is no
// data, or is not what the model takes.
Data open_data(const DataSpec& spec, const ModelSpec& model);

// Data to score a model on: the test half, or all where there is only one half.
Data open_test_data(const DataSpec& spec, const ModelSpec& model);

}  // namespace plimsoll::input
