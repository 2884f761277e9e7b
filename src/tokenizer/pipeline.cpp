#include "tokenizer/pipeline.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::tokenizer {
namespace {

constexpr size_t kLongestText = size_t{1} << 31;  // of one call: places in it are 32-bit

bool is_letter_or_digit(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value < 128 && (kAsciiKinds[value] & (kLetter | kNumber)) != 0;
}

// Whether the mark follows another character inside the piece.
bool has_inner_mark(std::string_view piece, std::string_view mark) {
  size_t at = 0;
  while (piece.substr(at).starts_with(mark)) at += mark.size();
  return piece.find(mark, at) != std::string_view::npos;
}

}  // namespace

Bytes TokenScratch::bytes() const {
  return model.bytes() + words.bytes() + cache.bytes() +
         static_cast<Bytes>(repaired.capacity() + normalised.capacity() +
                            (segments.capacity() + inner.capacity()) * sizeof(Segment));
}

TokenPipeline::TokenPipeline(Description description)
    : source_(description.source),
      vocabulary_(std::move(description.model.vocabulary)),
      model_(make_model(description.model, vocabulary_, source_)),
      single_(std::move(description.single)),
      pair_(std::move(description.pair)),
      joins_by_spaces_(description.joins_by_spaces),
      size_(vocabulary_.size()) {
  for (const Normaliser& facts : description.normalisers) normalisers_.emplace_back(facts, source_);
  bool cuts_words = false;
  for (const Splitter& facts : description.splitters) {
    splitters_.emplace_back(facts, source_);
    cuts_words =
        cuts_words || (facts.kind == SplitterKind::Metaspace ? facts.splits : facts.kind != SplitterKind::Prefix);
  }
  // Where nothing cuts words, pieces do: no merge reaches over a mark that no piece has inside.
  if (!cuts_words && description.model.kind == ModelKind::Bpe && !has_marks_outside(kSpaceMark)) {
    Splitter marks;
    marks.kind = SplitterKind::Marks;
    marks.mark = kSpaceMark;
    splitters_.emplace_back(marks, source_);
    cuts_words = true;
  }

  added_ = std::move(description.added);
  std::stable_sort(added_.begin(), added_.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  std::vector<AddedToken> raw, normalised;
  for (const AddedToken& token : added_) {
    if (token.id < 0 || token.id >= kMostPieces)
      throw Error(
          fmt::format("{}: the added token '{}' has the id {}", source_, token.content.substr(0, 100), token.id),
          ErrorKind::BadData);
    size_ = std::max<int64_t>(size_, token.id + 1);
    if (!token.is_normalised || normalisers_.empty()) {
      raw.push_back(token);
      continue;
    }
    normalised.push_back(token);
    for (const NormaliserStep& step : normalisers_) step.apply(normalised.back().content, true);
    if (normalised.back().content.empty()) normalised.pop_back();
  }
  raw_ = AddedTokens(std::move(raw), source_);
  normalised_ = AddedTokens(std::move(normalised), source_);
  for (const Decoder& facts : description.decoders) decoders_.emplace_back(facts, source_);

  const auto ends = [](const auto& step) { return step.ends_before_spaces(); };
  can_cut_ = cuts_words && raw_.ends_before_spaces() && normalised_.ends_before_spaces() &&
             std::all_of(normalisers_.begin(), normalisers_.end(), ends) &&
             std::all_of(splitters_.begin(), splitters_.end(), ends);
}

bool TokenPipeline::has_marks_outside(const std::string& mark) const {
  if (vocabulary_.find(mark) == kNoId) return true;
  for (int32_t id = 0; id < vocabulary_.size(); ++id)
    if (has_inner_mark(vocabulary_.piece(id), mark)) return true;
  return false;
}

int64_t TokenPipeline::encode(std::string_view text, bool begins, TokenScratch& scratch,
                              std::vector<int32_t>& ids) const {
  if (text.size() >= kLongestText)
    throw Error(fmt::format("a text of {} is too long for one call: cut it, or let it be read from its file",
                            format_bytes(static_cast<Bytes>(text.size()))),
                ErrorKind::BadData);
  int64_t repaired = 0;
  if (right_bytes(text) != text.size()) {
    scratch.repaired.clear();
    repaired = append_repaired(text, scratch.repaired);
    text = scratch.repaired;
  }
  scratch.segments.clear();
  raw_.split(text, scratch.segments);
  bool is_first = begins;
  for (const Segment& segment : scratch.segments) {
    if (segment.id != kNoId)
      ids.push_back(segment.id);
    else
      encode_text(segment.text, is_first, begins, scratch, ids);
    is_first = false;
    begins = true;  // behind a token a text begins anew
  }
  return repaired;
}

void TokenPipeline::encode_text(std::string_view text, bool is_first, bool begins, TokenScratch& scratch,
                                std::vector<int32_t>& ids) const {
  if (!normalisers_.empty()) {
    scratch.normalised = text;
    for (const NormaliserStep& step : normalisers_) step.apply(scratch.normalised, begins);
    text = scratch.normalised;
  }
  scratch.inner.clear();
  if (normalised_.empty())
    scratch.inner.push_back({text});
  else
    normalised_.split(text, scratch.inner);
  for (const Segment& segment : scratch.inner) {
    if (segment.id != kNoId) {
      ids.push_back(segment.id);
    } else if (!segment.text.empty()) {
      Words& words = scratch.words;
      words.reset(segment.text);
      for (const SplitterStep& step : splitters_) step.apply(words, is_first);
      for (const TextRange& range : words.words) {
        const std::string_view word = words.word(range);
        if (word.size() > WordCache::kLongestWord) {
          model_->encode(word, scratch.model, ids);
          continue;
        }
        WordCache::Entry& entry = scratch.cache.place_of(word);
        if (WordCache::holds(entry, word)) {
          ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
          continue;
        }
        const size_t before = ids.size();
        model_->encode(word, scratch.model, ids);
        WordCache::put(entry, word, ids.data() + before, ids.size() - before);
      }
    }
    is_first = false;
  }
}

size_t TokenPipeline::find_cut(std::string_view text) const {
  if (!can_cut_) return 0;
  for (size_t at = text.size(); at-- > 1;)
    if (text[at] == ' ' && is_letter_or_digit(text[at - 1])) return at;
  return 0;
}

std::string_view TokenPipeline::token(int32_t id) const {
  const auto found = std::lower_bound(added_.begin(), added_.end(), id,
                                      [](const AddedToken& token, int32_t wanted) { return token.id < wanted; });
  if (found != added_.end() && found->id == id) return found->content;
  return vocabulary_.has(id) ? vocabulary_.piece(id) : std::string_view();
}

int32_t TokenPipeline::find(std::string_view token) const {
  for (const AddedToken& added : added_)
    if (added.content == token) return added.id;
  return vocabulary_.find(token);
}

bool TokenPipeline::is_special(int32_t id) const {
  const auto found = std::lower_bound(added_.begin(), added_.end(), id,
                                      [](const AddedToken& token, int32_t wanted) { return token.id < wanted; });
  return found != added_.end() && found->id == id && found->is_special;
}

std::string TokenPipeline::decode(std::span<const int32_t> ids, bool skips_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= size_)
      throw Error(fmt::format("{}: there is no token {}; ids are 0 to {}", source_, id, size_ - 1), ErrorKind::BadData);
    if (skips_special && is_special(id)) continue;
    tokens.emplace_back(token(id));
  }
  for (const DecoderStep& step : decoders_) step.apply(tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (joins_by_spaces_ && i > 0) text.push_back(' ');
    text.append(tokens[i]);
  }
  return text;
}

Bytes TokenPipeline::bytes() const {
  Bytes bytes = static_cast<Bytes>(sizeof *this) + vocabulary_.bytes() + model_->bytes() + raw_.bytes() +
                normalised_.bytes() + static_cast<Bytes>(added_.capacity() * sizeof(AddedToken));
  for (const AddedToken& token : added_) bytes += static_cast<Bytes>(token.content.capacity());
  for (const NormaliserStep& step : normalisers_) bytes += step.bytes();
  for (const SplitterStep& step : splitters_) bytes += step.bytes();
  for (const DecoderStep& step : decoders_) bytes += step.bytes();
  for (const auto* parts : {&single_, &pair_})
    for (const TemplatePart& part : *parts)
      bytes += static_cast<Bytes>(sizeof part + part.ids.capacity() * sizeof(int32_t));
  return bytes;
}

}  // namespace plimsoll::tokenizer
