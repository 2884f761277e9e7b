// Counts every allocation of the process while steps run. The engine makes none. oneDNN builds a small table of
// arguments inside each of its calls and frees it before it returns: allowed, counted apart, and bounded.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "lower/lower.h"
#include "memory/arena.h"
#include "ops/ops.h"
#include "plan/make_plan.h"
#include "run/executor.h"
#include "run/transfers.h"
#include "support/disk_folder.h"
#include "support/sanitizer.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> of_engine{0}, of_onednn{0}, largest_of_onednn{0}, alive{0};

void count(void* caller, size_t bytes) {
  if (!counting) return;
  Dl_info info{};
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  ++alive;
  if (known && std::strstr(info.dli_fname, "libdnnl") != nullptr) {
    ++of_onednn;
    if (static_cast<int64_t>(bytes) > largest_of_onednn) largest_of_onednn = static_cast<int64_t>(bytes);
  } else {
    ++of_engine;
  }
}

void* take(size_t bytes, size_t alignment, void* caller) {
  count(caller, bytes);
  void* memory = alignment > alignof(std::max_align_t)
                     ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                     : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory) {
  if (counting && memory != nullptr) --alive;
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return take(bytes, 0, __builtin_return_address(0)); }
void* operator new[](size_t bytes) { return take(bytes, 0, __builtin_return_address(0)); }
void* operator new(size_t bytes, std::align_val_t a) { return take(bytes, size_t(a), __builtin_return_address(0)); }
void* operator new[](size_t bytes, std::align_val_t a) { return take(bytes, size_t(a), __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { give_back(memory); }

namespace plimsoll::run {
namespace {

using namespace memory;

using namespace kernels;
using namespace lower;
using namespace ops;
using namespace plan;

// A step of its own, planned and bound, without a session around it.
struct Bound {
  Program program;
  Plan plan;
  Arena arena;
  Executor executor;
  Bound(Program p, Plan q) : program(std::move(p)), plan(std::move(q)), arena(plan.arena_bytes), executor(make()) {}
  Executor make() {
    arena.commit(plan.arena_bytes);
    std::memset(arena.data(), 0, static_cast<size_t>(plan.arena_bytes));
    return {program, plan, arena.data()};
  }
};

Bound bind_step(const Graph& graph, Tensor fetch, const std::vector<NodeId>& updates) {
  VariableLayouts layouts;
  KernelStore kernels;
  LowerOptions options;
  options.batch = 8;
  const ValueId fetches[] = {fetch.id()};
  Program program = lower::lower(graph.body(), fetches, updates, options, layouts, kernels);
  Limits limits;
  limits.batch = 8;
  Plan plan = std::get<Plan>(make_plan(program.problem, limits));
  return {std::move(program), std::move(plan)};
}

void run_counted(Bound& bound) {
  StepState state;
  bound.executor.run(state);
  of_engine = of_onednn = largest_of_onednn = alive = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) {
    ++state.step;
    bound.executor.run(state);
  }
  counting = false;
}

TEST(Allocations, AreSeenByThisTest) {
  of_engine = alive = 0;
  counting = true;
  int* volatile one = new int(1);  // volatile: or the compiler leaves both out
  delete one;
  std::vector<int> numbers(10);
  counting = false;
  EXPECT_EQ(of_engine, 2);
}

TEST(Allocations, NoneInAStepOfTheEnginesOwnKernels) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 64});
  const Tensor w = graph.variable("w", DType::F32, {64}, Init::ones());
  const Tensor target = graph.placeholder("target", DType::F32, {Dim::batch(), 64});
  const Tensor loss = mean_squared_error(relu(mul(x, w)), target);
  const Updates updates = minimize(loss, Optimiser::adam());
  Bound bound = bind_step(graph, loss, updates.nodes);
  run_counted(bound);
  EXPECT_EQ(of_engine, 0);
  EXPECT_EQ(of_onednn, 0);
}

TEST(Allocations, NoneInTransfersToTheScratchFile) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const testing::DiskFolder folder;
  ScratchFile file(folder, 8 * MiB);
  Transfers transfers(file);
  std::vector<std::byte> memory(3 * MiB + 1);
  of_engine = of_onednn = 0;
  counting = true;
  for (int i = 0; i < 200; ++i) {
    transfers.start_write(0, memory.data(), i * 4 * KiB + 1);
    transfers.start_read(0, memory.data(), i * 4 * KiB + 1);
    if (i % 50 == 0) transfers.wait_all();
  }
  transfers.wait_all();
  counting = false;
  EXPECT_FALSE(transfers.failed());
  EXPECT_EQ(of_engine, 0);
}

TEST(Allocations, OfOneDnnAreSmallAndGoneAfterEachCall) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 16, 8, 8});
  const Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  const Tensor k = graph.variable("k", DType::F32, {16, 16, 3, 3}, Init::ones());
  const Tensor w = graph.variable("w", DType::F32, {16 * 64, 10}, Init::ones());
  const Tensor h = relu(conv2d(x, k, {}, Window::padded(1)));
  const Tensor loss = sparse_cross_entropy(matmul(flatten(h), w), labels);
  const Updates updates = minimize(loss, Optimiser::sgd());
  Bound bound = bind_step(graph, loss, updates.nodes);
  run_counted(bound);
  EXPECT_EQ(of_engine, 0);
  EXPECT_EQ(alive, 0);
  EXPECT_LE(largest_of_onednn, 1024);
}

}  // namespace
}  // namespace plimsoll::run
