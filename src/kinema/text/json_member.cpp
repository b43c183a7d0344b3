#include "kinema/text/json_member.h"

#include <algorithm>
#include <cstddef>

namespace kinema::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// Skips over the text of JSON values.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c) {
      return false;
    }
    ++at_;
    return true;
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }

  /// A string with its quotes; empty if there is none.
  std::string_view string() {
    const size_t start = at_;
    if (!take('"')) {
      return {};
    }
    while (true) {
      at_ = text_.find_first_of("\"\\", at_);
      if (at_ == std::string_view::npos) {
        at_ = text_.size();
        return {};
      }
      if (text_[at_] == '"') {
        ++at_;
        return text_.substr(start, at_ - start);
      }
      at_ = std::min(at_ + 2, text_.size());
    }
  }

  /// The text up to the comma or bracket that ends the value.
  std::string_view value() {
    const size_t start = at_;
    size_t depth = 0;
    while (at_ < text_.size()) {
      at_ = std::min(text_.find_first_of("\"[]{},", at_), text_.size());
      const char c = peek();
      if (c == '"') {
        if (string().empty()) {
          break;
        }
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
        break;
      }
      depth += c == '[' || c == '{' ? 1 : 0;
      depth -= c == ']' || c == '}' ? 1 : 0;
      at_ += at_ < text_.size() ? 1 : 0;
    }
    return text_.substr(start, at_ - start);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string_view json_member(std::string_view object, std::string_view key) {
  Reader reader(object);
  reader.skip_space();
  if (!reader.take('{')) {
    return {};
  }
  do {
    reader.skip_space();
    const std::string_view name = reader.string();
    reader.skip_space();
    if (name.empty() || !reader.take(':')) {
      return {};
    }
    reader.skip_space();
    const std::string_view value = reader.value();
    if (name.size() == key.size() + 2 && name.substr(1, key.size()) == key) {
      return value;
    }
  } while (reader.take(','));
  return {};
}

}  // namespace kinema::text
