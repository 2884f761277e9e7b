#include "graph/model_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/element.h"
#include "graph/init.h"

namespace plimsoll::graph {
namespace {

// Initial values: a formula of a seed and the name of a variable.
class InitialNumbers final : public WeightSource {
 public:
  explicit InitialNumbers(uint64_t seed) : seed_(seed) {}
  uint64_t seed() const { return seed_; }

  bool offers(std::string_view /*name*/, const TensorType& /*type*/) const override { return true; }

  void read(std::string_view name, const ModelWeight& weight, Bytes at, std::span<std::byte> into) const override {
    const DType dtype = weight.type().dtype;
    const Bytes size = size_of(dtype);
    const auto count = static_cast<int64_t>(into.size()) / size;
    if (dtype == DType::F32)
      return graph::fill(weight.init(), seed_, name, at / size, count, reinterpret_cast<float*>(into.data()));
    const auto value =
        weight.init().kind == Init::Kind::Constant ? element_bytes(dtype, weight.init().a) : std::nullopt;
    if (!value)
      throw Error(fmt::format("variable '{}' of type {} can't start as {}; try zeros", name, name_of(dtype),
                              to_string(weight.init())));
    fill_elements(into.data(), count, *value);
  }

 private:
  const uint64_t seed_;
};

using Lock = std::scoped_lock<std::recursive_mutex>;

}  // namespace

ModelWeight::Use& ModelWeight::use_of(WeightHolder& holder) {
  const auto at = std::ranges::find(uses_, &holder, &Use::holder);
  return at != uses_.end() ? *at : uses_.emplace_back(Use{&holder, false, false});
}

const ModelWeight::Use* ModelWeight::find_current() const {
  const auto at = std::ranges::find(uses_, true, &Use::is_current);
  return at == uses_.end() ? nullptr : &*at;
}

bool ModelWeight::has_numbers() const {
  const Lock lock(mutex_);
  return place_.source != nullptr || find_current() != nullptr || !lost_.empty();
}

bool ModelWeight::is_current(const WeightHolder& holder) const {
  const Lock lock(mutex_);
  return std::ranges::any_of(uses_, [&](const Use& use) { return use.holder == &holder && use.is_current; });
}

bool ModelWeight::is_only_at(const WeightHolder& holder) const {
  const Lock lock(mutex_);
  return place_.source == nullptr && is_current(holder) && std::ranges::count(uses_, true, &Use::is_current) == 1;
}

bool ModelWeight::is_kept() const {
  const Lock lock(mutex_);
  return place_.source != nullptr;
}

ModelWeight::Place ModelWeight::place() const {
  const Lock lock(mutex_);
  return place_;
}

ModelWeight::Time ModelWeight::changed_at() const {
  const Lock lock(mutex_);
  return changed_at_;
}

bool ModelWeight::start(uint64_t seed, std::string_view variable) {
  const Lock lock(mutex_);
  if (!has_numbers()) place_ = {std::make_shared<const InitialNumbers>(seed), std::string(variable)};
  const auto* initial = dynamic_cast<const InitialNumbers*>(place_.source.get());
  return initial != nullptr && initial->seed() == seed && place_.name == variable;
}

// A source before a holder: reading it disturbs nobody.
void ModelWeight::read(Bytes at, std::span<std::byte> into) const {
  const Lock lock(mutex_);
  if (place_.source != nullptr) return place_.source->read(place_.name, *this, at, into);
  Bytes passed = 0;
  read([&](std::span<const std::byte> piece) {
    const Bytes begin = std::max(at, passed), end = std::min(at + std::ssize(into), passed + std::ssize(piece));
    if (begin < end)
      std::memcpy(into.data() + (begin - at), piece.data() + (begin - passed), static_cast<size_t>(end - begin));
    passed += std::ssize(piece);
  });
}

void ModelWeight::read(const PutPiece& put) const {
  const Lock lock(mutex_);
  if (place_.source != nullptr) {
    alignas(8) std::array<std::byte, 64 * KiB> piece;
    for (Bytes at = 0; at < bytes(); at += std::ssize(piece)) {
      const std::span<std::byte> part(piece.data(), static_cast<size_t>(std::min(std::ssize(piece), bytes() - at)));
      place_.source->read(place_.name, *this, at, part);
      put(part);
    }
    return;
  }
  if (const Use* const use = find_current()) {
    use->holder->read(*this, put);
    return;
  }
  throw Error(lost_.empty() ? fmt::format("weight '{}' has no numbers yet; call, fit or load its model first", name_)
                            : lost_);
}

void ModelWeight::enlist(WeightHolder& holder) {
  const Lock lock(mutex_);
  use_of(holder);
}

void ModelWeight::expect_read(WeightHolder& holder) {
  const Lock lock(mutex_);
  use_of(holder).is_expected = true;
}

void ModelWeight::join(WeightHolder& holder) {
  const Lock lock(mutex_);
  use_of(holder).is_current = true;
  for (const Use& use : uses_)
    if (use.holder != &holder && use.is_current) {
      use.holder->note_shared(*this);
      holder.note_shared(*this);
    }
}

// By number: losing a copy may compute what is pending, and so change the list.
void ModelWeight::call_in(const WeightHolder* except) {
  for (size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i].holder != except && (uses_[i].is_current || uses_[i].is_expected)) {
      uses_[i].holder->lose(*this);
      uses_[i].is_current = uses_[i].is_expected = false;
    }
}

void ModelWeight::call_in() {
  const Lock lock(mutex_);
  call_in(nullptr);
}

void ModelWeight::take(WeightHolder& holder) {
  const Lock lock(mutex_);
  call_in(&holder);
  use_of(holder).is_current = true;
  place_ = {};
  changed_at_ = std::chrono::steady_clock::now();
  lost_.clear();
}

void ModelWeight::leave(WeightHolder& holder) {
  const Lock lock(mutex_);
  std::erase_if(uses_, [&](const Use& use) { return use.holder == &holder; });
}

bool ModelWeight::make_room(WeightHolder& except) {
  const Lock lock(mutex_);
  const std::vector<Use> uses = uses_;  // a copy: who makes room may leave
  return std::ranges::any_of(uses, [&](const Use& use) { return use.holder != &except && use.holder->make_room(); });
}

void ModelWeight::put(std::shared_ptr<const WeightSource> source, std::string name) {
  const Lock lock(mutex_);
  call_in(nullptr);
  place_ = {std::move(source), std::move(name)};
  changed_at_ = std::chrono::steady_clock::now();
  lost_.clear();
}

void ModelWeight::keep(std::shared_ptr<const WeightSource> source, std::string name) {
  const Lock lock(mutex_);
  for (const Use& use : uses_)
    if (use.is_current) use.holder->note_shared(*this);
  place_ = {std::move(source), std::move(name)};
}

void ModelWeight::set_lost(std::string why) {
  const Lock lock(mutex_);
  place_ = {};
  lost_ = std::move(why);
}

void ModelWeights::disown() {
  const Lock lock(mutex_);
  for (const Member& member : members_) --member.weight->owners_;
  by_name_.clear();
  members_.clear();
}

void ModelWeights::for_each(const std::function<void(const Member&)>& visit) const {
  const Lock lock(mutex_);
  for (const Member& member : members_) visit(member);
}

bool ModelWeights::is_empty() const {
  const Lock lock(mutex_);
  return members_.empty();
}

std::shared_ptr<ModelWeight> ModelWeights::find(std::string_view name) const {
  const Lock lock(mutex_);
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : members_[at->second].weight;
}

void ModelWeights::start_from_origin(const std::string& name, ModelWeight& weight) const {
  if (origin_.source == nullptr || weight.changed_at() > origin_.loaded_at) return;
  std::string full = origin_.prefix + name;
  if (origin_.source->offers(full, weight.type())) return weight.put(origin_.source, std::move(full));
  if (!origin_.may_miss || !origin_.may_miss(full))
    throw Error(fmt::format("'{}' has no tensor '{}'; it belongs to another model", origin_.what, full),
                ErrorKind::BadData);
}

void ModelWeights::put(std::string_view name, const std::shared_ptr<ModelWeight>& weight) {
  const Lock lock(mutex_);
  if (const auto at = by_name_.find(name); at != by_name_.end()) {
    std::shared_ptr<ModelWeight>& known = members_[at->second].weight;
    if (known == weight) return;
    start_from_origin(members_[at->second].name, *weight);
    --known->owners_;
    known = weight;
    ++weight->owners_;
    return;
  }
  start_from_origin(std::string(name), *weight);
  members_.push_back({std::string(name), weight});
  by_name_.emplace(members_.back().name, members_.size() - 1);
  ++weight->owners_;
}

void ModelWeights::load(Origin origin) {
  const Lock lock(mutex_);
  origin.loaded_at = std::chrono::steady_clock::now();
  Origin before = std::exchange(origin_, std::move(origin));
  try {
    // All are looked for before one is changed.
    for (const Member& member : members_) {
      const std::string full = origin_.prefix + member.name;
      if (!origin_.source->offers(full, member.weight->type()) && (!origin_.may_miss || !origin_.may_miss(full)))
        throw Error(fmt::format("'{}' has no tensor '{}'; it belongs to another model", origin_.what, full),
                    ErrorKind::BadData);
    }
  } catch (...) {
    origin_ = std::move(before);
    throw;
  }
  for (const Member& member : members_) start_from_origin(member.name, *member.weight);
}

}  // namespace plimsoll::graph
