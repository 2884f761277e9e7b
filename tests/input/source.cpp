#include "input/files/source.h"

#include <sys/stat.h>

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "memory/process.h"
#include "support/cgroup.h"

namespace plimsoll::input {
namespace {

using testing::big_endian;
using ::testing::ElementsAre;
using testing::gzip;
using ::testing::HasSubstr;
using testing::idx;
using testing::npy;
using testing::raw;
using testing::TemporaryDirectory;

template <typename T>
std::vector<T> read_all(const Source& source) {
  std::vector<T> values(source.samples() * source.sample_bytes() / sizeof(T));
  source.read(0, source.samples(), values.data());
  return values;
}

TEST(Source, ReadsIdx) {
  const TemporaryDirectory dir;
  const auto source = open_source(dir.write("a", idx(0x08, {3, 2, 2}, "abcdefghijkl")));
  EXPECT_EQ(source->samples(), 3);
  EXPECT_EQ(source->dtype(), DType::U8);
  EXPECT_THAT(source->sample_shape(), ElementsAre(2, 2));
  EXPECT_EQ(source->sample_bytes(), 4);
  EXPECT_EQ(source->name(), dir.path() + "/a");
  std::string two(8, ' ');
  source->read(1, 2, two.data());
  EXPECT_EQ(two, "efghijkl");
}

TEST(Source, TurnsBigEndianNumbersRound) {
  const TemporaryDirectory dir;
  const auto i8 = open_source(dir.write("i8", idx(0x09, {2}, raw<int8_t>({-1, 5}))));
  EXPECT_THAT(read_all<int8_t>(*i8), ElementsAre(-1, 5));
  EXPECT_TRUE(i8->sample_shape().empty());
  const auto i32 = open_source(dir.write("i32", idx(0x0C, {3}, big_endian<int32_t>({1, -2, 70000}))));
  EXPECT_EQ(i32->dtype(), DType::I32);
  EXPECT_THAT(read_all<int32_t>(*i32), ElementsAre(1, -2, 70000));
  const auto f32 = open_source(dir.write("f32", idx(0x0D, {2}, big_endian<float>({1.5f, -0.25f}))));
  EXPECT_THAT(read_all<float>(*f32), ElementsAre(1.5f, -0.25f));
  const auto f64 = open_source(dir.write("f64", idx(0x0E, {2}, big_endian<double>({2.5, -3.0}))));
  EXPECT_EQ(f64->dtype(), DType::F32);
  EXPECT_EQ(f64->sample_bytes(), 4);
  EXPECT_THAT(read_all<float>(*f64), ElementsAre(2.5f, -3.0f));
}

TEST(Source, ReadsEachNpyType) {
  const TemporaryDirectory dir;
  const auto opened = [&](const std::string& descr, const std::string& data) {
    return open_source(dir.write("a.npy", npy("'" + descr + "'", "(2,)", data)));
  };
  EXPECT_THAT(read_all<float>(*opened("<f4", raw<float>({1, 2}))), ElementsAre(1, 2));
  EXPECT_THAT(read_all<int32_t>(*opened("<i4", raw<int32_t>({1, 2}))), ElementsAre(1, 2));
  EXPECT_THAT(read_all<int64_t>(*opened("<i8", raw<int64_t>({1, 2}))), ElementsAre(1, 2));
  EXPECT_THAT(read_all<uint8_t>(*opened("|u1", raw<uint8_t>({1, 200}))), ElementsAre(1, 200));
  EXPECT_EQ(opened("<f2", raw<uint16_t>({1, 2}))->dtype(), DType::F16);
  EXPECT_EQ(opened("|i1", raw<uint8_t>({1, 2}))->dtype(), DType::I8);
  EXPECT_EQ(opened("|b1", raw<uint8_t>({1, 0}))->dtype(), DType::Bool);
}

TEST(Source, NarrowsLongRunsOfDoubles) {
  const TemporaryDirectory dir;
  std::vector<double> values(3 * 5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = double(i) / 2;
  const auto source = open_source(dir.write("a.npy", npy("'<f8'", "(3, 5000)", raw(values))));
  EXPECT_EQ(source->dtype(), DType::F32);
  std::vector<float> last(2 * 5000);
  source->read(1, 2, last.data());
  for (size_t i = 0; i < last.size(); ++i) ASSERT_EQ(last[i], float(i + 5000) / 2);
}

TEST(Source, ReadsEachNpyVersion) {
  const TemporaryDirectory dir;
  for (const int version : {1, 2, 3}) {
    const auto source =
        open_source(dir.write("a.npy", npy("'<i4'", "(2, 1, 2)", raw<int32_t>({1, 2, 3, 4}), "False", version)));
    EXPECT_THAT(source->sample_shape(), ElementsAre(1, 2));
    EXPECT_THAT(read_all<int32_t>(*source), ElementsAre(1, 2, 3, 4));
  }
}

TEST(Source, UnpacksGzipWhateverItsName) {
  const TemporaryDirectory dir;
  std::string noise(300'000, 0);
  std::mt19937 random(1);
  for (char& c : noise) c = char(random() % 7);
  const SourceOptions here{dir.path()};
  for (const std::string& plain : {idx(0x08, {300, 1000}, noise), npy("'|u1'", "(300, 1000)", noise)}) {
    const auto source = open_source(dir.write("packed", gzip(plain)), here);
    EXPECT_EQ(source->samples(), 300);
    EXPECT_EQ(read_all<char>(*source), std::vector<char>(noise.begin(), noise.end()));
    // Cut into members and padded with zeros, as some writers do.
    const std::string members = gzip(plain.substr(0, 1000)) + gzip(plain.substr(1000)) + std::string(512, 0);
    EXPECT_EQ(read_all<char>(*open_source(dir.write("members", members), here)),
              std::vector<char>(noise.begin(), noise.end()));
  }
  // Nothing is left beside the two files written here.
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) ++files;
  EXPECT_EQ(files, 2);
}

TEST(Source, UnpacksWhatEndsOnAFullBuffer) {
  const TemporaryDirectory dir;
  for (const uint32_t samples : {65535u - 8, 65536u - 8, 65537u - 8, 131072u - 8, 1u << 22}) {
    const auto source = open_source(dir.write("a", gzip(idx(0x08, {samples}, std::string(samples, 'x')))));
    EXPECT_EQ(source->samples(), samples);
  }
}

class BadSource : public ::testing::Test {
 protected:
  std::string refused(const std::string& content, ErrorKind kind = ErrorKind::BadData) {
    const std::string path = dir_.write("bad", content);
    const std::string text = testing::refusal([&] { open_source(path, {dir_.path()}); }, kind);
    EXPECT_THAT(text, HasSubstr(path));
    return text;
  }
  TemporaryDirectory dir_;
};

TEST_F(BadSource, MissingFileOrDirectory) {
  EXPECT_THAT(testing::refusal([] { open_source("/no/such/file"); }), HasSubstr("/no/such/file: No such file"));
  EXPECT_THAT(testing::refusal([&] { open_source(dir_.path()); }), HasSubstr("is a directory"));
  EXPECT_THAT(testing::refusal([] { open_source("/dev/null"); }), HasSubstr("not a regular file"));
  const std::string pipe = dir_.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(testing::refusal([&] { open_source(pipe); }), HasSubstr("not a regular file"));
}

TEST_F(BadSource, WrongMagic) {
  EXPECT_THAT(refused(""), HasSubstr("the file is empty"));
  EXPECT_THAT(refused("hello, this is text"), HasSubstr("at byte 0: this is neither idx nor npy"));
  EXPECT_THAT(refused("PK\x03\x04 and so on"), HasSubstr("no directory at its end"));
  EXPECT_THAT(refused(gzip("hello, this is text")), HasSubstr("neither idx nor npy"));
  EXPECT_THAT(refused(idx(0x77, {1}, "a")), HasSubstr("at byte 2: idx type 0x77 is unknown"));
  EXPECT_THAT(refused(idx(0x0B, {1}, "aa")), HasSubstr("16-bit integers"));
}

TEST_F(BadSource, CutOff) {
  EXPECT_THAT(refused(idx(0x08, {2, 2}, "abc")), HasSubstr("at byte 15: the file ends, but its header says 16 bytes"));
  EXPECT_THAT(refused(std::string("\0\0\x08\x03\0\0", 6)), HasSubstr("at byte 6: the file ends inside its header"));
  EXPECT_THAT(refused(npy("'<f4'", "(3,)", raw<float>({1, 2}))), HasSubstr("it is cut off"));
  EXPECT_THAT(refused("\x93NUMPY\x01"), HasSubstr("ends inside its npy header"));
  EXPECT_THAT(refused(npy("'<f4'", "(3,)", "").substr(0, 50)), HasSubstr("the header is 128 bytes long"));
  EXPECT_THAT(refused(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{'descr'", 20)), HasSubstr("the file only 20"));
  EXPECT_THAT(refused(std::string("\x93NUMPY\x02\0\0\0\x02\0", 12) + std::string(200'000, ' ')), HasSubstr("too long"));
}

TEST_F(BadSource, SizesThatOverflow) {
  const uint32_t most = 0xffffffff;
  EXPECT_THAT(refused(idx(0x08, {most, most, most, most}, "a")), HasSubstr("more bytes than can be counted"));
  EXPECT_THAT(refused(npy("'<i8'", "(4611686018427387904, 2)", "a")), HasSubstr("more bytes than can be counted"));
  EXPECT_THAT(refused(npy("'<i8'", "(99999999999999999999999,)", "a")), HasSubstr("its shape is no list"));
  EXPECT_THAT(refused(npy("'<i8'", "(-1,)", "a")), HasSubstr("its shape is no list"));
}

TEST_F(BadSource, NothingInside) {
  EXPECT_THAT(refused(idx(0x08, {0, 28}, "")), HasSubstr("the array is empty"));
  EXPECT_THAT(refused(npy("'<f4'", "(10, 0)", "")), HasSubstr("the array is empty"));
  EXPECT_THAT(refused(npy("'<f4'", "()", "abcd")), HasSubstr("no dimensions"));
  EXPECT_THAT(refused(idx(0x08, {}, "abcd")), HasSubstr("no dimensions"));
}

TEST_F(BadSource, NpyThatWouldBeMisread) {
  EXPECT_THAT(refused(npy("'>f4'", "(1,)", "abcd")), HasSubstr("big-endian; save it with array.astype('<f4')"));
  EXPECT_THAT(refused(npy("'<f4'", "(1, 1)", "abcd", "True")), HasSubstr("numpy.ascontiguousarray"));
  EXPECT_THAT(refused(npy("'<u2'", "(1,)", "ab")), HasSubstr("array.astype"));
  EXPECT_THAT(refused(npy("[('a', '<f4')]", "(1,)", "abcd")), HasSubstr("save each field"));
  EXPECT_THAT(refused(npy("'<f4'", "(1,)", "abcd", "False", 9)), HasSubstr("npy version 9"));
  EXPECT_THAT(refused(npy("'<f4'", "7", "abcd")), HasSubstr("'(' is missing"));
}

TEST_F(BadSource, MalformedNpyHeaders) {
  for (const char* shape : {"(2,,2)", "(2 2)", "(,)", "(2", "2)", "(2)", "(2, 2", "(2, 2))", "(2, x)", "(2, 2.0)",
                            "(2, +2)", "(0x2, 2)", "[2, 2]", "((2, 2))", "(2L2,)", "()()", "(2,; 2)"})
    EXPECT_THAT(refused(npy("'<f4'", shape, std::string(16, 'x'))), HasSubstr("npy header")) << shape;
  for (const char* shape : {"(2, 2)", "(2,2)", "(2, 2,)", "( 2 , 2 )", "(4,)", "(2L, 2L)"})
    EXPECT_EQ(open_source(dir_.write("good", npy("'<f4'", shape, std::string(16, 'x'))))->dtype(), DType::F32) << shape;
  EXPECT_THAT(refused(npy("'<f4', 'descr': '<i4'", "(1,)", "abcd")), HasSubstr("has 'descr' twice"));
  EXPECT_THAT(refused(npy("'<f4', 'shape': (1,)", "(1,)", "abcd")), HasSubstr("has 'shape' twice"));
  EXPECT_THAT(refused(npy("'<f4', 'order': 'C'", "(1,)", "abcd")), HasSubstr("unknown key 'order'"));
  EXPECT_THAT(refused(npy("'<f4'", "(1,)", "abcd", "Falsehood")), HasSubstr("',' is missing"));
  EXPECT_THAT(refused(npy("'<f4'", "(1,)", "abcd", "0")), HasSubstr("neither True nor False"));
  EXPECT_THAT(refused(npy("'<f4'", "(1,)}, {", "abcd")), HasSubstr("more text follows"));
  EXPECT_THAT(refused(npy("<f4", "(1,)", "abcd")), HasSubstr("the element type in quotes"));
  EXPECT_THAT(refused(npy("'<f4", "(1,)", "abcd")), HasSubstr("cannot be read"));
}

TEST_F(BadSource, BytesBehindTheArray) {
  EXPECT_THAT(refused(idx(0x08, {2, 2}, "abcde")), HasSubstr("at byte 16: 1 bytes follow the array"));
  EXPECT_THAT(refused(npy("'<f4'", "(1,)", "abcdefgh")), HasSubstr("4 bytes follow the array"));
  EXPECT_THAT(refused(gzip(idx(0x08, {2, 2}, "abcde"))), HasSubstr("1 bytes follow the array"));
}

// A gigabyte of zeros behind a small array: refused as soon as the size that the header says is passed.
TEST_F(BadSource, GzipBomb) {
  const std::string zeros = gzip(std::string(16'000'000, '\0'));
  std::string bomb = gzip(idx(0x08, {300, 300}, std::string(90'000, 'x')));
  for (int member = 0; member < 64; ++member) bomb += zeros;
  EXPECT_THAT(refused(bomb), HasSubstr("unpacks to more than the 90,012 bytes"));
  // A header that is wrong shows before the rest is unpacked.
  EXPECT_THAT(refused(gzip(std::string(16'000'000, 'x'))), HasSubstr("neither idx nor npy"));
}

TEST_F(BadSource, DamagedGzip) {
  std::string packed = gzip(idx(0x08, {1000, 100}, std::string(100'000, 'x')));
  EXPECT_THAT(refused(packed.substr(0, packed.size() - 9)), HasSubstr("ends too early"));
  EXPECT_THAT(refused(packed.substr(0, 5)), HasSubstr("at byte 5: the gzip file ends too early"));
  EXPECT_THAT(refused(packed + "garbage"), HasSubstr("not gzip"));
  std::string wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  EXPECT_THAT(refused(wrong_sum), HasSubstr("damaged gzip data"));
  packed[20] ^= char(0xff);
  EXPECT_THAT(refused(packed), HasSubstr("fetch the file again"));
}

TEST_F(BadSource, ShorterThanWhenOpened) {
  const std::string path = dir_.write("shrinks", idx(0x08, {4}, "abcd"));
  const auto source = open_source(path);
  std::filesystem::resize_file(path, 10);
  char all[4];
  EXPECT_THAT(testing::refusal([&] { source->read(0, 4, all); }), HasSubstr("at byte 10: the file ends"));
}

TEST_F(BadSource, NoScratchDirectory) {
  const std::string path = dir_.write("a", gzip(idx(0x08, {1}, "a")));
  EXPECT_THAT(testing::refusal([&] { open_source(path, {"/no/such/dir"}); }, ErrorKind::General),
              HasSubstr("give another scratch directory"));
}

TEST(Source, TheShapeOfSamplesIsInTheFront) {
  const testing::TemporaryDirectory dir;
  const std::string array = testing::npy("'<f4'", "(3, 2, 5)", std::string(120, 'a'));
  for (const std::string& path : {dir.write("a.npy", array), dir.write("a.npy.gz", testing::gzip(array)),
                                  dir.write("a.npz", testing::zip({{"x.npy", array}}, true)) + ":x"})
    EXPECT_THAT(read_sample_shape(path), ::testing::ElementsAre(2, 5)) << path;
  EXPECT_THAT(testing::refusal([&] { read_sample_shape(dir.write("b.npy", "no array")); }),
              ::testing::HasSubstr("b.npy"));
}

}  // namespace
}  // namespace plimsoll::input
