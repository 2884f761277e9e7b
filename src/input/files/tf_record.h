// The records of TFRecord files, by their number: checksums of lengths are verified once, those of data at each read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/types.h>
#include "input/files/file_window.h"
#include "input/files/sparse_index.h"
#include "memory/file.h"

namespace plimsoll::input {

// Several files count as one, in their order. Holds an index, no record.
class TfRecords {
 public:
  // Reads every length. Files that are packed with gzip are unpacked into the scratch folder, or one for temporary
  // files. Throws Error(BadData) that names the file and the byte.
  explicit TfRecords(const std::vector<std::string>& paths, Bytes index_bytes = SparseIndex::kBytes,
                     const std::string& scratch_dir = {});

  int64_t count() const { return index_.count(); }
  Bytes longest_record() const { return longest_record_; }
  const std::string& name() const { return files_.front().path; }
  Bytes held_bytes() const;
  uint64_t contents() const;  // hash_sampled of the files

 private:
  friend class TfRecordCursor;
  struct RecordFile {
    std::string path;                                     // says so where positions are those after unpacking
    std::optional<memory::File> unpacked = std::nullopt;  // stays open, because it has no name
  };
  static RecordFile unpack_if_packed(const std::string& path, const std::string& scratch_dir);
  void scan(const RecordFile& of, FileWindow& window);

  std::vector<RecordFile> files_;
  std::vector<Bytes> starts_;  // of each file, were they one; and the end
  SparseIndex index_;
  Bytes longest_record_ = 0;
};

struct TfRecord {
  std::span<const std::byte> data;
  const std::string& path;
  Bytes offset;  // of the data
  int64_t number;

  // "a.tfrecord: record 7 at byte 1200": where errors are.
  std::string place() const;
};

// For one thread. Records in ascending order are read without looking for them.
class TfRecordCursor {
 public:
  static Bytes bytes(const TfRecords& records);

  explicit TfRecordCursor(const TfRecords& records);
  // Valid until the next call. Throws Error(BadData).
  TfRecord read(int64_t record);

 private:
  void seek(int64_t record);

  const TfRecords& records_;
  FileWindow window_;
  std::optional<memory::File> opened_;
  const memory::File* file_ = nullptr;
  size_t file_number_ = 0;
  int64_t next_ = -1;      // the record at next_offset_
  Bytes next_offset_ = 0;  // within all files
};

}  // namespace plimsoll::input
