#include "input/files/tf_record.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/random.h"
#include "input/files/inflate.h"
#include "input/files/refuse.h"
#include "input/files/sampled_hash.h"
#include "input/files/stored_array.h"
#include "memory/temporary_file.h"

namespace plimsoll::input {
namespace {

//   length (8)  checksum of length (4)  data (length)  checksum of data (4)
constexpr Bytes kHeaderBytes = 12, kFooterBytes = 4;
constexpr Bytes kScanWindow = 64 * KiB;
constexpr Bytes kLeastWindow = 256 * KiB;

// The length of the record at `offset`, whose header is the start of `bytes`.
Bytes record_length(std::span<const std::byte> bytes, const std::string& path, Bytes offset, Bytes file_bytes) {
  if (static_cast<Bytes>(bytes.size()) < kHeaderBytes)
    refuse(path, offset, "the file ends inside the header of a record; it is cut off, fetch it again");
  const auto length = little_endian_at<uint64_t>(bytes.data());
  if (little_endian_at<uint32_t>(bytes.data() + 8) != masked_crc32c(bytes.first(8)))
    refuse(path, offset,
           offset == 0 ? "this is no TFRecord file"
                       : "the checksum of a record's length is wrong, so what follows cannot be found; "
                         "fetch the file again");
  if (length > static_cast<uint64_t>(std::max<Bytes>(0, file_bytes - offset - kHeaderBytes - kFooterBytes)))
    refuse(path, offset,
           fmt::format("the file ends inside a record of {} bytes; it is cut off, fetch it again", length));
  return static_cast<Bytes>(length);
}

}  // namespace

std::string TfRecord::place() const { return fmt::format("{}: record {} at byte {}", path, number, offset); }

TfRecords::TfRecords(const std::vector<std::string>& paths, Bytes index_bytes, const std::string& scratch_dir)
    : index_(index_bytes) {
  FileWindow window(kScanWindow);
  starts_.push_back(0);
  for (const std::string& path : paths) {
    files_.push_back(unpack_if_packed(path, scratch_dir));
    scan(files_.back(), window);
  }
  if (count() == 0)
    throw Error(fmt::format("{}: holds no record; give a file with at least one",
                            paths.empty() ? "a list of no TFRecord files" : paths[0]),
                ErrorKind::BadData);
}

TfRecords::RecordFile TfRecords::unpack_if_packed(const std::string& path, const std::string& scratch_dir) {
  const memory::File file = memory::File::open(path);
  std::byte front[2] = {};
  if (!is_gzip(std::span(front).first(static_cast<size_t>(file.read_some(0, sizeof front, front, path)))))
    return {path};
  const std::string shown = path + " (unpacked)";
  return {shown, inflate_to_scratch(file, path, memory::choose_scratch_dir(scratch_dir), [&](auto unpacked) {
            record_length(unpacked, shown, 0, std::numeric_limits<Bytes>::max());
            return std::numeric_limits<Bytes>::max();
          })};
}

void TfRecords::scan(const RecordFile& of, FileWindow& window) {
  std::optional<memory::File> opened;
  if (!of.unpacked) opened.emplace(memory::File::open(of.path));
  const memory::File& file = opened ? *opened : *of.unpacked;
  const Bytes file_bytes = file.size();
  window.forget();
  for (Bytes offset = 0; offset < file_bytes;) {
    const Bytes length = record_length(window.get(file, of.path, offset, kHeaderBytes), of.path, offset, file_bytes);
    index_.add(starts_.back() + offset);
    longest_record_ = std::max(longest_record_, length);
    offset += kHeaderBytes + length + kFooterBytes;
  }
  starts_.push_back(starts_.back() + file_bytes);
}

Bytes TfRecords::held_bytes() const {
  Bytes bytes = index_.bytes() + static_cast<Bytes>(starts_.size() * sizeof(Bytes));
  for (const RecordFile& file : files_) bytes += static_cast<Bytes>(sizeof file + file.path.capacity());
  return bytes;
}

Bytes TfRecordCursor::bytes(const TfRecords& records) {
  return std::max(kLeastWindow, kHeaderBytes + records.longest_record() + kFooterBytes + kHeaderBytes);
}

TfRecordCursor::TfRecordCursor(const TfRecords& records) : records_(records), window_(bytes(records)) {}

void TfRecordCursor::seek(int64_t record) {
  const SparseIndex::Entry entry = records_.index_.before(record);
  // The current position may be nearer than the index entry.
  if (next_ < entry.element || next_ > record) {
    next_ = entry.element;
    next_offset_ = entry.offset;
  }
}

TfRecord TfRecordCursor::read(int64_t record) {
  assert(record >= 0 && record < records_.count());
  if (record != next_) seek(record);
  while (true) {
    // upper_bound, because an empty file has the same start as the file after it.
    const auto behind = std::upper_bound(records_.starts_.begin(), records_.starts_.end(), next_offset_);
    const auto number = static_cast<size_t>(behind - records_.starts_.begin()) - 1;
    const TfRecords::RecordFile& of = records_.files_[number];
    const std::string& path = of.path;
    if (file_ == nullptr || number != file_number_) {
      file_ = nullptr;
      opened_.reset();
      window_.forget();
      if (!of.unpacked) opened_.emplace(memory::File::open(path));
      file_ = of.unpacked ? &*of.unpacked : &*opened_;
      file_number_ = number;
    }
    const Bytes start = records_.starts_[number], offset = next_offset_ - start;
    const Bytes file_bytes = records_.starts_[number + 1] - start;
    const Bytes length = record_length(window_.get(*file_, path, offset, kHeaderBytes), path, offset, file_bytes);
    const Bytes all = kHeaderBytes + length + kFooterBytes;
    if (all > window_.capacity())
      refuse(path, offset, fmt::format("a record of {} bytes was not there when the file was opened", length));
    const int64_t here = next_++;
    next_offset_ += all;
    if (here < record) continue;
    const auto whole = window_.get(*file_, path, offset, all);
    if (static_cast<Bytes>(whole.size()) < all)
      refuse(path, offset + static_cast<Bytes>(whole.size()), "the file ends; it became shorter since it was opened");
    const auto data = whole.subspan(kHeaderBytes, static_cast<size_t>(length));
    const TfRecord found{data, path, offset + kHeaderBytes, here};
    if (little_endian_at<uint32_t>(data.data() + length) != masked_crc32c(data))
      throw Error(fmt::format("{}: the checksum of the data is wrong; fetch the file again", found.place()),
                  ErrorKind::BadData);
    return found;
  }
}

uint64_t TfRecords::contents() const {
  uint64_t hash = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    const RecordFile& of = files_[i];
    const Bytes bytes = starts_[i + 1] - starts_[i];
    // Many files are sampled too; of the others the length counts.
    const size_t every = files_.size() / static_cast<size_t>(kHashedPieces) + 1;
    hash = mix_bits(hash, static_cast<uint64_t>(bytes));
    if (i % every != 0) continue;
    try {
      hash = mix_bits(hash, of.unpacked ? hash_sampled(*of.unpacked, 0, bytes, of.path)
                                        : hash_sampled(memory::File::open(of.path), 0, bytes, of.path));
    } catch (const Error&) {
      hash = mix_bits(hash, 1);  // reading it says what is wrong
    }
  }
  return hash;
}

}  // namespace plimsoll::input
