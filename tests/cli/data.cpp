// plimsoll train --data PATH: every kind of data is recognised and named; bad data is one error and exit code 4.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "input/pictures.h"
#include "input/records.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kModel = "mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 4";

Outcome train(const std::string& path, const std::string& more = "") {
  return run_program(fmt::format("train {} --progress none --data {} {}", kModel, path, more));
}

// Classes "cat" and "dog" of six images each.
void write_images(const TemporaryDirectory& dir) {
  for (const char* name : {"cat", "dog"}) {
    fs::create_directory(dir.path() + "/" + name);
    for (int i = 0; i < 6; ++i) dir.write(fmt::format("{}/{}.jpg", name, i), jpeg(picture(20 + i, 30)));
  }
}

std::string csv_of(int rows, const std::string& last_row = "") {
  std::string text = "label,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p\n";
  for (int row = 0; row < rows; ++row) text += fmt::format("{},0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,{}\n", row % 3, row);
  return text + last_row;
}

void expect_bad_data(const Outcome& outcome, const std::string& message) {
  EXPECT_EQ(outcome.exit_code, 4) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr(message));
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
}

TEST(TrainOnData, SaysWhatItIsGiven) {
  const TemporaryDirectory dir;
  write_images(dir);
  const Outcome images = train(dir.path(), "--map resize:area,crop:0.9,flip,normalise");
  EXPECT_EQ(images.exit_code, 0) << images.errors;
  EXPECT_THAT(images.output,
              HasSubstr(": a folder of images, 12 elements of x u8[1,4,4], y i64[]; 2 classes: cat, dog\n"));
  const Outcome csv = train(dir.write("a.csv", csv_of(12)), "--no-shuffle");
  EXPECT_EQ(csv.exit_code, 0) << csv.errors;
  EXPECT_THAT(csv.output, HasSubstr("a.csv: a CSV file, 12 elements of x f32[16], y i64[]\n"));
  const std::string record =
      tf_record(example({{"x", float_list(std::vector<float>(16, 0.5F))}, {"y", int64_list({1})}}));
  const Outcome records =
      train(dir.write("a.tfrecord", record + record + record + record), "--val " + dir.write("b.csv", csv_of(5)));
  EXPECT_EQ(records.exit_code, 0) << records.errors;
  EXPECT_THAT(records.output, HasSubstr("TFRecord data, 4 elements of x f32[16], y i64[]; 5 to validate with\n"));
  EXPECT_THAT(records.output, HasSubstr("on 5 samples"));
}

TEST(TrainOnData, PlanAndProfileShowTheStages) {
  const TemporaryDirectory dir;
  write_images(dir);
  const std::string command = fmt::format("{} --data {} --json", kModel, dir.path());
  const nlohmann::json plan = nlohmann::json::parse(run_program("plan " + command).output);
  EXPECT_EQ(plan["data"]["elements"], 12);
  int64_t bytes = 0;
  for (const nlohmann::json& stage : plan["data"]["stages"]) bytes += stage["bytes"].get<int64_t>();
  EXPECT_EQ(plan["data_bytes"], bytes);
  const nlohmann::json profile = nlohmann::json::parse(run_program("profile --steps 6 " + command).output);
  const nlohmann::json& last = profile["data"]["stages"].back();
  EXPECT_EQ(last["name"], "prefetch()");
  EXPECT_EQ(last["threads"], 1);
  EXPECT_GE(last["elements"], 8);  // two steps to warm up
  EXPECT_GT(profile["data"]["all_ns"], profile["data"]["waited_ns"]);
  const auto stage_of = [](const nlohmann::json& data) { return data["stages"][2]; };  // after the source and shuffling
  const nlohmann::json threads = nlohmann::json::parse(run_program("plan --data-threads 2 " + command).output);
  EXPECT_EQ(stage_of(threads["data"])["threads"], 1);  // beside the one that fills batches
  EXPECT_GT(stage_of(threads["data"])["bytes"], stage_of(plan["data"])["bytes"]);
}

TEST(TrainOnData, EvaluatesOnTheTestHalfOrOnAll) {
  const TemporaryDirectory dir;
  const std::string path = dir.write("train.csv", csv_of(12)), weights = dir.path() + "/w";
  ASSERT_EQ(train(path, "--save " + weights).exit_code, 0);
  const auto samples = [&](const std::string& data) {
    const Outcome outcome = run_program(fmt::format("eval {} --json --weights {} --data {}", kModel, weights, data));
    return outcome.event("eval")["samples"];
  };
  EXPECT_EQ(samples(path), 12);
  dir.write("test.csv", csv_of(7));
  EXPECT_EQ(samples(dir.path()), 7);
}

TEST(TrainOnData, BadSamplesAreNamedOrSkippedAndCounted) {
  const TemporaryDirectory dir;
  write_images(dir);
  const std::string path = dir.write("dog/2.jpg", jpeg(picture(20, 30)).substr(0, 200));
  expect_bad_data(train(dir.path()), path);
  const Outcome skipped = train(dir.path(), "--epochs 2 --on-corrupt skip:1 --json --val " + dir.path());
  EXPECT_EQ(skipped.exit_code, 0) << skipped.errors;
  EXPECT_EQ(skipped.event("end")["skipped"], 4);  // in two epochs of training and two of validation
  EXPECT_THAT(skipped.event("end")["last_skipped"].get<std::string>(), HasSubstr(path + ": at byte"));
  dir.write("dog/3.jpg", "no image");
  expect_bad_data(train(dir.path(), "--on-corrupt skip:1"), "more than 1 bad elements, the last: ");
}

TEST(TrainOnData, DamagedFilesAreExitCodeFour) {
  const TemporaryDirectory dir;
  expect_bad_data(train(dir.write("ragged.csv", csv_of(8, "1,2,3\n"))), "ragged.csv: row 10");
  expect_bad_data(train(dir.write("nan.csv", csv_of(8, "nan,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5\n"))), "nan.csv: row 10");
  std::string record = tf_record(example({{"x", float_list(std::vector<float>(16))}, {"y", int64_list({1})}}));
  record = record + record + record + record;
  record[record.size() - 8] ^= 1;
  expect_bad_data(train(dir.write("bad.tfrecord", record)), "bad.tfrecord");
  fs::create_directory(dir.path() + "/empty");
  expect_bad_data(train(dir.path() + "/empty"), "empty: is no data");
  expect_bad_data(train(dir.path() + "/vanished"), "vanished");
}

TEST(TrainOnData, AFileThatVanishesLaterIsNamed) {
  const TemporaryDirectory dir;
  write_images(dir);
  const std::string list = dir.write("list.txt", "cat/0.jpg 0\ncat/1.jpg 0\ncat/2.jpg 0\ngone.jpg 1\n");
  expect_bad_data(train(list), "gone.jpg");
}

TEST(TrainOnData, WhatTheModelDoesNotTakeIsExitCodeFour) {
  const TemporaryDirectory dir;
  const std::string y = dir.write("y.npy", npy("'<f4'", "(4,)", raw(std::vector<float>(4, 1))));
  dir.write("x.npy", npy("'<f4'", "(4, 16)", raw(std::vector<float>(64))));
  expect_bad_data(train(dir.path()), "f32 cannot become i32");
  dir.write("y.npy", npy("'<i4'", "(4,)", raw(std::vector<int32_t>(4, 1))));
  EXPECT_EQ(train(dir.path()).exit_code, 0);
  dir.write("x.npy", npy("'<c8'", "(4, 16)", std::string(512, 0)));
  expect_bad_data(train(dir.path()), "x.npy");
  dir.write("x.npy", npy("'<f4'", "(4, 9)", raw(std::vector<float>(36))));
  expect_bad_data(train(dir.path()), "has samples of 9 numbers [9] but the model takes 16");
}

TEST(TrainOnData, WrongFlagsAreExitCodeTwo) {
  const TemporaryDirectory dir;
  const std::string path = dir.write("a.csv", csv_of(8));
  for (const char* flags : {"--map turn", "--map crop:2", "--map crop:x", "--map resize:cubic", "--map normalise:1:0",
                            "--on-corrupt ignore", "--on-corrupt skip:x", "--shuffle 4 --no-shuffle", "--map crop"})
    EXPECT_EQ(train(path, flags).exit_code, 2) << flags;
}

}  // namespace
}  // namespace plimsoll::testing
