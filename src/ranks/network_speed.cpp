#include "ranks/network_speed.h"

#include <algorithm>
#include <chrono>

namespace plimsoll::ranks {
namespace {

using Clock = std::chrono::steady_clock;

// The best of several: what else runs on the machine only makes it slower.
double time_exchange(Communicator& communicator, int peer, std::vector<std::byte>& send,
                     std::vector<std::byte>& receive, Bytes bytes) {
  constexpr int kTimes = 16;
  double best = 0;
  for (int i = 0; i < kTimes; ++i) {
    const Clock::time_point begin = Clock::now();
    communicator.exchange(peer, send.data(), bytes, receive.data(), bytes);
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    best = i == 0 ? ns : std::min(best, ns);
  }
  return best;
}

}  // namespace

NetworkSpeed measure_network(Communicator& communicator) {
  if (communicator.size() == 1) return {};
  constexpr Bytes kSmall = 64, kLarge = MiB;
  std::vector<std::byte> send(kLarge), receive(kLarge);
  double slowest[2] = {0, 0};
  // Pairs of a distance of one, two, four: all that sums are exchanged over.
  for (int distance = 1; distance < communicator.size(); distance *= 2) {
    const int peer = communicator.rank() ^ distance;
    if (peer < communicator.size()) {
      slowest[0] = std::max(slowest[0], time_exchange(communicator, peer, send, receive, kSmall));
      slowest[1] = std::max(slowest[1], time_exchange(communicator, peer, send, receive, kLarge));
    }
    communicator.meet();
  }
  std::vector<double> all(2 * static_cast<size_t>(communicator.size()));
  communicator.gather(std::as_bytes(std::span(slowest)), std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < all.size(); ++i) slowest[i % 2] = std::max(slowest[i % 2], all[i]);
  const double ns = std::max(1.0, slowest[1] - slowest[0]);
  return {static_cast<double>(kLarge) * 1e9 / ns, slowest[0]};
}

double predict_sum_ns(double bytes, int ranks, const NetworkSpeed& speed) {
  if (ranks <= 1 || speed.bytes_per_s <= 0) return 0;
  double messages = 0;
  for (int reached = 1; reached < ranks; reached *= 2) messages += 2;  // parts are added up, then gathered
  return messages * speed.message_ns + 2 * bytes * (ranks - 1) / ranks * 1e9 / speed.bytes_per_s;
}

double predict_message_ns(double bytes, const NetworkSpeed& speed) {
  return speed.bytes_per_s > 0 ? speed.message_ns + bytes * 1e9 / speed.bytes_per_s : 0;
}

}  // namespace plimsoll::ranks
