#include "cli/output_paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "checkpoints/run_directory.h"
#include "input/files/npz.h"
#include "input/image/image_files.h"
#include "input/opening/data_places.h"
#include "input/opening/detect.h"
#include "memory/output_file.h"
#include "ranks/launch.h"
#include "report/run_report.h"
#include "shrink/adapter_file.h"
#include "store/model_folder.h"
#include "train/spec.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

// Absolute and without links, whether or not it is there.
fs::path resolve(fs::path path) {
  std::error_code failure;
  constexpr int kMostLinks = 40;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, failure) && !fs::exists(path, failure); ++links)
    path = path.parent_path() / fs::read_symlink(path, failure);
  const fs::path found = fs::weakly_canonical(fs::absolute(path, failure), failure);
  const fs::path& whole = failure ? path : found;
  return whole.has_filename() ? whole : whole.parent_path();
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code failure;
  if (fs::equivalent(a, b, failure) && !failure) return true;
  return resolve(a) == resolve(b);
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const fs::path inner = resolve(path), outer = resolve(folder);
  return inner != outer && std::ranges::mismatch(outer, inner).in1 == outer.end();
}

bool is_input(const FlagPath& path) { return path.use == PathUse::Reads || path.use == PathUse::ReadsData; }

// A place that an output takes: a file, or a folder with all that is in it.
struct Claim {
  fs::path path;
  bool is_tree = false;
};

std::vector<Claim> claims_of(const FlagPath& output) {
  const fs::path path(output.path);
  switch (output.use) {
    case PathUse::WritesFile:
      return {{path}};
    case PathUse::WritesModel:
      return {{path, true}};
    case PathUse::WritesAdapters:
      return {{path / shrink::kAdapterWeights}, {path / shrink::kAdapterConfig}, {path}};
    case PathUse::WritesRun: {
      std::vector<Claim> claims;
      for (const char* name : report::kRunFiles) claims.push_back({path / name});
      for (const char* name : report::kRunFolders) claims.push_back({path / name, true});
      return claims;
    }
    case PathUse::Reads:
    case PathUse::ReadsData:
    case PathUse::None:
      break;
  }
  return {};
}

// The files and folders that are read of an input.
std::vector<std::string> paths_read(const FlagPath& input) {
  std::vector<std::string> paths{input.path};
  if (input.use == PathUse::ReadsData) {
    try {
      paths = input::list_data_paths(input.path);
    } catch (const Error&) {
      // Damaged data is reported when it is opened.
    }
  }
  for (std::string& path : paths)
    if (const auto member = input::split_npz_path(path)) path = member->first;
  return paths;
}

// A folder of data is read as far as its files are data of its kind: others may be written into it.
bool is_read_with(const fs::path& file, const fs::path& folder, bool is_data) {
  std::error_code failure;
  if (!fs::is_regular_file(file, failure) || !is_inside(file, folder)) return false;
  if (!is_data) return true;
  const input::DataKind kind = input::find_kind(folder.string());
  if (kind == input::DataKind::Images) return input::is_image_name(file.string());
  return input::find_kind(file.string()) == (kind == input::DataKind::Arrays ? input::DataKind::Array : kind);
}

bool replaces(const Claim& claim, const fs::path& input, bool is_data) {
  return is_same(claim.path, input) || (claim.is_tree && is_inside(input, claim.path)) ||
         is_read_with(claim.path, input, is_data);
}

bool collide(const Claim& a, const Claim& b) {
  return is_same(a.path, b.path) || (a.is_tree && is_inside(b.path, a.path)) ||
         (b.is_tree && is_inside(a.path, b.path));
}

// A device or a pipe takes what several write, and replaces nothing.
bool is_stream(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void check_input(const FlagPath& output, const FlagPath& input) {
  if (std::ranges::find(output.may_replace, std::string_view(input.name)) != output.may_replace.end() &&
      (output.use != PathUse::WritesFile || is_same(output.path, input.path)))
    return;
  const bool is_name = input.name == "model" && !train::is_model_path(input.path);
  if (is_name || is_stream(output.path)) return;
  std::vector<std::pair<Claim, std::string>> pairs;
  for (const std::string& read : paths_read(input))
    for (const Claim& claim : claims_of(output)) pairs.emplace_back(claim, read);
  std::error_code failure;
  for (const auto& [claim, read] : pairs)
    if (fs::exists(read, failure) && replaces(claim, read, input.use == PathUse::ReadsData))
      throw Error(fmt::format("{} '{}' would replace what is read: {} is '{}'; write it elsewhere", output.shown,
                              output.path, input.shown, input.path),
                  ErrorKind::Usage);
}

void check_other(const FlagPath& a, const FlagPath& b) {
  if (is_stream(a.path)) return;
  for (const Claim& one : claims_of(a))
    for (const Claim& other : claims_of(b))
      if (collide(one, other) || (a.use != b.use && is_same(a.path, b.path)))
        throw Error(fmt::format("{} '{}' and {} '{}' would be written over each other: give one of them another name",
                                a.shown, a.path, b.shown, b.path),
                    ErrorKind::Usage);
}

void expect_writable(const FlagPath& output) {
  if (output.use == PathUse::WritesFile) {
    memory::find_output_target(output.path);
  } else if (output.use == PathUse::WritesModel) {
    const store::ModelFolder begun(output.path);  // removes what it has made
  } else if (output.use == PathUse::WritesAdapters) {
    shrink::expect_room_for_adapter(output.path);
  }
}

}  // namespace

void check_paths(std::span<const FlagPath> paths) {
  // The first of several ranks writes; folders of others may lie elsewhere.
  const auto launch = ranks::find_launch([](const char* name) { return std::getenv(name); });
  const bool writes = !launch || launch->rank == 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (is_input(paths[i])) continue;
    for (const FlagPath& input : paths)
      if (is_input(input)) check_input(paths[i], input);
    for (size_t other = i + 1; other < paths.size(); ++other)
      if (!is_input(paths[other])) check_other(paths[i], paths[other]);
    if (writes) expect_writable(paths[i]);
  }
}

}  // namespace plimsoll::cli
