// Damaged files of every kind that the engine reads: an Error or a right answer, never a crash, never much memory.
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "attack/file_fuzz.h"
#include "attack/mutate.h"
#include "base/random.h"
#include "graph/text.h"
#include "input/files.h"
#include "input/files/source.h"
#include "model/training.h"
#include "ops/ops.h"
#include "plan/check/check.h"
#include "report/plan_file.h"
#include "support/disk_folder.h"
#include "support/error_of.h"
#include "weights/weights_file.h"

namespace plimsoll::testing {
namespace {

using namespace plan;

void read_source(const std::string& path, const std::string& scratch = "") {
  const auto source = input::open_source(path, {scratch});
  if (source->sample_bytes() > MiB) return;
  std::vector<std::byte> sample(static_cast<size_t>(source->sample_bytes()));
  source->read(0, 1, sample.data());
  source->read(source->samples() - 1, 1, sample.data());
}

std::vector<std::string> array_files() {
  return {npy("'<f4'", "(3, 4)", std::string(48, 'a')),
          npy("'|u1'", "(100, 2, 3)", std::string(600, 'b')),
          npy("'<f8'", "(7,)", std::string(56, 'c'), "True", 2),
          npy("'<i8'", "(2, 1, 1, 2)", std::string(32, 'd'), "False", 3),
          idx(0x08, {10, 3, 3}, std::string(90, 'e')),
          idx(0x0D, {4}, std::string(16, 'f')),
          idx(0x0E, {2, 2}, std::string(32, 'g'))};
}

TEST_F(FileFuzz, ArrayFiles) {
  const MemoryFile file;
  attack(array_files(), 50'000, 256 * KiB, [&](const std::string& damaged) {
    file.set(damaged);
    read_source(file.path());
  });
}

// Damages the packed file, or its content before packing: a damaged file is mostly refused by its checksum, before its
// content is parsed.
TEST_F(FileFuzz, PackedFiles) {
  const MemoryFile file;
  const DiskFolder scratch;
  std::vector<std::string> files = array_files();
  files.push_back(npy("'|u1'", "(1000, 300)", std::string(300'000, 'h')));
  std::vector<std::string> packed;
  for (const std::string& plain : files) packed.push_back(gzip(plain));
  attack(packed, 3'000, 2 * MiB,  // most of it for packing in this test
         [&](const std::string& damaged) {
           const uint64_t seed = hash_text(damaged);
           file.set(seed % 3 == 0 ? gzip(mutate(files, seed)) : damaged);
           read_source(file.path(), scratch);
         });
}

struct SmallNet {
  Graph graph;
  MemoryLine line;
  std::unique_ptr<session::Engine> session;
  SmallNet() {
    ModelOptions options;
    options.classes = 3;
    options.image_size = 4;
    options.width = 8;
    const ModelSpec spec = find_model("mlp", options);
    const model::TrainingGraph training = model::build_training(graph, spec, {});
    session = std::make_unique<session::Engine>(
        graph, line,
        std::vector<session::Request>{{{training.loss}, training.updates.nodes, 4}, {{training.eval_loss}, {}, 4}});
    session->open();
  }
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(FileFuzz, WeightsFiles) {
  SmallNet net;
  const DiskFolder folder;
  const std::string saved = static_cast<const std::string&>(folder) + "/weights";
  weights::save_weights(*net.session, net.graph, saved);
  const std::string header = R"({"__metadata__":{"format":"pt","steps":"12"},"a":{"dtype":"F16","shape":[2,3],)"
                             R"("data_offsets":[0,12]},"b\u00e9":{"dtype":"BOOL","shape":[],"data_offsets":[12,13]}})";
  uint64_t length = header.size();
  const std::string other = std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(13, 'x');
  const MemoryFile file;
  attack({content_of(saved), other}, 40'000, weights::WeightsReader::kBytes, [&](const std::string& damaged) {
    file.set(damaged);
    weights::load_weights(*net.session, net.graph, file.path());
  });
}

TEST_F(FileFuzz, PlanFiles) {
  SmallNet net;
  const DiskFolder folder;
  std::vector<std::string> plans;
  for (const session::PlannedStep& step : net.session->steps()) {
    const std::string path = static_cast<const std::string&>(folder) + "/plan";
    report::write_plan(step.limits, step.program.problem, step.plan, "net", path);
    plans.push_back(content_of(path));
  }
  const MemoryFile file;
  attack(plans, 20'000, MiB, [&](const std::string& damaged) {
    file.set(damaged);
    const report::PlanFile plan = report::read_plan(file.path());
    if (check(plan.problem, plan.plan, plan.limits).empty()) count_work(plan.problem, plan.plan);
  });
}

TEST_F(FileFuzz, GraphTexts) {
  std::vector<std::string> texts;
  for (const char* model : {"mlp", "lenet", "resnet18", "gpt2-small"}) {
    Graph graph;
    ModelOptions options;
    if (std::string_view(model) == "gpt2-small") {
      options.layers = 1;
      options.sequence = 8;
    }
    model::build_training(graph, find_model(model, options), {});
    texts.push_back(to_string(graph));
  }
  attack(texts, 20'000, 4 * MiB, [&](const std::string& damaged) {
    Graph graph;
    graph::parse_graph(damaged, ops::find_op, graph);
    const std::string text = to_string(graph);
    Graph again;
    graph::parse_graph(text, ops::find_op, again);
    if (to_string(again) != text) throw std::runtime_error("a graph does not read back as it was printed");
  });
}

// Found by the fuzzer: the gradient of slice did not check its axis.
TEST(GraphText, RefusesAnAxisThatIsNone) {
  for (const char* axis : {"65536", "3", "-1", "4294967296"}) {
    Graph graph;
    const std::string text = fmt::format(
        "plimsoll graph 1\nplaceholder x f32[4,8]\ny = slice_grad(x) axis={} count=8 first=0 "
        "size=1024\n",
        axis);
    EXPECT_THAT(error_of([&] { graph::parse_graph(text, ops::find_op, graph); }),
                ::testing::HasSubstr("is outside f32[4,8]"))
        << axis;
  }
}

}  // namespace
}  // namespace plimsoll::testing
