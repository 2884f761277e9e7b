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
      Session session(net.graph, line, {net.step()});
      const float first = net.run(session);
      float last = first;
      for (int step = 0; step < 20; ++step) last = net.run(session);
      if (last < first) ++done;
    });
  for (std::thread& thread : threads) thread.join();

  Net net(20'000);
  Session session(net.graph, line, {net.step()});
  net.run(session);
  std::atomic<int> refused = 0;
  std::atomic<bool> go = false;
  std::thread other([&] {
    while (!go) std::this_thread::yield();
    for (int i = 0; i < 50; ++i) try {
        net.run(session);
      } catch (const Error&) {
        ++refused;
      }
  });
  go = true;
  for (int i = 0; i < 50; ++i) try {
      net.run(session);
    } catch (const Error&) {
      ++refused;
    }
  other.join();
  return report(done == 4 && refused > 0 && peak_resident_bytes() <= line.limit(), "threads went wrong");
}
