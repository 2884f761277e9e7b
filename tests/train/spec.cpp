#include "train/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/disk_folder.h"
#include "support/error_of.h"
#include "train/small_data.h"
#include "train/training.h"

namespace plimsoll::train {
namespace {

using testing::DiskFolder;
using testing::error_of;
using ::testing::HasSubstr;
using testing::small_spec;

TEST(Spec, ALineIsThatOfTheSpecOrOfTheSurroundings) {
  EXPECT_EQ(resolve_line(small_spec()).bytes, GiB);
  EXPECT_EQ(resolve_line(small_spec()).reason, "as asked");
  Spec open = small_spec();
  open.line = 0;
  EXPECT_GT(resolve_line(open).bytes, 0);
  EXPECT_NE(resolve_line(open).reason, "as asked");
}

TEST(Spec, ScratchIsWhatTheLimitSays) {
  const DiskFolder folder;
  Spec spec = small_spec();
  EXPECT_EQ(resolve_scratch(spec).folder, "");
  spec.scratch_folder = folder;
  spec.disk_limit = {.bytes = 2 * MiB};
  EXPECT_EQ(resolve_scratch(spec).bytes, 2 * MiB);
  EXPECT_EQ(resolve_scratch(spec).folder, spec.scratch_folder);
  spec.disk_limit = {.share = 0.5};
  const Bytes half = resolve_scratch(spec).bytes;
  spec.disk_limit = {.share = 0.25};
  EXPECT_NEAR(static_cast<double>(half) / static_cast<double>(resolve_scratch(spec).bytes), 2, 0.1);
  spec.levers.spill = false;
  EXPECT_EQ(resolve_scratch(spec).folder, "");
}

TEST(Spec, ScratchThatMakesNoSenseIsRefused) {
  const DiskFolder folder;
  Spec spec = small_spec();
  spec.scratch_folder = folder;
  spec.disk_limit = {.bytes = 9 * KiB};
  EXPECT_THAT(error_of([&] { resolve_scratch(spec); }), HasSubstr("too small"));
  spec.disk_limit = {.bytes = 900LL * 1024 * GiB};
  EXPECT_THAT(error_of([&] { resolve_scratch(spec); }), HasSubstr("free"));
  spec.scratch_folder = "/dev/shm";
  EXPECT_THAT(error_of([&] { resolve_scratch(spec); }), HasSubstr("tmpfs"));
  spec.scratch_folder = "/no/such";
  EXPECT_THAT(error_of([&] { resolve_scratch(spec); }), HasSubstr("'/no/such'"));
}

TEST(Spec, ADifferenceIsNamed) {
  const Spec before = small_spec();
  EXPECT_EQ(describe_difference(before, before), "");
  Spec after = before;
  after.batch = 4;
  after.line = 48 * MiB;
  EXPECT_EQ(describe_difference(before, after), "batch 4, line 48MiB");
  after = before;
  after.optimiser = Optimiser::sgd();
  EXPECT_EQ(describe_difference(before, after), "optimiser sgd");
  EXPECT_EQ(describe_difference(after, before), "optimiser adam");
  after = before;
  after.policy = Policy::mixed_bfloat16();
  after.optimiser.state_bits = 8;
  after.accumulate = 4;
  EXPECT_EQ(describe_difference(before, after),
            "values in bf16, optimiser state in 8 bits, an update for each 4 batches");
  after = before;
  after.levers.recompute = false;
  EXPECT_EQ(describe_difference(after, before), "every lever");
  after = before;
  after.scratch_folder = "/disk";
  after.disk_limit = {.share = 0.9};
  EXPECT_EQ(describe_difference(before, after), "scratch folder /disk, disk limit 90 %");
  after = before;
  after.split_ops = {"batch_norm"};
  EXPECT_EQ(describe_difference(before, after), "batch_norm by micro-batch");
}

TEST(Spec, WhatCantBeSplitOrIsUnknownIsRefused) {
  Spec spec = small_spec();
  spec.split_ops = {"softmax"};
  EXPECT_THAT(error_of([&] { make_training(spec); }), HasSubstr("'softmax' can't be split"));
  spec = small_spec();
  spec.model = "resnet51";
  EXPECT_THAT(error_of([&] { make_training(spec); }), HasSubstr("resnet50"));
}

TEST(Curve, GoesFromTheSmallestLineToUnconstrained) {
  Spec spec = small_spec();
  spec.model = "lenet";
  spec.model_options = {};
  const report::Curve curve = plan_curve(spec, 6);
  EXPECT_EQ(curve.model, "lenet");
  ASSERT_GE(curve.points.size(), 2U);
  for (size_t i = 1; i < curve.points.size(); ++i) {
    EXPECT_GE(curve.points[i].limit_bytes, curve.points[i - 1].limit_bytes);
    EXPECT_LE(curve.points[i].predicted_ns, curve.points[i - 1].predicted_ns);
  }
}

}  // namespace
}  // namespace plimsoll::train
