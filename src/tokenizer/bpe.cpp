// BPE: a word is cut into characters or bytes, and the pair of neighbours with the best rank is joined as long as there
// is one.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "tokenizer/merges.h"
#include "tokenizer/model.h"

namespace plimsoll::tokenizer {
namespace {

// Words up to this length are searched for their best pair one by one; longer ones, which may be whole texts, by a
// heap.
constexpr size_t kShortWord = 48;
constexpr size_t kLongestPiece = 4096;  // of vocabularies in which all cuts of all pieces are pairs

template <class Visit>
void for_each_cut(const Vocabulary& vocabulary, const std::vector<uint32_t>& ranks, const Visit& visit) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view piece = vocabulary.piece(id);
    if (ranks[static_cast<size_t>(id)] == Merge::kNever || vocabulary.find(piece) != id) continue;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const int32_t left = vocabulary.find(piece.substr(0, cut));
      if (left == kNoId || ranks[static_cast<size_t>(left)] == Merge::kNever) continue;
      const int32_t right = vocabulary.find(piece.substr(cut));
      if (right == kNoId || ranks[static_cast<size_t>(right)] == Merge::kNever) continue;
      visit(left, right, Merge{ranks[static_cast<size_t>(id)], id});
    }
  }
}

MergeTable make_table(const PieceModelFacts& facts, const Vocabulary& vocabulary, const std::string& source) {
  if (facts.order == MergeOrder::Listed) {
    MergeTable table(facts.merges.size());
    uint32_t rank = 0;
    for (const ListedMerge& merge : facts.merges) table.add(merge.left, merge.right, {rank++, merge.piece});
    return table;
  }
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.piece(id).size() > kLongestPiece)
      throw Error(fmt::format("{}: the piece {} has {} bytes; pieces have at most {}", source, id,
                              vocabulary.piece(id).size(), kLongestPiece),
                  ErrorKind::BadData);
  size_t pairs = 0;
  for_each_cut(vocabulary, facts.ranks, [&](int32_t, int32_t, Merge) { ++pairs; });
  MergeTable table(pairs);
  for_each_cut(vocabulary, facts.ranks,
               [&](int32_t left, int32_t right, Merge merge) { table.add(left, right, merge); });
  return table;
}

class Bpe final : public WordModel {
 public:
  Bpe(const PieceModelFacts& facts, const Vocabulary& vocabulary, const std::string& source)
      : vocabulary_(vocabulary),
        table_(make_table(facts, vocabulary, source)),
        is_byte_level_(facts.is_byte_level),
        ignores_merges_(facts.ignores_merges),
        fuses_unknown_(facts.fuses_unknown),
        unknown_(facts.unknown.value_or(kNoId)),
        prefix_(facts.prefix),
        suffix_(facts.suffix) {
    if (facts.falls_back_to_bytes) byte_pieces_ = find_byte_pieces(facts, vocabulary);
    for (int i = 0; i < 256; ++i) {
      const char byte = static_cast<char>(i);
      single_[i] = i < 128 || is_byte_level_ ? vocabulary.find({&byte, 1}) : kNoId;
    }
  }

  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const override {
    if (ignores_merges_)
      if (const int32_t whole = vocabulary_.find(word); whole != kNoId) return ids.push_back(whole);
    std::vector<int32_t>& symbols = scratch.ids;
    symbols.clear();
    if (is_byte_level_)
      cut_bytes(word, symbols);
    else
      cut_characters(word, symbols);
    if (symbols.size() <= kShortWord)
      join_short(scratch, ids);
    else
      join_long(scratch, ids);
  }

  Bytes bytes() const override {
    return table_.bytes() + static_cast<Bytes>(byte_pieces_.capacity() * sizeof(int32_t) + sizeof *this);
  }

 private:
  void cut_bytes(std::string_view word, std::vector<int32_t>& symbols) const {
    for (const char byte : word) {
      const int32_t piece = single_[static_cast<unsigned char>(byte)];
      if (piece != kNoId)
        symbols.push_back(piece);
      else if (unknown_ != kNoId)
        add_unknown(symbols);
    }
  }

  void add_unknown(std::vector<int32_t>& symbols) const {
    if (!fuses_unknown_ || symbols.empty() || symbols.back() != unknown_) symbols.push_back(unknown_);
  }

  void cut_characters(std::string_view word, std::vector<int32_t>& symbols) const {
    std::string spelled;
    for (size_t at = 0; at < word.size();) {
      const size_t bytes = first_code_point(word.data() + at).bytes;
      const std::string_view character = word.substr(at, bytes);
      const bool has_prefix = at != 0 && !prefix_.empty();
      const bool has_suffix = at + bytes == word.size() && !suffix_.empty();
      at += bytes;
      std::string_view text = character;
      if (has_prefix || has_suffix) {
        spelled.clear();
        if (has_prefix) spelled.append(prefix_);
        spelled.append(character);
        if (has_suffix) spelled.append(suffix_);
        text = spelled;
      }
      const int32_t piece = text.size() == 1 ? single_[static_cast<unsigned char>(text[0])] : vocabulary_.find(text);
      if (piece != kNoId)
        symbols.push_back(piece);
      else if (!byte_pieces_.empty())
        for (const char byte : text) symbols.push_back(byte_pieces_[static_cast<unsigned char>(byte)]);
      else if (unknown_ != kNoId)
        add_unknown(symbols);
    }
  }

  // The ranks of all pairs stand beside the pieces, so that a merge asks the table for two of them alone.
  void join_short(ModelScratch& scratch, std::vector<int32_t>& ids) const {
    size_t count = scratch.ids.size();
    int32_t* const pieces = scratch.ids.data();
    Merge merges[kShortWord];
    for (size_t i = 0; i + 1 < count; ++i) merges[i] = table_.find(pieces[i], pieces[i + 1]);
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i)
        if (merges[i].rank < merges[best].rank) best = i;
      if (merges[best].rank == Merge::kNever) break;
      pieces[best] = merges[best].piece;
      --count;
      for (size_t i = best + 1; i < count; ++i) pieces[i] = pieces[i + 1];
      for (size_t i = best + 1; i + 1 < count; ++i) merges[i] = merges[i + 1];
      if (best > 0) merges[best - 1] = table_.find(pieces[best - 1], pieces[best]);
      if (best + 1 < count) merges[best] = table_.find(pieces[best], pieces[best + 1]);
    }
    ids.insert(ids.end(), pieces, pieces + count);
  }

  void join_long(ModelScratch& scratch, std::vector<int32_t>& ids) const {
    const auto count = static_cast<int32_t>(scratch.ids.size());
    auto& symbols = scratch.symbols;
    auto& heap = scratch.heap;
    symbols.resize(scratch.ids.size());
    heap.clear();
    const auto is_later = [](const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
    };
    const auto consider = [&](int32_t place, bool is_sorted) {
      const ModelScratch::Symbol& symbol = symbols[static_cast<size_t>(place)];
      if (symbol.next < 0) return;
      const Merge merge = table_.find(symbol.piece, symbols[static_cast<size_t>(symbol.next)].piece);
      if (merge.rank == Merge::kNever) return;
      heap.push_back({merge.rank, place, merge.piece});
      if (is_sorted) std::push_heap(heap.begin(), heap.end(), is_later);
    };
    for (int32_t i = 0; i < count; ++i)
      symbols[static_cast<size_t>(i)] = {scratch.ids[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i < count; ++i) consider(i, false);
    std::make_heap(heap.begin(), heap.end(), is_later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), is_later);
      const ModelScratch::Candidate top = heap.back();
      heap.pop_back();
      ModelScratch::Symbol& symbol = symbols[static_cast<size_t>(top.place)];
      if (symbol.piece == kNoId || symbol.next < 0) continue;
      ModelScratch::Symbol& right = symbols[static_cast<size_t>(symbol.next)];
      const Merge merge = table_.find(symbol.piece, right.piece);
      if (merge.piece != top.piece || merge.rank == Merge::kNever) continue;  // one of the two was joined since
      symbol.piece = top.piece;
      symbol.next = right.next;
      right.piece = kNoId;
      if (symbol.next >= 0) symbols[static_cast<size_t>(symbol.next)].previous = top.place;
      if (symbol.previous >= 0) consider(symbol.previous, true);
      consider(top.place, true);
    }
    for (const ModelScratch::Symbol& symbol : symbols)
      if (symbol.piece != kNoId) ids.push_back(symbol.piece);
  }

  const Vocabulary& vocabulary_;
  const MergeTable table_;
  const bool is_byte_level_, ignores_merges_, fuses_unknown_;
  const int32_t unknown_;
  const std::string prefix_, suffix_;
  std::vector<int32_t> byte_pieces_;
  int32_t single_[256];
};

}  // namespace

std::unique_ptr<WordModel> make_bpe(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                    const std::string& source) {
  return std::make_unique<Bpe>(facts, vocabulary, source);
}

}  // namespace plimsoll::tokenizer
