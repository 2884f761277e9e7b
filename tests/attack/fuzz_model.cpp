// Damaged models: facts whose checksum is right, and graphs that are run when they are accepted.
#include <algorithm>
#include <cctype>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include <plimsoll/memory_line.h>
#include "attack/file_fuzz.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "graph/text.h"
#include "model/rewrite.h"
#include "model/training.h"
#include "ops/ops.h"
#include "session/engine.h"
#include "store/model_facts.h"
#include "support/error_of.h"

namespace plimsoll::testing {
namespace {

using store::StoredFacts;
using store::StoredPass;

StoredFacts facts_of(const model::TracedModel& traced) {
  StoredFacts facts;
  facts.name = traced.name;
  facts.preprocessing = {.class_names = {"a", "b"}, .mean = {0.5F}, .deviation = {0.25F}};
  facts.metrics = {{"accuracy", "mean", 1}};
  facts.inference = store::describe_pass(traced.inference, traced.objective);
  facts.training = store::describe_pass(*traced.training, traced.training_objective);
  facts.notes = {{"pruned", "0.8"}};
  facts.graph = {"graph.txt", 1000, 0x12345678};
  facts.weights = {"weights.safetensors", 4096, 0x9abcdef0};
  return facts;
}

// The checksum that the damaged text would have.
std::string seal(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  json.erase("crc32c");
  const std::string plain = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  json["crc32c"] = fmt::format("{:08x}", crc32c(std::as_bytes(std::span(plain))));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TEST_F(FileFuzz, ModelFacts) {
  std::vector<std::string> texts;
  for (const char* name : {"lenet", "siamese"})
    texts.push_back(store::facts_text(facts_of(model::trace(find_model(name)))));
  texts.push_back(std::string(2000, '[') + std::string(2000, ']'));
  attack(texts, 20'000, 512 * KiB,
         [&](const std::string& damaged) { store::parse_facts(seal(damaged), "model.json"); });
}

// Each graph has some of the operators; sizes stay small when a digit is changed.
const char* const kGraphs[] = {
    R"(placeholder x f32[B,3,8,8]
variable net/k f32[4,3,3,3] weight uniform(-0.1,0.1)
variable net/b f32[4] weight constant(0)
net/c = conv2d(x, net/k, net/b) pads=[1,1,1,1] strides=[2,2]
net/m = max_pool(net/c) pads=[0,0,0,0] size=[2,2] strides=[2,2]
net/a = average_pool(net/m) size=[2,2]
variable net/t f32[4,2,2,2] weight uniform(-0.1,0.1)
net/u = conv2d_transpose(net/a, net/t) strides=[2,2]
net/r = resize(net/u) mode="bilinear" size=[4,4]
net/out = reduce_mean(net/r) axes=[2,3] count=[16] keep=0
)",
    R"(placeholder x f32[B,4,6]
variable net/g f32[6] weight constant(1)
variable net/h f32[6] weight constant(0)
net/n = layer_norm(x, net/g, net/h) epsilon=0.001
net/s = softmax(net/n) axis=2
net/t = transpose(net/s) order=[0,2,1]
net/l = slice(net/t) axis=1 count=2 first=1 step=2
net/p = pad(net/l) after=[0,1,0] before=[0,0,2] value=0.5
net/o = concat(net/p, net/p) axis=2
net/q = split(net/o) axis=1 sizes=[1,2]
net/w = tile(net/q) times=[1,3,1]
net/out = reshape(net/w) shape=[B,36]
)",
    R"(placeholder x f32[B,2,5,8]
net/a = attention(x, x, x) causal=1 scale=0.5
net/d = dropout(net/a) key=7 per_sample=80 rate=0.5
net/c = clip(net/d) high=6.0 low=0.0
net/n = random_normal() deviation=1.0 key=8 mean=0.0 shape=[B,2,5]
net/u = random_uniform() dtype="i32" high=9.0 key=9 low=0.0 shape=[5]
net/b = bernoulli() key=10 p=0.5 shape=[]
net/k = categorical(net/a) is_batched=1 key=11
net/m = reduce_max(net/c) axes=[1] keep=0
net/g = argmax(net/m) axis=2
net/h = one_hot(net/g) classes=8
net/f = cast(net/h) dtype="f32"
variable net/w f32[8] weight constant(1)
net/s = mul(net/m, net/w)
net/q = add(net/f, net/s)
net/out = reduce_sum(net/q) axes=[1] keep=1
)",
    R"(placeholder x i32[B,5]
variable net/table f32[11,4] weight normal(0,0.02)
net/e = gather(net/table, x)
variable net/w f32[4,6] weight uniform(-0.1,0.1)
net/y = matmul(net/e, net/w) transpose_a=0 transpose_b=0
constant net/half f32[] 0000003f
net/z = pow(net/y, net/half)
net/g = greater(net/y, net/z)
net/v = where(net/g, net/y, net/z)
)",
    R"(placeholder x f32[B,6,4,4]
variable net/gamma f32[6] weight constant(1)
variable net/beta f32[6] weight constant(0)
variable net/mean f32[6] statistic constant(0)
variable net/variance f32[6] statistic constant(1)
net/bn = batch_norm(x, net/gamma, net/beta) epsilon=0.001
net/st = batch_norm_statistics(net/mean, net/variance, net/bn:1, net/bn:2) momentum=0.99
net/in = batch_norm_inference(net/bn, net/gamma, net/beta, net/mean, net/variance) epsilon=0.001
net/gn = group_norm(net/in, net/gamma, net/beta) epsilon=0.001 groups=3
net/s = scale(net/gn) factor=2.0 offset=1.0
net/e = less(net/s, net/gn)
net/v = where(net/e, net/s, net/gn)
net/b = broadcast_to(net/v) shape=[B,6,4,4]
net/out = gelu(net/b)
)",
};

std::string whole_text(const char* lines) { return std::string("plimsoll graph 1\n") + lines; }

StoredPass pass_of(const Graph& graph) {
  StoredPass stored;
  for (const ValueId id : graph.body().placeholders()) {
    const std::string name(graph.body().name(graph.body().value(id)));
    stored.inputs.emplace_back(name, name);
  }
  const auto& values = graph.body().values();
  for (size_t i = values.size(); i-- > 0;)
    if (values[i].kind == graph::ValueKind::Computed) {
      stored.outputs.emplace_back("output", std::string(graph.body().name(values[i])));
      break;
    }
  return stored;
}

bool is_small(const Graph& graph) {
  for (const graph::Value& value : graph.body().values())
    if (element_count(value.type.shape).count() > 100'000) return false;
  return true;
}

constexpr int64_t kBatch = 2;

// A step on zeros.
void run_step(Graph& graph, const NamedTensors& inputs, const session::Request& request) {
  const MemoryLine line(64 * MiB);
  session::Engine engine(graph, line, {request});
  std::vector<std::vector<std::byte>> numbers;
  std::vector<Feed> feeds;
  for (const auto& [name, tensor] : inputs) {
    const int64_t count = element_count(at_batch(tensor.shape(), kBatch));
    numbers.emplace_back(static_cast<size_t>(count * size_of(tensor.dtype())));
    feeds.emplace_back(tensor, tensor.dtype(), numbers.back().data(), static_cast<Bytes>(numbers.back().size()));
  }
  engine.run(request, feeds);
}

// Whatever was accepted is run, and trained.
void run_once(const model::TracedPass& pass) {
  auto traced = std::make_shared<model::TracedModel>();
  traced->name = "net";
  traced->inference = pass;
  traced->training = pass;
  ModelSpec spec = model::replay_spec({}, traced);
  {
    Graph graph;
    const model::TrainingGraph passes = model::build_inference(graph, spec);
    run_step(graph, passes.inputs, {{passes.outputs.only()}, {}, kBatch});
  }
  spec.objective = [](const NamedTensors& outputs, const NamedTensors&) {
    const Tensor output = cast(outputs.only(), DType::F32);
    return Objective{reduce_mean(output * output)};
  };
  Graph graph;
  const model::TrainingGraph passes = model::build_training(graph, spec, Optimiser::sgd(0.1));
  run_step(graph, passes.inputs, {{passes.loss}, passes.updates.nodes, kBatch});
}

// The facts are made to fit the text, so that no name in it is refused.
void read_and_run(const std::string& text) {
  Graph first;
  graph::parse_graph(text,
                     [](std::string_view name) {
                       const graph::Op* op = ops::find_op(name);
                       return op != nullptr && op->storable ? op : nullptr;
                     },
                     first, {.lines = 1000, .elements = int64_t{1} << 40});
  const store::ParsedPass parsed = store::parse_pass(text, pass_of(first), "net/");
  if (is_small(*parsed.forward.graph)) run_once(parsed.forward);
}

// Replaces a few digits, operators or operands: most of the results are still graphs.
std::string change_some(const std::string& text, uint64_t seed) {
  std::string changed = text;
  std::vector<size_t> digits, names;
  for (size_t i = changed.find('\n'); i < changed.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(changed[i])) != 0) digits.push_back(i);
    if (changed.compare(i, 4, "net/") == 0 && i > 0 && (changed[i - 1] == '(' || changed[i - 1] == ' '))
      names.push_back(i);
  }
  const auto draw = [&](size_t below) { return static_cast<size_t>((seed = mix_bits(seed + 1)) % below); };
  for (size_t changes = 1 + draw(3); changes > 0; --changes) {
    constexpr std::string_view kDigits[] = {"0", "1", "2", "3", "4", "6", "8", "9", "-1", "16", "B", "65536"};
    if (draw(3) != 0)
      changed.replace(digits[draw(digits.size())], 1, kDigits[draw(std::size(kDigits))]);
    else
      changed[names[draw(names.size())] + 4] = "abcdefghklmnopqrstuvwz"[draw(22)];
  }
  return changed;
}

TEST_F(FileFuzz, ModelGraphs) {
  std::vector<std::string> texts;
  for (const char* lines : kGraphs) texts.push_back(whole_text(lines));
  attack(texts, 2'000, 80 * MiB, read_and_run);
}

TEST_F(FileFuzz, ModelGraphsOfOtherNumbers) {
  attack({"x"}, 1'500, 80 * MiB, [round = uint64_t{0}](const std::string&) mutable {
    const uint64_t seed = mix_bits(++round);
    read_and_run(change_some(whole_text(kGraphs[round % std::size(kGraphs)]), seed));
  });
}

// The undamaged graphs can be run.
TEST(ModelGraphs, AreAcceptedUndamaged) {
  for (const char* lines : kGraphs) EXPECT_EQ(error_of([&] { read_and_run(whole_text(lines)); }), "no error") << lines;
}

}  // namespace
}  // namespace plimsoll::testing
