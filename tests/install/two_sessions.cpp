// Two sessions on one line for the process: each byte is counted once, and what is planned first is held.
#include "net.h"

using namespace plimsoll;

int main() {
  MemoryLine line = MemoryLine::process("64MiB");
  Net first(10'000), second(10'000);
  Net third(40'000);
  Session one(first.graph, line), two(second.graph, line);
  Step of_one = one.step(first.step()), of_two = two.step(second.step());
  const Bytes arenas = one.arena_bytes() + two.arena_bytes();
  // Both arenas are held although none is open, so a third that would need the same bytes is refused now.
  bool is_refused = false;
  Bytes deficit = -1;
  try {
    Session three(third.graph, line);
    three.step(third.step());
  } catch (const DoesNotFit& e) {
    is_refused = true;
    deficit = e.refusal().deficit();
  }
  for (int i = 0; i < 20; ++i) {
    first.run(of_one);
    second.run(of_two);
  }
  line.measure_process();
  const bool is_counted_once = line.used() <= arenas + 20 * MiB;
  const Bytes used = line.used();
  one.close();
  const bool is_given_back = used - line.used() >= one.arena_bytes();
  return report(is_refused && deficit > 0 && is_counted_once && is_given_back && peak_resident_bytes() <= line.limit(),
                "two sessions on one line went wrong");
}
