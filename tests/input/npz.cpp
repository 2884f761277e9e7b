#include "input/files/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"

namespace plimsoll::input {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy;
using testing::raw;

const std::vector<testing::Member> kArrays = {{"x.npy", npy("'<f4'", "(3, 2)", raw<float>({1, 2, 3, 4, 5, 6}))},
                                              {"deep/y.npy", npy("'<i8'", "(3,)", raw<int64_t>({7, 8, 9}))},
                                              {"wide.npy", npy("'<f8'", "(2, 2)", raw<double>({0.5, 1.5, 2.5, 3.5}))}};

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const testing::TemporaryDirectory dir;
  for (const bool deflated : {false, true}) {
    const std::string path = dir.write("a.npz", testing::zip(kArrays, deflated));
    EXPECT_THAT(list_npz(path), ElementsAre("x", "deep/y", "wide"));
    const auto x = open_npz(path, "x", {dir.path()});
    EXPECT_EQ(x->name(), path + ":x");
    EXPECT_EQ(x->dtype(), DType::F32);
    EXPECT_EQ(x->samples(), 3);
    EXPECT_THAT(x->sample_shape(), ElementsAre(2));
    std::vector<float> row(4);
    x->read(1, 2, row.data());
    EXPECT_THAT(row, ElementsAre(3, 4, 5, 6));
    const auto y = open_source(path + ":deep/y", {dir.path()});
    std::vector<int64_t> labels(3);
    y->read(0, 3, labels.data());
    EXPECT_THAT(labels, ElementsAre(7, 8, 9));
    const auto wide = open_npz(path, "wide.npy", {dir.path()});
    wide->read(0, 2, row.data());
    EXPECT_THAT(row, ElementsAre(0.5F, 1.5F, 2.5F, 3.5F));
  }
}

TEST(Npz, OneArrayNeedsNoName) {
  const testing::TemporaryDirectory dir;
  const std::string one = dir.write("one.npz", testing::zip({kArrays[0]}, false));
  EXPECT_EQ(open_source(one)->samples(), 3);
  const std::string several = dir.write("several.npz", testing::zip(kArrays, false));
  EXPECT_THAT(testing::refusal([&] { open_source(several); }), HasSubstr("several.npz:x, known are x, deep/y, wide"));
  EXPECT_THAT(testing::refusal([&] { open_npz(several, "z"); }), HasSubstr("no array 'z'; it has x, deep/y, wide"));
}

TEST(Npz, RefusesDamage) {
  const testing::TemporaryDirectory dir;
  const std::string stored = testing::zip(kArrays, false), packed = testing::zip(kArrays, true);
  const auto refused = [&](const std::string& content) {
    const std::string path = dir.write("bad.npz", content);
    return testing::refusal([&] { open_npz(path, "x", {dir.path()}); });
  };
  EXPECT_THAT(refused(stored.substr(0, stored.size() - 30)), HasSubstr("no directory at its end"));
  std::string damaged = packed;
  damaged[60] ^= 0x55;
  EXPECT_THAT(refused(damaged), HasSubstr("bad.npz:x: at byte"));
  damaged = packed;
  const size_t directory = packed.find("PK\x01\x02");
  damaged[directory + 16] ^= 1;
  EXPECT_THAT(refused(damaged), HasSubstr("the checksum of the unpacked data is wrong"));
  damaged = packed;
  damaged[directory + 24] -= 1;
  EXPECT_THAT(refused(damaged), HasSubstr("does not unpack to the"));
  damaged = packed;
  damaged[directory + 10] = 12;
  EXPECT_THAT(refused(damaged), HasSubstr("packed with method 12"));
  damaged = stored;
  damaged[stored.find("PK\x01\x02") + 45] = 1;
  EXPECT_THAT(refused(damaged), HasSubstr("lies behind the end of the file"));
}

TEST(Npz, AStoredMemberMustHaveItsChecksum) {
  const testing::TemporaryDirectory dir;
  const std::string whole = testing::zip({kArrays[0], kArrays[2]}, false);
  const size_t end_of_x = whole.find("PK\x03\x04", 4);
  for (size_t back = 1; back <= 24; ++back) {  // the numbers of x
    std::string damaged = whole;
    damaged[end_of_x - back] ^= 0x10;
    const std::string path = dir.write("flip.npz", damaged);
    std::vector<float> row(6);
    const auto x = open_npz(path, "x");
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(testing::refusal([&] { x->read(0, 1, row.data()); }), HasSubstr("flip.npz:x: its checksum is wrong"));
    open_npz(path, "wide")->read(0, 1, row.data());
    EXPECT_EQ(row[0], 0.5F);
  }
}

TEST(Npz, IsKnownByItsContentWhateverItsName) {
  const testing::TemporaryDirectory dir;
  const std::string path = dir.write("good.dat", testing::zip(kArrays, false));
  EXPECT_EQ(open_source(path + ":x")->samples(), 3);
  EXPECT_EQ(split_npz_path(path + ":x")->second, "x");
  EXPECT_FALSE(split_npz_path(dir.write("text.dat", "no archive") + ":x"));
  EXPECT_FALSE(split_npz_path(path));
}

TEST(Npz, RefusesTwoArraysOfOneName) {
  const testing::TemporaryDirectory dir;
  const std::string path = dir.write("twice.npz", testing::zip({kArrays[0], {"x", kArrays[0].content}}, false));
  EXPECT_THAT(testing::refusal([&] { list_npz(path); }), HasSubstr("two arrays 'x'"));
  EXPECT_THAT(testing::refusal([&] { open_npz(path, "x"); }), HasSubstr("two arrays 'x'"));
}

}  // namespace
}  // namespace plimsoll::input
