// A range of addresses whose first bytes are made usable, and resident, on demand.
#pragma once

#include <cstddef>

#include <plimsoll/types.h>

namespace plimsoll::memory {

//   data()            committed()              maximum()
//     |  touched pages     |   addresses only       |
class Arena {
 public:
  // Takes addresses, no memory. From 4 MiB on, the start lies on a huge page and huge pages are asked for.
  explicit Arena(Bytes maximum);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  // Makes the first `bytes` usable and touches each page, so that missing memory shows here and not in a step.
  // Throws Error(DoesNotFit) and stays as it was. Fewer bytes than are committed change nothing.
  void commit(Bytes bytes);

  // Gives every page back and keeps the addresses.
  void release() noexcept;

  std::byte* data() const { return data_; }
  Bytes committed() const { return committed_; }  // a multiple of kPage; exactly what is resident
  Bytes maximum() const { return maximum_; }

  static constexpr Bytes kPage = 4 * KiB;

 private:
  std::byte* mapping_ = nullptr;
  Bytes mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  Bytes committed_ = 0;
  Bytes maximum_ = 0;
};

// Physical memory and swap together: nobody can commit more.
Bytes machine_memory_bytes();

}  // namespace plimsoll::memory
