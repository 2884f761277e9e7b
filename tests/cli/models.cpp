// Models that are directories: every verb takes one like a built-in name.
#include <sys/mount.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "input/pictures.h"
#include "support/program.h"
#include "train/small_data.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kSmall = "mlp --image-size 4 --channels 1 --classes 3 --width 8";

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class ModelDirectories : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome trained =
        run(fmt::format("train {} -b 8 --data {} --epochs 2 --progress none --map normalise:0.3:0.6 "
                        "--save {} --save-model {}",
                        kSmall, data_.folder(), in("w"), in("net.plimsoll")));
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  }
  static Outcome run(const std::string& command) { return run_program(command); }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string net() const { return in("net.plimsoll"); }
  std::string train(const std::string& model, const std::string& more) const {
    return fmt::format("train {} -b 8 --data {} --steps 5 --progress none --map normalise:0.3:0.6 {}", model,
                       data_.folder(), more);
  }

  const SmallData data_{64, 21};
  const TemporaryDirectory folder_;
};

TEST_F(ModelDirectories, TrainTheSameBitsAsBuiltInOnes) {
  const std::string weights = net() + "/weights.safetensors";
  ASSERT_EQ(run(train(net(), "--save " + in("a"))).exit_code, 0);
  ASSERT_EQ(run(train(fmt::format("{} --weights {}", kSmall, weights), "--save " + in("b"))).exit_code, 0);
  EXPECT_EQ(content_of(in("a")), content_of(in("b")));
  EXPECT_NE(content_of(in("a")), content_of(in("w")));
}

TEST_F(ModelDirectories, EvalAndPredictNeedNeitherWeightsNorOptions) {
  const Outcome built_in = run(
      fmt::format("eval {} --weights {} --data {} --map normalise:0.3:0.6 --json", kSmall, in("w"), data_.folder()));
  const Outcome stored = run(fmt::format("eval {} --data {} --json", net(), data_.folder()));
  ASSERT_EQ(stored.exit_code, 0) << stored.errors;
  EXPECT_EQ(nlohmann::json::parse(stored.output)["loss"], nlohmann::json::parse(built_in.output)["loss"])
      << "the normalisation is kept";
  const auto rows = [&](const std::string& what) {
    return run(fmt::format("predict {} --data {}", what, data_.folder())).output;
  };
  EXPECT_EQ(rows(net()), rows(fmt::format("{} --weights {} --map normalise:0.3:0.6", kSmall, in("w"))));
  EXPECT_THAT(rows(net()), HasSubstr("sample,class,p0,p1,p2"));
  for (const char* verb : {"plan", "profile --steps 1"}) {
    const Outcome outcome = run(fmt::format("{} {}", verb, net()));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("mlp"));
  }
}

TEST_F(ModelDirectories, InspectShowsLayers) {
  const Outcome text = run("inspect " + net());
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("mlp, input f32[B,1,4,4], labels i32[B]"));
  EXPECT_THAT(text.output, HasSubstr("kernel f32[16,8], bias f32[8]"));
  EXPECT_THAT(text.output, HasSubstr("inputs less 0.3 over 0.6"));
  const Outcome json = run("inspect --json " + net());
  const nlohmann::json facts = nlohmann::json::parse(json.output);
  EXPECT_EQ(facts["model"], "mlp");
  EXPECT_EQ(facts["layers"][0]["memory_bytes"], (16 * 8 + 8) * 4);
  EXPECT_EQ(facts["layers"][0]["tensors"][0]["type"], "f32[16,8]");
  EXPECT_EQ(facts["disk_bytes"].get<uintmax_t>(), fs::file_size(net() + "/model.json") +
                                                      fs::file_size(net() + "/graph.txt") +
                                                      fs::file_size(net() + "/weights.safetensors"));
  EXPECT_THAT(run("inspect --graph " + net()).output, HasSubstr("plimsoll graph 1"));
}

TEST_F(ModelDirectories, SaveMakesOneOfWeightsOrOfARun) {
  ASSERT_EQ(
      run(fmt::format("save {} --weights {} --map normalise:0.3:0.6 -o {}", kSmall, in("w"), in("made"))).exit_code, 0);
  EXPECT_EQ(content_of(in("made/weights.safetensors")), content_of(net() + "/weights.safetensors"));
  const std::string run_folder = in("run");
  ASSERT_EQ(run(train(std::string(kSmall) + " --weights " + in("w"), "--run " + run_folder + " --save " + in("end")))
                .exit_code,
            0);
  const Outcome saved = run(fmt::format("save --run {} -o {} --json", run_folder, in("of_run")));
  ASSERT_EQ(saved.exit_code, 0) << saved.errors;
  EXPECT_EQ(nlohmann::json::parse(saved.output)["model"], "mlp");
  const auto loss = [&](const std::string& what) {
    return nlohmann::json::parse(run(fmt::format("eval {} --data {} --json", what, data_.folder())).output)["loss"];
  };
  EXPECT_EQ(loss(in("of_run")), loss(fmt::format("{} --weights {} --map normalise:0.3:0.6", kSmall, in("end"))));
  EXPECT_EQ(run(fmt::format("save --run {} --weights {} -o {}", run_folder, in("w"), in("x"))).exit_code, 2);
  EXPECT_EQ(run(fmt::format("save --run {} -o {}", in("none"), in("x"))).exit_code, 2);
}

TEST_F(ModelDirectories, BadOnesHaveOneErrorAndCode4) {
  const auto expect_bad = [&](const std::string& path, const std::string& message) {
    for (const char* verb : {"plan", "train", "eval", "predict", "profile"}) {
      const Outcome outcome = run(fmt::format(
          "{} {} {}", verb, path,
          std::string_view(verb) == "plan" || std::string_view(verb) == "profile" ? "" : "--data " + data_.folder()));
      EXPECT_EQ(outcome.exit_code, 4) << verb << ": " << outcome.errors;
      EXPECT_THAT(outcome.errors, HasSubstr(message)) << verb;
      EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    }
  };
  expect_bad(in("nowhere/net"), "there is no such directory");
  expect_bad(in("w"), "it is no directory");
  fs::copy(net(), in("copy"));
  fs::remove(in("copy/graph.txt"));
  expect_bad(in("copy"), "graph.txt");
  EXPECT_EQ(run("inspect " + in("copy")).exit_code, 4);
  fs::resize_file(net() + "/graph.txt", uintmax_t{4} << 30);
  expect_bad(net(), "it has 4 GiB, more than");
  EXPECT_EQ(run("inspect " + net()).exit_code, 4);
}

// Weights whose bits were changed are found before they are used, by the verbs that use them.
TEST_F(ModelDirectories, DamagedWeightsAreFound) {
  std::string weights = content_of(net() + "/weights.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  std::ofstream(net() + "/weights.safetensors", std::ios::binary) << weights;
  for (const char* verb : {"train", "eval", "predict"}) {
    const Outcome outcome = run(fmt::format("{} {} -b 8 --data {} ", verb, net(), data_.folder()));
    EXPECT_EQ(outcome.exit_code, 4) << verb;
    EXPECT_THAT(outcome.errors, HasSubstr("is damaged: its checksum is"));
  }
  EXPECT_EQ(run("inspect " + net()).exit_code, 4);
}

// A saved model keeps the names of the class folders that it was trained on.
TEST_F(ModelDirectories, NamesOfClassesAreKept) {
  const auto write_images = [&](const std::string& folder, std::vector<const char*> classes) {
    for (const char* name : classes) {
      fs::create_directories(in(folder) + "/" + name);
      for (int i = 0; i < 6; ++i)
        folder_.write(fmt::format("{}/{}/{}.jpg", folder, name, i), jpeg(picture(20 + i, 30)));
    }
  };
  write_images("pets", {"cat", "dog"});
  write_images("others", {"bird", "cat"});
  ASSERT_EQ(
      run(fmt::format("train mlp --image-size 4 --channels 1 --classes 2 --width 8 -b 4 --progress none --data {} "
                      "--save-model {}",
                      in("pets"), in("pets.plimsoll")))
          .exit_code,
      0);
  EXPECT_THAT(run("inspect " + in("pets.plimsoll")).output, HasSubstr("2 classes: cat, dog"));
  const Outcome wrong = run(fmt::format("eval {} --data {}", in("pets.plimsoll"), in("others")));
  EXPECT_EQ(wrong.exit_code, 4);
  EXPECT_THAT(wrong.errors, HasSubstr("'bird' is none of the known classes cat, dog; the classes here are bird, cat"));
  const Outcome answers = run(fmt::format("predict {} --data {}", in("pets.plimsoll"), in("others")));
  EXPECT_EQ(answers.exit_code, 0) << answers.errors;
  EXPECT_THAT(answers.output, HasSubstr("0,cat,"));
  EXPECT_THAT(answers.output, ::testing::Not(HasSubstr("bird")));
}

TEST_F(ModelDirectories, MisuseIsExplained) {
  EXPECT_THAT(run(fmt::format("train {} --classes 5 --data {}", net(), data_.folder())).errors,
              HasSubstr("its sizes and its dropout can't be set"));
  EXPECT_THAT(run(fmt::format("eval {} --data {}", kSmall, data_.folder())).errors,
              HasSubstr("is a built-in model without weights: give --weights FILE"));
  fs::create_directory(in("mine"));
  std::ofstream(in("mine/letter")) << "dear";
  const Outcome outcome = run(train(net(), "--save-model " + in("mine")));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("holds 'letter', which is no file of a model"));
  EXPECT_EQ(content_of(in("mine/letter")), "dear");
  EXPECT_THAT(run("plan lenett").errors, HasSubstr("did you mean lenet?"));
}

// A small file system that a test can fill.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    fs::create_directory(path_);
    is_mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }
  // Leaves so many bytes, in whole pages.
  void fill(int64_t left) const {
    const std::string page(4096, 'x');
    std::ofstream filler(path_ + "/filler", std::ios::binary);
    while (static_cast<int64_t>(fs::space(path_).available) > left &&
           filler.write(page.data(), std::ssize(page)).flush()) {
    }
  }

 private:
  const std::string path_;
  bool is_mounted_ = false;
};

// Room for none, one or two of the three files is left.
TEST_F(ModelDirectories, StayWholeOnAFullDisk) {
  const SmallDisk disk(in("disk"));
  if (!disk.is_mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  const std::string there = in("disk/net.plimsoll");
  fs::copy(net(), there);
  const std::string before = content_of(there + "/weights.safetensors");
  for (const int64_t left : {0, 4096, 8192}) {
    disk.fill(left);
    const Outcome full = run(train(net(), "--save-model " + there));
    EXPECT_EQ(full.exit_code, 5) << left << full.errors;
    EXPECT_TRUE(content_of(there + "/weights.safetensors") == before) << left;
    EXPECT_EQ(run(fmt::format("eval {} --data {}", there, data_.folder())).exit_code, 0) << left;
    for (const fs::directory_entry& entry : fs::directory_iterator(in("disk")))
      EXPECT_TRUE(entry.path() == there || entry.path().filename() == "filler") << entry.path();
    fs::remove(in("disk/filler"));
  }
  EXPECT_EQ(run(train(net(), "--save-model " + there)).exit_code, 0) << "with room it takes its place";
  EXPECT_FALSE(content_of(there + "/weights.safetensors") == before);
}

}  // namespace
}  // namespace plimsoll::testing
