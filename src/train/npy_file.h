// An npy file that is written batch by batch.
#pragma once

#include <string>

#include <plimsoll/tensor.h>
#include "memory/output_file.h"

namespace plimsoll::train {

class NpyFile {
 public:
  // `dims` are those of the whole array. Throws Error(Usage) for types that npy files do not have.
  NpyFile(const std::string& path, DType dtype, const Dims& dims);
  void write(const void* from, Bytes bytes) { file_.write(from, bytes); }
  // On return the whole array is on the disk under its name.
  void finish() { file_.finish(); }

 private:
  memory::OutputFile file_;
};

}  // namespace plimsoll::train
