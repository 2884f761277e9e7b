// Where variables live between steps: in the arena, or in the scratch file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lower/program.h"
#include "plan/plan.h"
#include "run/executor.h"

namespace plimsoll::session {

class Homes {
 public:
  // What the line must hold for a scratch file beside the arena.
  static constexpr Bytes kBytes = memory::ScratchFile::kStagingBytes + run::Transfers::kBytes;

  // Offsets in the file of all that a plan moves: stored variables first, then spilled values.
  static std::vector<Bytes> place_in_file(const plan::Problem& problem, const plan::Plan& plan, Bytes* file_bytes);

  Homes() = default;
  // `plan` is one of the session's: variables are at the same places in all. Makes the file when a plan needs one.
  Homes(const plan::Problem& problem, const plan::Plan& plan, std::byte* base, const std::string& folder,
        Bytes file_bytes);

  run::Transfers* transfers() { return transfers_.get(); }

  // The variable as its kernels see it: in its place, or read into `staging` from the file.
  const std::byte* read(const lower::Port& port, std::byte* staging);
  // Where a new value is to be written: in the arena, or `staging`, from where `write` puts it into the file.
  std::byte* place(const lower::Port& port, std::byte* staging);
  void write(const lower::Port& port, const std::byte* from);

  bool is_resident(const lower::Port& port) const;
  Bytes arena_place(plan::BufferId buffer) const { return arena_places_[static_cast<size_t>(buffer)]; }

 private:
  template <class Move>
  void for_each_tile(const lower::Port& port, const Move& move);

  std::byte* base_ = nullptr;
  std::vector<Bytes> sizes_, arena_places_, file_places_;  // by buffer; offset -1: it is not there
  std::unique_ptr<memory::ScratchFile> file_;
  std::unique_ptr<run::Transfers> transfers_;
};

}  // namespace plimsoll::session
