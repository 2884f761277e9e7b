// Flags and words of the command line: each verb has what it uses, and explains what it says.
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
constexpr const char* kData = "--data /usr/share/datasets/fashion-mnist";

TEST(Flags, AreThoseThatAVerbUses) {
  const std::string eval = run_program("eval --help-all").output;
  for (const char* flag : {"--optimizer", "--lr", "--momentum", "--clip", "--train-x", "--half-storage", "--split"})
    EXPECT_THAT(eval, Not(HasSubstr(flag)));
  for (const char* flag : {"--weights", "--test-x", "--test-y", "--memory", "--batch", "--json"})
    EXPECT_THAT(eval, HasSubstr(flag));
  const std::string doctor = run_program("doctor --help-all").output;
  for (const char* flag : {"--without", "--split", "--half-storage", "--disk-limit", "--threads"})
    EXPECT_THAT(doctor, Not(HasSubstr(flag)));
  EXPECT_THAT(run_program("plan --help-all").output, Not(HasSubstr("--lr")));
  EXPECT_EQ(run_program("plan mlp --lr 0.1").exit_code, 0) << "flags of a training can be pasted";
  EXPECT_THAT(run_program("inspect --help-all").output, Not(HasSubstr("--batch")));
  EXPECT_EQ(run_program("eval mlp --weights x --lr 1").exit_code, 2);
}

TEST(Flags, WordsOfThePlanAreExplained) {
  const std::string help = run_program("plan --help").output;
  for (const char* word : {"recompute ", "micro-batch ", "spill ", "variants ", "masks ", "in place ", "order ",
                           "runtime ", "staging ", "workspace ", "activations ", "lower bound "})
    EXPECT_THAT(help, HasSubstr(word));
}

TEST(Flags, InputsAndLabelsBelongTogether) {
  for (const char* flags : {"--test-x a", "--test-y a", "--train-x a", "--train-y a",
                            "--train-x a --train-y b --test-x c", "--data . --test-y c"}) {
    const Outcome outcome = run_program(fmt::format("train mlp {}", flags));
    EXPECT_EQ(outcome.exit_code, 2) << flags << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("belong together")) << flags;
  }
}

TEST(Flags, NumbersThatMakeNoSenseAreOneShortSentence) {
  for (const char* flag :
       {"--batch -4", "--accumulate 0", "--epochs 0", "--lr -1", "--lr nan", "--lr inf", "--lr abc"}) {
    const Outcome outcome = run_program(fmt::format("train mlp {} {}", kData, flag));
    EXPECT_EQ(outcome.exit_code, 2) << flag << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("is no number above 0")) << flag;
    EXPECT_LT(outcome.errors.size(), 120U) << outcome.errors;
  }
}

TEST(Flags, ResumeOfNoRunSaysSoWithoutAModel) {
  const Outcome outcome = run_program("train --run /no/such --resume");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("'/no/such': holds no run that could be resumed"));
}

TEST(Flags, SizesMayHaveOneLetter) {
  const Outcome outcome = run_program("plan mlp --memory 1G --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(nlohmann::json::parse(outcome.output)["line_bytes"], 1LL << 30);
}

TEST(Inspect, OfAMissingFileSaysSo) {
  for (const char* name : {"/no/such/file", "weights.safetensors", "./resnet18"}) {
    const Outcome outcome = run_program(fmt::format("inspect {}", name));
    EXPECT_EQ(outcome.exit_code, 4) << name;
    EXPECT_THAT(outcome.errors, HasSubstr(fmt::format("{}: No such file", name)));
  }
  // Folders of the system have others that may not be read, even by root.
  for (const char* folder : {"/dev", "/"})
    EXPECT_THAT(run_program(fmt::format("inspect {}", folder)).errors, HasSubstr("is a directory")) << folder;
  const Outcome model = run_program("inspect resnet51");
  EXPECT_EQ(model.exit_code, 2);
  EXPECT_THAT(model.errors, HasSubstr("did you mean resnet50"));
}

// What the program writes to a terminal of so many columns.
std::string run_on_terminal(int columns, const std::string& arguments) {
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, arguments).c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(terminal, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(got));
  ::waitpid(child, nullptr, 0);
  ::close(terminal);
  return text;
}

TEST(Messages, AreCutBetweenWords) {
  const std::string command = "plan vgg16 --image-size 7", whole = run_program(command).errors;
  ASSERT_GT(whole.size(), 120U);
  for (const size_t columns : {40U, 80U}) {
    std::string joined, line;
    for (const char c : run_on_terminal(static_cast<int>(columns), command)) {
      if (c == '\r') continue;
      if (c != '\n') {
        line += c;
        continue;
      }
      EXPECT_LE(line.size(), columns) << line;
      joined += (joined.empty() ? "" : " ") + line;
      line.clear();
    }
    EXPECT_EQ(joined + "\n", whole);
  }
}

TEST(Bar, FitsItsTerminal) {
  for (const int columns : {20, 40, 120}) {
    const std::string text =
        run_on_terminal(columns, fmt::format("train mlp {} -b 1000 --threads 1 --epochs 2", kData));
    int rows = 0, redrawn = 0, width = 0, widest = 0;
    for (const char c : text) {
      if (c == '\n') ++rows;
      if (c == '\r') ++redrawn;
      if (c == '\r' || c == '\n') width = 0;
      if ((c & 0xc0) != 0x80 && c != '\r' && c != '\n') widest = std::max(widest, ++width);
    }
    EXPECT_LT(widest, columns) << text;
    EXPECT_EQ(rows, 2) << "one for each epoch\n" << text;
    EXPECT_GT(redrawn, 4) << text;
    EXPECT_THAT(text, HasSubstr(columns == 120 ? "samples/s" : "/60"));
    EXPECT_THAT(text, HasSubstr(columns == 20 ? "2/2  0." : "epoch 2/2  loss 0."));
  }
}

}  // namespace
}  // namespace plimsoll::testing
