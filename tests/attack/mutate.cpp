#include "attack/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/random.h"

namespace plimsoll::testing {
namespace {

constexpr size_t kLongestFile = 1 << 20;

constexpr std::array<std::string_view, 20> kNumbers{"0",
                                                    "-1",
                                                    "1",
                                                    "2",
                                                    "63",
                                                    "255",
                                                    "65536",
                                                    "2147483647",
                                                    "2147483648",
                                                    "4294967295",
                                                    "4294967296",
                                                    "1152921504606846976",
                                                    "4611686018427387904",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "18446744073709551615",
                                                    "99999999999999999999999",
                                                    "1e999",
                                                    "nan",
                                                    "-"};
constexpr std::array<int64_t, 12> kWords{0,          -1,          1,          255,       65535,     65536,
                                         2147483647, -2147483648, 4294967295, 1LL << 62, INT64_MAX, INT64_MIN};
constexpr std::string_view kMarks = "{}[]()\"'\\,:;=@# \n\t-+.0\x00\xff";

class Damage {
 public:
  Damage(const std::vector<std::string>& files, uint64_t seed) : files_(files), random_(seed) {}

  std::string run() {
    text_ = files_[below(files_.size())];
    for (size_t changes = 1 + below(6); changes > 0; --changes) change();
    if (text_.size() > kLongestFile) text_.resize(kLongestFile);
    return text_;
  }

 private:
  size_t below(size_t end) { return end == 0 ? 0 : random_.next() % end; }
  size_t place() { return below(text_.size()); }
  // Headers are where the meaning is.
  size_t early_place() { return below(3) == 0 ? place() : below(std::min<size_t>(text_.size(), 160)); }

  void change() {
    if (text_.empty()) text_ = "x";
    switch (below(11)) {
      case 0:
        text_[early_place()] ^= static_cast<char>(1U << below(8));
        break;
      case 1:
        text_[early_place()] = static_cast<char>(below(256));
        break;
      case 2:
        text_.resize(place());
        break;
      case 3:
        text_.insert(early_place(), std::string(1 + below(below(8) == 0 ? 5000 : 8), static_cast<char>(below(256))));
        break;
      case 4:
        text_.erase(early_place(), 1 + below(below(4) == 0 ? text_.size() : 8));
        break;
      case 5: {
        const std::string& other = files_[below(files_.size())];
        text_ = text_.substr(0, place()) + other.substr(below(other.size()));
        break;
      }
      case 6:
      case 7:
        change_number();
        break;
      case 8:
        overwrite_word();
        break;
      case 9:
        text_.insert(early_place(), 1, kMarks[below(kMarks.size())]);
        break;
      default:
        repeat();
    }
  }

  // A run of digits, somewhere after a place.
  void change_number() {
    const size_t begin = text_.find_first_of("0123456789", place());
    if (begin == std::string::npos) return;
    const size_t end = std::min(text_.find_first_not_of("0123456789", begin), text_.size());
    text_.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
  }

  void overwrite_word() {
    const int64_t word = kWords[below(kWords.size())];
    const size_t bytes = size_t{1} << below(4);
    const size_t at = early_place();
    std::memcpy(text_.data() + at, &word, std::min(bytes, text_.size() - at));
  }

  // A line, or a stretch of bytes, stands twice.
  void repeat() {
    const size_t at = place();
    const size_t begin = std::min(text_.rfind('\n', at) + 1, text_.size());  // 0 when there is none
    const size_t end = std::min(text_.find('\n', at), text_.size());
    const std::string piece = end > begin ? text_.substr(begin, std::min<size_t>(end + 1 - begin, 4096)) : "\n";
    text_.insert(below(2) == 0 ? begin : place(), piece);
  }

  const std::vector<std::string>& files_;
  RandomSequence random_;
  std::string text_;
};

}  // namespace

std::string mutate(const std::vector<std::string>& files, uint64_t seed) { return Damage(files, seed).run(); }

}  // namespace plimsoll::testing
