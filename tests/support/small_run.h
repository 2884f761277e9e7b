// A training of the program that takes milliseconds a step: a small table of numbers, a small net, a folder for runs.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "support/disk_folder.h"
#include "support/program.h"

namespace plimsoll::testing {

class SmallRun {
 public:
  static constexpr int64_t kEpochSteps = 8;

  SmallRun() {
    for (const char* half : {"train", "test"}) {
      std::ofstream table(in(fmt::format("{}.csv", half)));
      for (int i = 0; i < 16; ++i) table << "a" << i << ",";
      table << "label\n";
      for (int row = 0; row < 64; ++row) {
        for (int i = 0; i < 16; ++i) table << fmt::format("{:.4f},", std::sin(row * row + 3 * i));
        table << row % 3 << "\n";
      }
    }
  }

  std::string in(const std::string& name) const { return static_cast<const std::string&>(folder_) + "/" + name; }

  // `train`, of a run in that folder beside the data.
  std::string command(const std::string& run, const std::string& more) const {
    return fmt::format(
        "train mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 8 --threads 1 --progress none --data {} "
        "--val {} --run {} {}",
        in("train.csv"), in("test.csv"), in(run), more);
  }
  std::string resume(const std::string& run, const std::string& more = "") const {
    return fmt::format("train --run {} --resume --progress none {}", in(run), more);
  }

  // Names in order; the newest is the last.
  std::vector<std::string> checkpoints(const std::string& run) const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(in(run) + "/checkpoints", none))
      if (entry.path().filename().string()[0] != '.') names.push_back(entry.path().string());
    std::ranges::sort(names);
    return names;
  }
  int64_t newest_step(const std::string& run) const {
    const std::vector<std::string> all = checkpoints(run);
    return all.empty() ? 0 : std::stoll(all.back().substr(all.back().rfind('-') + 1));
  }

  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void flip_byte(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(at);
    file.put(byte);
  }

 private:
  DiskFolder folder_;
};

}  // namespace plimsoll::testing
