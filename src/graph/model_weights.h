// The weights of models: one set of numbers each, whoever trains, loads or calls the model. A weight knows where its
// newest numbers are: at those who hold a copy of them (sessions, eager code), or at a source (initial values, a file).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <plimsoll/graph.h>

namespace plimsoll::graph {

class ModelWeight;

// Takes the bytes of a weight, row-major, in pieces.
using PutPiece = std::function<void(std::span<const std::byte>)>;

// Who has copies of weights between calls, and changes them.
class WeightHolder {
 public:
  WeightHolder() = default;
  WeightHolder(const WeightHolder&) = delete;
  WeightHolder& operator=(const WeightHolder&) = delete;
  virtual ~WeightHolder() = default;

  virtual void read(const ModelWeight& weight, const PutPiece& put) = 0;  // its copy
  // Its copy will not be the newest: what is still to be computed from it is computed before. Throws Error where that
  // can't be done.
  virtual void lose(const ModelWeight& weight) = 0;
  // Another has a copy, too: the next change must be announced by `take`.
  virtual void note_shared(const ModelWeight& /*weight*/) {}
  // Gives memory back that a later call can take again. False: there is none.
  virtual bool make_room() { return false; }
};

// Numbers that do not change.
class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  // Whether it has numbers of that name; throws Error(BadData) when their type is another.
  virtual bool offers(std::string_view name, const TensorType& type) const = 0;
  virtual void read(std::string_view name, const ModelWeight& weight, Bytes at, std::span<std::byte> into) const = 0;
};

// Safe for several threads; a holder is called on the thread of the call that needs it.
class ModelWeight {
 public:
  explicit ModelWeight(const StoredVariable& like)
      : name_(like.name), type_(like.type), role_(like.role), init_(like.init) {}

  const std::string& name() const { return name_; }  // where it was first made: "net/dense/kernel"
  const TensorType& type() const { return type_; }
  VariableRole role() const { return role_; }
  const Init& init() const { return init_; }
  Bytes bytes() const { return element_count(type_.shape).fixed() * size_of(type_.dtype); }
  bool is_owned() const { return owners_ > 0; }  // by a model that lives

  bool has_numbers() const;
  bool is_current(const WeightHolder& holder) const;  // its copy is the newest
  bool is_only_at(const WeightHolder& holder) const;  // and no other's, nor has a source it
  bool is_kept() const;                               // a source has the newest numbers
  // The initial values of that seed and variable; where there are numbers, nothing happens. True: these are its
  // numbers.
  bool start(uint64_t seed, std::string_view variable);
  // The newest numbers: all of them, or those from byte `at` on.
  void read(const PutPiece& put) const;
  void read(Bytes at, std::span<std::byte> into) const;

  void enlist(WeightHolder& holder);       // it may be asked to make room
  void expect_read(WeightHolder& holder);  // it will read the numbers that are there now: it loses them before a change
  void join(WeightHolder& holder);         // it has a copy of the newest numbers
  void take(WeightHolder& holder);         // and is about to change them: all others lose theirs
  void leave(WeightHolder& holder);        // it has no copy any more
  bool make_room(WeightHolder& except);    // true: a holder gave memory back
  // The numbers are those at the source: all holders lose theirs.
  void put(std::shared_ptr<const WeightSource> source, std::string name);
  // A source has the newest numbers, too.
  void keep(std::shared_ptr<const WeightSource> source, std::string name);
  // All holders lose their copies; to be called when a source has the numbers.
  void call_in();
  // Nobody has the numbers any more: later calls throw Error with this sentence.
  void set_lost(std::string why);

  struct Place {
    std::shared_ptr<const WeightSource> source;
    std::string name;
  };
  Place place() const;  // at a source; null: it is with holders
  using Time = std::chrono::steady_clock::time_point;
  Time changed_at() const;  // when its numbers were last put, or taken to be changed

 private:
  friend class ModelWeights;
  struct Use {
    WeightHolder* holder;
    bool is_current, is_expected;
  };
  Use& use_of(WeightHolder& holder);
  void call_in(const WeightHolder* except);
  const Use* find_current() const;

  const std::string name_;
  const TensorType type_;
  const VariableRole role_;
  const Init init_;
  std::atomic<int32_t> owners_ = 0;
  mutable std::recursive_mutex mutex_;
  std::vector<Use> uses_;
  Place place_;
  Time changed_at_ = {};
  std::string lost_;
};

// All weights of one model, by their names in it: "dense/kernel". A model that is called by another is part of its
// weights, too.
class ModelWeights {
 public:
  struct Member {
    std::string name;
    std::shared_ptr<ModelWeight> weight;
  };

  ModelWeights() = default;
  ModelWeights(const ModelWeights&) = delete;
  ModelWeights& operator=(const ModelWeights&) = delete;
  ~ModelWeights() { disown(); }

  // The model is gone: nobody keeps its weights any more, but for those that are another model's, too.
  void disown();
  // Sessions and eager code share no numbers of this model: its variables are those of each graph alone.
  void detach() { is_detached_ = true; }
  bool is_detached() const { return is_detached_; }
  // In the order in which they were first made.
  void for_each(const std::function<void(const Member&)>& visit) const;
  bool is_empty() const;
  std::shared_ptr<ModelWeight> find(std::string_view name) const;
  void put(std::string_view name, const std::shared_ptr<ModelWeight>& weight);
  // The numbers of all weights that the source offers under prefix + name are there, also of those that are not known
  // yet. Throws Error(BadData) for one that it lacks, unless `may_miss`.
  struct Origin {
    std::shared_ptr<const WeightSource> source;
    std::string prefix;
    std::function<bool(std::string_view name)> may_miss = {};
    std::string what = {};  // of the source, for errors: its path
    ModelWeight::Time loaded_at = {};
  };
  void load(Origin origin);

 private:
  void start_from_origin(const std::string& name, ModelWeight& weight) const;

  mutable std::recursive_mutex mutex_;
  std::deque<Member> members_;  // names stay where they are
  std::unordered_map<std::string_view, size_t> by_name_;
  Origin origin_;
  std::atomic<bool> is_detached_ = false;
};

}  // namespace plimsoll::graph
