// Small writers of idx, npy, gz and zip files for tests.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = ::testing::TempDir() + "plimsoll-test-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::string path_;
};

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::string big_endian(const std::vector<T>& values) {
  std::string bytes = raw(values);
  for (size_t at = 0; at < bytes.size(); at += sizeof(T))
    std::reverse(bytes.begin() + at, bytes.begin() + at + sizeof(T));
  return bytes;
}

inline std::string idx(uint8_t type, const std::vector<uint32_t>& shape, const std::string& data) {
  return std::string{0, 0, char(type), char(shape.size())} + big_endian(shape) + data;
}

inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                       const std::string& order = "False", int version = 1) {
  std::string header = "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
  const uint32_t length = header.size();
  std::string file = "\x93NUMPY";
  file += {char(version), 0, char(length), char(length >> 8)};
  if (version > 1) file += {char(length >> 16), char(length >> 24)};
  return file + header + data;
}

inline std::string gzip(const std::string& plain) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, plain.size()) + 64, 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = plain.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Member {
  std::string name;
  std::string content;
};

inline std::string number(uint64_t value, int bytes) { return {reinterpret_cast<const char*>(&value), size_t(bytes)}; }

// As numpy.savez and savez_compressed write it, with the 64-bit numbers that numpy puts in local headers left out.
inline std::string zip(const std::vector<Member>& members, bool deflated) {
  std::string file, directory;
  for (const Member& member : members) {
    // A gzip file is its header of 10 bytes, the deflated data, checksum and length.
    const std::string gz = gzip(member.content);
    const std::string data = deflated ? gz.substr(10, gz.size() - 18) : member.content;
    const std::string facts = number(deflated ? 8 : 0, 2) + number(0, 4) + gz.substr(gz.size() - 8, 4) +
                              number(data.size(), 4) + number(member.content.size(), 4) +
                              number(member.name.size(), 2) + number(0, 2);
    directory += "PK\x01\x02" + number(20, 2) + number(20, 2) + number(0, 2) + facts + number(0, 2) + number(0, 2) +
                 number(0, 2) + number(0, 4) + number(file.size(), 4) + member.name;
    file += "PK\x03\x04" + number(20, 2) + number(0, 2) + facts + member.name + data;
  }
  const std::string count = number(members.size(), 2);
  return file + directory + "PK\x05\x06" + number(0, 4) + count + count + number(directory.size(), 4) +
         number(file.size(), 4) + number(0, 2);
}

// The text of the Error that `action` must throw.
template <typename Action>
std::string refusal(Action action, ErrorKind kind = ErrorKind::BadData) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

}  // namespace plimsoll::testing
