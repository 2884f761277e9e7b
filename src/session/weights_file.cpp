#include "session/weights_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "memory/process.h"
#include "ops/elementwise.h"

namespace plimsoll {
namespace {

constexpr Bytes kLargestHeader = 100 * MiB;  // the format's own limit

constexpr Bytes kHeaderAllowance = MiB;

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

constexpr std::array<std::pair<DType, std::string_view>, 8> kNames{{{DType::F32, "F32"},
                                                                    {DType::F16, "F16"},
                                                                    {DType::BF16, "BF16"},
                                                                    {DType::I32, "I32"},
                                                                    {DType::I64, "I64"},
                                                                    {DType::U8, "U8"},
                                                                    {DType::I8, "I8"},
                                                                    {DType::Bool, "BOOL"}}};

std::string_view stored_name(DType dtype) {
  for (const auto& [type, name] : kNames)
    if (type == dtype) return name;
  return "?";
}

class File {
 public:
  File(const std::string& path, int flags) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw Error(fmt::format("'{}' can't be opened: {}", path, std::strerror(errno)), ErrorKind::BadData);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Bytes size() const { return static_cast<Bytes>(std::filesystem::file_size(path_)); }

  void read(Bytes offset, void* into, Bytes bytes) const {
    auto* at = static_cast<char*>(into);
    while (bytes > 0) {
      const ssize_t got = ::pread(fd_, at, static_cast<size_t>(bytes), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        throw Error(fmt::format("'{}' ends at byte {}, {} bytes too early: it is truncated", path_, offset, bytes),
                    ErrorKind::BadData);
      at += got;
      offset += got;
      bytes -= got;
    }
  }

  void write(const void* from, Bytes bytes) const {
    const auto* at = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t put = ::write(fd_, at, static_cast<size_t>(bytes));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) fail_writing();
      at += put;
      bytes -= put;
    }
  }

  void sync() const {
    if (::fsync(fd_) != 0) fail_writing();
  }

  [[noreturn]] void fail_writing() const {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    throw Error(fmt::format("'{}' can't be written: {}{}", path_, std::strerror(errno),
                            full ? "; free some space or save elsewhere" : ""),
                full ? ErrorKind::DiskFull : ErrorKind::General);
  }

 private:
  std::string path_;
  int fd_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(fmt::format("'{}' is no weights file (safetensors): {}", path, why), ErrorKind::BadData);
}

constexpr const char* kMetadata = "__metadata__";  // safetensors: names and texts
constexpr const char* kSteps = "steps";

struct Header {
  std::vector<StoredTensor> tensors;  // by offset
  int64_t steps = 0;                  // of training; 0 in files of others
};

int64_t read_steps(const std::string& path, const nlohmann::json& metadata) {
  if (!metadata.is_object() || !metadata.contains(kSteps)) return 0;
  const auto& text = metadata[kSteps];
  int64_t steps = -1;
  if (text.is_string()) {
    const auto& digits = text.get_ref<const std::string&>();
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), steps);
    if (status != std::errc() || end != digits.data() + digits.size()) steps = -1;
  }
  if (steps < 0) refuse(path, "its number of training steps is damaged");
  return steps;
}

Header read_header(const std::string& path, const File& file) {
  const Bytes size = file.size();
  uint64_t header_bytes = 0;
  if (size < 8) refuse(path, fmt::format("it has only {} bytes", size));
  file.read(0, &header_bytes, 8);
  if (header_bytes > static_cast<uint64_t>(kLargestHeader) || static_cast<Bytes>(header_bytes) > size - 8)
    refuse(path, fmt::format("its header would be {} bytes long but the file has {}", header_bytes, size));
  std::string text(header_bytes, '\0');
  file.read(8, text.data(), static_cast<Bytes>(header_bytes));
  const auto header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) refuse(path, "its header is not a JSON object");
  const Bytes begin = 8 + static_cast<Bytes>(header_bytes);
  Header found;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      found.steps = read_steps(path, entry);
      continue;
    }
    try {
      StoredTensor tensor{name, DType::F32, Dims::from(entry.at("shape").get<std::vector<int64_t>>()), 0, 0};
      const auto stored = entry.at("dtype").get<std::string>();
      const auto known = std::find_if(kNames.begin(), kNames.end(), [&](const auto& n) { return n.second == stored; });
      if (known == kNames.end()) refuse(path, fmt::format("tensor '{}' has the unknown type {}", name, stored));
      tensor.dtype = known->first;
      const auto offsets = entry.at("data_offsets").get<std::array<int64_t, 2>>();
      tensor.offset = begin + offsets[0];
      tensor.bytes = offsets[1] - offsets[0];
      if (offsets[0] < 0 || tensor.bytes != element_count(tensor.dims) * size_of(tensor.dtype) ||
          tensor.offset + tensor.bytes > size)
        refuse(path, fmt::format("tensor '{}' {} does not lie within the file ({} bytes): it is truncated or damaged",
                                 name, to_string(tensor.dims), size));
      found.tensors.push_back(std::move(tensor));
    } catch (const nlohmann::json::exception&) {
      refuse(path, fmt::format("the entry of tensor '{}' is damaged", name));
    }
  }
  std::sort(found.tensors.begin(), found.tensors.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return found;
}

// Floats of one width into those of another: the optimiser's state may be kept in 16 bits now and not then, or the
// other way round.
void read_converted(const File& file, const StoredTensor& stored, DType dtype, void* into) {
  constexpr int64_t kAtOnce = 4096;
  alignas(kAlignment) std::byte narrow[kAtOnce * sizeof(float)];
  alignas(kAlignment) float wide[kAtOnce];
  const LoadFn load = load_of(stored.dtype);
  const StoreFn store = store_of(dtype);
  const int64_t all = element_count(stored.dims);
  for (int64_t first = 0; first < all; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, all - first);
    file.read(stored.offset + first * size_of(stored.dtype), narrow, count * size_of(stored.dtype));
    load(narrow, wide, static_cast<size_t>(count));
    store(wide, static_cast<std::byte*>(into) + first * size_of(dtype), static_cast<size_t>(count));
  }
}

// Removed unless renamed: a failed save leaves nothing behind.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void rename_to(const std::string& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0)
      throw Error(fmt::format("'{}' can't be replaced: {}", target, std::strerror(errno)));
    renamed_ = true;
  }

 private:
  std::string path_;
  bool renamed_ = false;
};

}  // namespace

Bytes bytes_for_weights_file(const Graph& graph, bool loads) {
  constexpr Bytes kBuffers = 256 * KiB, kEntry = 128;
  return kBuffers + (loads ? kEntry * std::ssize(graph.variables()) : 0);
}

std::vector<StoredTensor> list_weights(const std::string& path) {
  return read_header(path, File(path, O_RDONLY)).tensors;
}

void expect_room_for_weights(const Graph& graph, const std::string& path) {
  const std::string folder = folder_of(path);
  if (!std::filesystem::is_directory(folder))
    throw Error(fmt::format("'{}' can't be written: '{}' is no folder", path, folder), ErrorKind::Usage);
  if (::access(folder.c_str(), W_OK) != 0)
    throw Error(fmt::format("'{}' can't be written: {}", path, std::strerror(errno)), ErrorKind::Usage);
  Bytes bytes = kHeaderAllowance;
  for (const Variable& variable : graph.variables()) {
    const TensorType& type = graph.value(variable.value).type;
    bytes += element_count(type.shape).fixed() * size_of(type.dtype);
  }
  if (const Bytes free = available_disk_bytes(folder); free < bytes)
    throw Error(fmt::format("'{}' needs {} but '{}' has {} free; free some space or save elsewhere", path,
                            format_bytes(bytes), folder, format_bytes(free)),
                ErrorKind::DiskFull);
}

void save_weights(Session& session, Graph& graph, const std::string& path) {
  nlohmann::ordered_json header;
  header[kMetadata] = {{kSteps, std::to_string(session.step_count())}};
  Bytes offset = 0;
  for (const Variable& variable : graph.variables()) {
    const TensorType& type = graph.value(variable.value).type;
    const Dims dims = at_batch(type.shape, 1);
    const Bytes bytes = element_count(dims) * size_of(type.dtype);
    header[std::string(graph.name(graph.value(variable.value)))] = {
        {"dtype", std::string(stored_name(type.dtype))},
        {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
        {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(round_up(static_cast<Bytes>(text.size()) + 8, kAlignment) - 8), ' ');

  TemporaryFile temporary(fmt::format("{}.{}.tmp", path, ::getpid()));
  {
    const File file(temporary.path(), O_WRONLY | O_CREAT | O_TRUNC);
    const auto header_bytes = static_cast<uint64_t>(text.size());
    file.write(&header_bytes, 8);
    file.write(text.data(), static_cast<Bytes>(text.size()));
    for (const Variable& variable : graph.variables()) {
      const std::span<const std::byte> bytes = session.peek({graph, variable.value});
      file.write(bytes.data(), static_cast<Bytes>(bytes.size()));
    }
    file.sync();
  }
  temporary.rename_to(path);
  File(folder_of(path), O_RDONLY | O_DIRECTORY).sync();
}

void load_weights(Session& session, Graph& graph, const std::string& path) {
  const File file(path, O_RDONLY);
  const auto [tensors, steps] = read_header(path, file);
  session.set_step_count(steps);
  for (const Variable& variable : graph.variables()) {
    const TensorType& type = graph.value(variable.value).type;
    const std::string name(graph.name(graph.value(variable.value)));
    const auto stored = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    if (stored == tensors.end()) {
      if (variable.role == VariableRole::Optimiser) continue;
      throw Error(fmt::format("'{}' has no tensor '{}': it belongs to another model", path, name), ErrorKind::BadData);
    }
    const bool converts = variable.role == VariableRole::Optimiser && is_float(stored->dtype) && is_float(type.dtype);
    if ((stored->dtype != type.dtype && !converts) || !(stored->dims == at_batch(type.shape, 1)))
      throw Error(fmt::format("'{}': tensor '{}' is {}{} but the model has {}", path, name, name_of(stored->dtype),
                              to_string(stored->dims), to_string(type)),
                  ErrorKind::BadData);
    session.fill({graph, variable.value}, [&](void* into, Bytes bytes) {
      if (stored->dtype == type.dtype)
        file.read(stored->offset, into, bytes);
      else
        read_converted(file, *stored, type.dtype, into);
    });
  }
}

}  // namespace plimsoll
