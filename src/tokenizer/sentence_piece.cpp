// Reads SentencePiece models: a message of protocol buffers with pieces, their scores, and how text is normalised.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "memory/file.h"
#include "tokenizer/merges.h"
#include "tokenizer/readers.h"

namespace plimsoll::tokenizer {
namespace {

constexpr Bytes kLongestModel = 256 * MiB;

// One field after the other of a message in memory. Throws at its damage.
class Message {
 public:
  Message(std::string_view bytes, const std::string& source) : left_(bytes), source_(source) {}

  bool next() {
    if (left_.empty()) return false;
    const uint64_t key = varint();
    number = key >> 3;
    value = 0;
    text = {};
    switch (key & 7U) {
      case 0:
        value = varint();
        return true;
      case 1:
        take(8);
        return true;
      case 2:
        text = take(varint());
        return true;
      case 5: {
        uint32_t bits = 0;
        std::memcpy(&bits, take(4).data(), 4);
        value = bits;
        return true;
      }
      default:
        refuse(source_, "is no SentencePiece model, or it is damaged");
    }
  }

  uint64_t number = 0;    // of the field
  uint64_t value = 0;     // of a number; of a float its bits
  std::string_view text;  // of a text or a message

 private:
  uint64_t varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      result |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return result;
    }
    refuse(source_, "is no SentencePiece model, or it is damaged");
  }
  std::string_view take(uint64_t bytes) {
    if (bytes > left_.size()) refuse(source_, "ends inside a field: it is no SentencePiece model, or was cut off");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  std::string_view left_;
  const std::string& source_;
};

enum PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Trainer {
  uint64_t model = 1;  // 1: Unigram, 2: BPE
  bool falls_back = false, has_suffix = false;
};

struct Rules {
  std::string_view map;
  bool has_prefix = true, strips = true, escapes = true;
};

class Reader {
 public:
  explicit Reader(const std::string& path) { facts_.source = path; }

  Description read(std::string_view bytes) {
    const std::string& path = facts_.source;
    for (Message field(bytes, path); field.next();) {
      if (field.number == 1) add_piece(field.text);
      if (field.number == 2) read_trainer(field.text);
      if (field.number == 3) read_rules(field.text);
    }
    PieceModelFacts& model = facts_.model;
    model.vocabulary.finish(path);
    if (trainer_.model != 1 && trainer_.model != 2)
      refuse(path, fmt::format("the model type {} is unknown; Unigram (1) and BPE (2) are read", trainer_.model));
    if (trainer_.has_suffix)
      refuse(path, "its pieces end by spaces (treat_whitespace_as_suffix), which is not supported");
    model.kind = trainer_.model == 1 ? ModelKind::Unigram : ModelKind::Bpe;
    model.fuses_unknown = true;
    if (trainer_.falls_back) set_bytes();
    if (model.kind == ModelKind::Bpe)
      rank_pieces();
    else
      score_pieces();
    add_steps();
    return std::move(facts_);
  }

 private:
  void add_piece(std::string_view bytes) {
    std::string_view text;
    float score = 0;
    uint64_t type = kNormal;
    for (Message field(bytes, facts_.source); field.next();) {
      if (field.number == 1) text = field.text;
      if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      if (field.number == 3) type = field.value;
    }
    const auto id = static_cast<int32_t>(types_.size());
    if (text.empty() || right_bytes(text) != text.size())
      refuse(facts_.source, fmt::format("the piece {} is empty or not UTF-8", id));
    if (type < kNormal || type > kByte) refuse(facts_.source, fmt::format("the piece {} has the type {}", id, type));
    if (!std::isfinite(score)) refuse(facts_.source, fmt::format("the score of the piece {} is {}", id, score));
    facts_.model.vocabulary.add(id, text, facts_.source, type == kNormal || type == kUserDefined);
    types_.push_back(static_cast<uint8_t>(type));
    scores_.push_back(score);
    if (type == kUnknown) facts_.model.unknown = id;
    if (type == kControl || type == kUnknown) facts_.added.push_back({id, std::string(text), true});
    if (type == kUserDefined) user_defined_.push_back(id);
  }

  void read_trainer(std::string_view bytes) {
    for (Message field(bytes, facts_.source); field.next();) {
      if (field.number == 3) trainer_.model = field.value;
      if (field.number == 24) trainer_.has_suffix = field.value != 0;
      if (field.number == 35) trainer_.falls_back = field.value != 0;
    }
  }

  void read_rules(std::string_view bytes) {
    for (Message field(bytes, facts_.source); field.next();) {
      if (field.number == 2) rules_.map = field.text;
      if (field.number == 3) rules_.has_prefix = field.value != 0;
      if (field.number == 4) rules_.strips = field.value != 0;
      if (field.number == 5) rules_.escapes = field.value != 0;
    }
  }

  void set_bytes() {
    PieceModelFacts& model = facts_.model;
    model.falls_back_to_bytes = true;
    model.byte_pieces.assign(256, kNoId);
    for (int32_t id = 0; id < model.vocabulary.size(); ++id) {
      unsigned byte = 256;
      const std::string name(model.vocabulary.piece(id));
      if (types_[static_cast<size_t>(id)] == kByte && std::sscanf(name.c_str(), "<0x%02X>", &byte) == 1 && byte < 256)
        model.byte_pieces[byte] = id;
    }
    for (const int32_t id : model.byte_pieces)
      if (id == kNoId) refuse(facts_.source, "it falls back to bytes and lacks pieces of some bytes");
  }

  bool is_normal(size_t id) const { return types_[id] == kNormal; }

  // The best score first; equal scores have one rank.
  void rank_pieces() {
    std::vector<float> sorted;
    for (size_t id = 0; id < scores_.size(); ++id)
      if (is_normal(id)) sorted.push_back(scores_[id]);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    PieceModelFacts& model = facts_.model;
    model.order = MergeOrder::ByPiece;
    model.ranks.assign(scores_.size(), Merge::kNever);
    for (size_t id = 0; id < scores_.size(); ++id) {
      const auto place = std::lower_bound(sorted.begin(), sorted.end(), scores_[id], std::greater<>());
      if (is_normal(id)) model.ranks[id] = static_cast<uint32_t>(place - sorted.begin());
      if (types_[id] == kUnused)
        refuse(facts_.source, "it has unused pieces, which BPE would have to take apart again");
    }
    // These are kept whole wherever they stand.
    for (const int32_t id : user_defined_) facts_.added.push_back({id, std::string(model.vocabulary.piece(id))});
  }

  // Pieces of the user are worth more than any pieces that they could be cut into.
  void score_pieces() {
    PieceModelFacts& model = facts_.model;
    model.scores.assign(scores_.begin(), scores_.end());
    model.rounds_scores = true;
    float largest = -std::numeric_limits<float>::max();
    for (size_t id = 0; id < scores_.size(); ++id)
      if (is_normal(id)) largest = std::max(largest, scores_[id]);
    for (const int32_t id : user_defined_) {
      int64_t characters = 0;
      for_each_character(model.vocabulary.piece(id), [&](char32_t, std::string_view) { ++characters; });
      model.scores[static_cast<size_t>(id)] = static_cast<double>(static_cast<float>(characters) * largest) - 0.1;
    }
  }

  void add_steps() {
    Normaliser normaliser;
    if (!rules_.map.empty()) {
      normaliser.kind = NormaliserKind::CharsMap;
      normaliser.content = rules_.map;
      normaliser.is_longest = true;
      facts_.normalisers.push_back(normaliser);
    }
    if (rules_.strips) {
      normaliser = {};
      normaliser.kind = NormaliserKind::Strip;
      facts_.normalisers.push_back(normaliser);
      normaliser.kind = NormaliserKind::Replace;
      normaliser.pattern = {" {2,}", true};
      normaliser.content = " ";
      facts_.normalisers.push_back(normaliser);
    }
    if (!rules_.escapes) return;
    Splitter splitter;
    splitter.kind = SplitterKind::Metaspace;
    splitter.mark = kSpaceMark;
    splitter.prepending = rules_.has_prefix ? Prepending::First : Prepending::Never;
    splitter.splits = false;
    facts_.splitters.push_back(splitter);
    Decoder decoder;
    decoder.kind = DecoderKind::Bytes;
    if (facts_.model.falls_back_to_bytes) facts_.decoders.push_back(decoder);
    decoder.kind = DecoderKind::Metaspace;
    decoder.content = kSpaceMark;
    decoder.prepending = splitter.prepending;
    facts_.decoders.push_back(decoder);
  }

  Description facts_;
  Trainer trainer_;
  Rules rules_;
  std::vector<uint8_t> types_;
  std::vector<float> scores_;
  std::vector<int32_t> user_defined_;
};

}  // namespace

Description read_sentence_piece(const std::string& path) {
  const memory::File file = memory::File::open(path);
  if (file.size() > kLongestModel)
    refuse(path, fmt::format("has {}; SentencePiece models have at most {}", format_bytes(file.size()),
                             format_bytes(kLongestModel)));
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  bytes.resize(static_cast<size_t>(file.read_some(0, file.size(), bytes.data(), path)));
  return Reader(path).read(bytes);
}

}  // namespace plimsoll::tokenizer
