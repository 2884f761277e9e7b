#include "tokenizer/json_steps.h"

#include <fmt/format.h>

#include "tokenizer/readers.h"
#include "tokenizer/regex.h"

namespace plimsoll::tokenizer {
namespace {

const Json* find_member(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::string type_of(const Json& json, const std::string& source) {
  const std::string type = json.is_object() ? text_of(json, "type", "", source) : "";
  if (type.empty()) refuse(source, "a step without a type");
  return type.substr(0, 100);
}

// Steps of a sequence, which may hold others, or the one step.
template <class Read>
void for_each_step(const Json& json, const char* key, const std::string& source, const Read& read) {
  if (json.is_null()) return;
  const std::string type = type_of(json, source);
  if (type != "Sequence") return read(type, json);
  const Json* const steps = find_member(json, key);
  if (steps == nullptr || !steps->is_array()) refuse(source, fmt::format("a Sequence without its {}", key));
  for (const Json& step : *steps) for_each_step(step, key, source, read);
}

Pattern pattern_of(const Json& json, const std::string& source) {
  const Json* const pattern = find_member(json, "pattern");
  if (pattern != nullptr && pattern->is_object() && pattern->size() == 1) {
    if (find_member(*pattern, "Regex") != nullptr) return {text_of(*pattern, "Regex", "", source), true};
    if (find_member(*pattern, "String") != nullptr) return {text_of(*pattern, "String", "", source), false};
  }
  refuse(source, "a pattern is neither a Regex nor a String");
}

Behaviour behaviour_of(const Json& json, const std::string& source) {
  const std::string name = text_of(json, "behavior", "Isolated", source);
  if (name == "Removed") return Behaviour::Removed;
  if (name == "Isolated") return Behaviour::Isolated;
  if (name == "MergedWithPrevious") return Behaviour::MergedWithPrevious;
  if (name == "MergedWithNext") return Behaviour::MergedWithNext;
  if (name == "Contiguous") return Behaviour::Contiguous;
  refuse(source, fmt::format("the behaviour '{}' of a splitter is unknown", name.substr(0, 100)));
}

// prepend_scheme, or add_prefix_space as older files have it.
Prepending prepending_of(const Json& json, const std::string& source) {
  const std::string usual = flag_of(json, "add_prefix_space", true, source) ? "always" : "never";
  const std::string name = text_of(json, "prepend_scheme", usual, source);
  if (name == "always") return Prepending::Always;
  if (name == "first") return Prepending::First;
  if (name == "never") return Prepending::Never;
  refuse(source, fmt::format("the prepend_scheme '{}' is unknown", name.substr(0, 100)));
}

Normaliser normaliser_of(const std::string& type, const Json& json, const std::string& source) {
  Normaliser step;
  constexpr std::pair<const char*, Form> kForms[] = {
      {"NFC", Form::Nfc}, {"NFD", Form::Nfd}, {"NFKC", Form::Nfkc}, {"NFKD", Form::Nfkd}};
  for (const auto& [name, form] : kForms)
    if (type == name) return {.kind = NormaliserKind::Form, .form = form};
  if (type == "Lowercase") {
    step.kind = NormaliserKind::Lowercase;
  } else if (type == "StripAccents") {
    step.kind = NormaliserKind::Accents;
  } else if (type == "Nmt") {
    step.kind = NormaliserKind::Nmt;
  } else if (type == "Strip") {
    step.kind = NormaliserKind::Strip;
    step.left = flag_of(json, "strip_left", true, source);
    step.right = flag_of(json, "strip_right", true, source);
  } else if (type == "Prepend") {
    step.kind = NormaliserKind::Prepend;
    step.content = text_of(json, "prepend", "", source);
  } else if (type == "Replace") {
    step.kind = NormaliserKind::Replace;
    step.pattern = pattern_of(json, source);
    step.content = text_of(json, "content", "", source);
  } else if (type == "Precompiled") {
    step.kind = NormaliserKind::CharsMap;
    step.content = decode_base64(text_of(json, "precompiled_charsmap", "", source), source + ": precompiled_charsmap");
  } else if (type == "BertNormalizer") {
    step.kind = NormaliserKind::Bert;
    step.cleans = flag_of(json, "clean_text", true, source);
    step.spaces_ideographs = flag_of(json, "handle_chinese_chars", true, source);
    step.lowers = flag_of(json, "lowercase", true, source);
    step.strips_accents = flag_of(json, "strip_accents", step.lowers, source);
  } else {
    refuse(source, fmt::format("the normaliser '{}' is unknown", type));
  }
  return step;
}

void add_splitter(const std::string& type, const Json& json, Description& into) {
  const std::string& source = into.source;
  if (into.model.is_byte_level)
    refuse(source, fmt::format("the pre-tokeniser '{}' comes after ByteLevel, which has to be the last one", type));
  Splitter step;
  if (type == "ByteLevel") {
    into.model.is_byte_level = true;
    step.kind = SplitterKind::Prefix;
    if (flag_of(json, "add_prefix_space", true, source)) into.splitters.push_back(step);
    if (!flag_of(json, "use_regex", true, source)) return;
    step.kind = SplitterKind::Pattern;
    step.pattern = {kGpt2Pattern, true};
  } else if (type == "Split") {
    step.pattern = pattern_of(json, source);
    step.behaviour = behaviour_of(json, source);
    step.is_inverted = flag_of(json, "invert", false, source);
  } else if (type == "CharDelimiterSplit") {
    step.pattern.text = text_of(json, "delimiter", "", source);
    step.behaviour = Behaviour::Removed;
  } else if (type == "Metaspace") {
    step.kind = SplitterKind::Metaspace;
    step.mark = text_of(json, "replacement", kSpaceMark, source);
    step.prepending = prepending_of(json, source);
    step.splits = flag_of(json, "split", true, source);
    if (step.mark.empty()) refuse(source, "the replacement of Metaspace is empty");
  } else if (type == "BertPreTokenizer") {
    step.kind = SplitterKind::Bert;
  } else if (type == "Whitespace") {
    step.kind = SplitterKind::Words;
  } else if (type == "WhitespaceSplit") {
    step.kind = SplitterKind::Spaces;
  } else if (type == "Punctuation") {
    step.kind = SplitterKind::Punctuation;
    step.behaviour = behaviour_of(json, source);
  } else if (type == "Digits") {
    step.kind = SplitterKind::Digits;
    step.is_individual = flag_of(json, "individual_digits", false, source);
  } else {
    refuse(source, fmt::format("the pre-tokeniser '{}' is unknown", type));
  }
  into.splitters.push_back(step);
}

int32_t id_of(const Json& value, const std::string& source) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= kMostPieces)
    refuse(source, fmt::format("an id of a template is {}", value.dump().substr(0, 100)));
  return value.get<int32_t>();
}

// [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, ...]
std::vector<TemplatePart> parts_of(const Json& json, const char* key, const std::string& source) {
  std::vector<TemplatePart> parts;
  const Json* const list = find_member(json, key);
  if (list == nullptr) return parts;
  if (!list->is_array()) refuse(source, fmt::format("the template '{}' is no list", key));
  const Json* const tokens = find_member(json, "special_tokens");
  for (const Json& part : *list) {
    const Json* const text = part.is_object() ? find_member(part, "Sequence") : nullptr;
    const Json* const special = part.is_object() ? find_member(part, "SpecialToken") : nullptr;
    const Json* const facts = text != nullptr ? text : special;
    if (facts == nullptr || !facts->is_object())
      refuse(source, fmt::format("a part of the template '{}' is unknown", key));
    TemplatePart& added = parts.emplace_back();
    added.type = static_cast<int32_t>(number_of(*facts, "type_id", 0, source));
    const std::string id = text_of(*facts, "id", "", source);
    if (text != nullptr) {
      added.text = id == "B" ? 1 : 0;
      continue;
    }
    const Json* const token = tokens != nullptr && tokens->is_object() ? find_member(*tokens, id.c_str()) : nullptr;
    const Json* const ids = token != nullptr && token->is_object() ? find_member(*token, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array())
      refuse(source, fmt::format("the template has no ids for '{}'", id.substr(0, 100)));
    for (const Json& one : *ids) added.ids.push_back(id_of(one, source));
  }
  return parts;
}

// ["[SEP]", 102]
int32_t pair_id(const Json& json, const char* key, const std::string& source) {
  const Json* const pair = find_member(json, key);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2) refuse(source, fmt::format("'{}' is no pair", key));
  return id_of((*pair)[1], source);
}

void add_template(const std::string& type, const Json& json, Description& into) {
  const std::string& source = into.source;
  if (type == "ByteLevel") return;  // it changes places in the text, not ids
  if (!into.single.empty() || !into.pair.empty()) refuse(source, "there are two templates");
  if (type == "TemplateProcessing") {
    into.single = parts_of(json, "single", source);
    into.pair = parts_of(json, "pair", source);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const int32_t cls = pair_id(json, "cls", source), sep = pair_id(json, "sep", source);
    into.single = {{{cls}}, {{}, 0}, {{sep}}};
    if (type == "BertProcessing")
      into.pair = {{{cls}}, {{}, 0}, {{sep}}, {{}, 1, 1}, {{sep}, -1, 1}};
    else
      into.pair = {{{cls}}, {{}, 0}, {{sep}}, {{sep}}, {{}, 1}, {{sep}}};
  } else {
    refuse(source, fmt::format("the post-processor '{}' is unknown", type));
  }
}

Decoder decoder_of(const std::string& type, const Json& json, const std::string& source) {
  Decoder step;
  if (type == "ByteLevel") {
    step.kind = DecoderKind::ByteLevel;
  } else if (type == "WordPiece") {
    step.kind = DecoderKind::WordPiece;
    step.content = text_of(json, "prefix", "##", source);
    step.cleans = flag_of(json, "cleanup", true, source);
  } else if (type == "Metaspace") {
    step.kind = DecoderKind::Metaspace;
    step.content = text_of(json, "replacement", kSpaceMark, source);
    step.prepending = prepending_of(json, source);
  } else if (type == "BPEDecoder") {
    step.kind = DecoderKind::Suffix;
    step.content = text_of(json, "suffix", "</w>", source);
  } else if (type == "Replace") {
    step.kind = DecoderKind::Replace;
    step.pattern = pattern_of(json, source);
    step.content = text_of(json, "content", "", source);
  } else if (type == "Fuse") {
    step.kind = DecoderKind::Fuse;
  } else if (type == "ByteFallback") {
    step.kind = DecoderKind::Bytes;
  } else if (type == "Strip") {
    step.kind = DecoderKind::Strip;
    step.content = text_of(json, "content", " ", source);
    step.start = number_of(json, "start", 0, source);
    step.stop = number_of(json, "stop", 0, source);
    if (step.content.empty()) refuse(source, "the decoder 'Strip' has no content");
  } else {
    refuse(source, fmt::format("the decoder '{}' is unknown", type));
  }
  return step;
}

template <class Value>
Value value_of(const Json& json, const char* key, Value fallback, bool is_right, const char* kind,
               const std::string& source) {
  const Json* const value = find_member(json, key);
  if (value == nullptr) return fallback;
  if (!is_right) refuse(source, fmt::format("'{}' is not {}", key, kind));
  return value->get<Value>();
}

}  // namespace

bool flag_of(const Json& json, const char* key, bool fallback, const std::string& source) {
  const Json* const value = find_member(json, key);
  return value_of(json, key, fallback, value != nullptr && value->is_boolean(), "true or false", source);
}

std::string text_of(const Json& json, const char* key, const std::string& fallback, const std::string& source) {
  const Json* const value = find_member(json, key);
  return value_of(json, key, fallback, value != nullptr && value->is_string(), "a text", source);
}

int64_t number_of(const Json& json, const char* key, int64_t fallback, const std::string& source) {
  const Json* const value = find_member(json, key);
  return value_of(json, key, fallback, value != nullptr && value->is_number_integer(), "a whole number", source);
}

void read_normalisers(const Json& json, Description& into) {
  for_each_step(json, "normalizers", into.source, [&](const std::string& type, const Json& step) {
    into.normalisers.push_back(normaliser_of(type, step, into.source));
  });
}

void read_splitters(const Json& json, Description& into) {
  for_each_step(json, "pretokenizers", into.source,
                [&](const std::string& type, const Json& step) { add_splitter(type, step, into); });
}

void read_templates(const Json& json, Description& into) {
  for_each_step(json, "processors", into.source,
                [&](const std::string& type, const Json& step) { add_template(type, step, into); });
}

void read_decoders(const Json& json, Description& into) {
  for_each_step(json, "decoders", into.source, [&](const std::string& type, const Json& step) {
    into.decoders.push_back(decoder_of(type, step, into.source));
  });
}

}  // namespace plimsoll::tokenizer
