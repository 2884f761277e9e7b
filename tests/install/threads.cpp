// Four threads with a session each on one line for the process, and one session that two threads want at once.
#include <atomic>
#include <thread>

#include "net.h"

using namespace plimsoll;

int main() {
  MemoryLine line = MemoryLine::process("96MiB");
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Net net(5'000);
      Session session(net.graph, line);
      Step train = session.step(net.step());
      const float first = net.run(train);
      float last = first;
      for (int i = 0; i < 20; ++i) last = net.run(train);
      if (last < first) ++done;
    });
  for (std::thread& thread : threads) thread.join();

  Net net(20'000);
  Session session(net.graph, line);
  Step step = session.step(net.step());
  net.run(step);
  std::atomic<int> refused = 0;
  std::atomic<bool> go = false;
  std::thread other([&] {
    while (!go) std::this_thread::yield();
    for (int i = 0; i < 50; ++i) try {
        net.run(step);
      } catch (const Error&) {
        ++refused;
      }
  });
  go = true;
  for (int i = 0; i < 50; ++i) try {
      net.run(step);
    } catch (const Error&) {
      ++refused;
    }
  other.join();
  return report(done == 4 && refused > 0 && peak_resident_bytes() <= line.limit(), "threads went wrong");
}
