// Random command lines against the law of lines: what a refusal or a plan names is accepted by the same command, and
// kept.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <plimsoll/types.h>
#include "random/choices.h"
#include "support/disk_folder.h"
#include "support/program.h"
#include "support/words_data.h"

namespace plimsoll::testing {
namespace {

// A small model, the flags that it is made with, and the kind of data that it takes.
struct Net {
  std::string name;
  std::string flags;
  enum class Data { Rows, Images, Words, Floats } data = Data::Rows;
  int64_t size = 0;      // numbers of a row, of a side of an image, or of words in a sample
  int64_t channels = 1;  // of an image
  int64_t classes = 3;

  std::string command() const { return name + " " + flags; }
};

Net draw_net(Choices& c) {
  auto which = c.below(7);
  if ((which == 3 || which == 4) && !c.chance(30)) which = 1;  // the large ones take seconds
  Net net;
  net.size = c.pick({4, 8, 5});
  if (which == 0) {
    net.name = "mlp";
    net.flags = fmt::format("--width {}", c.pick({8, 64, 300, 512}));
    net.data = c.chance(50) ? Net::Data::Images : Net::Data::Rows;
    if (net.data == Net::Data::Rows) net.size = 4;
  } else if (which == 1) {
    net.name = "lenet";
    net.data = Net::Data::Images;
    net.size = c.pick({28, 16, 21});
  } else if (which == 2) {
    net.name = "dense-chain";
    net.data = Net::Data::Floats;
    net.size = c.pick({8, 33});
    net.flags = fmt::format("--layers {} --width {}", c.pick({2, 30, 200, 600}), net.size);
  } else if (which == 3) {
    net.name = "resnet18";
    net.data = Net::Data::Images;
    net.size = c.pick({16, 33});
    net.channels = 3;
  } else if (which == 4) {
    net.name = "mobilenet_v2";
    net.data = Net::Data::Images;
    net.size = c.pick({16, 33});
    net.channels = 3;
  } else {
    net.name = which == 5 ? "gpt2-small" : "bert-base";
    net.data = Net::Data::Words;
    net.size = c.pick({8, 12, 16});
    net.classes = c.pick({30, 90, 2000});
    net.flags = fmt::format("--layers {} --width {} --sequence {}", c.pick({1, 2, 6, 16}), c.pick({64, 128}), net.size);
  }
  if (net.data != Net::Data::Floats) net.flags += fmt::format(" --classes {}", net.classes);
  if (net.data == Net::Data::Images || net.name == "mlp")
    net.flags += fmt::format(" --image-size {} --channels {}", net.size, net.channels);
  return net;
}

void write_header(std::ofstream& file, const std::string& type, const std::string& shape) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8).write(reinterpret_cast<const char*>(&length), 2) << header;
}

void write_images(const std::string& folder, const std::string& half, const Net& net, int64_t count, bool are_bytes) {
  std::ofstream x(fmt::format("{}/x_{}.npy", folder, half), std::ios::binary);
  write_header(x, are_bytes ? "|u1" : "<f4", fmt::format("{}, {}, {}, {}", count, net.channels, net.size, net.size));
  const int64_t numbers = count * net.channels * net.size * net.size;
  for (int64_t i = 0; i < numbers; ++i) {
    const auto byte = static_cast<uint8_t>(i * 37 % 251);
    const float real = static_cast<float>(byte) / 251;
    x.write(are_bytes ? reinterpret_cast<const char*>(&byte) : reinterpret_cast<const char*>(&real), are_bytes ? 1 : 4);
  }
  std::ofstream y(fmt::format("{}/y_{}.npy", folder, half), std::ios::binary);
  write_header(y, "<i4", fmt::format("{},", count));
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int32_t>(i % net.classes);
    y.write(reinterpret_cast<const char*>(&label), 4);
  }
}

void write_floats(const std::string& folder, const std::string& half, const Net& net, int64_t count) {
  for (const char* what : {"x", "y"}) {
    std::ofstream file(fmt::format("{}/{}_{}.npy", folder, what, half), std::ios::binary);
    write_header(file, "<f4", fmt::format("{}, {}", count, net.size));
    for (int64_t i = 0; i < count * net.size; ++i) {
      const float real = static_cast<float>(i * 7 % 100) / 100;
      file.write(reinterpret_cast<const char*>(&real), 4);
    }
  }
}

void write_rows(const std::string& path, const Net& net, int64_t count) {
  std::ofstream table(path);
  const int64_t columns = net.size * net.size;
  for (int64_t i = 0; i < columns; ++i) table << "a" << i << ",";
  table << "label\n";
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < columns; ++i) table << fmt::format("{:.3f},", static_cast<double>((row * 7 + i) % 11) / 11);
    table << row % net.classes << "\n";
  }
}

// A folder with data for a net; flags that name it.
struct Files {
  Files(Choices& c, const Net& net) {
    const int64_t train = c.pick({24, 16, 41}), test = c.pick({16, 5, 9});
    is_table = net.data == Net::Data::Rows;
    if (is_table) {
      write_rows(in("train.csv"), net, train);
      write_rows(in("test.csv"), net, test);
    } else if (net.data == Net::Data::Images) {
      const bool are_bytes = c.chance(50);
      write_images(folder, "train", net, train, are_bytes);
      write_images(folder, "test", net, test, are_bytes);
    } else if (net.data == Net::Data::Floats) {
      write_floats(folder, "train", net, train);
      write_floats(folder, "test", net, test);
    } else {
      write_words_data(folder, net.size, net.classes, train, test);
    }
  }
  std::string in(const std::string& name) const { return static_cast<const std::string&>(folder) + "/" + name; }
  std::string to_train() const {
    return is_table ? fmt::format("--data {} --val {}", in("train.csv"), in("test.csv"))
                    : fmt::format("--data {}", static_cast<const std::string&>(folder));
  }
  std::string to_test() const {
    return fmt::format("--data {}", is_table ? in("test.csv") : static_cast<const std::string&>(folder));
  }

  DiskFolder folder;
  bool is_table = false;
};

// Flags of a step that plan, train and profile know.
std::string draw_step_flags(Choices& c, const Net& net, const Files& files, int64_t batch) {
  std::string flags = fmt::format(" -b {} --threads {}", batch, c.pick({1, 2}));
  const auto add = [&](int percent, const std::string& flag) {
    const Choices::Part part(c);
    if (c.chance(percent)) flags += " " + flag;
  };
  add(30, fmt::format("--optimizer {}", c.pick({"sgd", "adamw", "lion", "adafactor"})));
  add(15, "--accumulate 2");
  add(15, "--policy mixed_bfloat16");
  add(15, "--half-storage values");
  add(15, fmt::format("--without {}", c.pick({"recompute", "micro-batch", "order,in-place", "variants", "masks"})));
  if (files.is_table) add(25, "--data-threads 2");
  add(15, "--clip 1");
  add(10, fmt::format("--scratch {} --disk-limit 64MiB", files.in("")));
  if (net.data == Net::Data::Words) add(20, "--rank 4");
  return flags;
}

std::string join_words(const std::string& text) {
  std::string joined;
  for (const char letter : text) joined += letter == '\n' ? '|' : letter;
  return joined;
}

// The line that a refusal names, as a user would copy it; empty: none.
std::string named_line(const Outcome& refused) {
  const std::string words = "smallest line that works: ";
  const size_t at = refused.errors.find(words);
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size();
  return refused.errors.substr(begin, refused.errors.find_first_of(" \n", begin) - begin);
}

// A command whose output goes to other files in each run: `{run}` stands for the number of the run.
struct Command {
  std::string text;
  std::string operator()(int run, const std::string& line) const {
    std::string words = text;
    for (size_t at = words.find("{run}"); at != std::string::npos; at = words.find("{run}"))
      words.replace(at, 5, std::to_string(run));
    return fmt::format("{} --memory {}", words, line);
  }
};

std::string refused_line(Choices& c, const Command& command, int run) {
  const Outcome refused = run_program(command(run, "1MiB"));
  if (refused.exit_code == 2) {
    // Flags that exclude each other.
    c.count("wrong use: " + join_words(refused.errors).substr(0, 100));
    return "";
  }
  if (refused.exit_code != 3)
    throw Violation("a line of 1 MiB is refused",
                    fmt::format("{}\nleft with {}: {}", command(run, "1MiB"), refused.exit_code, refused.errors));
  const std::string line = named_line(refused);
  if (line.empty())
    throw Violation("a refusal names a line", fmt::format("{}\n{}", command(run, "1MiB"), refused.errors));
  return line;
}

void expect_accepted(const Command& command, int run, const std::string& line, const char* named_by) {
  const Outcome done = run_program(command(run, line));
  if (done.exit_code == 0) return;
  throw Violation(fmt::format("a line that {} names is accepted and kept", named_by),
                  fmt::format("{}\nleft with {}: {}", command(run, line), done.exit_code, done.errors));
}

// What the verb itself names, and what `plan` names for it.
void expect_law_of(Choices& c, const Command& command, const Command* plan) {
  c.note(command.text);
  const std::string line = refused_line(c, command, 0);
  if (line.empty()) return;
  c.note("names " + line);
  expect_accepted(command, 1, line, "a refusal");
  c.count(command.text.substr(0, command.text.find(' ')));
  if (plan == nullptr) return;
  const std::string planned = refused_line(c, *plan, 2);
  c.note("plan names " + planned);
  expect_accepted(*plan, 3, planned, "a refusal of plan");
  expect_accepted(command, 4, planned, "plan");
  c.count("plan");
}

void train_weights(const Net& net, const Files& files, const std::string& more) {
  const std::string command =
      fmt::format("train {} {} --steps 1 -b 4 --threads 1 --progress none {}", net.command(), files.to_train(), more);
  const Outcome done = run_program(command);
  if (done.exit_code != 0) throw Violation("a training without a line ends well", command + "\n" + done.errors);
}

void expect_line_of_training(Choices& c) {
  const Net net = draw_net(c);
  const Files files(c, net);
  const std::string model = net.command() + " " + files.to_train();
  const std::string step = draw_step_flags(c, net, files, c.pick({4, 1, 7, 16}));
  std::string run;
  const auto add = [&](int percent, const std::string& flag) {
    const Choices::Part part(c);
    if (c.chance(percent)) run += " " + flag;
  };
  add(30, fmt::format("--run {}", files.in("run{run}")));
  add(15, "--early-stopping 2");
  add(20, fmt::format("--save {}", files.in("saved")));
  add(15, fmt::format("--save-model {}", files.in("model{run}")));
  const std::string tail = " --no-remedies";
  const Command command{
      fmt::format("train {}{}{} --progress none --epochs {}{}", model, step, run, c.pick({1, 2}), tail)};
  const Command plan{fmt::format("plan {}{}{}{}", model, step, run, tail)};
  expect_law_of(c, command, &plan);
}

void expect_line_of_other_verbs(Choices& c) {
  const Net net = draw_net(c);
  const Files files(c, net);
  const std::string tail = " --no-remedies";
  const int64_t batch = c.pick({4, 1, 7, 16});
  const std::string threads = fmt::format(" -b {} --threads {}", batch, c.pick({1, 2}));
  const auto verb = c.below(6);
  if (verb == 0) {
    const std::string step =
        fmt::format("{} {}", c.chance(50) ? files.to_train() : "", draw_step_flags(c, net, files, batch));
    return expect_law_of(c, {fmt::format("profile {} {} --steps 2{}", net.command(), step, tail)}, nullptr);
  }
  if (verb == 1 && net.data == Net::Data::Words) {
    train_weights(net, files, "--save " + files.in("base"));
    expect_law_of(c,
                  {fmt::format("adapt {} {}{} --weights {} --output {} --progress none{}", net.command(),
                               files.to_train(), threads, files.in("base"), files.in("adapter{run}"), tail)},
                  nullptr);
    return expect_law_of(c,
                         {fmt::format("merge {} --weights {} --adapter {} --output {}", net.command(), files.in("base"),
                                      files.in("adapter1"), files.in("merged{run}"))},
                         nullptr);
  }
  if (verb == 2)
    return expect_law_of(c,
                         {fmt::format("prune {} {}{} --to 0.5 --frequency 1 --save {} --progress none{}", net.command(),
                                      files.to_train(), threads, files.in("pruned"), tail)},
                         nullptr);
  const bool is_stored = c.chance(50);
  train_weights(net, files, (is_stored ? "--save-model " : "--save ") + files.in("net"));
  const std::string model =
      is_stored ? files.in("net") : fmt::format("{} --weights {}", net.command(), files.in("net"));
  if (verb == 3)
    return expect_law_of(c,
                         {fmt::format("quantize {} {}{} -o {} --calibration {}{}", model, files.to_test(), threads,
                                      files.in("small{run}"), c.pick({"minmax", "percentile", "entropy"}), tail)},
                         nullptr);
  if (verb == 4)
    return expect_law_of(
        c, {fmt::format("predict {} {}{} --output {}{}", model, files.to_test(), threads, files.in("out.npy"), tail)},
        nullptr);
  expect_law_of(c, {fmt::format("eval {} {}{}{}", model, files.to_test(), threads, tail)}, nullptr);
}

void expect_line_of_several(Choices& c) {
  Net net{"mlp", "", Net::Data::Rows, 4};
  net.flags = fmt::format("--image-size 4 --channels 1 --classes 3 --width {}", c.pick({8, 64, 300}));
  const Files files(c, net);
  const bool are_ranks = c.chance(40);
  std::string flags = fmt::format(" -b {} --threads {}", c.pick({8, 4, 7}), c.pick({1, 2}));
  flags += are_ranks ? " --ranks 2" : fmt::format(" --replicas {}", c.pick({2, 3}));
  if (c.chance(50)) flags += " --data-threads 2";
  if (c.chance(20)) flags += " --shard state";
  const Command command{
      fmt::format("train {} {}{} --progress none --no-remedies", net.command(), files.to_train(), flags)};
  std::string planned = fmt::format("plan {} {}{} --no-remedies", net.command(), files.to_train(), flags);
  if (are_ranks) planned += " --network 10Gb/s";
  const Command plan{planned};
  expect_law_of(c, command, flags.find("--shard") == std::string::npos ? &plan : nullptr);
}

TEST(RandomVerbs, TrainAtTheLineThatTheyOrPlanName) { expect_law({12, 0.1, 300, 60}, expect_line_of_training); }
TEST(RandomVerbs, KeepTheLineThatTheyName) { expect_law({16, 0.1, 300, 60}, expect_line_of_other_verbs); }
TEST(RandomVerbs, KeepTheLineThatTheyNameTogether) { expect_law({4, 0.05, 300, 60}, expect_line_of_several); }

}  // namespace
}  // namespace plimsoll::testing
