// How the threads of an operator wait for each other at its end. Spinning is fastest while each thread has a processor.
// Where other processes want the processors, a spinning thread takes time from the thread that it waits for.
#pragma once

#include <cstdint>

namespace plimsoll::run {

// Judges from the time that threads waited for a processor whether the machine is busy.
class BusyJudge {
 public:
  // `waited_ns`: of all threads together, since they began. Called again and again, with clocks that go on.
  bool update(int64_t waited_ns, int64_t now_ns);
  bool is_busy() const { return is_busy_; }

 private:
  // On an idle machine threads wait 3 to 4 % of a second in a second; beside one process that computes, 50 to 100 %.
  static constexpr double kBusyAbove = 0.25, kIdleBelow = 0.12;

  int64_t waited_ns_ = -1, at_ns_ = 0;
  bool is_busy_ = false;
};

// How long all threads of this process were ready to run and had no processor; -1 where the kernel does not say.
int64_t waited_for_processors_ns() noexcept;

// To be called before each run: costs a coarse clock, and 20 times a second a look at the threads. On a busy machine
// the threads of OpenMP sleep soon from then on, until it is idle again. Does nothing where OMP_WAIT_POLICY or
// GOMP_SPINCOUNT says how they wait.
void look_at_processors() noexcept;

// What the last look found.
bool threads_sleep_soon() noexcept;

}  // namespace plimsoll::run
