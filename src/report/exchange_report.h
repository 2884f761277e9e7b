// What ranks sent each other while they trained, and how much of that time the computation did not hide.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace plimsoll::report {

// Means over steps; each number is the largest of all ranks.
struct ExchangeFacts {
  int ranks = 1;
  int64_t steps = 0;
  double sent_bytes = 0;                   // by one rank in a step
  double busy_ns = 0;                      // that exchanges take, beside the computation
  double exposed_ns = 0;                   // that the computation waits for other ranks
  double step_ns = 0;                      // of a whole step; 0: not measured
  double bytes_per_s = 0, message_ns = 0;  // of the network, as it was measured when the ranks met
};

// "ranks   2 · a rank sends 44.6 MiB a step · exchanges take 31 ms of it, not hidden 4 ms (1.2 % of a step)"
std::string exchange_text(const ExchangeFacts& facts);
nlohmann::json exchange_json(const ExchangeFacts& facts);

}  // namespace plimsoll::report
