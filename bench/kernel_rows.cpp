#include "kernel_rows.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include <fmt/format.h>

#include <plimsoll/optimiser.h>
#include "lower/tiles.h"
#include "model/training.h"
#include "ops/ops.h"

namespace plimsoll {
namespace {

using namespace kernels;
using namespace lower;
using namespace ops;
using namespace plan;

struct Case {
  const char* name;
  const char* model;
  int64_t batch;
  ModelOptions options = {};
};

// Those of peers/cases.py; the largest batch where there are several. Layers repeat, so the chain is shorter.
std::vector<Case> training_cases() {
  return {{"mlp", "mlp", 128},
          {"lenet", "lenet", 128},
          {"resnet18", "resnet18", 32},
          {"mobilenet", "mobilenet_v2", 32},
          {"gpt2", "gpt2-small", 4, {.sequence = 256}},
          {"bert", "bert-base", 8, {.sequence = 128}},
          {"unet", "unet", 4},
          {"resnet50", "resnet50", 32},
          {"vgg16", "vgg16", 8},
          {"chain", "dense-chain", 1000, {.layers = 10}}};
}

std::string shape_text(const Graph& graph, std::span<const ValueId> values, int64_t batch) {
  std::string text;
  for (const ValueId value : values) {
    const Dims dims = at_batch(graph.body().value(value).type.shape, batch);
    std::string one;
    for (const int64_t dim : dims) one += (one.empty() ? "" : ",") + std::to_string(dim);
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Collector {
 public:
  explicit Collector(double least_share) : least_share_(least_share) {}

  // Lowers what `build` fetches and updates; keeps its kernels, or only those of the operators named.
  void add(const std::string& name, int64_t batch, int64_t classes,
           const std::function<void(Graph&, std::vector<ValueId>& fetches, std::vector<NodeId>& updates)>& build,
           std::vector<std::string_view> only = {}) {
    auto lowered = std::make_unique<LoweredCase>();
    lowered->name = name;
    lowered->graph = std::make_unique<Graph>();
    std::vector<ValueId> fetches;
    std::vector<NodeId> updates;
    build(*lowered->graph, fetches, updates);
    VariableLayouts layouts;
    LowerOptions options;
    options.batch = batch;
    lowered->program = lower::lower(lowered->graph->body(), fetches, updates, options, layouts, kernels_);
    classes_ = classes;
    only_ = std::move(only);
    for (const Task& task : lowered->program.problem.tasks) lowered->predicted_ns += cost_ns(task, batch);
    found_.cases.push_back(std::move(lowered));
    add_tasks(*found_.cases.back());
  }

  KernelRows finish() { return std::move(found_); }

 private:
  void add_tasks(const LoweredCase& from) {
    std::unordered_map<std::string_view, ValueId> values;
    for (size_t i = 0; i < from.graph->body().values().size(); ++i)
      values.emplace(from.graph->body().name(from.graph->body().values()[i]), static_cast<ValueId>(i));
    std::unordered_map<const Kernel*, KernelRow> rows;
    std::vector<const Kernel*> order;
    for (size_t i = 0; i < from.program.tasks.size(); ++i) {
      const ProgramTask& work = from.program.tasks[i];
      const auto [at, is_first] = rows.try_emplace(work.own.first.get());
      if (is_first) {
        order.push_back(work.own.first.get());
        at->second = describe(from, values, static_cast<TaskId>(i));
      }
      ++at->second.runs[from.name];
    }
    for (const Kernel* kernel : order) {
      KernelRow& row = rows.at(kernel);
      const double share = row.predicted_ns * row.runs[from.name] / from.predicted_ns;
      const bool wanted =
          only_.empty() ? share >= least_share_ : std::find(only_.begin(), only_.end(), row.op) != only_.end();
      if (wanted) merge(std::move(row));
    }
  }

  // The store hands out one kernel for equal facts, also across cases.
  void merge(KernelRow row) {
    for (KernelRow& other : found_.rows)
      if (other.kernel == row.kernel || (row.op != "fused" && other.op == row.op && other.shape == row.shape)) {
        for (const auto& [name, count] : row.runs) other.runs[name] += count;
        return;
      }
    found_.rows.push_back(std::move(row));
  }

  RowOperand operand(const LoweredCase& from, const std::unordered_map<std::string_view, ValueId>& values,
                     BufferId id) const {
    const Buffer& buffer = from.program.problem.buffers[static_cast<size_t>(id)];
    RowOperand operand{placed_bytes(buffer, from.program.batch), DType::F32, classes_, nullptr};
    const auto at = values.find(buffer.name);
    if (at == values.end()) return operand;
    const graph::Value& value = from.graph->body().value(at->second);
    operand.dtype = value.type.dtype;
    if (value.kind == graph::ValueKind::Constant) operand.constant = &from.graph->body().constant_of(at->second).bytes;
    return operand;
  }

  KernelRow describe(const LoweredCase& from, const std::unordered_map<std::string_view, ValueId>& values, TaskId id) {
    const Task& task = from.program.problem.tasks[static_cast<size_t>(id)];
    const ProgramTask& work = from.program.tasks[static_cast<size_t>(id)];
    KernelRow row;
    row.kernel = work.own.first;
    row.workspace_bytes = workspace_bytes(task, from.program.batch);
    row.predicted_ns = cost_ns(task, from.program.batch);
    row.op = work.op == nullptr ? "reorder" : std::string(work.op->name);
    for (const KernelOperand& in : work.own.in) {
      const std::vector<BufferId>& list = in.list == KernelOperand::List::Updates ? task.updates : task.reads;
      row.in.push_back(operand(from, values, list[static_cast<size_t>(in.index)]));
    }
    for (const BufferId buffer : task.writes) row.out.push_back(operand(from, values, buffer));
    row.bytes = bytes_to_move(from, task, row);
    if (work.origin < 0) {
      row.shape = fmt::format("{} {}", task.name.substr(task.name.rfind('/') + 1), format_bytes(row.in[0].bytes));
      return row;
    }
    const Graph& graph = *from.graph;
    const graph::Node& node = graph.body().node(work.origin);
    row.shape = shape_text(graph, graph.body().inputs(node), from.program.batch);
    if (row.op == "fused") row.shape = fmt::format("{} in, {} out", row.in.size(), format_bytes(row.out[0].bytes));
    set_limit(graph, node, from.program.batch, row);
    return row;
  }

  // Every operand once, what is updated twice; where a table or a second pass is involved, what the operator needs.
  static double bytes_to_move(const LoweredCase& from, const Task& task, const KernelRow& row) {
    // A tile of an update works on that much of each.
    const bool is_tile = task.name.find("/tile") != std::string::npos;
    const auto size = [&](BufferId id) {
      const Bytes all = placed_bytes(from.program.problem.buffers[static_cast<size_t>(id)], from.program.batch);
      return static_cast<double>(is_tile ? std::min(all, kTileElements * 4) : all);
    };
    double bytes = 0;
    for (const BufferId id : task.reads) bytes += size(id);
    for (const BufferId id : task.writes) bytes += size(id);
    for (const BufferId id : task.updates) bytes += 2 * size(id);
    if (row.op == "gather") bytes = 2 * static_cast<double>(row.out[0].bytes);
    // The statistics of a channel need all of its pixels before the first is written: images larger than the cache are
    // read twice.
    if (is_one_of(row.op, {"batch_norm", "batch_norm_grad"})) {
      constexpr double kCacheBytes = 16e6, kChannels = 8;
      double images = 0;
      for (const RowOperand& in : row.in)
        if (in.bytes == row.out[0].bytes) images += static_cast<double>(in.bytes);
      const double channels = static_cast<double>(row.in[1 + (row.op == "batch_norm_grad" ? 1 : 0)].bytes) / 4;
      if (images / channels * kChannels > kCacheBytes) bytes += images;
    }
    return bytes;
  }

  static Dims dims_of(const Graph& graph, ValueId value, int64_t batch) {
    return at_batch(graph.body().value(value).type.shape, batch);
  }

  static void set_limit(const Graph& graph, const graph::Node& node, int64_t batch, KernelRow& row) {
    const Attrs& attrs = graph.body().attrs(node);
    const auto in = [&](size_t i) { return dims_of(graph, graph.body().inputs(node)[i], batch); };
    const auto out = [&](int i) { return dims_of(graph, node.first_output + i, batch); };
    if (row.op == "matmul") {
      const Dims y = out(0), a = in(0);
      const bool ta = attrs.i("transpose_a") != 0;
      row.limit = Limit::Product;
      row.product = {y[y.rank() - 2],
                     y[y.rank() - 1],
                     a[a.rank() - (ta ? 2 : 1)],
                     element_count(y) / (y[y.rank() - 2] * y[y.rank() - 1]),
                     ta,
                     attrs.i("transpose_b") != 0};
      const ProductSizes& n = row.product;
      row.shape = fmt::format("{}{}x{} {}x{}{}{}{}", n.count > 1 ? fmt::format("{} of ", n.count) : "", n.rows, n.inner,
                              n.inner, n.columns, ta ? " a'" : "", n.transpose_b ? " b'" : "",
                              row.in.size() > 2 ? " bias" : "");
    } else if (row.op == "linear_cross_entropy_with_grad") {
      const bool transposed = attrs.i("transposed") != 0;
      row.limit = Limit::Product;
      row.product = {in(0)[0], in(1)[transposed ? 0 : 1], in(0)[1], 1, false, transposed};
      row.products = 3;
    } else if (is_one_of(row.op, {"attention", "attention_grad"})) {
      // Two products of queries by keys forward, five backward; half of each where later keys are out of sight.
      const bool heads_last = attrs.s("layout") == "bthd";
      const Dims q = in(0), k = in(1);
      row.limit = Limit::Product;
      row.product = {q[heads_last ? 1 : 2], k[heads_last ? 1 : 2], q[3], q[0] * q[heads_last ? 2 : 1], false, true};
      row.products = (row.op == "attention" ? 2 : 5) * (attrs.i("causal") != 0 ? 0.5 : 1);
    } else if (row.op == "conv2d") {
      row.limit = Limit::Forward;
      row.convolution = {in(0), in(1), out(0), window_of(attrs)};
    } else if (row.op == "conv2d_input_grad") {
      row.limit = Limit::InputGrad;
      row.convolution = {out(0), in(1), in(0), window_of(attrs)};
    } else if (row.op == "conv2d_kernel_grad") {
      row.limit = Limit::KernelGrad;
      row.convolution = {in(0), out(0), in(1), window_of(attrs)};
    } else if (row.op == "conv2d_transpose") {
      row.limit = Limit::InputGrad;
      row.convolution = {out(0), in(1), in(0), window_of(attrs)};
    }
    if (row.limit != Limit::Copy && row.limit != Limit::Product) {
      const Window& w = row.convolution.window;
      row.shape = fmt::format("{} k {} s{}{}", shape_of(row.convolution.x), shape_of(row.convolution.kernel),
                              w.strides[0], w.groups > 1 ? fmt::format(" g{}", w.groups) : "");
    }
  }

  static std::string shape_of(const Dims& dims) {
    std::string text;
    for (const int64_t dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
    return text;
  }

  const double least_share_;
  KernelStore kernels_;
  KernelRows found_;
  int64_t classes_ = 1;
  std::vector<std::string_view> only_;
};

// One operator and its gradient, apart from any model, on a tensor that no cache holds.
void add_operator(Collector& to, const std::string& name, const Shape& shape, int64_t batch,
                  const std::function<Tensor(Graph&, Tensor)>& build, std::vector<std::string_view> only) {
  to.add(
      name, batch, 10,
      [&](Graph& graph, std::vector<ValueId>& fetches, std::vector<NodeId>&) {
        const Tensor x = graph.placeholder("x", DType::F32, shape);
        const Tensor y = build(graph, x);
        fetches.push_back(y.id());
        const Tensor dy = graph.placeholder("dy", DType::F32, y.shape());
        const std::vector<Tensor> wrt{x};
        const std::vector<Gradient> dx = gradients(y, wrt, dy);
        if (dx[0].is_set()) fetches.push_back(dx[0].value.id());
      },
      std::move(only));
}

void add_optimiser(Collector& to, const std::string& name, const Optimiser& optimiser, std::string_view op) {
  to.add(name, 1, 10,
         [&](Graph& graph, std::vector<ValueId>& fetches, std::vector<NodeId>& updates) {
           const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 2048});
           const Tensor w = graph.variable("w", DType::F32, {2048, 2048}, Init{});
           const Tensor loss = reduce_mean(matmul(x, w));
           fetches.push_back(loss.id());
           updates = minimize(loss, optimiser).nodes;
         },
         {op});
}

void add_operators(Collector& to) {
  const Dim batch = Dim::batch();
  const auto weights = [](Graph& graph, int64_t count, const char* name) {
    return graph.variable(name, DType::F32, {count}, Init{});
  };
  add_operator(to, "operators", {batch, 16, 128, 128}, 64, [](Graph&, Tensor x) { return softmax(x); },
               {"softmax", "softmax_grad"});
  add_operator(to, "operators", {batch, 10}, 1 << 20, [](Graph&, Tensor x) { return softmax(x); },
               {"softmax", "softmax_grad"});
  add_operator(to, "operators", {batch, 1000}, 16384, [](Graph&, Tensor x) { return log_softmax(x); },
               {"log_softmax", "log_softmax_grad"});
  for (const int64_t classes : {10, 1000})
    add_operator(to, "operators", {batch, classes}, (16 << 20) / classes,
                 [](Graph& graph, Tensor x) {
                   return sparse_cross_entropy(x, graph.placeholder("labels", DType::I32, {Dim::batch()}));
                 },
                 {"sparse_cross_entropy", "sparse_cross_entropy_grad"});
  add_operator(to, "operators", {batch, 64, 56, 56}, 64,
               [&](Graph& graph, Tensor x) {
                 return group_norm(x, weights(graph, 64, "gamma"), weights(graph, 64, "beta"), 32);
               },
               {"group_norm", "group_norm_grad"});
  add_operator(to, "operators", {batch, 64, 64, 64}, 16,
               [](Graph&, Tensor x) {
                 return resize(x, {128, 128}, "bilinear");
               },
               {"resize", "resize_grad"});
  add_operator(to, "operators", {batch, 32, 64, 64}, 32,
               [](Graph&, Tensor x) {
                 return resize(x, {128, 128}, "nearest");
               },
               {"resize", "resize_grad"});
  add_operator(to, "operators", {batch, 4096}, 4096,
               [](Graph&, Tensor x) {
                 return transpose(x, {1, 0});
               },
               {"transpose"});
  add_operator(to, "operators", {batch, 3072}, 8192,
               [](Graph&, Tensor x) {
                 return transpose(x, {1, 0});
               },
               {"transpose"});
  add_operator(to, "operators", {batch, 128, 12, 64}, 128,
               [](Graph&, Tensor x) {
                 return transpose(x, {0, 2, 1, 3});
               },
               {"transpose"});
  for (const auto& activation : {relu, sigmoid, tanh, silu})
    add_operator(to, "operators", {batch, 3072}, 8192, [&](Graph&, Tensor x) { return activation(x, {}); },
                 {"relu", "relu_grad", "sigmoid", "sigmoid_grad", "tanh", "tanh_grad", "silu", "silu_grad"});
  add_operator(to, "operators", {batch, 3072}, 8192, [](Graph&, Tensor x) { return gelu(x); }, {"gelu", "gelu_grad"});
  add_operator(to, "operators", {batch, 768}, 32768, [](Graph&, Tensor x) { return dropout(x, 0.1); },
               {"dropout", "dropout_grad"});
  add_optimiser(to, "operators", Optimiser::sgd(), "sgd");
  add_optimiser(to, "momentum", Optimiser::sgd(0.01, 0.9), "sgd");
  add_optimiser(to, "operators", Optimiser::rmsprop(), "rmsprop");
  add_optimiser(to, "operators", Optimiser::adam(), "adam");
}

}  // namespace

double ProductSizes::flops() const {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner) *
         static_cast<double>(count);
}

KernelRows collect_kernel_rows(double least_share) {
  Collector collector(least_share);
  for (const Case& one : training_cases()) {
    const ModelSpec spec = find_model(one.model, one.options);
    collector.add(one.name, one.batch, spec.classes,
                  [&](Graph& graph, std::vector<ValueId>& fetches, std::vector<NodeId>& updates) {
                    const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::adam());
                    fetches.push_back(training.loss.id());
                    updates = training.updates.nodes;
                  });
  }
  add_operators(collector);
  return collector.finish();
}

}  // namespace plimsoll
