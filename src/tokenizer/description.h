// What a tokenizer is made of, as readers find it in files: plain data that `TokenPipeline` is built from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/text.h"
#include "tokenizer/vocabulary.h"

namespace plimsoll::tokenizer {

// Stands for a space in pieces: U+2581.
constexpr const char* kSpaceMark = "\xE2\x96\x81";

// Throws Error(BadData): "SOURCE: WHAT".
[[noreturn]] void refuse(const std::string& source, const std::string& what);

// A text that is searched for as it is, or a regular expression.
struct Pattern {
  std::string text;
  bool is_regex = false;
  bool operator==(const Pattern&) const = default;
};

enum class NormaliserKind : uint8_t { Form, Lowercase, Accents, Strip, Prepend, Replace, CharsMap, Bert, Nmt };

struct Normaliser {
  NormaliserKind kind = NormaliserKind::Form;
  Form form = Form::Nfc;
  Pattern pattern = {};            // Replace
  std::string content = {};        // Replace, Prepend; of CharsMap the compiled map of SentencePiece
  bool left = true, right = true;  // Strip
  bool cleans = true, spaces_ideographs = true, strips_accents = true, lowers = true;  // Bert
  // CharsMap: the longest match anywhere, as SentencePiece itself; else graphemes and characters, as `tokenizers`.
  bool is_longest = false;
};

// What becomes of the matches of a pattern that splits.
enum class Behaviour : uint8_t { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
enum class Prepending : uint8_t { Never, First, Always };

enum class SplitterKind : uint8_t {
  Pattern,
  Prefix,  // a space before words that begin with none
  Metaspace,
  Marks,  // before marks of spaces that follow another character: where no piece has such a mark inside
  Bert,
  Words,
  Spaces,
  Punctuation,
  Digits,
};

struct Splitter {
  SplitterKind kind = SplitterKind::Pattern;
  Pattern pattern = {};
  Behaviour behaviour = Behaviour::Isolated;
  bool is_inverted = false;
  std::string mark = {};  // Metaspace: what stands for a space
  Prepending prepending = Prepending::Never;
  bool splits = true;          // Metaspace
  bool is_individual = false;  // Digits
};

enum class ModelKind : uint8_t { Bpe, WordPiece, Unigram, WordLevel };

// How neighbours of BPE are ranked.
enum class MergeOrder : uint8_t {
  Listed,   // by a list of pairs
  ByPiece,  // any two that form a piece, the piece of the best rank first: tiktoken, SentencePiece
};

struct ListedMerge {
  int32_t left = kNoId, right = kNoId, piece = kNoId;
};

struct PieceModelFacts {
  ModelKind kind = ModelKind::Bpe;
  Vocabulary vocabulary;
  bool is_byte_level = false;  // the pieces are bytes, not characters
  // BPE: the pairs in their order, or the rank of each piece, by id: less is earlier, Merge::kNever never.
  MergeOrder order = MergeOrder::Listed;
  std::vector<ListedMerge> merges = {};
  std::vector<uint32_t> ranks = {};
  std::optional<int32_t> unknown = std::nullopt;
  bool fuses_unknown = false, falls_back_to_bytes = false, ignores_merges = false;
  std::string prefix = {};  // of pieces that continue a word
  std::string suffix = {};  // of pieces that end a word
  int64_t longest_word = 100;
  // Of falling back to bytes: the piece of each byte; empty: those called <0x00> to <0xFF>.
  std::vector<int32_t> byte_pieces = {};
  std::vector<double> scores = {};  // Unigram, by id
  bool rounds_scores = false;       // sums of scores are f32, as SentencePiece adds them
};

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool is_special = false, is_normalised = false, is_single_word = false, strips_left = false, strips_right = false;
};

// A piece of a template: ids, or one of the texts.
struct TemplatePart {
  std::vector<int32_t> ids;
  int text = -1;  // 0: the first, 1: the second
  int32_t type = 0;
};

enum class DecoderKind : uint8_t { ByteLevel, WordPiece, Metaspace, Suffix, Replace, Fuse, Strip, Bytes };

struct Decoder {
  DecoderKind kind = DecoderKind::ByteLevel;
  Pattern pattern = {};
  std::string content = {};  // Replace; the mark of Metaspace, the suffix, the prefix of WordPiece, what Strip removes
  Prepending prepending = Prepending::Never;
  int64_t start = 0, stop = 0;  // Strip: the most that is removed
  bool cleans = false;          // WordPiece
};

struct Description {
  std::string source;  // the file, for messages
  std::vector<Normaliser> normalisers;
  std::vector<Splitter> splitters;
  PieceModelFacts model;
  std::vector<AddedToken> added;
  std::vector<TemplatePart> single, pair;  // empty: the text alone
  std::vector<Decoder> decoders;
  bool joins_by_spaces = false;  // without decoders, tokens are joined by spaces
};

}  // namespace plimsoll::tokenizer
