#include <plimsoll/tokenizer.h>

#include <algorithm>
#include <cstring>

#include "tokenizer/open.h"
#include "tokenizer/pipeline.h"

namespace plimsoll {
namespace {

constexpr size_t kWindow = 256 * KiB;    // of a stream: what is cut and encoded at a time
constexpr size_t kLongWindow = 4 * MiB;  // ... where no cut is found in the first

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const tokenizer::TokenPipeline> pipeline)
    : pipeline_(std::move(pipeline)), scratch_(std::make_unique<tokenizer::TokenScratch>()) {}
Tokenizer::Tokenizer(const Tokenizer& other) : Tokenizer(other.pipeline_) {}
Tokenizer& Tokenizer::operator=(const Tokenizer& other) {
  if (this != &other) *this = Tokenizer(other.pipeline_);
  return *this;
}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::open(const std::string& path, const TokenizerOptions& options) {
  return Tokenizer(std::make_shared<const tokenizer::TokenPipeline>(
      tokenizer::read_tokenizer(path, {options.pattern, options.special})));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) {
  std::vector<int32_t> ids;
  bool begins = true;
  // In windows, so that what is held between the steps stays small.
  while (text.size() > kLongWindow && can_cut()) {
    const size_t cut = pipeline_->find_cut(text.substr(0, kWindow));
    const size_t bytes = cut > 0 ? cut : pipeline_->find_cut(text.substr(0, kLongWindow));
    if (bytes == 0) break;
    repaired_ += pipeline_->encode(text.substr(0, bytes), begins, *scratch_, ids);
    text.remove_prefix(bytes);
    begins = false;
  }
  repaired_ += pipeline_->encode(text, begins, *scratch_, ids);
  return ids;
}

void Tokenizer::encode_stream(const std::function<size_t(std::span<char>)>& read,
                              const std::function<void(std::span<const int32_t>)>& write) {
  std::string held(kWindow, '\0');
  std::vector<int32_t> ids;
  size_t filled = 0;
  bool begins = true;
  for (bool has_more = true; has_more;) {
    if (filled == held.size()) held.resize(2 * held.size());
    const size_t got = read({held.data() + filled, held.size() - filled});
    filled += got;
    has_more = got > 0;
    if (has_more && (filled < held.size() || !can_cut())) continue;
    const size_t cut = has_more ? pipeline_->find_cut({held.data(), filled}) : filled;
    if (cut == 0) continue;
    ids.clear();
    repaired_ += pipeline_->encode({held.data(), cut}, begins, *scratch_, ids);
    begins = false;
    std::memmove(held.data(), held.data() + cut, filled - cut);
    filled -= cut;
    write(ids);
  }
}

bool Tokenizer::can_cut() const { return pipeline_->can_cut(); }

void Tokenizer::append_template(bool is_pair, std::string_view first, std::string_view second, EncodedText& into) {
  const std::vector<tokenizer::TemplatePart>& given = is_pair ? pipeline_->pair() : pipeline_->single();
  const std::vector<tokenizer::TemplatePart> plain = is_pair ? std::vector<tokenizer::TemplatePart>{{{}, 0}, {{}, 1, 1}}
                                                             : std::vector<tokenizer::TemplatePart>{{{}, 0}};
  for (const tokenizer::TemplatePart& part : given.empty() ? plain : given) {
    if (part.text < 0) {
      into.ids.insert(into.ids.end(), part.ids.begin(), part.ids.end());
    } else {
      const std::vector<int32_t> ids = encode(part.text == 0 ? first : second);
      into.ids.insert(into.ids.end(), ids.begin(), ids.end());
    }
    into.types.resize(into.ids.size(), part.type);
  }
}

EncodedText Tokenizer::encode_whole(std::string_view text) {
  EncodedText encoded;
  append_template(false, text, {}, encoded);
  return encoded;
}

EncodedText Tokenizer::encode_pair(std::string_view first, std::string_view second) {
  EncodedText encoded;
  append_template(true, first, second, encoded);
  return encoded;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skips_special) const {
  return pipeline_->decode(ids, skips_special);
}

int64_t Tokenizer::vocabulary_size() const { return pipeline_->size(); }
std::string_view Tokenizer::token(int32_t id) const { return pipeline_->token(id); }
std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  const int32_t id = pipeline_->find(token);
  return id == tokenizer::kNoId ? std::nullopt : std::optional(id);
}
bool Tokenizer::is_special(int32_t id) const { return pipeline_->is_special(id); }
Bytes Tokenizer::bytes() const { return pipeline_->bytes(); }
Bytes Tokenizer::scratch_bytes() const { return scratch_->bytes(); }

}  // namespace plimsoll
