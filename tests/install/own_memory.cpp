// A host program with memory of its own: what it holds before planning is planned around, what it takes later is
// noticed and named.
#include <cstring>
#include <memory>
#include <string>

#include "net.h"

using namespace plimsoll;

int main() {
  const auto take = [](Bytes bytes) {
    auto memory = std::make_unique<char[]>(static_cast<size_t>(bytes));
    std::memset(memory.get(), 1, static_cast<size_t>(bytes));
    return memory;
  };
  const auto before = take(16 * MiB);
  MemoryLine line = MemoryLine::process("64MiB");
  const bool is_counted = line.process_bytes() >= 16 * MiB;
  Net net(10'000);
  Session session(net.graph, line);
  Step step = session.step(net.step());
  net.run(step);
  const auto little = take(2 * MiB);  // within what the line has left
  net.run(step);
  const Bytes peak = peak_resident_bytes();
  std::string said;
  if (std::getenv("PLIMSOLL_TAKES_TOO_MUCH") != nullptr) {
    const auto much = take(40 * MiB);
    try {
      net.run(step);
    } catch (const DoesNotFit& e) {
      said = e.what();
    }
    return report(said.find("that this line did not know of") != std::string::npos, "the host's bytes went unnoticed");
  }
  return report(is_counted && before[5] == 1 && little[5] == 1 && peak <= line.limit(), "the line was passed");
}
