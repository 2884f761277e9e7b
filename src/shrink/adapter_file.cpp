#include "shrink/adapter_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "fit/compiled.h"
#include "kernels/elementwise.h"
#include "memory/file.h"
#include "memory/output_file.h"
#include "model/model_state.h"
#include "shrink/adapt.h"
#include "weights/finite.h"
#include "weights/weights_file.h"
#include "weights/weights_writer.h"

namespace plimsoll::shrink {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kSuffixA = ".lora_A.weight", kSuffixB = ".lora_B.weight";
constexpr Bytes kLargestConfig = MiB;
constexpr size_t kMostModules = 100'000;

std::string path_in(const std::string& folder, const char* name) { return folder + "/" + name; }

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw Error(fmt::format("'{}': {}", path, why), ErrorKind::BadData);
}

Json read_json(const std::string& path) {
  const memory::File file = memory::File::open(path);
  const Bytes bytes = file.size();
  if (bytes > kLargestConfig) refuse_file(path, fmt::format("{} is too much for a config", format_bytes(bytes)));
  std::string text(static_cast<size_t>(bytes), '\0');
  text.resize(static_cast<size_t>(file.read_some(0, bytes, text.data(), path)));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) refuse_file(path, "it is no JSON object, so no config of adapters");
  return json;
}

// Settings that would change what the adapters compute, and the values with which they do not.
void expect_plain(const Json& json, const std::string& path) {
  const auto is_off = [](const Json& value) {
    return value.is_null() || value == false || value == 0 || (value.is_structured() && value.empty());
  };
  for (const char* key : {"use_rslora", "use_dora", "lora_bias", "rank_pattern", "alpha_pattern", "modules_to_save",
                          "layer_replication", "trainable_token_indices", "alora_invocation_tokens", "use_qalora"})
    if (json.contains(key) && !is_off(json[key]))
      refuse_file(path, fmt::format("it sets '{}', which is not supported here; adapters must be plain LoRA", key));
  if (json.value("bias", Json("none")) != "none")
    refuse_file(path, "it trains biases ('bias' is not \"none\"), which is not supported here");
}

// The module of a tensor, and whether it is A; empty for another name.
std::pair<std::string, bool> module_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  const bool is_a = name.ends_with(kSuffixA);
  if (!is_a && !name.ends_with(kSuffixB)) return {};
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffixA.size());
  return {std::string(name), is_a};
}

std::vector<std::string> list_modules(const std::string& path) {
  const weights::WeightsReader file(path);
  std::set<std::string> modules;
  file.for_each([&](const weights::StoredTensor& stored) {
    const std::string module = module_of(stored.name).first;
    if (module.empty())
      refuse_file(path, fmt::format("tensor '{}' is no part of an adapter, which is named '{}<layer>{}' or '{}'",
                                    stored.name, kPrefix, kSuffixA, kSuffixB));
    modules.insert(module);
    if (modules.size() > kMostModules) refuse_file(path, "it has too many adapters");
  });
  if (modules.empty()) refuse_file(path, "it has no adapters");
  return {modules.begin(), modules.end()};
}

std::string tensor_name(const std::string& module, bool is_a) {
  return fmt::format("{}{}{}", kPrefix, module, is_a ? kSuffixA : kSuffixB);
}

}  // namespace

AdaptOptions read_adapter(const std::string& folder) {
  const std::string path = path_in(folder, kAdapterConfig);
  const Json json = read_json(path);
  AdaptOptions options;
  try {
    if (json.value("peft_type", "") != "LORA")
      refuse_file(path, "its adapters are not of the type LORA, the only one that is known here");
    expect_plain(json, path);
    options.rank = json.at("r").get<int64_t>();
    options.alpha = json.at("lora_alpha").get<double>();
    options.dropout = json.value("lora_dropout", 0.0);
  } catch (const Json::exception&) {
    refuse_file(path, "'r' or 'lora_alpha' is missing, or a setting is of another type than PEFT has");
  }
  if (options.rank < 1 || !(options.alpha > 0) || !(options.dropout >= 0 && options.dropout < 1))
    refuse_file(path, fmt::format("rank {}, alpha {} and dropout {} make no sense", options.rank, options.alpha,
                                  options.dropout));
  options.targets = list_modules(path_in(folder, kAdapterWeights));
  return options;
}

AdapterReader::AdapterReader(const std::string& folder, const std::vector<WeightProduct>& products, int64_t rank)
    : file_(path_in(folder, kAdapterWeights)), rank_(rank) {
  const std::string path = path_in(folder, kAdapterWeights);
  std::map<std::string, std::vector<const WeightProduct*>> by_module;
  for (const WeightProduct& product : products) by_module[product.path.module].push_back(&product);
  std::map<std::string, std::pair<weights::StoredTensor, weights::StoredTensor>> found;
  file_.for_each([&](const weights::StoredTensor& stored) {
    const auto [module, is_a] = module_of(stored.name);
    const auto layers = by_module.find(module);
    if (layers == by_module.end())
      refuse_file(path, fmt::format("tensor '{}' belongs to no layer of this model: the adapters are another model's",
                                    stored.name));
    int64_t outputs = 0;
    for (const WeightProduct* layer : layers->second) outputs += layer->outputs;
    const Dims wanted = is_a ? Dims{rank, layers->second[0]->inputs} : Dims{outputs, rank};
    if (!is_float(stored.dtype) || !(stored.dims == wanted))
      refuse_file(path,
                  fmt::format("tensor '{}' is {}{} but with rank {} this model's layer takes f32{}: the adapters "
                              "are another model's",
                              stored.name, name_of(stored.dtype), to_string(stored.dims), rank, to_string(wanted)));
    (is_a ? found[module].first : found[module].second) = stored;
  });
  for (const auto& [module, pair] : found) {
    if (pair.first.name.empty() || pair.second.name.empty())
      refuse_file(path, fmt::format("'{}' has only one of lora_A and lora_B", module));
    for (const WeightProduct* layer : by_module[module])
      adapters_.emplace_back(layer->weight, StoredAdapter{pair.first, pair.second, layer->path.part * layer->outputs});
  }
}

const StoredAdapter* AdapterReader::find(const WeightProduct& product) const {
  for (const auto& [weight, adapter] : adapters_)
    if (weight == product.weight) return &adapter;
  return nullptr;
}

void AdapterReader::read(const weights::StoredTensor& tensor, int64_t first_row, int64_t rows,
                         std::vector<float>& numbers) const {
  const int64_t columns = tensor.dims[1];
  const Bytes row_bytes = columns * size_of(tensor.dtype);
  const kernels::LoadFn load = kernels::load_of(tensor.dtype);
  numbers.resize(static_cast<size_t>(rows * columns));
  std::vector<std::byte> row(static_cast<size_t>(round_up(row_bytes, kAlignment)));
  for (int64_t i = 0; i < rows; ++i) {
    file_.read(tensor.offset + (first_row + i) * row_bytes, row.data(), row_bytes);
    load(row.data(), numbers.data() + i * columns, static_cast<size_t>(columns));
  }
  if (!weights::is_finite(DType::F32, std::as_bytes(std::span(numbers))))
    throw Error(fmt::format("adapter tensor '{}' holds NaN or infinity", tensor.name), ErrorKind::BadNumbers);
}

void AdapterReader::read_a(const StoredAdapter& adapter, std::vector<float>& numbers) const {
  read(adapter.a, 0, rank_, numbers);
}
void AdapterReader::read_b(const StoredAdapter& adapter, int64_t outputs, std::vector<float>& numbers) const {
  read(adapter.b, adapter.first_row, outputs, numbers);
}

void load_adapter(session::Engine& session, Graph& graph, const ModelSpec& model, const std::string& folder) {
  const std::vector<WeightProduct> products = list_products(model);
  const AdaptOptions options = read_adapter(folder);
  const AdapterReader reader(folder, products, options.rank);
  session.open();
  const auto set = [&](const std::string& layer, std::string_view name, const std::vector<float>& stored,
                       int64_t rows) {
    const Tensor variable = graph.find(fmt::format("{}/{}/{}", model.name(), layer, name));
    const auto columns = static_cast<int64_t>(stored.size()) / rows;
    session.fill(variable, [&](void* into, Bytes, Bytes) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          static_cast<float*>(into)[c * rows + r] = stored[static_cast<size_t>(r * columns + c)];
    });
  };
  std::vector<float> numbers;
  for (const WeightProduct& product : products) {
    const StoredAdapter* adapter = reader.find(product);
    if (adapter == nullptr) continue;
    if (product.path.part == 0) {
      reader.read_a(*adapter, numbers);
      set(product.path.shared, kLoraA, numbers, options.rank);
    }
    reader.read_b(*adapter, product.outputs, numbers);
    set(product.path.own, kLoraB, numbers, product.outputs);
  }
}

namespace {

// A module with the adapters that the graph has of its layers, in the order of their outputs.
struct AdaptedModule {
  std::string name;
  int64_t inputs = 0, outputs = 0;
  std::vector<const WeightProduct*> layers;
};

std::vector<AdaptedModule> list_adapted(const Graph& graph, const std::string& model,
                                        const std::vector<WeightProduct>& products) {
  std::vector<AdaptedModule> modules;
  const auto has_adapter = [&](const WeightProduct& p) {
    return graph.has_value(fmt::format("{}/{}/{}", model, p.path.own, kLoraB));
  };
  for (const WeightProduct& product : products) {
    const auto of_module = [&](const WeightProduct& other) {
      return other.path.module == product.path.module && has_adapter(other);
    };
    if (std::none_of(products.begin(), products.end(), of_module)) continue;
    auto at =
        std::find_if(modules.begin(), modules.end(), [&](const auto& m) { return m.name == product.path.module; });
    if (at == modules.end()) at = modules.insert(at, {product.path.module, product.inputs, 0, {}});
    at->outputs += product.outputs;
    at->layers.push_back(&product);
  }
  for (AdaptedModule& module : modules)
    std::ranges::sort(module.layers, {}, [](const WeightProduct* p) { return p->path.part; });
  return modules;
}

// The last words of the modules' names; the whole names where a last word would match other layers too.
std::vector<std::string> name_targets(const std::vector<AdaptedModule>& modules,
                                      const std::vector<WeightProduct>& products) {
  std::set<std::string> short_names, whole_names;
  for (const AdaptedModule& module : modules) {
    whole_names.insert(module.name);
    short_names.insert(module.name.substr(module.name.find_last_of('.') + 1));
  }
  const bool is_exact = std::all_of(products.begin(), products.end(), [&](const WeightProduct& product) {
    const bool is_meant = short_names.contains(product.path.module.substr(product.path.module.find_last_of('.') + 1));
    return is_meant == whole_names.contains(product.path.module);
  });
  const std::set<std::string>& names = is_exact ? short_names : whole_names;
  return {names.begin(), names.end()};
}

void write_config(const std::string& path, const ModelSpec& model, const AdaptOptions& options,
                  const std::vector<std::string>& targets) {
  const std::string task = task_of(model.name());
  const Json json{{"peft_type", "LORA"},
                  {"task_type", task.empty() ? Json() : Json(task)},
                  {"base_model_name_or_path", model.name()},
                  {"r", options.rank},
                  {"lora_alpha", options.alpha},
                  {"lora_dropout", options.dropout},
                  {"bias", "none"},
                  {"fan_in_fan_out", has_transposed_weights(model.name())},
                  {"target_modules", targets},
                  {"modules_to_save", nullptr},
                  {"init_lora_weights", true},
                  {"inference_mode", true}};
  memory::OutputFile file(path);
  file.write(json.dump(2) + "\n");
  file.finish();
}

// The columns of a matrix, one after another.
void put_transposed(std::span<const float> matrix, int64_t rows, const weights::PutBytes& put) {
  const auto columns = static_cast<int64_t>(matrix.size()) / rows;
  std::vector<float> column(static_cast<size_t>(rows));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) column[static_cast<size_t>(r)] = matrix[static_cast<size_t>(r * columns + c)];
    put(std::as_bytes(std::span(column)));
  }
}

}  // namespace

void expect_room_for_adapter(const std::string& folder) {
  std::error_code failure;
  if (std::filesystem::exists(std::filesystem::symlink_status(folder, failure)) &&
      !std::filesystem::is_directory(folder, failure))
    throw Error(fmt::format("'{}' is a file; name a folder for the adapters", folder), ErrorKind::Usage);
  const std::string fault = memory::find_folder_fault(folder);
  if (!fault.empty())
    throw Error(fmt::format("adapters can't be written to '{}': {}; name another folder", folder, fault),
                ErrorKind::Usage);
  if (std::filesystem::exists(folder, failure)) memory::find_output_target(path_in(folder, kAdapterWeights));
}

void save_adapter(session::Engine& session, Graph& graph, const ModelSpec& model, const AdaptOptions& options,
                  const std::string& folder) {
  expect_room_for_adapter(folder);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw Error(fmt::format("folder '{}' can't be made: {}", folder, failure.message()), ErrorKind::Usage);
  const std::vector<WeightProduct> products = list_products(model);
  const std::vector<AdaptedModule> modules = list_adapted(graph, model.name(), products);
  std::vector<weights::StoredTensor> tensors;
  for (const AdaptedModule& module : modules) {
    tensors.push_back({tensor_name(module.name, true), DType::F32, {options.rank, module.inputs}});
    tensors.push_back({tensor_name(module.name, false), DType::F32, {module.outputs, options.rank}});
  }
  const auto put_variable = [&](const std::string& name, int64_t rows, const weights::PutBytes& put) {
    const std::span<const std::byte> bytes = session.peek(graph.find(name));
    if (!weights::is_finite(DType::F32, bytes))
      throw Error(fmt::format("'{}' holds NaN or infinity and is not saved", name), ErrorKind::BadNumbers);
    put_transposed({reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)}, rows, put);
  };
  const auto write = [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
    const auto [name, is_a] = module_of(tensor.name);
    const auto& module = *std::ranges::find(modules, name, &AdaptedModule::name);
    if (is_a)
      return put_variable(fmt::format("{}/{}/{}", model.name(), module.layers[0]->path.shared, kLoraA), module.inputs,
                          put);
    for (const WeightProduct* layer : module.layers) {
      const std::string b = fmt::format("{}/{}/{}", model.name(), layer->path.own, kLoraB);
      if (graph.has_value(b))
        put_variable(b, options.rank, put);
      else  // a layer without an adapter in a module that has one
        put_transposed(std::vector<float>(static_cast<size_t>(options.rank * layer->outputs)), options.rank, put);
    }
  };
  session.open();
  weights::write_weights_file(path_in(folder, kAdapterWeights), weights::list_of(tensors), write);
  write_config(path_in(folder, kAdapterConfig), model, options, name_targets(modules, products));
}

}  // namespace plimsoll::shrink

namespace plimsoll {

void save_adapter(const Model& model, const std::string& folder) {
  const std::shared_ptr<Model::State>& state = model.state();
  if (state == nullptr || state->adapters == nullptr)
    throw Error("the model has no adapters to save; make one that has by Model::adapt", ErrorKind::Usage);
  fit::Compiled& compiled = fit::compiled_of(model);
  const fit::Compiled::Turn turn(compiled);
  train::Training* const training = compiled.open_training();
  if (training == nullptr)
    throw Error(fmt::format("model '{}' has no adapters in memory; save them after fit, before release", state->name),
                ErrorKind::Usage);
  shrink::save_adapter(*training->session, training->graph, training->model, *state->adapters, folder);
}

Model load_adapter(const Model& model, const std::string& folder) {
  Model adapted = model.adapt(shrink::read_adapter(folder));
  fit::compiled_of(adapted).change_weights([folder](train::Training& training) {
    shrink::load_adapter(*training.session, training.graph, training.model, folder);
  });
  return adapted;
}

}  // namespace plimsoll
