#include "ranks/network_speed.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "kernels/sum_over_ranks.h"

namespace plimsoll::ranks {
namespace {

using Clock = std::chrono::steady_clock;

// The fastest of several rows of exchanges, as a mean over the row. The fastest, because other programs only make it
// slower; a mean, because a single exchange looks too fast when the other rank's message is already there.
double time_exchange(Communicator& communicator, int peer, std::vector<std::byte>& send,
                     std::vector<std::byte>& receive, Bytes bytes) {
  constexpr int kRows = 4, kTimes = 4;
  double best = 0;
  for (int row = 0; row < kRows; ++row) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kTimes; ++i) communicator.exchange(peer, send.data(), bytes, receive.data(), bytes);
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kTimes;
    best = row == 0 ? ns : std::min(best, ns);
  }
  return best;
}

constexpr double kUsualMessageNs = 50'000;  // unless given: TCP in a local network

struct Quantity {
  double number;
  std::string unit;
};
Quantity split_quantity(const std::string& text) {
  Quantity found{-1, {}};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), found.number);
  if (status != std::errc() || !std::isfinite(found.number)) return {-1, {}};
  found.unit.assign(end, text.data() + text.size());
  return found;
}

struct Unit {
  std::string_view name;
  double value;
};
constexpr Unit kSpeedUnits[] = {{"Tb/s", 1e12 / 8},  {"Gb/s", 1e9 / 8},    {"Mb/s", 1e6 / 8},   {"Tbit/s", 1e12 / 8},
                                {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8},  {"TB/s", 1e12},      {"GB/s", 1e9},
                                {"MB/s", 1e6},       {"GiB/s", 1.0 * GiB}, {"MiB/s", 1.0 * MiB}};
constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

// 0: there is no such unit.
double find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return unit.value;
  return 0;
}

}  // namespace

NetworkSpeed measure_network(Communicator& communicator) {
  if (communicator.size() == 1) return {};
  constexpr Bytes kSmall = 64, kLarge = MiB;
  std::vector<std::byte> send(kLarge), receive(kLarge);
  double slowest[2] = {0, 0};
  // Pairs at distances of one, two, four and so on: those that exchange when sums are taken.
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

NetworkSpeed parse_network(const std::string& text) {
  const auto refuse = [&] {
    throw Error(fmt::format("'{}' is no speed of a network; give it as 10Gb/s or 1.25GB/s, with the time of a message "
                            "as 10Gb/s,50us",
                            text),
                ErrorKind::Usage);
  };
  const size_t comma = text.find(',');
  const Quantity speed = split_quantity(text.substr(0, comma));
  const double bytes_per_unit = find_unit(kSpeedUnits, speed.unit);
  NetworkSpeed found{speed.number * bytes_per_unit, kUsualMessageNs};
  if (!(found.bytes_per_s > 0)) refuse();
  if (comma == std::string::npos) return found;
  const Quantity time = split_quantity(text.substr(comma + 1));
  found.message_ns = time.number * find_unit(kTimeUnits, time.unit);
  if (!(found.message_ns >= 0) || find_unit(kTimeUnits, time.unit) <= 0) refuse();
  return found;
}

std::string to_text(const NetworkSpeed& speed) {
  const double bits = 8 * speed.bytes_per_s;
  const std::string rate =
      bits >= 1e9 ? fmt::format("{:.4g} Gb/s", bits / 1e9) : fmt::format("{:.4g} Mb/s", bits / 1e6);
  return fmt::format("{}, {:.4g} us a message", rate, speed.message_ns / 1e3);
}

double half_sum_bytes(double bytes, int ranks) { return ranks <= 1 ? 0 : bytes * (ranks - 1) / ranks; }

double predict_half_sum_ns(double bytes, int ranks, const NetworkSpeed& speed) {
  if (ranks <= 1 || speed.bytes_per_s <= 0) return 0;
  double messages = 0;
  for (int reached = 1; reached < ranks; reached *= 2) messages += 1;
  // The receive buffer bounds how much is exchanged at once.
  const double pieces = std::max(1.0, std::ceil(bytes / static_cast<double>(kernels::kMostReceived * sizeof(float))));
  return pieces * messages * speed.message_ns + half_sum_bytes(bytes, ranks) * 1e9 / speed.bytes_per_s;
}

double predict_sum_ns(double bytes, int ranks, const NetworkSpeed& speed) {
  return 2 * predict_half_sum_ns(bytes, ranks, speed);
}

double predict_message_ns(double bytes, const NetworkSpeed& speed) {
  return speed.bytes_per_s > 0 ? speed.message_ns + bytes * 1e9 / speed.bytes_per_s : 0;
}

}  // namespace plimsoll::ranks
