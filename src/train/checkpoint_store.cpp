#include "train/checkpoint_store.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "base/random.h"
#include "memory/file.h"
#include "ranks/agreement.h"
#include "train/data_names.h"
#include "train/pipeline_weights.h"
#include "weights/weights_file.h"
#include "weights/weights_parts.h"

namespace plimsoll::train {
namespace {

using weights::WeightsPart;

constexpr const char* kManifest = "manifest.json";
constexpr Bytes kLargestManifest = 64 * MiB;
constexpr const char* kHistory = "history.jsonl";
constexpr size_t kLongestLine = MiB;  // of the history: thousands of metrics are shorter

struct StoredPart {
  const char* name;
  WeightsPart part;
};
constexpr StoredPart kParts[] = {{"weights.safetensors", WeightsPart::Model},
                                 {"optimiser.safetensors", WeightsPart::Optimiser}};

// Ranks write what they hold, each in a file of its own; the first one names all of them in the manifest.
int parts_of(const Training& training) {
  const bool saves_together = !training.first_rank_saves || training.place.stages > 1;
  return training.spec.communicator && saves_together ? training.spec.communicator->size() : 1;
}
bool writes_manifest(const Training& training) {
  return !training.spec.communicator || training.spec.communicator->rank() == 0;
}

std::string path_in(const std::string& folder, const std::string& name) { return folder + "/" + name; }

bool changes_sums(const graph::Body& body, const graph::Node& node) {
  const std::span<const ValueId> inputs = body.inputs(node);
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((node.op->traits.updates >> i & 1) != 0 && body.variable_of(inputs[i]).role() == VariableRole::Gradient)
      return true;
  return false;
}

// The attributes of a node, except the one that says how ranks share a variable.
std::string settings_of(const graph::Body& body, const graph::Node& node) {
  graph::Attrs settings = body.attrs(node);
  settings.erase("slices");
  return to_string(settings);
}

// Operators, their settings and what they read: another graph computes other numbers from the same variables. How many
// sums of gradients a rank keeps depends on how many ranks there are, and says nothing about the step.
std::string hash_of(const Graph& graph) {
  const graph::Body& body = graph.body();
  uint64_t hash = 0;
  bool has_sums = false;
  const auto add = [&](uint64_t more) { hash = mix_bits(hash, more); };
  for (const graph::Node& node : body.nodes()) {
    const bool is_sum = changes_sums(body, node);
    has_sums = has_sums || is_sum;
    if (is_sum) continue;
    add(hash_text(node.op->name));
    add(hash_text(settings_of(body, node)));
    if (has_sums) continue;  // ids of values from here on depend on the number of sums
    for (const ValueId input : body.inputs(node)) add(static_cast<uint64_t>(input));
  }
  for (const graph::Value& value : body.values())
    if (!has_sums) add(hash_text(to_string(value.type)));
  for (const graph::Constant& constant : body.constants()) add(crc32c({constant.bytes.data(), constant.bytes.size()}));
  return fmt::format("{:016x}", hash);
}

// The operators that update by the learning rate: "adam".
std::string optimiser_of(const Training& training) {
  const graph::Body& body = training.graph.body();
  std::set<std::string_view> names;
  for (const NodeId node : training.passes.updates.nodes)
    for (const ValueId input : body.inputs(body.node(node)))
      if (input == training.passes.learning_rate.id()) names.insert(body.node(node).op->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// The variables of a part that this rank writes; `elsewhere`: those that another stage of a pipeline writes.
weights::TensorList list_own_part(const Training& training, WeightsPart part, const std::set<std::string>& elsewhere) {
  if (!training.place.is_set())
    return weights::list_part(training.graph, part, training.slices, *training.spec.communicator);
  return [&training, part, &elsewhere](const weights::VisitTensor& visit) {
    weights::list_variables(training.graph, part)([&](const weights::StoredTensor& tensor) {
      if (!elsewhere.contains(tensor.name)) visit(tensor);
    });
  };
}

// What this rank writes of a part: all of it, or a file of its own.
memory::CheckedFile save_part(Training& training, const std::string& folder, const StoredPart& part,
                              const std::set<std::string>& elsewhere) {
  ranks::Communicator* const others = parts_of(training) > 1 ? training.spec.communicator.get() : nullptr;
  memory::CheckedFile file{others != nullptr ? weights::part_path(part.name, others->rank(), others->size())
                                             : part.name};
  const auto watch = [&](std::span<const std::byte> bytes) {
    file.bytes += static_cast<Bytes>(bytes.size());
    file.checksum = crc32c(bytes, file.checksum);
  };
  const weights::SaveOptions options{
      .part = part.part, .watch = watch, .data_names = data_names_text(training.model), .slices = &training.slices};
  const std::string path = path_in(folder, file.name);
  if (others != nullptr)
    weights::save_part(*training.session, training.graph, path, options, list_own_part(training, part.part, elsewhere));
  else
    weights::save_weights(*training.session, training.graph, path, options);
  return file;
}

std::string to_line(const memory::CheckedFile& file) {
  return fmt::format("{} {} {}\n", file.bytes, file.checksum, file.name);
}

// Files of all ranks, part by part.
std::vector<memory::CheckedFile> gather_files(ranks::Communicator& communicator,
                                              const std::vector<memory::CheckedFile>& mine) {
  std::string lines;
  for (const memory::CheckedFile& file : mine) lines += to_line(file);
  std::vector<memory::CheckedFile> all(mine.size() * static_cast<size_t>(communicator.size()));
  size_t rank = 0;
  for (const std::string& text : communicator.gather_texts(lines)) {
    std::istringstream words(text);
    for (size_t part = 0; part < mine.size(); ++part) {
      memory::CheckedFile& file = all[part * static_cast<size_t>(communicator.size()) + rank];
      words >> file.bytes >> file.checksum >> file.name;
    }
    ++rank;
  }
  return all;
}

// Epoch by epoch: a long history is held once.
memory::CheckedFile save_history(std::span<const EpochLog> history, const std::string& folder) {
  memory::CheckedFile file{kHistory};
  memory::OutputFile output(path_in(folder, kHistory));
  for (const EpochLog& epoch : history) {
    const std::string line = history_line(epoch) + '\n';
    file.bytes += static_cast<Bytes>(line.size());
    file.checksum = crc32c(std::as_bytes(std::span(line)), file.checksum);
    output.write(line);
  }
  output.finish();
  return file;
}

std::vector<EpochLog> read_history(const std::string& folder) {
  const std::string path = path_in(folder, kHistory);
  const memory::File file = memory::File::open(path);
  std::vector<EpochLog> history;
  std::array<char, 16 * KiB> piece;
  std::string line;
  for (Bytes at = 0, got = 1; got > 0; at += got) {
    got = file.read_some(at, std::ssize(piece), piece.data(), path);
    for (const char c : std::string_view(piece.data(), static_cast<size_t>(got))) {
      if (c != '\n') {
        line += c;
        if (line.size() > kLongestLine)
          throw Error(fmt::format("'{}' is no history of a training: a line has no end", path), ErrorKind::BadData);
        continue;
      }
      history.push_back(parse_history_line(line, path));
      line.clear();
    }
  }
  return history;
}

// In pieces: a file may be larger than memory.
void expect_whole(const std::string& folder, const memory::CheckedFile& expected) {
  const std::string path = path_in(folder, expected.name);
  const memory::File file = memory::File::open(path);
  if (const Bytes bytes = file.size(); bytes != expected.bytes)
    throw Error(fmt::format("'{}' has {} bytes, not {}", path, bytes, expected.bytes), ErrorKind::BadData);
  std::array<std::byte, 64 * KiB> piece;
  uint32_t checksum = 0;
  for (Bytes at = 0; at < expected.bytes;) {
    const Bytes wanted = std::min<Bytes>(piece.size(), expected.bytes - at);
    const Bytes got = file.read_some(at, wanted, piece.data(), path);
    if (got == 0) break;
    checksum = crc32c({piece.data(), static_cast<size_t>(got)}, checksum);
    at += got;
  }
  if (checksum != expected.checksum)
    throw Error(fmt::format("'{}' is damaged: its checksum is {:08x}, not {:08x}", path, checksum, expected.checksum),
                ErrorKind::BadData);
}

CheckpointManifest read_manifest(const std::string& folder) {
  const std::string path = path_in(folder, kManifest);
  const memory::File file = memory::File::open(path);
  const Bytes bytes = file.size();
  if (bytes > kLargestManifest)
    throw Error(fmt::format("'{}' has {}, too much for a manifest", path, format_bytes(bytes)), ErrorKind::BadData);
  std::string text(static_cast<size_t>(bytes), '\0');
  text.resize(static_cast<size_t>(file.read_some(0, bytes, text.data(), path)));
  return parse_manifest(text, path);
}

// Files of the weights, and of the optimiser: one for each rank that wrote the checkpoint.
int parts_of(const CheckpointManifest& manifest) {
  return std::max(1, static_cast<int>(manifest.files.size() / std::size(kParts)));
}

// A manifest whose files are there as they were written.
CheckpointManifest read_whole(const std::string& folder) {
  CheckpointManifest manifest = read_manifest(folder);
  const int parts = parts_of(manifest);
  std::vector<std::string> names;
  for (const StoredPart& part : kParts)
    for (int rank = 0; rank < parts; ++rank) names.push_back(weights::part_path(part.name, rank, parts));
  names.emplace_back(kHistory);
  if (manifest.files.size() != names.size())
    throw Error(fmt::format("'{}' lists {} files, not {}", folder, manifest.files.size(), names.size()),
                ErrorKind::BadData);
  for (size_t i = 0; i < names.size(); ++i) {
    if (manifest.files[i].name != names[i])
      throw Error(fmt::format("'{}' lists no {}", folder, names[i]), ErrorKind::BadData);
    expect_whole(folder, manifest.files[i]);
  }
  manifest.run.history = read_history(folder);
  return manifest;
}

// An estimate: stages of a pipeline on other ranks are taken to have as much state for their weights as this one.
Bytes checkpoint_bytes(const Training& training) {
  const auto bytes_of = [&](const Graph& graph, WeightsPart part) {
    return weights::weights_file_bytes(graph, part, &training.slices);
  };
  const Bytes weights = bytes_of(training.graph, WeightsPart::Model);
  const Bytes all = bytes_of(training.whole_graph(), WeightsPart::Model);
  const double times = static_cast<double>(all) / static_cast<double>(std::max<Bytes>(1, weights));
  const Bytes state = bytes_of(training.graph, WeightsPart::Optimiser);
  return all + static_cast<Bytes>(std::max(1.0, times) * static_cast<double>(state));
}

void expect_same_facts(const CheckpointFacts& stored, const CheckpointFacts& here, const std::string& path) {
  std::vector<std::string> differences;
  for (size_t i = 0; i < here.size(); ++i) {
    const std::string there = i < stored.size() && stored[i].first == here[i].first ? stored[i].second : "unknown";
    if (there != here[i].second)
      differences.push_back(fmt::format("its {} is {}, here it is {}", here[i].first, there, here[i].second));
  }
  if (differences.empty()) return;
  throw Error(fmt::format("checkpoint '{}' is of another training: {}; give the options it was made with", path,
                          fmt::join(differences, "; ")),
              ErrorKind::Usage);
}

void load_variables(Training& training, const std::string& folder, int parts) {
  for (const StoredPart& part : kParts)
    weights::load_weights(*training.session, training.graph, path_in(folder, weights::part_path(part.name, 0, parts)),
                          {.part = part.part, .slices = &training.slices});
}

std::string name_last(const std::vector<CheckpointPlace>& places) {
  return places.empty() ? "there is none so far" : fmt::format("the last one is '{}'", places.back().path);
}

}  // namespace

std::string hash_of_step(const Graph& graph) { return hash_of(graph); }

CheckpointFacts checkpoint_facts(const Training& training) {
  const auto yes_or_no = [](bool is_so) { return is_so ? "yes" : "no"; };
  CheckpointFacts facts{{"model", training.model.name()},
                        {"number of weights", std::to_string(count_weights(training))},
                        {"batch", std::to_string(training.spec.batch)},
                        {"optimiser", optimiser_of(training)},
                        {"type of stored values", std::string(name_of(training.changes.values))},
                        {"type of frozen weights", std::string(name_of(training.changes.frozen))},
                        {"number of batches for each update", std::to_string(training.spec.accumulate)},
                        {"split batch norm", yes_or_no(training.changes.splits_the_norm)},
                        {"step (operators and their settings)",
                         training.step_hash.empty() ? hash_of_step(training.whole_graph()) : training.step_hash}};
  if (training.shared.synchronises_norms) facts.emplace_back("synchronised batch norm", "yes");
  if (training.place.is_set())
    facts.emplace_back("number of micro-batches", std::to_string(training.place.micro_batches));
  if (training.shards.is_fixed) facts.emplace_back("number of shards", std::to_string(training.shards.total));
  return facts;
}

std::string find_newest_weights(const std::string& folder) {
  std::vector<CheckpointPlace> places = list_checkpoints(folder);
  std::ranges::reverse(places);
  std::string fault;
  for (const CheckpointPlace& place : places) {
    try {
      const int parts = parts_of(read_whole(place.path));
      return path_in(place.path, weights::part_path(kParts[0].name, 0, parts));
    } catch (const Error& e) {
      if (fault.empty()) fault = fmt::format(": {}", e.what());
    }
  }
  throw Error(fmt::format("'{}' holds no checkpoint that is whole{}", folder, fault), ErrorKind::BadData);
}

void CheckpointStore::open(const Training& training) {
  if (keep_ < 1) throw Error(fmt::format("{} checkpoints can't be kept; keep 1 or more", keep_), ErrorKind::Usage);
  folder_.reset();  // first: it holds the lock
  is_open_ = true;
  if (!writes_manifest(training)) return;
  folder_ = std::make_unique<CheckpointFolder>(path_);
  weights::expect_disk_room(fmt::format("a checkpoint in '{}'", path_), path_, checkpoint_bytes(training));
}

CheckpointPlace CheckpointStore::save(Training& training, const RunState& run, std::span<const EpochLog> history) {
  if (!is_open_) throw Error(fmt::format("the checkpoints in '{}' are not open for writing", path_));
  const int64_t steps = training.session->step_count();
  CheckpointPlace place;
  try {
    std::string folder = folder_ ? folder_->begin() : "";
    if (parts_of(training) > 1) folder = training.spec.communicator->gather_texts(folder).front();
    CheckpointManifest manifest{steps, checkpoint_facts(training), run, {}};
    const std::set<std::string> elsewhere =
        training.place.stages > 1 ? list_held_before(training) : std::set<std::string>();
    // The files of all ranks are on the disk before the manifest names them.
    ranks::run_together(parts_of(training) > 1 ? training.spec.communicator.get() : nullptr, [&] {
      for (const StoredPart& part : kParts) manifest.files.push_back(save_part(training, folder, part, elsewhere));
      return std::string("has written its part");
    });
    if (parts_of(training) > 1) manifest.files = gather_files(*training.spec.communicator, manifest.files);
    if (folder_) {
      manifest.files.push_back(save_history(history, folder));
      memory::OutputFile file(path_in(folder, kManifest));
      file.write(manifest_text(manifest));
      file.finish();
      place = folder_->place(steps);
    }
    if (parts_of(training) > 1) training.spec.communicator->meet();
  } catch (const Error& e) {
    if (folder_) folder_->abandon();
    const std::string text =
        fmt::format("no checkpoint is written at step {}: {}; {}", steps, e.what(), name_last(list()));
    if (dynamic_cast<const ranks::AgreedError*>(&e) != nullptr) throw ranks::AgreedError(text, e.kind());
    throw Error(text, e.kind());
  }
  if (folder_) folder_->keep_newest(keep_);
  return place;
}

void load_checkpoint(Training& training, const std::string& path) {
  load_variables(training, path, parts_of(read_manifest(path)));
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(Training& training) const {
  std::vector<std::string> damaged;
  std::vector<CheckpointPlace> places = list();
  std::ranges::reverse(places);  // the newest first
  for (const CheckpointPlace& place : places) {
    CheckpointManifest manifest;
    try {
      manifest = read_whole(place.path);
    } catch (const Error& e) {
      damaged.push_back(fmt::format("checkpoint '{}' is passed over: {}", place.path, e.what()));
      continue;
    }
    expect_same_facts(manifest.facts, checkpoint_facts(training), place.path);
    load_variables(training, place.path, parts_of(manifest));
    return LoadedCheckpoint{place, std::move(manifest.run), std::move(damaged)};
  }
  if (damaged.empty()) return std::nullopt;
  throw Error(fmt::format("no checkpoint in '{}' is whole; {}", path_, damaged.front()), ErrorKind::BadData);
}

}  // namespace plimsoll::train
