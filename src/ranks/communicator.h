// Ranks that train together: messages between them, what they agree on, and how one that fails ends all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/error.h>
#include "kernels/network.h"

namespace plimsoll::ranks {

constexpr std::chrono::milliseconds kDefaultTimeout{300'000};

// The end of one rank, through which it exchanges messages with the others. For one thread at a time.
class Communicator : public kernels::Network {
 public:
  int rank() const noexcept final { return rank_; }
  int size() const noexcept final { return size_; }
  virtual const char* noun() const noexcept { return "rank"; }  // what one of them is called in messages
  bool exchange(int peer, const void* send, Bytes send_bytes, void* receive, Bytes receive_bytes) noexcept final;

  // Every rank gives `mine` bytes of the same number; `all` holds those of all ranks in order afterwards. Throws Error
  // when a rank does not answer.
  void gather(std::span<const std::byte> mine, std::span<std::byte> all);
  // A text of every rank, which may differ in length.
  std::vector<std::string> gather_texts(const std::string& mine);
  // Every rank gets what the first one has. Throws Error when a rank does not answer.
  void broadcast(std::span<std::byte> bytes);
  // Returns when all ranks have called it.
  void meet();

  // Throws the Error of the first exchange that failed.
  void expect_good() const;
  bool has_failed() const noexcept { return failure_ != nullptr; }

  // Ends all ranks because this one failed, with its message and exit code. May not return.
  virtual void abort(const std::string& message, int exit_code) noexcept = 0;
  // The same for a program that goes on: the others throw this error when they wait for a message next.
  virtual void announce(const std::string& message, int exit_code) noexcept { abort(message, exit_code); }

  Bytes sent_bytes() const noexcept { return sent_bytes_; }
  int64_t gathered_ns() const noexcept { return gathered_ns_; }  // time spent in gather

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  void set_failed(std::exception_ptr failure) { failure_ = std::move(failure); }
  // Throws Error that names the rank which does not answer in time.
  virtual void transfer(int peer, const void* send, Bytes send_bytes, void* receive, Bytes receive_bytes) = 0;

 private:
  const int rank_, size_;
  std::exception_ptr failure_;
  Bytes sent_bytes_ = 0;
  int64_t gathered_ns_ = 0;
};

// A single rank without others.
std::shared_ptr<Communicator> make_alone();

// Ranks that are threads of this process and exchange by copying; one for each thread.
std::vector<std::shared_ptr<Communicator>> make_replicas(int count,
                                                         std::chrono::milliseconds timeout = kDefaultTimeout);

// The first of so many ranks that do not exist: what trains with them can be planned and priced, never run.
std::shared_ptr<Communicator> make_on_paper(int count);

// The rank that this process is among those that mpirun or srun started. Throws Error(Usage) where the program was
// built without MPI, and says what to do. Once `is_end_asked` returns true, waiting for a message ends soon: the rank
// that should send it may have ended already.
std::shared_ptr<Communicator> open_mpi(std::chrono::milliseconds timeout = kDefaultTimeout,
                                       const std::function<bool()>& is_end_asked = {});
// Whether open_mpi finds what it needs.
bool has_mpi();

}  // namespace plimsoll::ranks
