#include "train/spec.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "memory/process.h"
#include "model/model_state.h"
#include "store/model_file.h"

namespace plimsoll::train {
namespace {

constexpr Bytes kLeftFree = GiB;  // a full disk disturbs others
constexpr Bytes kSmallestScratchFile = MiB;

std::string describe_kind(const Optimiser& optimiser) {
  const double momentum = momentum_of(optimiser);
  return momentum > 0 ? fmt::format("{} with momentum {}", optimiser.name(), momentum) : std::string(optimiser.name());
}

}  // namespace

double momentum_of(const Optimiser& optimiser) { return optimiser.has("momentum") ? optimiser.get("momentum") : 0; }

bool is_model_path(const std::string& name) {
  const std::vector<std::string> built_in = model_names();
  if (name.empty() || std::ranges::find(built_in, name) != built_in.end()) return false;
  std::error_code ignored;
  return name.find_first_of("/.") != std::string::npos || std::filesystem::exists(name, ignored);
}

namespace {

ModelSpec find_or_read_model(const Spec& spec) {
  if (!spec.stored_model && !is_model_path(spec.model)) return find_model(spec.model, spec.model_options);
  if (spec.model_options != ModelOptions{})
    throw Error(fmt::format("'{}' is a stored model: its sizes and its dropout can't be set", spec.model),
                ErrorKind::Usage);
  return spec.stored_model ? spec.stored_model->spec : store::read_model(spec.model).spec;
}

}  // namespace

ModelSpec model_of(const Spec& spec) {
  if (spec.own_model) return *spec.own_model;
  ModelSpec found = find_or_read_model(spec);
  found.model.state()->weights->detach();  // each training of it has weights of its own
  return found;
}

memory::DefaultLine resolve_line(const Spec& spec) {
  if (spec.line > 0) return {spec.line, "as asked"};
  if (spec.own_line) return {spec.own_line->limit(), "as asked"};
  return memory::default_line(memory::gather_memory_facts());
}

ScratchRoom resolve_scratch(const Spec& spec) {
  const std::string& folder = spec.scratch_folder;
  if (folder.empty() || !spec.levers.spill) return {};
  const Bytes free = memory::available_disk_bytes(folder);
  if (memory::is_memory_backed(folder))
    throw Error(fmt::format("'{}' is a folder in memory (tmpfs): what is put aside there still takes memory; give a "
                            "scratch folder on a disk",
                            folder),
                ErrorKind::Usage);
  if (!spec.disk_limit.is_given()) {
    if (free > kLeftFree + kSmallestScratchFile) return {folder, free - kLeftFree};
    throw Error(fmt::format("'{}' has {} free, of which {} stay free; give another scratch folder, or a disk limit",
                            folder, format_bytes(free), format_bytes(kLeftFree)),
                ErrorKind::DiskFull);
  }
  const Bytes limit = spec.disk_limit.bytes > 0 ? spec.disk_limit.bytes
                                                : static_cast<Bytes>(spec.disk_limit.share * static_cast<double>(free));
  if (limit < kSmallestScratchFile)
    throw Error(
        fmt::format("a disk limit of {} is too small for a scratch file; give at least {}, or no scratch folder",
                    format_bytes(limit), format_bytes(kSmallestScratchFile)),
        ErrorKind::Usage);
  if (limit > free)
    throw Error(fmt::format("'{}' has {} free, less than the disk limit of {}; make room there, give another scratch "
                            "folder or a smaller disk limit",
                            folder, format_bytes(free), format_bytes(limit)),
                ErrorKind::DiskFull);
  return {folder, limit};
}

std::string describe_difference(const Spec& before, const Spec& after) {
  std::vector<std::string> changes;
  if (after.batch != before.batch) changes.push_back(fmt::format("batch {}", after.batch));
  if (after.finds_batch && !before.finds_batch) changes.emplace_back("the largest batch that fits");
  if (momentum_of(after.optimiser) != momentum_of(before.optimiser) ||
      after.optimiser.name() != before.optimiser.name())
    changes.push_back("optimiser " + describe_kind(after.optimiser));
  if (after.levers != before.levers || after.masks != before.masks)
    changes.emplace_back(after.levers == Levers{} && after.masks ? "every lever" : "other levers");
  if (after.split_ops != before.split_ops)
    changes.push_back(fmt::format("{} by micro-batch", fmt::join(after.split_ops, ", ")));
  if (after.policy != before.policy)
    changes.push_back(fmt::format("values in {}{}", name_of(after.policy.values),
                                  after.policy == Policy::stored_bfloat16() ? ", products in f32" : ""));
  if (after.freeze.type != before.freeze.type)
    changes.push_back(fmt::format("frozen weights in {}", name_of(after.freeze.type)));
  if (after.optimiser.state_bits != before.optimiser.state_bits)
    changes.push_back(fmt::format("optimiser state in {} bits", after.optimiser.state_bits));
  if (after.accumulate != before.accumulate)
    changes.push_back(fmt::format("an update for each {} batches", after.accumulate));
  if (after.scratch_folder != before.scratch_folder) changes.push_back("scratch folder " + after.scratch_folder);
  if (after.disk_limit != before.disk_limit)
    changes.push_back(after.disk_limit.share > 0 ? fmt::format("disk limit {:.0f} %", 100 * after.disk_limit.share)
                                                 : "disk limit " + format_bytes(after.disk_limit.bytes));
  if (after.line != before.line) changes.push_back("line " + line_text(after.line));
  return fmt::format("{}", fmt::join(changes, ", "));
}

}  // namespace plimsoll::train
