#include "eager/value_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/kernel.h"
#include "session/variables.h"

namespace plimsoll::eager {
namespace {

void keep_leaves(const EagerValue& value) {
  if (value.record == nullptr) return;
  for (const LeafUse& leaf : value.record->leaves)
    if (leaf.value != nullptr) graph::keep(leaf.value);
}
void let_leaves_go(const EagerValue& value) noexcept {
  if (value.record == nullptr) return;
  const std::shared_ptr<RunRecord> record = value.record;  // a copy: freeing a leaf may free `value`
  for (const LeafUse& leaf : record->leaves)
    if (leaf.value != nullptr) graph::let_go(leaf.value);
}

Bytes arena_addresses(Bytes limit) {
  return limit == MemoryLine::kUnlimited ? 1024 * GiB : round_up(limit, memory::Arena::kPage);
}

}  // namespace

ValueStore::ValueStore(const MemoryLine& line, const EagerOptions& options, HeldWeights& weights, Remake remake)
    : line_(line),
      options_(options),
      weights_(weights),
      remake_(std::move(remake)),
      pool_(line),
      file_(line, options.scratch_folder,
            options.disk_limit > 0                       ? options.disk_limit
            : line.limit() < MemoryLine::kUnlimited / 64 ? 16 * line.limit()
                                                         : 64 * GiB),
      arena_(arena_addresses(line.limit())),
      arena_held_(line_.reserve(Tag::Activations, 0)) {}

ValueStore::~ValueStore() = default;

EagerValue* ValueStore::add() {
  auto* value = new EagerValue;
  value->listed_at = values_.size();
  values_.push_back(value);
  value->born = ++clock_;
  return value;
}

void ValueStore::release(EagerValue& value) noexcept {
  // A filled value can be made from its formula: it is kept without memory, so that values computed from it can be
  // recomputed.
  if (value.origin == EagerValue::Origin::Filled && value.records > 0) {
    give_back(value);
    if (value.file_place >= 0) file_.free(std::exchange(value.file_place, -1), value.bytes);
    if (value.state != EagerValue::State::Dropped) dropped_.push_back(&value);
    value.state = EagerValue::State::Dropped;
    return;
  }
  values_[value.listed_at] = values_.back();
  values_[value.listed_at]->listed_at = value.listed_at;
  values_.pop_back();
  if (value.state == EagerValue::State::Dropped) {
    std::erase(dropped_, &value);
    let_leaves_go(value);
  }
  pool_.give_back(value.block);
  if (value.file_place >= 0) file_.free(value.file_place, value.bytes);
  value.record.reset();
  value.is_dead = true;
  if (value.records == 0) delete &value;
}

void ValueStore::end() noexcept {
  for (EagerValue* value : values_) ++value->handles;  // so that none is freed while others release their leaves
  for (EagerValue* value : values_)
    if (value->state == EagerValue::State::Dropped) let_leaves_go(*value);
  dropped_.clear();
  const std::vector<EagerValue*> all = std::move(values_);
  values_.clear();
  for (EagerValue* value : all) {
    value->recorder = nullptr;
    value->block = {};
    value->file_place = -1;
    value->state = EagerValue::State::Pending;
  }
  for (EagerValue* value : all) value->record.reset();
  for (EagerValue* value : all)
    if (--value->handles == 0) delete value;
}

bool ValueStore::allocate(EagerValue& value) {
  value.block = pool_.take(value.bytes);
  if (value.block.is_set()) return true;
  // Memory is taken in whole blocks: room is needed for one of them, or for a slab of small values.
  const Bytes wanted = std::max(MemoryPool::block_bytes(value.bytes), MemoryPool::kSlabBytes);
  if (!make_room(wanted)) return false;
  value.block = pool_.take(value.bytes);
  return value.block.is_set();
}

void ValueStore::fill(EagerValue& value) {
  if (value.stored != nullptr && value.stored->weight != nullptr) return weights_.fill(value);
  if (weights_.fill_restored(value)) return;
  const kernels::ConcreteType type{value.type.dtype, at_batch(value.type.shape, 1), {}, false};
  if (value.is_range) {
    for (int64_t i = 0; i < type.count(); ++i) {
      const double number = value.init.a + value.init.b * static_cast<double>(i);
      if (type.dtype == DType::F32) reinterpret_cast<float*>(value.block.data)[i] = static_cast<float>(number);
      if (type.dtype == DType::I32) reinterpret_cast<int32_t*>(value.block.data)[i] = static_cast<int32_t>(number);
      if (type.dtype == DType::I64) reinterpret_cast<int64_t*>(value.block.data)[i] = static_cast<int64_t>(number);
    }
    return;
  }
  const bool is_variable = value.origin == EagerValue::Origin::Variable;
  session::initialize_variable(value.init, is_variable ? options_.seed : value.fill_key,
                               is_variable ? value.stored->name : std::string_view("value"), type, value.block.data,
                               nullptr);
}

bool ValueStore::bring_back(EagerValue& value) {
  touch(value);
  if (value.state == EagerValue::State::InMemory) return true;
  ++value.pins;
  if (value.state == EagerValue::State::InFile) {
    if (allocate(value)) {
      file_.read(value.file_place, value.block.data, value.bytes);
      file_.free(value.file_place, value.bytes);
      value.file_place = -1;
    }
  } else if (value.origin == EagerValue::Origin::Computed) {
    if (value.state == EagerValue::State::Dropped && !remake_(value)) give_back(value);
  } else if (allocate(value)) {
    fill(value);
  }
  --value.pins;
  if (!value.block.is_set()) return false;
  note_made(value);
  return true;
}

void ValueStore::note_made(EagerValue& value) {
  const bool was_dropped = value.state == EagerValue::State::Dropped;
  value.state = EagerValue::State::InMemory;
  touch(value);
  if (!was_dropped) return;
  ++remakes_;
  std::erase(dropped_, &value);
  let_leaves_go(value);
}

void ValueStore::unmake(EagerValue& value) noexcept {
  if (value.state == EagerValue::State::Dropped) {
    std::erase(dropped_, &value);
    let_leaves_go(value);
  }
  if (value.file_place >= 0) file_.free(std::exchange(value.file_place, -1), value.bytes);
  give_back(value);
  value.record.reset();
  value.state = EagerValue::State::Pending;
}

bool ValueStore::keep_dependents(const EagerValue& variable) {
  const auto depends = [&](const EagerValue* value) {
    return value->record != nullptr && std::any_of(value->record->leaves.begin(), value->record->leaves.end(),
                                                   [&](const LeafUse& leaf) { return leaf.value == &variable; });
  };
  // Values in memory first: without their records they can't be dropped to make room for those that come back.
  std::vector<std::shared_ptr<RunRecord>> ended;  // outlive the loop: freeing a leaf would change values_
  for (EagerValue* value : values_)
    if (value->state != EagerValue::State::Dropped && value->is_made() && depends(value))
      ended.push_back(std::move(value->record));
  ended.clear();
  for (auto at = std::find_if(dropped_.begin(), dropped_.end(), depends); at != dropped_.end();
       at = std::find_if(dropped_.begin(), dropped_.end(), depends)) {
    EagerValue& value = **at;
    if (!bring_back(value)) return false;
    value.record.reset();
  }
  return true;
}

bool ValueStore::may_go(const EagerValue& value) const {
  if (value.state != EagerValue::State::InMemory || value.pins > 0 || !is_large(value)) return false;
  return file_.is_possible() || value.can_be_remade();
}

// A value of a walk is priced as if it could be recomputed; whether it can is checked when it is chosen to go.
double ValueStore::price_ns(const EagerValue& value) const {
  if (value.is_spent) return 0;
  double price = file_.is_possible() ? file_.ns_of(value.bytes) : std::numeric_limits<double>::max();
  if (value.walk != nullptr || value.can_be_remade()) {
    double remake = value.walk != nullptr ? value.walk->remake_ns(value) : value.make_ns;
    // Its leaves may have been dropped too; one level of them is a good enough estimate.
    if (value.walk == nullptr && value.record != nullptr)
      for (const LeafUse& leaf : value.record->leaves)
        if (leaf.value->state == EagerValue::State::Dropped) remake += 2 * leaf.value->make_ns;
    price = std::min(price, remake);
  }
  return price;
}

bool ValueStore::let_one_go() {
  std::vector<std::pair<double, EagerValue*>> by_score;
  for (EagerValue* value : values_) {
    if (value->state != EagerValue::State::InMemory || value->pins > 0 || !is_large(*value)) continue;
    const bool is_read_again = value->walk != nullptr && !value->is_spent;
    const double staleness =
        is_read_again ? value->walk->distance(*value) : static_cast<double>(clock_ - value->last_used + 1);
    by_score.emplace_back((price_ns(*value) + 1) / (static_cast<double>(value->bytes) * staleness), value);
  }
  const auto by_first = [](const auto& a, const auto& b) { return a.first > b.first; };
  std::make_heap(by_score.begin(), by_score.end(), by_first);
  while (!by_score.empty()) {
    std::pop_heap(by_score.begin(), by_score.end(), by_first);
    if (let_go(*by_score.back().second)) return true;
    by_score.pop_back();
  }
  return false;
}

bool ValueStore::let_go(EagerValue& value) {
  const bool can_be_remade = value.can_be_remade();
  const bool is_cheaper_on_disk =
      file_.is_possible() && (!can_be_remade || (!value.is_spent && file_.ns_of(value.bytes) < value.make_ns));
  if (is_cheaper_on_disk && spill(value)) return true;
  if (!can_be_remade) return false;
  drop(value);
  return true;
}

void ValueStore::drop(EagerValue& value) {
  keep_leaves(value);
  pool_.give_back(value.block);
  value.block = {};
  value.state = EagerValue::State::Dropped;
  dropped_.push_back(&value);
  ++drops_;
}

bool ValueStore::spill(EagerValue& value) {
  value.file_place = file_.write(value.block.data, value.bytes);
  if (value.file_place < 0) return false;
  pool_.give_back(value.block);
  value.block = {};
  value.state = EagerValue::State::InFile;
  ++spills_;
  return true;
}

void ValueStore::shrink_arena() {
  if (arena_.committed() <= arena_needed_) return;
  arena_.release();
  arena_held_.set_resident(0);
  arena_held_.resize(0);
}

bool ValueStore::make_room(Bytes bytes) {
  pool_.give_up_kept(bytes);
  if (line_.free() < bytes) shrink_arena();
  while (line_.free() < bytes) {
    if (!let_one_go() && !weights_.ask_for_room()) return false;
    pool_.give_up_kept(bytes);
  }
  return true;
}

void ValueStore::give_back(EagerValue& value) noexcept {
  pool_.give_back(value.block);
  value.block = {};
}

bool ValueStore::commit_arena(Bytes bytes) {
  const Bytes wanted = round_up(bytes, memory::Arena::kPage);
  arena_needed_ = wanted;
  if (wanted > arena_held_.bytes()) {
    if (!make_room(wanted - arena_held_.bytes())) return false;
    arena_held_.resize(wanted);
  }
  arena_.commit(wanted);
  arena_held_.set_resident(arena_.committed());
  return true;
}

Bytes ValueStore::easy_bytes() const { return line_.free() + pool_.kept_bytes() + arena_held_.bytes(); }

Bytes ValueStore::most_bytes() const {
  Bytes bytes = easy_bytes();
  for (const EagerValue* value : values_)
    if (may_go(*value)) bytes += value->block.bytes;
  return bytes;
}

}  // namespace plimsoll::eager
