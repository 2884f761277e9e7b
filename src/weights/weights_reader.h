// Reads a weights file (safetensors) in constant memory: its header is streamed from the disk, once for each pass.
#pragma once

#include <functional>
#include <string>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>
#include "memory/file.h"

namespace plimsoll::weights {

struct StoredTensor {
  std::string name;
  DType dtype = DType::F32;
  Dims dims;
  Bytes offset = 0;  // in the file
  Bytes bytes = 0;
};

constexpr const char* kMetadata = "__metadata__";  // safetensors: names and texts
constexpr const char* kSteps = "steps";            // in it: training steps so far
constexpr const char* kDataNames = "data_names";   // in it: what the data of the training called its numbers

// As the format writes it: "F32".
std::string_view stored_name(DType dtype);

class WeightsReader {
 public:
  // The most that a reader takes at a time, whatever the file says: a piece of the header, the longest text in it, and
  // hashes of names.
  static constexpr Bytes kBytes = 2 * MiB;
  static constexpr Bytes kLongestText = 64 * KiB;  // of a name or of any other text in the header

  // Checks the whole header: every tensor aligned to its elements, each byte of the data in exactly one tensor, no name
  // twice. Throws Error(BadData) that names the file and the fault.
  explicit WeightsReader(const std::string& path);

  // What a reader of that file takes, at most kBytes: less where the header is short. Of what is no weights file,
  // kBytes.
  static Bytes bytes_to_read(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t tensors() const { return tensors_; }
  Bytes data_bytes() const { return size_ - data_begin_; }
  int64_t steps() const { return steps_; }                       // of training; 0 in files of others
  const std::string& data_names() const { return data_names_; }  // as it was written; empty: it has none

  // In the order of the header. The tensor lives until `visit` returns.
  void for_each(const std::function<void(const StoredTensor&)>& visit) const;

  // Throws Error(BadData) when the file ends before.
  void read(Bytes offset, void* into, Bytes bytes) const;

 private:
  const std::string path_;
  const memory::File file_;
  Bytes size_ = 0;
  Bytes data_begin_ = 0;
  int64_t tensors_ = 0;
  int64_t steps_ = 0;
  std::string data_names_;
};

}  // namespace plimsoll::weights
