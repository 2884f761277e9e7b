// Scratch files on real file systems that are full: small images that the test makes and mounts, since a folder in
// memory is refused.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// A file system of its own, where tools for it are installed and mounting is allowed.
class ImageDisk {
 public:
  ImageDisk(const SmallRun& small, const std::string& type, int64_t bytes) : path_(small.in(type)) {
    const std::string image = path_ + ".image";
    fs::create_directory(path_);
    if (::truncate(image.c_str(), 0) != 0) ::close(::open(image.c_str(), O_WRONLY | O_CREAT, 0600));
    fs::resize_file(image, static_cast<uintmax_t>(bytes));
    const bool is_made = succeeds(fmt::format("PATH=$PATH:/sbin:/usr/sbin mkfs.{} -q {}", type, image));
    is_mounted_ = is_made && succeeds(fmt::format("PATH=$PATH:/sbin:/usr/sbin mount -o loop {} {}", image, path_));
  }
  ImageDisk(const ImageDisk&) = delete;
  ImageDisk& operator=(const ImageDisk&) = delete;
  ~ImageDisk() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }
  const std::string& path() const { return path_; }

  // Leaves no room for another byte.
  void fill() const {
    const std::string block(65536, 'x');
    const int file = ::open((path_ + "/others").c_str(), O_WRONLY | O_CREAT, 0600);
    for (size_t bytes = block.size(); bytes > 0;) {
      const ssize_t put = ::write(file, block.data(), bytes);
      if (put < 0 && errno == ENOSPC) bytes /= 2;
      if (put < 0 && errno != ENOSPC && errno != EINTR) break;
    }
    ::fsync(file);
    ::close(file);
  }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

// A net that a line makes stream through a scratch file.
class StreamingRun {
 public:
  explicit StreamingRun(const SmallRun& small) : small_(small) {
    const Outcome refused =
        run_program(small.command("refused", flags(small.in("."), 1'000'000) + "--no-remedies --json"));
    EXPECT_EQ(refused.exit_code, 3) << refused.errors;
    line_ = nlohmann::json::parse(refused.output).value("smallest_line_bytes", int64_t{0}) + 2'000'000;
  }
  std::string flags(const std::string& scratch) const { return flags(scratch, line_); }

  // The weights after so many epochs without a disturbance.
  std::string undisturbed(int64_t epochs) const {
    const std::string end = fmt::format("--epochs {} --save {}", epochs, small_.in("whole.st"));
    const Outcome whole = run_program(small_.command("whole", flags(small_.in(".")) + end));
    EXPECT_EQ(whole.exit_code, 0) << whole.errors;
    EXPECT_THAT(whole.output, HasSubstr("streams"));
    return SmallRun::content(small_.in("whole.st"));
  }

 private:
  static std::string flags(const std::string& scratch, int64_t line) {
    return fmt::format("--layers 12 --width 256 --disk-limit 24MiB --scratch {} --memory {} ", scratch, line);
  }
  const SmallRun& small_;
  int64_t line_ = 0;
};

// A run whose disk another program fills once there is a checkpoint. The destructor kills a run that has not ended.
class DisturbedRun {
 public:
  DisturbedRun(const SmallRun& small, const std::string& arguments) : words_(small.in("words")) {
    child_ = ::fork();
    if (child_ != 0) return;
    const int file = ::open(words_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", fmt::format("exec {} {}", PLIMSOLL_BINARY, arguments).c_str(), nullptr);
    ::_exit(127);
  }
  DisturbedRun(const DisturbedRun&) = delete;
  DisturbedRun& operator=(const DisturbedRun&) = delete;
  ~DisturbedRun() {
    if (is_running_) ::kill(child_, SIGKILL);
    if (is_running_) ::waitpid(child_, nullptr, 0);
  }

  void wait_for_a_checkpoint(const SmallRun& small, const std::string& run) {
    siginfo_t end{};
    for (int i = 0; i < 6000 && small.newest_step(run) == 0 && end.si_pid == 0; ++i, ::usleep(10'000))
      ::waitid(P_PID, static_cast<id_t>(child_), &end, WEXITED | WNOHANG | WNOWAIT);
  }

  // Its exit code; -1 when it still runs after two minutes or was ended by a signal.
  int wait() {
    for (int i = 0; i < 12'000; ++i, ::usleep(10'000)) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) != child_) continue;
      is_running_ = false;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return -1;
  }
  std::string words() const { return SmallRun::content(words_); }

 private:
  std::string words_;
  pid_t child_;
  bool is_running_ = true;
};

constexpr const char* kNoImages = "this process may not mount an image, or mkfs of this file system is not installed";

TEST(FullDisks, ADiskThatIsTooSmallIsRefusedAndTheCheckpointStays) {
  const SmallRun small;
  const ImageDisk disk(small, "ext4", 1'000'000);
  if (!disk.is_mounted()) GTEST_SKIP() << kNoImages;
  const StreamingRun run(small);
  disk.fill();
  ASSERT_EQ(run_program(small.command("run", run.flags(small.in(".")) + "--epochs 2")).exit_code, 0);
  const int64_t step = small.newest_step("run");
  ASSERT_GT(step, 0);
  const Outcome full = run_program(small.resume("run", fmt::format("--epochs 3 --scratch {}", disk.path())));
  EXPECT_EQ(full.exit_code, 5) << full.output << full.errors;
  EXPECT_THAT(full.errors,
              HasSubstr(fmt::format("'{}' has 0 B free, less than the disk limit of 24 MiB", disk.path())));
  EXPECT_THAT(full.errors, HasSubstr("make room there, give another scratch folder or a smaller disk limit"));
  EXPECT_EQ(small.newest_step("run"), step);
  const Outcome rest = run_program(
      small.resume("run", fmt::format("--epochs 3 --scratch {} --save {}", small.in("."), small.in("rest.st"))));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_TRUE(SmallRun::content(small.in("rest.st")) == run.undisturbed(3));
}

// ext4 takes the space of the scratch file before the first step, and writes over it in place.
TEST(FullDisks, ADiskThatOthersFillLaterDisturbsNoRunOnExt4) {
  const SmallRun small;
  const ImageDisk disk(small, "ext4", 64'000'000);
  if (!disk.is_mounted()) GTEST_SKIP() << kNoImages;
  const StreamingRun run(small);
  constexpr int64_t kEpochs = 20;
  DisturbedRun disturbed(small, small.command("run", run.flags(disk.path()) + fmt::format("--epochs {} --save {}",
                                                                                          kEpochs, small.in("st"))));
  disturbed.wait_for_a_checkpoint(small, "run");
  disk.fill();
  ASSERT_EQ(disturbed.wait(), 0) << disturbed.words();
  EXPECT_TRUE(SmallRun::content(small.in("st")) == run.undisturbed(kEpochs));
}

// btrfs writes changed blocks to another place: a disk that others fill is full for the writes of a step as well.
TEST(FullDisks, ADiskThatIsFullDuringASpillIsExitCodeFiveAndTheCheckpointStays) {
  const SmallRun small;
  const ImageDisk disk(small, "btrfs", 128'000'000);
  if (!disk.is_mounted()) GTEST_SKIP() << kNoImages;
  const StreamingRun run(small);
  DisturbedRun disturbed(small, small.command("run", run.flags(disk.path()) + "--epochs 1000000"));
  disturbed.wait_for_a_checkpoint(small, "run");
  disk.fill();
  EXPECT_EQ(disturbed.wait(), 5) << disturbed.words();
  EXPECT_THAT(disturbed.words(), HasSubstr("of the scratch file failed: No space left on device"));
  EXPECT_THAT(disturbed.words(), HasSubstr("check the disk, or give another folder"));
  const int64_t step = small.newest_step("run");
  ASSERT_GT(step, 0);
  const int64_t epochs = step / SmallRun::kEpochSteps + 2;
  const Outcome rest = run_program(small.resume(
      "run", fmt::format("--epochs {} --scratch {} --save {}", epochs, small.in("."), small.in("rest.st"))));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, HasSubstr(fmt::format(": {} steps done", step)));
  EXPECT_TRUE(SmallRun::content(small.in("rest.st")) == run.undisturbed(epochs));
}

}  // namespace
}  // namespace plimsoll::testing
