#include "forecast/exchange_watch.h"

#include <algorithm>
#include <array>

namespace plimsoll::forecast {

ExchangeWatch::ExchangeWatch(const train::Training& training) : training_(training), begin_(now(training)) {}

// The computation always waits for gathers between steps, so they count as exposed.
ExchangeWatch::Counters ExchangeWatch::now(const train::Training& training) {
  Counters counters;
  const run::Exchanges* const exchanges = training.session->exchanges();
  if (!training.spec.communicator || exchanges == nullptr) return counters;
  const auto gathered = static_cast<double>(training.spec.communicator->gathered_ns());
  counters.sent_bytes = static_cast<double>(training.spec.communicator->sent_bytes());
  counters.busy_ns = static_cast<double>(exchanges->busy_ns()) + gathered;
  counters.exposed_ns = static_cast<double>(exchanges->waited_ns()) + gathered;
  return counters;
}

std::optional<report::ExchangeFacts> ExchangeWatch::count(int64_t steps) const {
  if (!training_.spec.communicator || training_.spec.communicator->size() == 1 || steps <= 0) return std::nullopt;
  const Counters end = now(training_);
  const auto number = static_cast<double>(steps);
  const std::array mine{(end.sent_bytes - begin_.sent_bytes) / number, (end.busy_ns - begin_.busy_ns) / number,
                        (end.exposed_ns - begin_.exposed_ns) / number,
                        std::chrono::duration<double, std::nano>(Clock::now() - began_).count() / number};
  std::vector<double> all(mine.size() * static_cast<size_t>(training_.spec.communicator->size()));
  training_.spec.communicator->gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::array most = mine;
  for (size_t i = 0; i < all.size(); ++i) most[i % most.size()] = std::max(most[i % most.size()], all[i]);
  return report::ExchangeFacts{training_.spec.communicator->size(),
                               steps,
                               most[0],
                               most[1],
                               most[2],
                               most[3],
                               training_.spec.network.bytes_per_s,
                               training_.spec.network.message_ns};
}

}  // namespace plimsoll::forecast
