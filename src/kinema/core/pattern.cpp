#include "kinema/core/pattern.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema {

namespace {

constexpr size_t kLongestPattern = 1000;
constexpr size_t kLongestText = 255;
constexpr int kDeepest = 100;

using Letters = std::bitset<256>;
/// Positions of a text, its end included.
using Places = std::bitset<kLongestText + 1>;

}  // namespace

/// One node of the syntax tree.
struct Pattern::Part {
  enum class Kind { LETTER, SEQUENCE, CHOICE, REPEAT, BEGIN, END, WORD_EDGE, AHEAD };
  Kind kind = Kind::SEQUENCE;
  std::vector<std::shared_ptr<const Part>> parts = {};
  Letters letters = {};  // LETTER: those that it takes
  size_t least = 0;      // REPEAT
  size_t most = 0;       // REPEAT
  bool negated = false;  // AHEAD, WORD_EDGE
};

namespace {

using Part = Pattern::Part;
using Shared = std::shared_ptr<const Part>;

Letters between(unsigned char low, unsigned char high) {
  Letters out;
  for (size_t c = low; c <= high; ++c) {
    out.set(c);
  }
  return out;
}

Letters one(char c) { return Letters().set(static_cast<unsigned char>(c)); }

Letters digits() { return between('0', '9'); }
Letters word_letters() { return digits() | between('a', 'z') | between('A', 'Z') | one('_'); }
Letters blanks() { return between('\t', '\r') | one(' '); }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Shared read() {
    Shared all = choice();
    check(at_ == text_.size(), "[pattern] `{}`: `)` at {} closes nothing", text_, at_ + 1);
    return all;
  }

 private:
  bool ended() const { return at_ == text_.size(); }
  bool sees(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool takes(std::string_view what) {
    const bool here = sees(what);
    at_ += here ? what.size() : 0;
    return here;
  }
  char next() {
    check(!ended(), "[pattern] `{}` ends too early", text_);
    return text_[at_++];
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("[pattern] `{}`: {} before {} is not taken", text_, what, at_ + 1);
  }

  Shared choice() {
    check(++depth_ <= kDeepest, "[pattern] `{}` has more than {} groups in each other", text_,
          kDeepest);
    Part out{.kind = Part::Kind::CHOICE};
    do {
      out.parts.push_back(sequence());
    } while (takes("|"));
    --depth_;
    return out.parts.size() == 1 ? out.parts[0] : std::make_shared<Part>(std::move(out));
  }

  Shared sequence() {
    Part out{.kind = Part::Kind::SEQUENCE};
    while (!ended() && !sees("|") && !sees(")")) {
      out.parts.push_back(repeated(atom()));
    }
    return std::make_shared<Part>(std::move(out));
  }

  Shared repeated(Shared what) {
    constexpr size_t kAny = std::numeric_limits<size_t>::max();
    Part out{.kind = Part::Kind::REPEAT, .parts = {std::move(what)}};
    if (takes("*")) {
      out.most = kAny;
    } else if (takes("+")) {
      out.least = 1;
      out.most = kAny;
    } else if (takes("?")) {
      out.most = 1;
    } else if (takes("{")) {
      out.least = sees(",") ? 0 : number();
      out.most = !takes(",") ? out.least : sees("}") ? kAny : number();
      check(takes("}") && out.least <= out.most,
            "[pattern] `{}`: the count before {} is not {{m,n}}", text_, at_ + 1);
    } else {
      return out.parts[0];
    }
    takes("?");  // as few as possible: whether the whole matches does not depend on it
    if (sees("*") || sees("+") || sees("?") || sees("{")) {
      refuse("a second count");
    }
    return std::make_shared<Part>(std::move(out));
  }

  size_t number() {
    size_t value = 0;
    const size_t start = at_;
    while (!ended() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min<size_t>(10 * value + static_cast<size_t>(text_[at_++] - '0'), 1000000);
    }
    check(at_ > start, "[pattern] `{}`: a number is missing at {}", text_, at_ + 1);
    return value;
  }

  static Shared letter(Letters letters) {
    return std::make_shared<Part>(Part{.kind = Part::Kind::LETTER, .letters = letters});
  }
  static Shared place(Part::Kind kind, bool negated = false) {
    return std::make_shared<Part>(Part{.kind = kind, .negated = negated});
  }

  Shared atom() {
    switch (const char c = next()) {
      case '(':
        return group();
      case '[':
        return letter(letter_class());
      case '.':
        return letter(~one('\n'));
      case '^':
        return place(Part::Kind::BEGIN);
      case '$':
        return place(Part::Kind::END);
      case '*':
      case '+':
      case '?':
      case '{':
        refuse("a count of nothing");
      case '\\':
        if (takes("b") || takes("B")) {
          return place(Part::Kind::WORD_EDGE, text_[at_ - 1] == 'B');
        }
        if (takes("A")) {
          return place(Part::Kind::BEGIN);
        }
        if (takes("Z")) {
          return place(Part::Kind::END);
        }
        return letter(escape());
      default:
        return letter(one(c));
    }
  }

  Shared group() {
    Part ahead{.kind = Part::Kind::AHEAD};
    const bool is_ahead = sees("?=") || sees("?!");
    if (is_ahead) {
      ahead.negated = sees("?!");
      at_ += 2;
    } else if (takes("?P<") || (sees("?<") && !sees("?<=") && !sees("?<!") && takes("?<"))) {
      while (next() != '>') {
      }
    } else if (!takes("?:") && sees("?")) {
      refuse("a group of this kind");
    }
    Shared inside = choice();
    check(takes(")"), "[pattern] `{}`: a group is not closed", text_);
    if (!is_ahead) {
      return inside;
    }
    ahead.parts = {std::move(inside)};
    return std::make_shared<Part>(std::move(ahead));
  }

  /// Behind a backslash.
  Letters escape() {
    const char c = next();
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return ~digits();
      case 'w':
        return word_letters();
      case 'W':
        return ~word_letters();
      case 's':
        return blanks();
      case 'S':
        return ~blanks();
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      default:
        if (word_letters().test(static_cast<unsigned char>(c))) {
          refuse("a backslash with a letter or digit of this kind");
        }
        return one(c);
    }
  }

  Letters letter_class() {
    const bool negated = takes("^");
    Letters out;
    for (bool first = true; first || !sees("]"); first = false) {
      const char low = next();
      const Letters here = low == '\\' ? escape() : one(low);
      if (here.count() != 1 || !sees("-") || text_.substr(at_).starts_with("-]")) {
        out |= here;
        continue;
      }
      ++at_;
      const char written = next();
      const Letters end = written == '\\' ? escape() : one(written);
      const auto from = here._Find_first();
      const auto to = end._Find_first();
      if (end.count() != 1 || to < from) {
        refuse("a range");
      }
      out |= between(static_cast<unsigned char>(from), static_cast<unsigned char>(to));
    }
    ++at_;  // ]
    return negated ? ~out : out;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text) {}

  /// Where `part` may end when it begins at a position.
  const Places& ends(const Part& part, size_t at) {
    const auto known = known_.find({&part, at});
    return known != known_.end()
               ? known->second
               : known_.emplace(std::pair(&part, at), find(part, at)).first->second;
  }

 private:
  Places all_ends(const Part& part, const Places& from) {
    Places out;
    for (size_t at = from._Find_first(); at < from.size(); at = from._Find_next(at)) {
      out |= ends(part, at);
    }
    return out;
  }

  bool is_word(size_t at) const {
    return at < text_.size() && word_letters().test(static_cast<unsigned char>(text_[at]));
  }

  Places find(const Part& part, size_t at) {
    const Places here = Places().set(at);
    const auto when = [&](bool holds) { return holds ? here : Places(); };
    switch (part.kind) {
      case Part::Kind::LETTER:
        return at < text_.size() && part.letters.test(static_cast<unsigned char>(text_[at]))
                   ? Places().set(at + 1)
                   : Places();
      case Part::Kind::BEGIN:
        return when(at == 0);
      case Part::Kind::END:
        return when(at == text_.size());
      case Part::Kind::WORD_EDGE:
        return when(((at > 0 && is_word(at - 1)) != is_word(at)) != part.negated);
      case Part::Kind::AHEAD:
        return when(ends(*part.parts[0], at).any() != part.negated);
      case Part::Kind::CHOICE: {
        Places out;
        for (const Shared& each : part.parts) {
          out |= ends(*each, at);
        }
        return out;
      }
      case Part::Kind::SEQUENCE: {
        Places out = here;
        for (const Shared& each : part.parts) {
          out = all_ends(*each, out);
        }
        return out;
      }
      case Part::Kind::REPEAT:
        return repeat(part, here);
    }
    return {};
  }

  /// A part never ends before it begins, so that after as many rounds as there are positions the
  /// set stays as it is: more of them change nothing.
  Places repeat(const Part& part, Places at) {
    const size_t rounds = text_.size() + 2;
    for (size_t i = 0; i < std::min(part.least, rounds); ++i) {
      at = all_ends(*part.parts[0], at);
    }
    Places out = at;
    for (size_t i = 0; i < std::min(part.most - part.least, rounds) && at.any(); ++i) {
      at = all_ends(*part.parts[0], at) & ~out;  // positions that are known lead nowhere new
      out |= at;
    }
    return out;
  }

  std::string_view text_;
  std::map<std::pair<const Part*, size_t>, Places> known_;
};

}  // namespace

Pattern::Pattern(std::string_view pattern) {
  check(pattern.size() <= kLongestPattern, "[pattern] of {} characters: at most {} are taken",
        pattern.size(), kLongestPattern);
  root_ = Reader(pattern).read();
}

bool Pattern::matches(std::string_view text) const {
  check(text.size() <= kLongestText, "[pattern] a text of {} characters: at most {} are matched",
        text.size(), kLongestText);
  return Matcher(text).ends(*root_, 0).test(text.size());
}

}  // namespace kinema
