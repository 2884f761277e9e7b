#include "plan/search/waists.h"

#include <algorithm>
#include <limits>

namespace plimsoll::plan {
namespace {

constexpr size_t kNear = 32;    // gaps to either side with which a place is compared
constexpr double kAlike = 1.5;  // times the fewest bytes there
constexpr Bytes kClosed = std::numeric_limits<Bytes>::max() / 4;

// By stage: bytes of values made there or before and used after it, before the peak. A stage crossed by a value that is
// not alive at the peak is closed: that value would have to be recomputed for what comes after it.
std::vector<Bytes> find_crossing(const Drops& drops, std::span<const Gap> gaps, int32_t peak) {
  const auto stages = static_cast<size_t>(drops.stages());
  std::vector<Bytes> crossing(stages + 1, 0);
  std::vector<int32_t> closed(stages + 1, 0);
  std::vector<bool> is_kept(static_cast<size_t>(drops.buffers()), false);
  for (const Gap& gap : gaps) is_kept[gap.id] = true;
  for (BufferId id = 0; id < drops.buffers(); ++id) {
    if (!drops.is_remakeable(id) || !drops.has_inputs(id)) continue;
    const int32_t made = drops.maker_of(id);
    int32_t last = made;
    for (const Need& need : drops.needs(id))
      if (need.stage < peak) last = std::max(last, need.stage);
    if (made >= peak || last == made) continue;
    crossing[made] += drops.size_of(id);
    crossing[last] -= drops.size_of(id);
    if (is_kept[id]) continue;
    ++closed[made];
    --closed[last];
  }
  for (size_t s = 1; s < crossing.size(); ++s) {
    crossing[s] += crossing[s - 1];
    closed[s] += closed[s - 1];
  }
  for (size_t s = 0; s < crossing.size(); ++s)
    if (closed[s] > 0) crossing[s] = kClosed;
  return crossing;
}

}  // namespace

bool crosses(const Drops& drops, std::span<const Gap> gaps, const Gap& value, size_t position) {
  return position < gaps.size() && drops.has_inputs(value.id) && value.before >= drops.maker_of(gaps[position].id);
}

std::vector<size_t> find_waists(const Drops& drops, std::span<const Gap> gaps, int32_t peak) {
  const std::vector<Bytes> by_stage = find_crossing(drops, gaps, peak);
  std::vector<Bytes> crossing(gaps.size(), kClosed);
  for (size_t i = 1; i < gaps.size(); ++i)
    if (const int32_t made = drops.maker_of(gaps[i].id); made > drops.maker_of(gaps[i - 1].id))
      crossing[i] = by_stage[made - 1];
  std::vector<size_t> waists{0};
  for (size_t i = 1; i < gaps.size(); ++i) {
    const auto first = crossing.begin() + static_cast<ptrdiff_t>(i - std::min(i, kNear));
    const auto end = crossing.begin() + static_cast<ptrdiff_t>(std::min(i + kNear + 1, gaps.size()));
    const auto fewest = static_cast<double>(*std::min_element(first, end));
    if (crossing[i] < kClosed && static_cast<double>(crossing[i]) <= kAlike * fewest) waists.push_back(i);
  }
  if (!gaps.empty()) waists.push_back(gaps.size());
  return waists;
}

}  // namespace plimsoll::plan
