// Reads files of pieces and their ranks: tiktoken's, Mistral's tekken.json, GPT-2's two files, BERT's list of words.
#include <charconv>

#include <fmt/format.h>

#include "memory/file.h"
#include "tokenizer/json_file.h"
#include "tokenizer/json_steps.h"
#include "tokenizer/merges.h"
#include "tokenizer/readers.h"
#include "tokenizer/regex.h"

namespace plimsoll::tokenizer {
namespace {

constexpr Bytes kLongestLine = 64 * KiB;
constexpr Bytes kLongestList = 512 * MiB;

// Calls `visit(line, its number from 1)` for each line, without its end.
template <class Visit>
void for_each_line(const std::string& path, const Visit& visit) {
  const memory::File file = memory::File::open(path);
  const Bytes size = file.size();
  if (size > kLongestList) refuse(path, fmt::format("has {}; vocabularies have less", format_bytes(size)));
  std::string held;
  int64_t number = 0;
  const auto give = [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line, ++number);
  };
  for (Bytes at = 0; at < size;) {
    const size_t before = held.size();
    held.resize(before + static_cast<size_t>(kLongestLine));
    const Bytes got = file.read_some(at, kLongestLine, held.data() + before, path);
    held.resize(before + static_cast<size_t>(got));
    if (got == 0) break;
    at += got;
    size_t begin = 0;
    for (size_t end = held.find('\n', before); end != std::string::npos; end = held.find('\n', begin)) {
      give(std::string_view(held).substr(begin, end - begin));
      begin = end + 1;
    }
    held.erase(0, begin);
    if (held.size() > static_cast<size_t>(kLongestLine))
      refuse(path, fmt::format("line {} is longer than {}", number + 1, format_bytes(kLongestLine)));
  }
  if (!held.empty()) give(held);
}

std::vector<std::string> numbered(const char* form, int first, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format(fmt::runtime(form), first + i));
  return names;
}

void append(std::vector<std::string>& into, const std::vector<std::string>& more) {
  into.insert(into.end(), more.begin(), more.end());
}

std::vector<std::string> llama4_tokens() {
  std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>",  "<|fim_prefix|>", "<|fim_middle|>",
                                    "<|fim_suffix|>",    "<|header_start|>", "<|header_end|>", "<|eom|>",
                                    "<|eot|>",           "<|step|>"};
  append(names, numbered("<|text_post_train_reserved_special_token_{}|>", 0, 6));
  append(names, {"<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"});
  append(names, numbered("<|text_post_train_reserved_special_token_{}|>", 8, 61));
  append(names, {"<|image_start|>", "<|image_end|>"});
  append(names, numbered("<|vision_reserved_special_token_{}|>", 0, 2));
  append(names, {"<|tile_x_separator|>", "<|tile_y_separator|>"});
  append(names, numbered("<|vision_reserved_special_token_{}|>", 2, 4));
  append(names, {"<|image|>", "<|vision_reserved_special_token_6|>", "<|patch|>"});
  append(names, numbered("<|vision_reserved_special_token_{}|>", 7, 1041));
  append(names, numbered("<|reasoning_reserved_special_token_{}|>", 0, 8));
  append(names, {"<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"});
  return names;
}

// The file has no name in it: vocabularies that people have are known by their sizes.
RankedFacts known_facts(int64_t pieces, const std::string& path) {
  if (pieces == 128'000) {  // Llama 3
    std::vector<std::string> names = {"<|begin_of_text|>",
                                      "<|end_of_text|>",
                                      "<|reserved_special_token_0|>",
                                      "<|reserved_special_token_1|>",
                                      "<|finetune_right_pad_id|>",
                                      "<|step_id|>",
                                      "<|start_header_id|>",
                                      "<|end_header_id|>",
                                      "<|eom_id|>",
                                      "<|eot_id|>",
                                      "<|python_tag|>",
                                      "<|image|>"};
    append(names, numbered("<|reserved_special_token_{}|>", 2, 256 - static_cast<int>(names.size())));
    return {kLlama3Pattern, names};
  }
  if (pieces == 200'000) return {kLlama4Pattern, llama4_tokens()};
  if (pieces == 151'643) {  // Qwen
    std::vector<std::string> names = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    append(names, numbered("<|extra_{}|>", 0, 205));
    return {kQwen2Pattern, names};
  }
  if (pieces == 50'256) return {kGpt2Pattern, {"<|endoftext|>"}};
  refuse(path,
         fmt::format("has {} ranks, which is no vocabulary that is known (Llama 3 and 4, Qwen, GPT-2), and the file "
                     "does not say how text is cut; give the pattern, or the tokenizer.json",
                     pieces));
}

void make_ranked(Description& description, const RankedFacts& facts) {
  PieceModelFacts& model = description.model;
  model.vocabulary.finish(description.source);
  make_byte_level(description, facts.pattern);
  model.order = MergeOrder::ByPiece;
  model.ignores_merges = true;  // a word that is a piece is that piece
  model.ranks.resize(static_cast<size_t>(model.vocabulary.size()));
  for (size_t id = 0; id < model.ranks.size(); ++id) model.ranks[id] = static_cast<uint32_t>(id);
  for (int byte = 0; byte < 256; ++byte)
    if (const char one = static_cast<char>(byte); model.vocabulary.find({&one, 1}) == kNoId)
      refuse(description.source, fmt::format("the vocabulary lacks the byte {}", byte));
}

}  // namespace

Description read_tiktoken(const std::string& path, const RankedFacts& facts) {
  Description description;
  description.source = path;
  Vocabulary& vocabulary = description.model.vocabulary;
  for_each_line(path, [&](std::string_view line, int64_t number) {
    if (line.empty()) return;
    const size_t space = line.find(' ');
    int32_t rank = -1;
    const char* const end = line.data() + line.size();
    if (space == std::string_view::npos || std::from_chars(line.data() + space + 1, end, rank).ptr != end || rank < 0)
      refuse(path, fmt::format("line {} is not a piece in base64 and its rank", number));
    const std::string piece = decode_base64(line.substr(0, space), fmt::format("{}: line {}", path, number));
    if (piece.empty()) refuse(path, fmt::format("line {} has an empty piece", number));
    vocabulary.add(rank, piece, path);
  });
  const RankedFacts known = facts.pattern.empty() ? known_facts(vocabulary.pieces(), path) : facts;
  make_ranked(description, known);
  auto id = static_cast<int32_t>(vocabulary.size());
  for (const std::string& name : known.special) description.added.push_back({id++, name, true});
  return description;
}

Description read_tekken(const std::string& path) {
  Description description;
  description.source = path;
  Texts pieces;
  const Json json = read_json(
      path, {{"vocab", [&](const std::string&, Json& value) {
                if (!value.is_object() || number_of(value, "rank", -1, path) != static_cast<int64_t>(pieces.size()))
                  refuse(path, fmt::format("the piece {} has another rank", pieces.size()));
                pieces.add(decode_base64(text_of(value, "token_bytes", "", path), path + ": token_bytes"));
              }}});
  const Json config = json.is_object() ? json.value("config", Json()) : Json();
  if (!config.is_object()) refuse(path, "is no tekken.json: an object with 'config' and 'vocab'");
  const int64_t special = number_of(config, "default_num_special_tokens", 0, path);
  const int64_t size = number_of(config, "default_vocab_size", 0, path);
  if (special < 0 || size <= special || size - special > static_cast<int64_t>(pieces.size()))
    refuse(path,
           fmt::format("has {} pieces for a vocabulary of {} with {} special tokens", pieces.size(), size, special));
  // Special tokens come first. Those that the file does not list have names by their numbers.
  Vocabulary& vocabulary = description.model.vocabulary;
  std::vector<std::string> names;
  for (int64_t id = 0; id < special; ++id) names.push_back(fmt::format("<SPECIAL_{}>", id));
  constexpr const char* kFirst[] = {"<unk>",
                                    "<s>",
                                    "</s>",
                                    "[INST]",
                                    "[/INST]",
                                    "[AVAILABLE_TOOLS]",
                                    "[/AVAILABLE_TOOLS]",
                                    "[TOOL_RESULTS]",
                                    "[/TOOL_RESULTS]",
                                    "[TOOL_CALLS]",
                                    "[IMG]",
                                    "<pad>",
                                    "[IMG_BREAK]",
                                    "[IMG_END]",
                                    "[PREFIX]",
                                    "[MIDDLE]",
                                    "[SUFFIX]",
                                    "[SYSTEM_PROMPT]",
                                    "[/SYSTEM_PROMPT]",
                                    "[TOOL_CONTENT]"};
  for (size_t i = 0; i < std::size(kFirst) && i < names.size(); ++i) names[i] = kFirst[i];
  for (const Json& token : json.value("special_tokens", Json::array())) {
    const int64_t rank = token.is_object() ? number_of(token, "rank", -1, path) : -1;
    if (rank < 0 || rank >= special) refuse(path, "a special token has no rank among them");
    names[static_cast<size_t>(rank)] = text_of(token, "token_str", "", path);
  }
  for (int64_t id = 0; id < special; ++id) {
    vocabulary.add(static_cast<int32_t>(id), names[static_cast<size_t>(id)], path, false);
    description.added.push_back({static_cast<int32_t>(id), names[static_cast<size_t>(id)], true});
  }
  for (int64_t id = special; id < size; ++id)
    vocabulary.add(static_cast<int32_t>(id), pieces[static_cast<size_t>(id - special)], path);
  make_ranked(description, {text_of(config, "pattern", "", path), {}});
  return description;
}

Description read_gpt2(const std::string& vocabulary_path, const std::string& merges_path) {
  Description description;
  description.source = vocabulary_path;
  PieceModelFacts& model = description.model;
  make_byte_level(description, kGpt2Pattern);
  std::string bytes;
  Texts pieces;
  std::vector<int32_t> ids;
  const Json rest =
      read_json(vocabulary_path,
                {{"", [&](const std::string& key, Json& value) {
                    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= kMostPieces)
                      refuse(vocabulary_path, fmt::format("the piece '{}' has no id", key.substr(0, 100)));
                    pieces.add(key);
                    ids.push_back(value.get<int32_t>());
                  }}});
  if (!rest.is_object()) refuse(vocabulary_path, "is no object of pieces and ids");
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool is_mapped = bytes_of_piece(pieces[i], bytes);
    model.vocabulary.add(ids[i], is_mapped ? std::string_view(bytes) : pieces[i], vocabulary_path, is_mapped);
  }
  model.vocabulary.finish(vocabulary_path);
  for_each_line(merges_path, [&](std::string_view line, int64_t number) {
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    const size_t space = line.find(' ');
    std::string left, right;
    const bool is_pair = space != std::string_view::npos && right_bytes(line) == line.size() &&
                         bytes_of_piece(line.substr(0, space), left) && bytes_of_piece(line.substr(space + 1), right);
    const ListedMerge merge{model.vocabulary.find(left), model.vocabulary.find(right),
                            model.vocabulary.find(left + right)};
    if (!is_pair || merge.left == kNoId || merge.right == kNoId || merge.piece == kNoId)
      refuse(merges_path, fmt::format("line {} is not two pieces of the vocabulary that make a third", number));
    model.merges.push_back(merge);
  });
  if (const int32_t end = model.vocabulary.find("<|endoftext|>"); end != kNoId)
    description.added.push_back({end, "<|endoftext|>", true});
  return description;
}

Description read_word_list(const std::string& path, bool lowers) {
  Description description;
  description.source = path;
  PieceModelFacts& model = description.model;
  for_each_line(path, [&](std::string_view line, int64_t number) {
    if (right_bytes(line) != line.size()) refuse(path, fmt::format("line {} is not UTF-8", number));
    model.vocabulary.add(static_cast<int32_t>(number - 1), line, path);
  });
  model.vocabulary.finish(path);
  model.kind = ModelKind::WordPiece;
  model.prefix = "##";
  const auto id_of = [&](const char* name) {
    const int32_t id = model.vocabulary.find(name);
    if (id == kNoId) refuse(path, fmt::format("is no vocabulary of BERT: it lacks '{}'", name));
    return id;
  };
  model.unknown = id_of("[UNK]");
  Normaliser normaliser;
  normaliser.kind = NormaliserKind::Bert;
  normaliser.strips_accents = normaliser.lowers = lowers;
  description.normalisers.push_back(normaliser);
  Splitter splitter;
  splitter.kind = SplitterKind::Bert;
  description.splitters.push_back(splitter);
  Decoder decoder;
  decoder.kind = DecoderKind::WordPiece;
  decoder.content = "##";
  decoder.cleans = true;
  description.decoders.push_back(decoder);
  const int32_t cls = id_of("[CLS]"), sep = id_of("[SEP]");
  description.single = {{{cls}}, {{}, 0}, {{sep}}};
  description.pair = {{{cls}}, {{}, 0}, {{sep}}, {{}, 1, 1}, {{sep}, -1, 1}};
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const int32_t id = model.vocabulary.find(name); id != kNoId) description.added.push_back({id, name, true});
  return description;
}

}  // namespace plimsoll::tokenizer
