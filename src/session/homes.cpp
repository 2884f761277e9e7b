#include "session/homes.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::session {

std::vector<Bytes> Homes::place_in_file(const plan::Problem& problem, const plan::Plan& plan, Bytes* file_bytes) {
  std::vector<Bytes> places(problem.buffers.size(), -1);
  Bytes end = 0;
  const auto place = [&](plan::BufferId id) {
    if (places[static_cast<size_t>(id)] >= 0) return;
    places[static_cast<size_t>(id)] = end;
    const int64_t samples = plan.micro_batches.empty() ? 1 : plan.micro_batches.front();
    end += round_up(placed_bytes(problem.buffers[static_cast<size_t>(id)], samples), kDiskBlock);
  };
  for (const plan::BufferId id : plan.stored) place(id);
  for (const plan::Action& step : plan.actions)
    if (is_transfer(problem, step)) place(moved_by(task_of(problem, plan, step)));
  *file_bytes = std::max(*file_bytes, end);
  return places;
}

Homes::Homes(const plan::Problem& problem, const plan::Plan& plan, std::byte* base, const std::string& folder,
             Bytes file_bytes)
    : base_(base), arena_places_(problem.buffers.size(), -1) {
  Bytes ignored = 0;
  file_places_ = place_in_file(problem, plan, &ignored);
  for (const plan::Buffer& buffer : problem.buffers) sizes_.push_back(placed_bytes(buffer, 0));
  for (const plan::Life& life : plan.lives)
    if (life.buffer != plan::kWorkspace &&
        problem.buffers[static_cast<size_t>(life.buffer)].kind == plan::BufferKind::Variable)
      arena_places_[static_cast<size_t>(life.buffer)] = life.offset;
  for (const plan::BufferId id : plan.stored) arena_places_[static_cast<size_t>(id)] = -1;
  if (file_bytes == 0) return;
  file_ = std::make_unique<memory::ScratchFile>(folder, file_bytes);
  transfers_ = std::make_unique<run::Transfers>(*file_);
}

bool Homes::is_resident(const lower::Port& port) const {
  for (int32_t tile = 0; tile < port.tiles; ++tile)
    if (arena_places_[static_cast<size_t>(port.buffer + tile)] < 0) return false;
  return true;
}

// Tiles follow each other without a gap, in memory and in the value.
template <class Move>
void Homes::for_each_tile(const lower::Port& port, const Move& move) {
  Bytes at = 0;
  for (int32_t tile = 0; tile < port.tiles; ++tile) {
    const auto id = static_cast<size_t>(port.buffer + tile);
    move(id, at, std::min(sizes_[id], port.type.bytes() - at));
    at += sizes_[id];
  }
  if (transfers_ == nullptr) return;
  transfers_->wait_all();
  transfers_->rethrow();
}

const std::byte* Homes::read(const lower::Port& port, std::byte* staging) {
  if (is_resident(port)) return base_ + arena_places_[static_cast<size_t>(port.buffer)];
  for_each_tile(port, [&](size_t id, Bytes at, Bytes bytes) {
    if (arena_places_[id] >= 0)
      std::memcpy(staging + at, base_ + arena_places_[id], static_cast<size_t>(bytes));
    else
      transfers_->start_read(file_places_[id], staging + at, bytes);
  });
  return staging;
}

std::byte* Homes::place(const lower::Port& port, std::byte* staging) {
  return is_resident(port) ? base_ + arena_places_[static_cast<size_t>(port.buffer)] : staging;
}

void Homes::write(const lower::Port& port, const std::byte* from) {
  if (is_resident(port)) return;
  for_each_tile(port, [&](size_t id, Bytes at, Bytes bytes) {
    if (arena_places_[id] >= 0)
      std::memcpy(base_ + arena_places_[id], from + at, static_cast<size_t>(bytes));
    else
      transfers_->start_write(file_places_[id], from + at, bytes);
  });
}

}  // namespace plimsoll::session
