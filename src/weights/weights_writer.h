// Writes a weights file (safetensors) in constant memory: its header first, then one tensor after the other.
//
//   std::vector<StoredTensor> tensors{{"a/kernel", DType::F32, {784, 10}}};
//   write_weights_file(path, list_of(tensors), [&](const StoredTensor& tensor, const PutBytes& put) {
//     for (...) put(piece);   // all bytes of that tensor, row-major, in pieces of any length
//   });
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "memory/output_file.h"
#include "weights/weights_reader.h"

namespace plimsoll::weights {

// Tells the name, type and sizes of each tensor, the same ones whenever it is called: a deep model's list is too large
// to hold twice. Offsets and bytes are not asked for.
using VisitTensor = std::function<void(const StoredTensor&)>;
using TensorList = std::function<void(const VisitTensor&)>;
TensorList list_of(const std::vector<StoredTensor>& tensors);  // which must outlive it

using PutBytes = std::function<void(std::span<const std::byte>)>;
using WriteTensor = std::function<void(const StoredTensor&, const PutBytes& put)>;

struct WriteOptions {
  int64_t steps = 0;            // of training
  std::string data_names = {};  // for WeightsReader::data_names; left out where it is too long for a reader
  PutBytes watch = {};          // gets every byte of the file, in order
};

// The size of such a file, at most, but for names of data.
Bytes weights_file_bytes(const TensorList& tensors);

// Asks `write` for each tensor, those of larger elements first, beside `path` and renames: a crash leaves the old file
// or the new one, and an exception of `write` the old one. Throws Error: DiskFull when the disk is full.
void write_weights_file(const std::string& path, const TensorList& tensors, const WriteTensor& write,
                        const WriteOptions& options = {});

}  // namespace plimsoll::weights
