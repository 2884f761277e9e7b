// Saving and loading take a fixed amount of memory, however many tensors there are.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attack/counted_memory.h"
#include "ops/ops.h"
#include "support/disk_folder.h"
#include "weights/weights_file.h"

namespace plimsoll::testing {
namespace {

using namespace memory;

TEST(WeightsMemory, DoesNotGrowWithTheNumberOfTensors) {
  Graph graph;
  Tensor sum = graph.variable("first", DType::F32, {2}, Init::zeros());
  for (int i = 0; i < 4000; ++i)
    graph.variable(fmt::format("a/variable/with/a/long/name/as/deep/models/have/them/{}", i), DType::F32, {2},
                   Init::zeros());
  sum = add(sum, sum);
  MemoryLine line;
  session::Engine session(graph, line, {{{sum}, {}, 1}});
  session.open();
  const DiskFolder folder;
  const std::string path = static_cast<const std::string&>(folder) + "/weights";

  reset_peak_allocated();
  Bytes before = allocated_bytes();
  weights::save_weights(session, graph, path);
  EXPECT_LE(peak_allocated_bytes() - before, 2 * OutputFile::kBufferBytes);
  ASSERT_GT(std::filesystem::file_size(path), 400'000U);  // nearly all of it header

  reset_peak_allocated();
  before = allocated_bytes();
  weights::load_weights(session, graph, path);
  EXPECT_LE(peak_allocated_bytes() - before, 256 * KiB);
}

}  // namespace
}  // namespace plimsoll::testing
