#include "graph/shape.h"

#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll::graph {
namespace {

TEST(Dim, IsANumberOrAMultipleOfTheBatch) {
  EXPECT_EQ(Dim(5).at(32), 5);
  EXPECT_EQ(Dim::batch().at(32), 32);
  EXPECT_EQ((Dim::batch() * 128).at(2), 256);
  EXPECT_EQ(Dim::batch(6) / 3, Dim::batch(2));
  EXPECT_THROW(Dim::batch() * Dim::batch(), Error);
  EXPECT_THROW(Dim(7) / 2, Error);
  EXPECT_THROW(Dim::batch().fixed(), Error);
}

TEST(Shape, BroadcastsAsNumpyDoes) {
  EXPECT_EQ(broadcast({Dim::batch(), 3, 4}, {4}), (Shape{Dim::batch(), 3, 4}));
  EXPECT_EQ(broadcast({3, 1}, {Dim::batch(), 1, 4}), (Shape{Dim::batch(), 3, 4}));
  EXPECT_THROW(broadcast({3}, {4}), Error);
  EXPECT_THROW(broadcast({Dim::batch()}, {4}), Error);
}

TEST(Shape, PrintsAndParsesBack) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{Dim::batch(), 3, 224}, Shape{Dim::batch(128), 7}})
    EXPECT_EQ(parse_shape(to_string(shape)), shape) << to_string(shape);
  for (const char* text : {"", "[", "3,4", "[3,]", "[x]", "[-1]", "[0B]", "[3 4]"})
    EXPECT_THROW(parse_shape(text), Error) << text;
}

TEST(Shape, HasAtMostEightDimensions) {
  Shape shape = Shape::filled(kMaxRank, 1);
  EXPECT_THROW(shape.push_back(1), Error);
}

}  // namespace
}  // namespace plimsoll::graph
