// cache in a file: written during the first pass, renamed into place when that is over, read by number from then on.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/origin.h"
#include "memory/file.h"
#include "memory/output_file.h"

namespace plimsoll {
namespace {

using input::Rows;
using input::Slots;
using input::Stream;

constexpr Bytes kHeaderBytes = 64;

// A row in the file: for each component its sizes, where they differ between elements, then room for the largest.
struct RowLayout {
  explicit RowLayout(const ElementSpec& spec) {
    for (const Component& component : spec) {
      if (!component.is_fixed()) bytes += kMaxRank * Bytes(sizeof(int64_t));
      offsets.push_back(bytes);
      bytes += component.bytes();
    }
  }
  std::vector<Bytes> offsets = {};  // of the numbers of each component; its sizes lie before them
  Bytes bytes = 0;
};

// Identifies the dataset that the rows belong to.
std::string header_of(const input::Recipe& input) {
  std::string text =
      fmt::format("plimsoll cache {:016x}", mix_bits(chain_identity(input), hash_text(to_string(input.element()))));
  text.resize(static_cast<size_t>(kHeaderBytes - 1), ' ');
  return text + "\n";
}

class CachedRows {
 public:
  CachedRows(const std::string& path, const std::string& header, const ElementSpec& spec)
      : path_(path), spec_(spec), layout_(spec), file_(memory::File::open(path)) {
    std::string found(header.size(), ' ');
    if (file_.read_some(0, kHeaderBytes, found.data(), path) != kHeaderBytes || found != header)
      throw Error(fmt::format("{}: this is no cache of this dataset; remove it, or give another path", path),
                  ErrorKind::BadData);
    const Bytes rows = file_.size() - kHeaderBytes;
    if (layout_.bytes > 0 && rows % layout_.bytes != 0)
      throw Error(fmt::format("{}: at byte {}: the file ends inside a row; remove it, and it is written again", path,
                              file_.size()),
                  ErrorKind::BadData);
    count_ = layout_.bytes > 0 ? rows / layout_.bytes : 0;
  }

  int64_t count() const { return count_; }
  void read(int64_t first, const Rows& rows) const {
    for (int64_t row = 0; row < rows.count(); ++row)
      for (size_t i = 0; i < spec_.size(); ++i) read_component(first + row, i, rows, row);
  }

 private:
  void read_component(int64_t index, size_t i, const Rows& rows, int64_t row) const {
    const Bytes at = kHeaderBytes + index * layout_.bytes + layout_.offsets[i];
    if (!spec_[i].is_fixed()) {
      std::array<int64_t, kMaxRank> sizes{};
      read_exactly(at - Bytes(sizeof sizes), sizeof sizes, sizes.data());
      Dims dims;
      for (int axis = 0; axis < spec_[i].shape.rank(); ++axis) dims.push_back(sizes[static_cast<size_t>(axis)]);
      rows.slot(spec_, row).set_dims(i, dims);
    }
    read_exactly(at, row_bytes(spec_[i], rows, i, row), rows.at(i, row));
  }
  void read_exactly(Bytes at, Bytes bytes, void* into) const {
    if (file_.read_some(at, bytes, into, path_) != bytes)
      throw Error(fmt::format("{}: at byte {}: the file ends; it became shorter since it was opened", path_, at),
                  ErrorKind::BadData);
  }

  const std::string path_;
  const ElementSpec& spec_;
  const RowLayout layout_;
  const memory::File file_;
  int64_t count_ = 0;
};

class CacheFileStream final : public Stream, public input::Indexed {
 public:
  CacheFileStream(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const input::Recipe& recipe,
                  const std::string& path)
      : Stream(meter),
        input_(std::move(input)),
        spec_(recipe.element()),
        path_(path),
        header_(header_of(recipe.input())),
        held_(line.reserve(Tag::Data, memory::OutputFile::kBufferBytes)),
        row_(spec_, 1, line) {
    if (::access(path.c_str(), F_OK) == 0) cached_.emplace(path_, header_, spec_);
  }

  const Indexed* indexed() const override { return this; }
  int64_t count() const override { return complete().count(); }
  void read(int64_t first, const Rows& rows) const override { complete().read(first, rows); }

  int64_t skip(int64_t count, const Rows& scratch) override {
    if (!cached_) return Stream::skip(count, scratch);
    const int64_t passed = std::min(count, cached_->count() - position_);
    position_ += passed;
    return passed;
  }
  void rewind(uint64_t) override {
    position_ = 0;
    // A file of an unfinished pass is dropped and written again.
    output_.reset();
    if (!cached_) input_->rewind(0);
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (cached_) {
      const int64_t now = std::min(rows.count(), cached_->count() - position_);
      if (now > 0) cached_->read(position_, rows.front(now));
      position_ += now;
      return now;
    }
    const int64_t filled = pull_and_write(rows);
    position_ += filled;
    return filled;
  }

 private:
  int64_t pull_and_write(const Rows& rows) const {
    if (!output_) {
      output_.emplace(path_);
      output_->write(header_);
    }
    const int64_t filled = input_->pull(rows);
    for (int64_t row = 0; row < filled; ++row) write(rows, row);
    if (filled == 0) {
      output_->finish();
      output_.reset();
      cached_.emplace(path_, header_, spec_);
    }
    return filled;
  }

  void write(const Rows& rows, int64_t row) const {
    for (size_t i = 0; i < spec_.size(); ++i) {
      if (const Dims* const shape = rows.shape(i, row); !spec_[i].is_fixed()) {
        std::array<int64_t, kMaxRank> sizes{};
        std::ranges::copy(*shape, sizes.begin());
        output_->write(sizes.data(), sizeof sizes);
      }
      const Bytes bytes = row_bytes(spec_[i], rows, i, row);
      output_->write(rows.at(i, row), bytes);
      for (Bytes rest = spec_[i].bytes() - bytes; rest > 0;) {
        static constexpr std::array<char, 4096> kZeros{};
        const Bytes now = std::min<Bytes>(rest, kZeros.size());
        output_->write(kZeros.data(), now);
        rest -= now;
      }
    }
  }

  // Reading by number needs the whole file.
  const CachedRows& complete() const {
    const std::lock_guard lock(mutex_);
    if (!cached_) {
      output_.reset();
      input_->rewind(0);
      while (pull_and_write(row_.rows()) > 0) {
      }
    }
    return *cached_;
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;
  const std::string path_;
  const std::string header_;
  const Reservation held_;
  const Slots row_;
  mutable std::mutex mutex_;
  mutable std::optional<memory::OutputFile> output_;
  mutable std::optional<CachedRows> cached_;
  int64_t position_ = 0;
};

class CacheFileRecipe final : public input::SameElements {
 public:
  CacheFileRecipe(const input::RecipePtr& input, std::string path) : SameElements(input), path_(std::move(path)) {}

  std::string text() const override { return fmt::format("cache({})", path_); }
  int64_t size() const override { return input().size(); }
  bool is_random_access() const override { return true; }
  input::Holding holding() const override {
    return {.bytes = memory::OutputFile::kBufferBytes + Slots::bytes(element(), 1)};
  }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<CacheFileStream>(meter, build.line, std::move(inputs[0]), *this, path_);
  }

 private:
  const std::string path_;
};

}  // namespace

Dataset Dataset::cache(const std::string& path) const {
  if (path.empty())
    throw Error("cache: the path is empty; give one, or none at all to cache in memory", ErrorKind::Usage);
  if (size() == kInfinite)
    throw Error(fmt::format("cache: '{}' never ends; put repeat() behind cache()", to_string(*this)), ErrorKind::Usage);
  return input::make_dataset(std::make_shared<CacheFileRecipe>(recipe_, path));
}

}  // namespace plimsoll
