// Finds out what a path holds: the kind of file or folder, its elements, their parts and its classes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "input/files/source.h"
#include "input/files/table.h"

namespace plimsoll::input {

enum class DataKind : uint8_t { None, Array, Arrays, Npz, Csv, TfRecord, Images, ImageList };
std::string_view name_of(DataKind kind);  // "a CSV file"

// By names and the first bytes alone; None for what is no data.
DataKind find_kind(const std::string& path);

// Training and test data that lie in a folder under their names: "train" or "training", "test" or "val" ... with any
// ending. Empty where there is no training data, or where "train" is a class: a folder among others.
struct Halves {
  std::string train, test;
};
Halves find_halves(const std::string& folder);

// Files of a kind in a folder, in the order of their names; for the path of a file, that file.
std::vector<std::string> list_files(const std::string& path, DataKind kind);

// Opens it with what its content suggests: every column of a CSV file, the features of the first record, images as u8
// at 224 x 224, the arrays of an archive as far as they have the same length. Throws Error(BadData), also for a folder
// of array files, whose lengths differ.
std::unique_ptr<Table> open_table(const std::string& path, const SourceOptions& options = {});

struct DataPart {
  std::string name;
  int64_t elements = 0;
  std::vector<TableField> fields;
};

struct DataFacts {
  DataKind kind = DataKind::None;
  std::string path;
  std::vector<DataPart> parts;       // one; for a folder of array files one for each
  std::vector<std::string> classes;  // names of the labels, where there are any
};

// Throws Error(BadData) for what is no data, or is damaged.
DataFacts detect(const std::string& path, const SourceOptions& options = {});

// "flowers: a folder of images, 3670 elements of x u8[224,224,3], y i64[]; 5 classes: daisy, ...": a few lines.
std::string describe(const DataFacts& facts);

}  // namespace plimsoll::input
