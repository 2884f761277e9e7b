// All variables of an Eager in a file, and back.
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "eager/engine.h"
#include "weights/file_weights.h"
#include "weights/finite.h"
#include "weights/weights_writer.h"

namespace plimsoll::eager {
namespace {

// Where random numbers stand: the serial of the recording, how many values were made of numbers, and how many draws.
using Counts = std::array<int64_t, 3>;
constexpr const char* kCounts = "eager/counts";
const TensorType kCountsType{DType::I64, {3}};

}  // namespace

void EagerEngine::save(const std::string& path) {
  expect_thread();
  flush();
  std::vector<weights::StoredTensor> tensors{{kCounts, DType::I64, {3}}};
  for (const StoredVariable& stored : recording_.store()->variables())
    tensors.push_back({stored.name, stored.type.dtype, at_batch(stored.type.shape, 1)});
  const auto write = [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
    if (tensor.name == kCounts) {
      const Counts counts{serial_, values_made_, draws_};
      return put(std::as_bytes(std::span(counts)));
    }
    EagerValue& value = variable_value(*recording_.store()->find(tensor.name));
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(read(value)),
                                           static_cast<size_t>(value.bytes));
    if (!weights::is_finite(tensor.dtype, bytes))
      throw Error(fmt::format("'{}' holds NaN or infinity and is not saved", tensor.name), ErrorKind::BadNumbers);
    put(bytes);
  };
  weights::write_weights_file(path, weights::list_of(tensors), write, {.steps = serial_});
}

void EagerEngine::load(const std::string& path) {
  expect_thread();
  if (open_tapes_ > 0) throw Error("Eager::load changes variables that an open Tape may read; end the tape before");
  const auto file = std::make_shared<const weights::FileWeights>(path);
  if (!file->offers(kCounts, kCountsType))
    throw Error(
        fmt::format("'{}' was not written by Eager::save; Model::load_weights reads the weights of a model", path),
        ErrorKind::BadData);
  for (const StoredVariable& stored : recording_.store()->variables())
    if (!file->offers(stored.name, stored.type))
      throw Error(fmt::format("'{}' has no variable '{}': it was saved by other code", path, stored.name),
                  ErrorKind::BadData);
  flush();
  weights_.restore_from(file);
  for (const StoredVariable& stored : recording_.store()->variables()) {
    EagerValue& value = variable_value(stored);
    if (stored.weight != nullptr)
      weights_.restore(value);
    else
      lose(value);
  }
  Counts counts{};
  file->read_all({kCounts, DType::I64, {3}}, [&](std::span<const std::byte> piece) {
    if (piece.size() == sizeof(counts)) std::memcpy(counts.data(), piece.data(), piece.size());
  });
  for (EagerValue* value : store_.values()) value->recording = -1;  // none is in the recording that begins now
  serial_ = counts[0];
  values_made_ = counts[1];
  draws_ = first_draw_ = counts[2];
}

}  // namespace plimsoll::eager
