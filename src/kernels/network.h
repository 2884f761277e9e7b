// What the exchanges of a step need of the other ranks: messages from and into memory that was planned.
#pragma once

#include <plimsoll/types.h>

namespace plimsoll::kernels {

class Network {
 public:
  virtual ~Network() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Sends to a rank and receives from it at once; either may be nothing. Both ranks call it, with sizes that match.
  // False: it failed, now or before, and all that follow fail at once.
  virtual bool exchange(int peer, const void* send, Bytes send_bytes, void* receive, Bytes receive_bytes) noexcept = 0;
};

}  // namespace plimsoll::kernels
