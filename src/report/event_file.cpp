#include "report/event_file.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/crc32c.h"

namespace plimsoll::report {
namespace {

// Fields of tensorflow.Event and of the messages in it (tensorboard/compat/proto/{event,summary,tensor}.proto).
namespace field {
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5, kEventSessionLog = 7;
constexpr uint32_t kSessionStatus = 1;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1, kValueNumber = 2, kValueHistogram = 5, kValueTensor = 8, kValueMetadata = 9;
constexpr uint32_t kMetadataPlugin = 1, kPluginName = 1;
constexpr uint32_t kTensorType = 1, kTensorShape = 2, kTensorString = 8, kShapeDim = 2, kDimSize = 1;
constexpr uint32_t kHistogramMin = 1, kHistogramMax = 2, kHistogramNumbers = 3, kHistogramSum = 4;
constexpr uint32_t kHistogramSquares = 5, kHistogramLimits = 6, kHistogramCounts = 7;
}  // namespace field
constexpr uint64_t kSessionStarts = 1;  // SessionLog.START
constexpr uint64_t kStringType = 7;     // DT_STRING

// Writes the wire format of protocol buffers.
class Message {
 public:
  const std::string& bytes() const { return bytes_; }

  void put_number(uint32_t number, uint64_t value) {
    put_key(number, 0);
    put_varint(value);
  }
  void put_double(uint32_t number, double value) {
    put_key(number, 1);
    put_raw(value);
  }
  void put_float(uint32_t number, float value) {
    put_key(number, 5);
    put_raw(value);
  }
  void put_bytes(uint32_t number, std::string_view bytes) {
    put_key(number, 2);
    put_varint(bytes.size());
    bytes_ += bytes;
  }
  template <class Number>
  void put_raw(Number value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }

 private:
  void put_key(uint32_t number, uint32_t type) { put_varint(number << 3 | type); }
  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string record_of(std::string_view data) {
  Message length;
  length.put_raw(static_cast<uint64_t>(data.size()));
  const auto sum = [](std::string_view bytes) { return masked_crc32c(std::as_bytes(std::span(bytes))); };
  Message record;
  record.put_raw(static_cast<uint64_t>(data.size()));
  record.put_raw(sum(length.bytes()));
  Message end;
  end.put_raw(sum(data));
  return record.bytes() + std::string(data) + end.bytes();
}

// Names like events.out.tfevents.1700000000.plimsoll.4711.0: TensorBoard reads files of a folder in this order.
std::string make_name(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw Error(fmt::format("folder '{}' can't be made: {}; give another one", folder, failure.message()),
                ErrorKind::Usage);
  const auto seconds = static_cast<int64_t>(now());
  for (int number = 0;; ++number) {
    std::string path = fmt::format("{}/events.out.tfevents.{:010}.plimsoll.{}.{}", folder, seconds, ::getpid(), number);
    if (!std::filesystem::exists(path, failure)) return path;
  }
}

// Cuts between characters of UTF-8, never within one.
std::string_view cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

std::string summary_of(std::string_view tag, const std::function<void(Message&)>& put_value) {
  Message value;
  value.put_bytes(field::kValueTag, tag);
  put_value(value);
  Message summary;
  summary.put_bytes(field::kSummaryValue, value.bytes());
  Message event;
  event.put_bytes(field::kEventSummary, summary.bytes());
  return event.bytes();
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::optional<int64_t> resumed_after)
    : file_(make_name(folder), memory::AppendFile::Content::Kept) {
  Message version;
  version.put_bytes(field::kEventFileVersion, "brain.Event:2");
  add_event(0, version.bytes());
  if (resumed_after) {
    // Makes TensorBoard drop what it has read of this and later steps.
    Message status, log;
    status.put_number(field::kSessionStatus, kSessionStarts);
    log.put_bytes(field::kEventSessionLog, status.bytes());
    add_event(*resumed_after + 1, log.bytes());
  }
  flush();
}

void EventFile::add_event(int64_t step, std::string_view rest) {
  Message event;
  event.put_double(field::kEventWallTime, now());
  event.put_number(field::kEventStep, static_cast<uint64_t>(step));
  file_.append(record_of(event.bytes() + std::string(rest)));
}

void EventFile::add_scalar(std::string_view tag, int64_t step, double value) {
  add_event(step, summary_of(tag, [&](Message& to) { to.put_float(field::kValueNumber, static_cast<float>(value)); }));
}

void EventFile::add_histogram(std::string_view tag, int64_t step, const Histogram& histogram) {
  Message limits, counts, all;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    limits.put_raw(histogram.limit(i));
    counts.put_raw(histogram.bucket(i));
  }
  all.put_double(field::kHistogramMin, histogram.smallest());
  all.put_double(field::kHistogramMax, histogram.largest());
  all.put_double(field::kHistogramNumbers, histogram.numbers());
  all.put_double(field::kHistogramSum, histogram.sum());
  all.put_double(field::kHistogramSquares, histogram.sum_of_squares());
  all.put_bytes(field::kHistogramLimits, limits.bytes());
  all.put_bytes(field::kHistogramCounts, counts.bytes());
  add_event(step, summary_of(tag, [&](Message& to) { to.put_bytes(field::kValueHistogram, all.bytes()); }));
}

void EventFile::add_text(std::string_view tag, int64_t step, std::string_view text) {
  const std::string_view kept = cut_text(text, kLongestText);
  std::string shown(kept);
  if (kept.size() < text.size()) shown += fmt::format("\n... and {} bytes more", text.size() - kept.size());
  Message dim, shape, tensor, plugin, metadata;
  dim.put_number(field::kDimSize, 1);
  shape.put_bytes(field::kShapeDim, dim.bytes());
  tensor.put_number(field::kTensorType, kStringType);
  tensor.put_bytes(field::kTensorShape, shape.bytes());
  tensor.put_bytes(field::kTensorString, shown);
  plugin.put_bytes(field::kPluginName, "text");
  metadata.put_bytes(field::kMetadataPlugin, plugin.bytes());
  add_event(step, summary_of(tag, [&](Message& to) {
              to.put_bytes(field::kValueTensor, tensor.bytes());
              to.put_bytes(field::kValueMetadata, metadata.bytes());
            }));
}

}  // namespace plimsoll::report
