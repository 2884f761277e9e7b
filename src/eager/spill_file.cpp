#include "eager/spill_file.h"

#include <algorithm>

#include "memory/kept_facts.h"
#include "memory/process.h"

namespace plimsoll::eager {
namespace {

constexpr Bytes kLeftOnDisk = GiB;

Bytes in_blocks(Bytes bytes) { return round_up(bytes, memory::ScratchFile::kBlock); }

}  // namespace

SpillFile::SpillFile(const MemoryLine& line, std::string folder, Bytes most_bytes)
    : line_(line), folder_(std::move(folder)), most_bytes_(most_bytes) {
  if (folder_.empty()) return;
  speed_ = memory::kept_disk_speed(folder_, most_bytes_).speed;
  // Reserved from the start: when a value must leave memory, there is no room left for staging.
  staging_ = line_.reserve(Tag::Staging, memory::ScratchFile::kStagingBytes);
}

void SpillFile::open() {
  const Bytes available = memory::available_disk_bytes(folder_) - kLeftOnDisk;
  const Bytes bytes = std::max(std::min(most_bytes_, available), memory::ScratchFile::kBlock);
  file_ = std::make_unique<memory::ScratchFile>(folder_, bytes);
  staging_.set_resident(staging_.bytes());
  free_.emplace(0, file_->bytes());
}

Bytes SpillFile::write(const std::byte* from, Bytes bytes) {
  if (file_ == nullptr) open();
  const Bytes wanted = in_blocks(bytes);
  const auto fit = std::find_if(free_.begin(), free_.end(), [&](const auto& gap) { return gap.second >= wanted; });
  is_full_ = fit == free_.end();
  if (is_full_) return -1;
  const Bytes place = fit->first, rest = fit->second - wanted;
  file_->write(place, from, bytes);
  free_.erase(fit);
  if (rest > 0) free_.emplace(place + wanted, rest);
  return place;
}

void SpillFile::read(Bytes place, std::byte* into, Bytes bytes) { file_->read(place, into, bytes); }

void SpillFile::free(Bytes place, Bytes bytes) noexcept {
  is_full_ = false;
  auto at = free_.emplace(place, in_blocks(bytes)).first;
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_.erase(at);
}

double SpillFile::ns_of(Bytes bytes) const {
  return 1e9 * static_cast<double>(bytes) * (1 / speed_.read_bytes_per_s + 1 / speed_.write_bytes_per_s);
}

}  // namespace plimsoll::eager
