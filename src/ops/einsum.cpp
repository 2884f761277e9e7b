// einsum: sums of products by an equation; composed of transposes, reshapes and matrix products.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// A tensor whose axes have letters.
struct Lettered {
  Tensor tensor;
  std::string letters;
};

bool has(std::string_view letters, char letter) { return letters.find(letter) != std::string_view::npos; }

class Equation {
 public:
  Equation(std::string_view text, const std::vector<Tensor>& operands, Name name) : text_(text), name_(name) {
    std::string plain;
    for (const char c : text)
      if (c != ' ') plain.push_back(c);
    const size_t arrow = plain.find("->");
    std::string left = plain.substr(0, arrow);
    std::vector<std::string> terms(1);
    for (const char c : left) {
      if (c == ',')
        terms.emplace_back();
      else
        terms.back().push_back(c);
    }
    if (terms.size() != operands.size()) fail(fmt::format("it names {} operands of {}", terms.size(), operands.size()));
    for (size_t i = 0; i < terms.size(); ++i) add(operands[i], terms[i]);
    result_ = arrow == std::string::npos ? implied() : expand(plain.substr(arrow + 2), rest_);
    for (const char c : result_) {
      if (!sizes_.contains(c)) fail(fmt::format("'{}' of the result is in no operand", c));
      if (std::ranges::count(result_, c) != 1) fail(fmt::format("'{}' is in the result twice", c));
    }
  }

  Tensor compute() {
    Lettered sum = operands_[0];
    for (size_t i = 1; i < operands_.size(); ++i) {
      std::string needed = result_;  // and by operands to come
      for (size_t k = i + 1; k < operands_.size(); ++k) needed += operands_[k].letters;
      sum = product(sum, operands_[i], needed);
    }
    return ordered(summed(sum, result_), result_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("einsum '{}': equation '{}': {}", std::string_view(name_), text_, why));
  }

  // Dots stand for axes without letters: the same for all operands, counted from the last one.
  std::string expand(const std::string& term, int64_t dots) const {
    const size_t at = term.find("...");
    std::string letters = term;
    if (at != std::string::npos) {
      std::string digits;
      for (int64_t i = dots; i > 0; --i) digits.push_back(static_cast<char>('0' + i));
      letters = term.substr(0, at) + digits + term.substr(at + 3);
    }
    for (const char c : letters)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) fail(fmt::format("'{}' is no letter", c));
    return letters;
  }

  void add(const Tensor& operand, const std::string& term) {
    const int64_t dots =
        term.find("...") == std::string::npos ? 0 : operand.rank() - static_cast<int64_t>(term.size()) + 3;
    if (dots < 0 || dots > kMaxRank)
      fail(fmt::format("'{}' has more letters than {} has axes", term, to_string(operand.type())));
    rest_ = std::max(rest_, dots);
    const std::string letters = expand(term, dots);
    if (static_cast<int>(letters.size()) != operand.rank())
      fail(fmt::format("'{}' has not as many letters as {} has axes", term, to_string(operand.type())));
    for (size_t i = 0; i < letters.size(); ++i) {
      const char c = letters[i];
      if (std::ranges::count(letters, c) != 1)
        fail(fmt::format("'{}' is in '{}' twice; take the diagonal first", c, term));
      const Dim size = operand.dim(static_cast<int>(i));
      const auto [known, is_first] = sizes_.emplace(c, size);
      if (!is_first && !(known->second == size))
        fail(fmt::format("'{}' is {} and {}", c, to_string(known->second), to_string(size)));
    }
    operands_.push_back({operand, letters});
  }

  // Without an arrow: dots, then letters that occur once, in the order of the alphabet.
  std::string implied() const {
    std::string all, result;
    for (const Lettered& operand : operands_) all += operand.letters;
    for (int64_t i = rest_; i > 0; --i) result.push_back(static_cast<char>('0' + i));
    for (const auto& [letter, size] : sizes_)
      if (std::isalpha(static_cast<unsigned char>(letter)) != 0 && std::ranges::count(all, letter) == 1)
        result.push_back(letter);
    return result;
  }

  static Lettered summed(const Lettered& x, std::string_view needed) {
    Dims axes;
    Lettered y;
    for (size_t i = 0; i < x.letters.size(); ++i) {
      if (has(needed, x.letters[i]))
        y.letters.push_back(x.letters[i]);
      else
        axes.push_back(static_cast<int64_t>(i));
    }
    y.tensor = axes.empty() ? x.tensor : reduce_sum(x.tensor, axes);
    return y;
  }

  static Tensor ordered(const Lettered& x, std::string_view letters) {
    Dims order;
    bool moves = false;
    for (const char c : letters) {
      order.push_back(static_cast<int64_t>(x.letters.find(c)));
      moves = moves || order.back() != order.rank() - 1;
    }
    return moves ? transpose(x.tensor, order) : x.tensor;
  }

  Dim size_of(std::string_view letters) const {
    Dim size = 1;
    for (const char c : letters) size = size * sizes_.at(c);
    return size;
  }

  // [kept of both, own of a, summed] times [kept of both, summed, own of b].
  Lettered product(const Lettered& a_whole, const Lettered& b_whole, std::string_view needed) const {
    const Lettered a = summed(a_whole, std::string(needed) + b_whole.letters);
    const Lettered b = summed(b_whole, std::string(needed) + a_whole.letters);
    std::string both, own_a, own_b, over;
    for (const char c : a.letters) (!has(b.letters, c) ? own_a : has(needed, c) ? both : over).push_back(c);
    for (const char c : b.letters)
      if (!has(a.letters, c)) own_b.push_back(c);
    Shape left, right, result;
    for (const char c : both) {
      left.push_back(sizes_.at(c));
      right.push_back(sizes_.at(c));
      result.push_back(sizes_.at(c));
    }
    left.push_back(size_of(own_a));
    left.push_back(size_of(over));
    right.push_back(size_of(over));
    right.push_back(size_of(own_b));
    for (const char c : own_a + own_b) result.push_back(sizes_.at(c));
    const Tensor x = reshape(ordered(a, both + own_a + over), left);
    const Tensor y = reshape(ordered(b, both + over + own_b), right);
    const Tensor z = over.empty() ? mul(x, y) : matmul(x, y);
    return {reshape(z, result), both + own_a + own_b};
  }

  std::string_view text_;
  Name name_;
  std::vector<Lettered> operands_;
  std::map<char, Dim> sizes_;
  std::string result_;
  int64_t rest_ = 0;  // axes that dots stand for
};

std::vector<Sample> samples() {
  const auto of = [](const char* name, const char* equation, std::vector<Shape> shapes) {
    return Sample{name, [=](SampleBuilder& s) {
                    std::vector<Tensor> operands;
                    for (const Shape& shape : shapes) operands.push_back(s.input(shape));
                    return std::vector{einsum(equation, operands)};
                  }};
  };
  const Dim batch = Dim::batch();
  return {of("product", "ij,jk->ik", {{batch, 3}, {3, 5}}),
          of("heads", "bqhd,bkhd->bhqk", {{batch, 3, 2, 4}, {batch, 5, 2, 4}}),
          of("dense over dots", "...x,xyz->...yz", {{batch, 3, 4}, {4, 2, 5}}),
          of("outer", "bi,bj->bij", {{batch, 3}, {batch, 4}}),
          of("sums", "bij->b", {{batch, 3, 4}}),
          of("transpose", "bij->bji", {{batch, 3, 4}}),
          of("over the batch", "bi,bj->ij", {{batch, 3}, {batch, 4}}),
          of("three", "bi,ij,j->b", {{batch, 3}, {3, 4}, {4}}),
          of("implied", "cb,ba", {{3, 5}, {5, 2}}),
          of("own sums", "bik,jk->bj", {{batch, 3, 4}, {5, 4}})};
}

const Op kEinsum{.name = "einsum", .samples = samples};

}  // namespace

Tensor einsum(std::string_view equation, std::vector<Tensor> operands, Name name) {
  if (operands.empty()) throw Error(fmt::format("einsum '{}': there are no operands", std::string_view(name)));
  return Equation(equation, operands, name).compute();
}

OpList einsum_ops() { return {&kEinsum}; }

}  // namespace plimsoll::ops
