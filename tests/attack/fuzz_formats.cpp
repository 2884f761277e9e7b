// Damaged data files of every format: an Error or a right answer, never a crash, never much memory. Each target starts
// from the small files in tests/attack/corpus.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "attack/file_fuzz.h"
#include "attack/mutate.h"
#include "base/random.h"
#include "input/files/csv.h"
#include "input/files/csv_guess.h"
#include "input/files/npz.h"
#include "input/files/tf_table.h"
#include "input/image/image_files.h"
#include "input/opening/detect.h"
#include "input/records.h"
#include "support/disk_folder.h"

namespace plimsoll::testing {
namespace {

using namespace data;

std::vector<std::string> corpus(const std::string& format) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PLIMSOLL_CORPUS_DIR "/" + format))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

class FormatFuzz : public FileFuzz {
 protected:
  FormatFuzz() : into_(kRoom) {}

  // The first, the last and the middle element.
  void read_some(const Table& table) {
    Bytes bytes = 0;
    std::vector<std::byte*> places;
    for (const TableField& field : table.fields()) {
      if (field.elements() < 0 || field.bytes() > kRoom - bytes) return;
      places.push_back(into_.data() + bytes);
      bytes = round_up(bytes + field.bytes(), kAlignment);
      if (bytes > kRoom) return;
    }
    const auto reader = table.open_reader();
    for (const int64_t element : {int64_t{0}, table.elements() - 1, table.elements() / 2})
      reader->read(element, places);
  }

  static constexpr Bytes kRoom = MiB;
  std::vector<std::byte> into_;
  const MemoryFile file_;
  const DiskFolder scratch_;
};

const ImageOptions kSmall{.height = 9, .width = 7, .image_bytes = MiB, .most_pixels = 1'000'000};

TEST_F(FormatFuzz, Npz) {
  attack(corpus("npz"), 5'000, 512 * KiB, [&](const std::string& damaged) {
    file_.set(damaged);
    for (const std::string& name : list_npz(file_.path())) {
      const auto source = open_npz(file_.path(), name, {scratch_});
      if (source->sample_bytes() <= kRoom) source->read(source->samples() - 1, 1, into_.data());
    }
  });
}

TEST_F(FormatFuzz, Csv) {
  attack(corpus("csv"), 10'000, 6 * MiB, [&](const std::string& damaged) {
    file_.set(damaged);
    CsvOptions options = guess_csv(file_.path(), scratch_);
    options.index_bytes = 64;
    options.missing = 0;
    read_some(*open_csv(file_.path(), options));
  });
}

// Damage of a file is mostly found by its checksums, so every second file has a damaged record with right checksums.
TEST_F(FormatFuzz, TfRecord) {
  const std::vector<std::string> files = corpus("tfrecord");
  std::vector<std::string> records;
  for (const std::string& file : files)
    for (size_t at = 0; at + 12 < file.size();) {
      uint64_t length = 0;
      std::memcpy(&length, file.data() + at, 8);
      records.push_back(file.substr(at + 12, length));
      at += 16 + length;
    }
  attack(files, 10'000, 4 * MiB, [&](const std::string& damaged) {
    const uint64_t seed = hash_text(damaged);
    file_.set(seed % 2 == 0 ? damaged : tf_record(records[0]) + tf_record(mutate(records, seed)));
    const std::vector<TfFeature> features = guess_features(file_.path(), kSmall);
    read_some(*open_tf_records({file_.path()}, features));
  });
}

void read_image(const std::string& damaged, std::byte* into, ImageReader& reader) {
  reader.read(std::as_bytes(std::span(damaged)), "image", into);
}

TEST_F(FormatFuzz, Jpeg) {
  ImageReader reader(kSmall);
  attack(corpus("jpeg"), 20'000, MiB, [&](const std::string& damaged) { read_image(damaged, into_.data(), reader); });
}

// The checksums of chunks are made right in three of four files: libpng would refuse the others before it decodes.
TEST_F(FormatFuzz, Png) {
  ImageReader reader(kSmall);
  attack(corpus("png"), 20'000, MiB, [&](const std::string& damaged) {
    std::string repaired = damaged;
    for (size_t at = 8; at + 12 <= repaired.size();) {
      const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(repaired[i])); };
      const size_t length = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
      if (length > repaired.size() - at - 12) break;
      const auto* const from = reinterpret_cast<const Bytef*>(repaired.data()) + at + 4;
      const auto sum = static_cast<uint32_t>(::crc32(0, from, static_cast<uInt>(length + 4)));
      repaired.replace(at + 8 + length, 4, big_endian<uint32_t>({sum}));
      at += 12 + length;
    }
    read_image(hash_text(damaged) % 4 == 0 ? damaged : repaired, into_.data(), reader);
  });
}

TEST_F(FormatFuzz, ImageList) {
  attack({"a.png,1\nb.jpg,2\n", "a.png\tcat\n\"b c.jpg\"\tdog\n", "a.png 1\nb.png 2\n\n"}, 10'000, MiB,
         [&](const std::string& damaged) {
           file_.set(damaged);
           const auto table = open_image_list(file_.path(), kSmall);
           if (table->elements() < 1) throw std::runtime_error("a list of nothing");
         });
}

TEST_F(FormatFuzz, Detection) {
  std::vector<std::string> files;
  for (const char* format : {"npz", "csv", "tfrecord", "jpeg"}) {
    const std::vector<std::string> some = corpus(format);
    files.insert(files.end(), some.begin(), some.end());
  }
  attack(files, 5'000, 8 * MiB, [&](const std::string& damaged) {
    file_.set(damaged);
    describe(detect(file_.path(), {scratch_}));
  });
}

}  // namespace
}  // namespace plimsoll::testing
