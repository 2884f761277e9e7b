#include "input/files/array_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/sampled_hash.h"

namespace plimsoll::input {
namespace {

static_assert(std::endian::native == std::endian::little, "npy and idx are read on little-endian machines");

template <typename Word>
void swap_bytes(void* data, Bytes bytes) {
  for (Bytes at = 0; at < bytes; at += Bytes(sizeof(Word))) {
    Word word;
    std::byte* const place = static_cast<std::byte*>(data) + at;
    std::memcpy(&word, place, sizeof word);
    word = sizeof(Word) == 8 ? Word(__builtin_bswap64(word)) : Word(__builtin_bswap32(uint32_t(word)));
    std::memcpy(place, &word, sizeof word);
  }
}

class ArrayFile final : public Source {
 public:
  ArrayFile(std::string path, memory::File file, StoredArray layout, std::optional<FileChecksum> checksum)
      : path_(std::move(path)),
        file_(std::move(file)),
        layout_(std::move(layout)),
        checksum_(checksum),
        state_(checksum ? State::Unknown : State::Whole),
        sample_shape_(layout_.shape.begin() + 1, layout_.shape.end()) {
    for (const int64_t extent : sample_shape_) sample_elements_ *= extent;
  }

  const std::string& name() const override { return path_; }
  int64_t samples() const override { return layout_.shape[0]; }
  DType dtype() const override { return layout_.dtype; }
  const std::vector<int64_t>& sample_shape() const override { return sample_shape_; }
  Bytes sample_bytes() const override { return sample_elements_ * size_of(layout_.dtype); }

  uint64_t contents() const override {
    return hash_sampled(file_, layout_.data_offset, layout_.file_bytes() - layout_.data_offset, path_);
  }

  void read(int64_t first, int64_t count, void* into) const override {
    assert(first >= 0 && count >= 0 && first <= samples() - count);
    if (state_.load(std::memory_order_acquire) != State::Whole) expect_checksum();
    const Bytes offset = layout_.data_offset + first * sample_elements_ * layout_.stored_element;
    const int64_t elements = count * sample_elements_;
    if (layout_.narrows_f64()) return read_f64(offset, elements, static_cast<float*>(into));
    const Bytes bytes = elements * layout_.stored_element;
    read_exactly(offset, bytes, into);
    if (!layout_.swap_bytes) return;
    if (layout_.stored_element == 4) swap_bytes<uint32_t>(into, bytes);
    if (layout_.stored_element == 8) swap_bytes<uint64_t>(into, bytes);
  }

 private:
  enum class State : uint8_t { Unknown, Whole, Damaged };

  // Samples are read in any order, so the sum is taken in a pass of its own, when the first one is wanted: a plan
  // reads nothing. Other threads wait for it.
  void expect_checksum() const {
    const std::scoped_lock lock(checking_);
    if (state_ == State::Unknown) {
      std::array<std::byte, 16 * KiB> piece;
      uLong sum = ::crc32(0, nullptr, 0);
      for (Bytes done = 0; done < checksum_->bytes;) {
        const Bytes now = std::min<Bytes>(checksum_->bytes - done, piece.size());
        read_exactly(checksum_->offset + done, now, piece.data());
        sum = ::crc32(sum, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(now));
        done += now;
      }
      state_.store(sum == checksum_->crc32 ? State::Whole : State::Damaged, std::memory_order_release);
    }
    if (state_ == State::Damaged)
      throw Error(fmt::format("{}: its checksum is wrong, so it is damaged; fetch or write the file again", path_),
                  ErrorKind::BadData);
  }

  void read_exactly(Bytes offset, Bytes bytes, void* into) const {
    const Bytes got = file_.read_some(offset, bytes, into, path_);
    if (got < bytes)
      throw Error(
          fmt::format("{}: at byte {}: the file ends; it became shorter since it was opened", path_, offset + got),
          ErrorKind::BadData);
  }

  // f64 becomes f32: the caller's buffer is half as large as the elements in the file, so they pass through the stack.
  void read_f64(Bytes offset, int64_t elements, float* into) const {
    std::array<double, 2048> piece;
    for (int64_t done = 0; done < elements;) {
      const int64_t now = std::min<int64_t>(elements - done, piece.size());
      const Bytes bytes = now * Bytes(sizeof(double));
      read_exactly(offset + done * Bytes(sizeof(double)), bytes, piece.data());
      if (layout_.swap_bytes) swap_bytes<uint64_t>(piece.data(), bytes);
      for (int64_t i = 0; i < now; ++i) into[done + i] = static_cast<float>(piece[static_cast<size_t>(i)]);
      done += now;
    }
  }

  const std::string path_;
  const memory::File file_;
  const StoredArray layout_;
  const std::optional<FileChecksum> checksum_;
  mutable std::mutex checking_;
  mutable std::atomic<State> state_;
  const std::vector<int64_t> sample_shape_;
  int64_t sample_elements_ = 1;
};

}  // namespace

std::unique_ptr<Source> make_array_source(std::string name, memory::File file, StoredArray layout,
                                          std::optional<FileChecksum> checksum) {
  return std::make_unique<ArrayFile>(std::move(name), std::move(file), std::move(layout), checksum);
}

}  // namespace plimsoll::input
