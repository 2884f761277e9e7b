#include "input/files/inflate.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/stored_array.h"
#include "memory/descriptor.h"
#include "memory/process.h"

namespace plimsoll::input {
namespace {

constexpr Bytes kPackedPiece = 32 * KiB;
constexpr Bytes kPlainPiece = 64 * KiB;
constexpr Bytes kWritebackPiece = 4 * MiB;

// Writes pieces one after the other. When the disk is full it only counts, so that the error can say how much was
// needed.
class Scratch {
 public:
  explicit Scratch(const std::string& directory) : directory_(directory), file_(memory::File::temporary(directory)) {}

  void append(const std::byte* piece, Bytes bytes) {
    for (Bytes done = 0; done < bytes && !full_;) {
      const ssize_t wrote =
          ::pwrite(file_.descriptor(), piece + done, static_cast<size_t>(bytes - done), total_ + done);
      if (wrote > 0) {
        done += wrote;
      } else if (wrote < 0 && errno != EINTR) {
        if (!memory::is_disk_full(errno))
          throw Error(fmt::format("scratch file in '{}': {}", directory_, std::strerror(errno)));
        give_up();
      }
    }
    total_ += bytes;
    // Starts writing back early, so that a small control group has clean pages to drop.
    if (!full_ && total_ - written_back_ >= kWritebackPiece) {
      ::sync_file_range(file_.descriptor(), written_back_, total_ - written_back_, SYNC_FILE_RANGE_WRITE);
      written_back_ = total_;
    }
  }

  // Frees the disk space and goes on counting.
  void give_up() {
    full_ = true;
    if (::ftruncate(file_.descriptor(), 0) != 0) full_ = true;
  }

  memory::File finish(const std::string& path) {
    if (full_)
      throw Error(fmt::format("{}: unpacking needs {} in '{}', {} are free; give another scratch directory or unpack "
                              "the file yourself",
                              path, format_exact_bytes(total_), directory_,
                              format_bytes(memory::available_disk_bytes(directory_))),
                  ErrorKind::DiskFull);
    return std::move(file_);
  }

 private:
  const std::string directory_;
  memory::File file_;
  Bytes total_ = 0;
  Bytes written_back_ = 0;
  bool full_ = false;
};

class Inflater {
 public:
  static constexpr int kGzip = MAX_WBITS + 16, kDeflate = -MAX_WBITS;
  explicit Inflater(int kind) {
    if (::inflateInit2(&stream_, kind) != Z_OK) throw Error("zlib cannot start", ErrorKind::DoesNotFit);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { ::inflateEnd(&stream_); }
  z_stream& operator*() { return stream_; }
  z_stream* operator->() { return &stream_; }

 private:
  z_stream stream_{};
};

[[noreturn]] void damaged(const std::string& path, Bytes at, const std::string& what) {
  throw Error(fmt::format("{}: at byte {}: {}; fetch the file again", path, at, what), ErrorKind::BadData);
}

// The last four bytes hold the length of the last member modulo 2^32: at most the true length.
Bytes least_unpacked_bytes(const memory::File& packed, const std::string& path) {
  std::array<uint8_t, 4> tail{};
  if (packed.size() < 18 || packed.read_some(packed.size() - 4, 4, tail.data(), path) != 4) return 0;
  return Bytes(tail[0]) | Bytes(tail[1]) << 8 | Bytes(tail[2]) << 16 | Bytes(tail[3]) << 24;
}

}  // namespace

memory::File inflate_to_scratch(const memory::File& packed, const std::string& path, const std::string& scratch_dir,
                                const std::function<Bytes(std::span<const std::byte> front)>& length_of) {
  struct Buffers {
    std::array<std::byte, kLongestHeader> front;
    std::array<std::byte, kPackedPiece> packed;
    std::array<std::byte, kPlainPiece> plain;
  };
  const auto buffers = std::make_unique<Buffers>();
  Scratch scratch(scratch_dir);
  if (least_unpacked_bytes(packed, path) > memory::available_disk_bytes(scratch_dir)) scratch.give_up();
  Inflater stream(Inflater::kGzip);
  Bytes read_bytes = 0, plain_bytes = 0;
  Bytes most_bytes = kLongestHeader;  // until the front is complete
  bool inside_member = true;
  bool output_pending = false;
  const auto position = [&] { return read_bytes - Bytes(stream->avail_in); };
  ::posix_fadvise(packed.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  while (true) {
    if (stream->avail_in == 0 && !output_pending) {
      const Bytes got = packed.read_some(read_bytes, kPackedPiece, buffers->packed.data(), path);
      if (got == 0) break;
      stream->next_in = reinterpret_cast<Bytef*>(buffers->packed.data());
      stream->avail_in = static_cast<uInt>(got);
      read_bytes += got;
    }
    if (!inside_member) {
      // Another member may follow, or padding with zeros.
      if (*stream->next_in == 0) {
        ++stream->next_in;
        --stream->avail_in;
        continue;
      }
      if (*stream->next_in != 0x1f) damaged(path, position(), "what follows the compressed data is not gzip");
      ::inflateReset(&*stream);
      inside_member = true;
    }
    stream->next_out = reinterpret_cast<Bytef*>(buffers->plain.data());
    stream->avail_out = kPlainPiece;
    const int status = ::inflate(&*stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      damaged(path, position(), fmt::format("damaged gzip data ({})", stream->msg ? stream->msg : "unknown"));
    const Bytes made = kPlainPiece - Bytes(stream->avail_out);
    if (plain_bytes < kLongestHeader) {
      const Bytes missing = std::min(made, kLongestHeader - plain_bytes);
      std::memcpy(buffers->front.data() + plain_bytes, buffers->plain.data(), static_cast<size_t>(missing));
      if (plain_bytes + made >= kLongestHeader) most_bytes = length_of(buffers->front);
    }
    plain_bytes += made;
    if (plain_bytes > most_bytes)
      damaged(path, position(),
              fmt::format("the file unpacks to more than the {} that its header says", format_exact_bytes(most_bytes)));
    scratch.append(buffers->plain.data(), made);
    if (status == Z_STREAM_END) inside_member = false;
    output_pending = inside_member && stream->avail_out == 0;
  }
  if (inside_member) damaged(path, read_bytes, "the gzip file ends too early, it is cut off");
  ::posix_fadvise(packed.descriptor(), 0, 0, POSIX_FADV_DONTNEED);  // it is not read again
  return scratch.finish(path);
}

memory::File open_unpacked(const std::string& path, const std::string& scratch_dir) {
  memory::File file = memory::File::open(path);
  std::array<std::byte, 2> front{};
  const Bytes got = file.read_some(0, Bytes(front.size()), front.data(), path);
  if (!is_gzip(std::span(front).first(static_cast<size_t>(got)))) return file;
  return inflate_to_scratch(file, path, scratch_dir, [](auto) { return std::numeric_limits<Bytes>::max(); });
}

memory::File inflate_member_to_scratch(const memory::File& archive, const std::string& path,
                                       const std::string& scratch_dir, const PackedMember& member) {
  struct Buffers {
    std::array<std::byte, kPackedPiece> packed;
    std::array<std::byte, kPlainPiece> plain;
  };
  const auto buffers = std::make_unique<Buffers>();
  Scratch scratch(scratch_dir);
  if (member.plain_bytes > memory::available_disk_bytes(scratch_dir)) scratch.give_up();
  Inflater stream(Inflater::kDeflate);
  Bytes read_bytes = 0, plain_bytes = 0;
  uLong checksum = ::crc32(0, nullptr, 0);
  const auto position = [&] { return member.offset + read_bytes - Bytes(stream->avail_in); };
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream->avail_in == 0) {
      const Bytes wanted = std::min(kPackedPiece, member.packed_bytes - read_bytes);
      const Bytes got = archive.read_some(member.offset + read_bytes, wanted, buffers->packed.data(), path);
      stream->next_in = reinterpret_cast<Bytef*>(buffers->packed.data());
      stream->avail_in = static_cast<uInt>(got);
      read_bytes += got;
    }
    stream->next_out = reinterpret_cast<Bytef*>(buffers->plain.data());
    stream->avail_out = kPlainPiece;
    status = ::inflate(&*stream, Z_NO_FLUSH);
    const Bytes made = kPlainPiece - Bytes(stream->avail_out);
    if (status == Z_BUF_ERROR && made == 0) damaged(path, position(), "the packed data ends too early");
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      damaged(path, position(), fmt::format("damaged packed data ({})", stream->msg ? stream->msg : "unknown"));
    checksum = ::crc32(checksum, reinterpret_cast<const Bytef*>(buffers->plain.data()), static_cast<uInt>(made));
    plain_bytes += made;
    if (plain_bytes > member.plain_bytes) break;
    scratch.append(buffers->plain.data(), made);
  }
  if (plain_bytes != member.plain_bytes)
    damaged(path, position(),
            fmt::format("the data does not unpack to the {} that the archive says",
                        format_exact_bytes(member.plain_bytes)));
  if (checksum != member.checksum) damaged(path, position(), "the checksum of the unpacked data is wrong");
  return scratch.finish(path);
}

}  // namespace plimsoll::input
