#include "data/batches.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::data {
namespace {

// Long enough that a read costs more than its call, short enough for the second-level cache.

int64_t common_length(const std::vector<const Source*>& sources) {
  if (sources.empty()) throw Error("batches need at least one source", ErrorKind::Usage);
  for (const Source* source : sources)
    if (source->samples() != sources[0]->samples())
      throw Error(fmt::format("{} has {} samples but {} has {}; give files that belong together", source->name(),
                              source->samples(), sources[0]->name(), sources[0]->samples()),
                  ErrorKind::BadData);
  return sources[0]->samples();
}

}  // namespace

Batches::Batches(std::vector<const Source*> sources, BatchOptions options, MemoryLine& line)
    : sources_(std::move(sources)),
      options_(std::move(options)),
      samples_(common_length(sources_)),
      order_(samples_, options_.seed, 0) {
  if (options_.batch < 1)
    throw Error(fmt::format("a batch of {} makes no sense; give at least 1", options_.batch), ErrorKind::Usage);
  if (options_.drop_remainder && options_.batch > samples_)
    throw Error(fmt::format("{} has {} samples, fewer than a batch of {}, and remainders are dropped; give a smaller "
                            "batch",
                            sources_[0]->name(), samples_, options_.batch),
                ErrorKind::Usage);
  if (options_.conversions.empty()) options_.conversions.resize(sources_.size());
  if (options_.conversions.size() != sources_.size())
    throw Error(fmt::format("{} conversions for {} sources; give one for each or none", options_.conversions.size(),
                            sources_.size()),
                ErrorKind::Usage);
  for (size_t i = 0; i < sources_.size(); ++i) {
    // With room to spare for several batches of several sources.
    if (options_.batch > (MemoryLine::kUnlimited >> 20) / sources_[i]->sample_bytes() / 8)
      throw Error(fmt::format("a batch of {} is too large to count its bytes", options_.batch), ErrorKind::Usage);
    if (!options_.conversions[i]) continue;
    const std::string reason = why_not(sources_[i]->dtype(), *options_.conversions[i]);
    if (!reason.empty()) throw Error(fmt::format("{}: {}", sources_[i]->name(), reason), ErrorKind::Usage);
    // A sample is read whole, so the longest one must fit.
    staging_bytes_ = std::max({staging_bytes_, kStagingBytes, sources_[i]->sample_bytes()});
  }
  if (staging_bytes_ == 0) return;
  staging_held_ = line.reserve(Tag::Data, staging_bytes_);
  staging_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(staging_bytes_));
}

int64_t Batches::batches_per_epoch() const {
  return options_.drop_remainder ? samples_ / options_.batch : (samples_ - 1) / options_.batch + 1;
}

DType Batches::dtype(int source) const {
  const auto& conversion = options_.conversions[source];
  return conversion ? conversion->to : sources_[source]->dtype();
}

Bytes Batches::row_bytes(int source) const {
  return sources_[source]->sample_bytes() / size_of(sources_[source]->dtype()) * size_of(dtype(source));
}

void Batches::seek(const BatchState& state) {
  if (state.position < 0 || state.position > samples_ || state.epoch < 0)
    throw Error(fmt::format("cannot go on at sample {} of epoch {}: {} has {} samples; was this state saved with "
                            "another file?",
                            state.position, state.epoch, sources_[0]->name(), samples_),
                ErrorKind::Usage);
  options_.seed = state.seed;
  epoch_ = state.epoch;
  position_ = state.position;
  order_ = Permutation(samples_, state.seed, state.epoch);
}

int64_t Batches::next(std::span<void* const> into) {
  assert(into.size() == sources_.size());
  const int64_t rows = std::min(options_.batch, samples_ - position_);
  if (rows == 0 || (options_.drop_remainder && rows < options_.batch)) return 0;
  for (int64_t row = 0; row < rows;) {
    const int64_t first = sample_at(position_ + row);
    int64_t run = 1;
    while (row + run < rows && sample_at(position_ + row + run) == first + run) ++run;
    for (int i = 0; i < sources(); ++i) read_rows(i, first, run, static_cast<std::byte*>(into[i]) + row * row_bytes(i));
    row += run;
  }
  position_ += rows;
  return rows;
}

void Batches::read_rows(int source, int64_t first, int64_t count, std::byte* into) {
  const Source& from = *sources_[source];
  const auto& conversion = options_.conversions[source];
  if (!conversion) return from.read(first, count, into);
  const int64_t elements = from.sample_bytes() / size_of(from.dtype());
  const int64_t at_once = staging_bytes_ / from.sample_bytes();
  for (int64_t done = 0; done < count;) {
    const int64_t now = std::min(count - done, at_once);
    from.read(first + done, now, staging_.get());
    const auto misfit =
        convert(from.dtype(), staging_.get(), *conversion, into + done * row_bytes(source), now * elements);
    if (misfit)
      throw Error(fmt::format("{}: sample {} holds a number that does not fit into {}; ask for i64", from.name(),
                              first + done + *misfit / elements, name_of(conversion->to)),
                  ErrorKind::BadData);
    done += now;
  }
}

}  // namespace plimsoll::data
