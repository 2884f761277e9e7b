// Reads tokenizer.json, as Hugging Face's tokenizers writes it.
#include <algorithm>

#include <fmt/format.h>

#include "tokenizer/json_steps.h"
#include "tokenizer/readers.h"

namespace plimsoll::tokenizer {
namespace {

// What the file lists, before it is known what the texts mean: that may stand behind them.
struct Lists {
  Texts pieces, lefts, rights;
  std::vector<int32_t> ids;
  std::vector<double> scores;
};

void add_piece(const std::string& key, Json& value, Lists& lists, const std::string& source) {
  if (lists.pieces.size() >= static_cast<size_t>(kMostPieces))
    refuse(source, fmt::format("the vocabulary has more than {} pieces", kMostPieces));
  if (value.is_number_integer()) {  // "piece": id
    const auto id = value.get<int64_t>();
    if (id < 0 || id >= kMostPieces) refuse(source, fmt::format("the id of '{}' is {}", key.substr(0, 100), id));
    lists.pieces.add(key);
    lists.ids.push_back(static_cast<int32_t>(id));
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_number()) {  // Unigram
    lists.pieces.add(value[0].get_ref<const std::string&>());
    lists.scores.push_back(value[1].get<double>());
    lists.ids.push_back(static_cast<int32_t>(lists.ids.size()));
  } else {
    refuse(source, fmt::format("the vocabulary has {} where a piece and its id or score belong",
                               value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100)));
  }
}

// "a b", or ["a", "b"].
void add_merge(Json& value, Lists& lists, const std::string& source) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      lists.lefts.add(std::string_view(text).substr(0, space));
      lists.rights.add(std::string_view(text).substr(space + 1));
      return;
    }
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    lists.lefts.add(value[0].get_ref<const std::string&>());
    lists.rights.add(value[1].get_ref<const std::string&>());
    return;
  }
  refuse(source, fmt::format("the merge {} is {}, and not two pieces", lists.lefts.size(),
                             value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100)));
}

void fill_vocabulary(const Lists& lists, Description& into) {
  PieceModelFacts& model = into.model;
  std::string bytes;
  // In the order of the ids, which the pieces of an object may not have.
  std::vector<uint32_t> order(lists.ids.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return lists.ids[a] < lists.ids[b]; });
  for (const uint32_t i : order) {
    const std::string_view piece = lists.pieces[i];
    const bool is_mapped = model.is_byte_level && bytes_of_piece(piece, bytes);
    model.vocabulary.add(lists.ids[i], is_mapped ? std::string_view(bytes) : piece, into.source,
                         is_mapped || !model.is_byte_level);
  }
  model.vocabulary.finish(into.source);
  model.scores = lists.scores;
}

int32_t find_piece(const PieceModelFacts& model, std::string_view text) {
  std::string bytes;
  if (!model.is_byte_level) return model.vocabulary.find(text);
  return bytes_of_piece(text, bytes) ? model.vocabulary.find(bytes) : kNoId;
}

void fill_merges(const Lists& lists, Description& into) {
  PieceModelFacts& model = into.model;
  std::string whole;
  model.merges.reserve(lists.lefts.size());
  for (size_t i = 0; i < lists.lefts.size(); ++i) {
    const std::string_view left = lists.lefts[i], right = lists.rights[i];
    whole.assign(left).append(right.starts_with(model.prefix) ? right.substr(model.prefix.size()) : right);
    const ListedMerge merge{find_piece(model, left), find_piece(model, right), find_piece(model, whole)};
    if (merge.left == kNoId || merge.right == kNoId || merge.piece == kNoId)
      refuse(into.source, fmt::format("the merge {} makes '{}' of '{}' and '{}', and the vocabulary lacks one of them",
                                      i, whole.substr(0, 100), left.substr(0, 100), right.substr(0, 100)));
    model.merges.push_back(merge);
  }
}

ModelKind model_kind_of(const Json& json, const Lists& lists, const std::string& source) {
  const std::string type = text_of(json, "type", "", source);
  if (type == "BPE") return ModelKind::Bpe;
  if (type == "WordPiece") return ModelKind::WordPiece;
  if (type == "Unigram") return ModelKind::Unigram;
  if (type == "WordLevel") return ModelKind::WordLevel;
  if (!type.empty()) refuse(source, fmt::format("the model '{}' is unknown", type.substr(0, 100)));
  // Older files name no type.
  if (lists.lefts.size() > 0 || json.contains("fuse_unk")) return ModelKind::Bpe;
  if (!lists.scores.empty()) return ModelKind::Unigram;
  return json.contains("continuing_subword_prefix") ? ModelKind::WordPiece : ModelKind::WordLevel;
}

void fill_model(const Json& json, const Lists& lists, Description& into) {
  PieceModelFacts& model = into.model;
  const std::string& source = into.source;
  if (!json.is_object()) refuse(source, "it has no model");
  model.kind = model_kind_of(json, lists, source);
  if ((model.kind == ModelKind::Unigram) != !lists.scores.empty())
    refuse(source, "pieces have scores in models of the type Unigram and in no others");
  model.is_byte_level = model.is_byte_level && model.kind == ModelKind::Bpe;
  const bool is_word_piece = model.kind == ModelKind::WordPiece;
  model.prefix = text_of(json, "continuing_subword_prefix", is_word_piece ? "##" : "", source);
  model.suffix = text_of(json, "end_of_word_suffix", "", source);
  model.fuses_unknown = flag_of(json, "fuse_unk", false, source);
  model.falls_back_to_bytes = flag_of(json, "byte_fallback", false, source);
  model.ignores_merges = flag_of(json, "ignore_merges", false, source);
  model.longest_word = number_of(json, "max_input_chars_per_word", 100, source);
  if (const auto dropout = json.find("dropout");
      dropout != json.end() && dropout->is_number() && dropout->get<double>() != 0)
    refuse(source, "the model has dropout, with which ids are random; set it to null");
  fill_vocabulary(lists, into);
  fill_merges(lists, into);
  if (model.kind == ModelKind::Unigram) {
    const int64_t unknown = number_of(json, "unk_id", kNoId, source);
    if (unknown != kNoId && !model.vocabulary.has(unknown)) refuse(source, fmt::format("unk_id is {}", unknown));
    if (unknown != kNoId) model.unknown = static_cast<int32_t>(unknown);
    return;
  }
  const std::string unknown = text_of(json, "unk_token", is_word_piece ? "[UNK]" : "", source);
  if (unknown.empty()) return;
  model.unknown = find_piece(model, unknown);
  if (*model.unknown == kNoId)
    refuse(source, fmt::format("the vocabulary lacks the piece '{}' of unknown words", unknown.substr(0, 100)));
}

AddedToken added_token(const Json& json, const Description& facts) {
  if (!json.is_object()) refuse(facts.source, "an added token is no object");
  const std::string& source = facts.source;
  AddedToken token;
  token.content = text_of(json, "content", "", source);
  const int64_t id = number_of(json, "id", kNoId, source);
  const int32_t known = find_piece(facts.model, token.content);
  if (id < 0 || id >= kMostPieces)
    refuse(source, fmt::format("the added token '{}' has the id {}", token.content.substr(0, 100), id));
  token.id = known != kNoId ? known : static_cast<int32_t>(id);
  token.is_special = flag_of(json, "special", false, source);
  token.is_normalised = flag_of(json, "normalized", !token.is_special, source);
  token.is_single_word = flag_of(json, "single_word", false, source);
  token.strips_left = flag_of(json, "lstrip", false, source);
  token.strips_right = flag_of(json, "rstrip", false, source);
  return token;
}

}  // namespace

Description read_tokenizer_json(const std::string& path) {
  Description description;
  description.source = path;
  Lists lists;
  std::vector<Json> added;
  const Json json = read_json(
      path, {{"model.vocab", [&](const std::string& key, Json& value) { add_piece(key, value, lists, path); }},
             {"model.merges", [&](const std::string&, Json& value) { add_merge(value, lists, path); }},
             {"added_tokens", [&](const std::string&, Json& value) { added.push_back(std::move(value)); }}});
  if (!json.is_object() || !json.contains("model"))
    refuse(path, "is no tokenizer.json: an object with 'model' and 'added_tokens'");
  const auto member = [&](const char* key) { return json.value(key, Json()); };
  read_normalisers(member("normalizer"), description);
  read_splitters(member("pre_tokenizer"), description);
  read_templates(member("post_processor"), description);
  read_decoders(member("decoder"), description);
  description.joins_by_spaces = description.decoders.empty();
  fill_model(member("model"), lists, description);
  for (const Json& token : added) description.added.push_back(added_token(token, description));
  return description;
}

}  // namespace plimsoll::tokenizer
