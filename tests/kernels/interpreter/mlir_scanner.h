#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/interpreter/mlir_types.h"
#include "kinema/core/error.h"

namespace kinema::interpreter {

/// Reads a text from left to right: punctuation, names, types and attributes. Every error names the
/// line.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  int line() const;
  bool at_end();
  /// True if `mark` comes next, after blanks and comments.
  bool sees(std::string_view mark);
  /// Consumes `mark` if it comes next.
  bool take(std::string_view mark);
  void expect(std::string_view mark);
  /// Consumes the word if it comes next as a whole.
  bool take_word(std::string_view word);

  /// `name`, `tt.divisibility`.
  std::string word();
  /// `%3`, `%loop`, without `#`: the name after the percent sign.
  std::string value_name();
  std::string string();
  int64_t integer();

  Type type();
  /// `(i32, f32)`, or one type without parentheses.
  std::vector<Type> types();
  Attribute attribute();
  /// `{a = 1, b}`; adds to `fields`, and refuses a duplicate name.
  void dictionary(std::map<std::string, Attribute>& fields, std::string_view open = "{",
                  std::string_view close = "}");
  /// Skips `loc(...)` if it comes next.
  void skip_location();

  template <typename... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail("[mlir text] line {}: {}", line(), fmt::format(format, std::forward<Args>(args)...));
  }

  /// Limits the nesting depth to that of our own texts, so that no text overflows the stack.
  class Deeper {
   public:
    explicit Deeper(Scanner& scanner);
    ~Deeper() { --scanner_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Scanner& scanner_;
  };

 private:
  void skip_blanks();
  char peek(size_t ahead = 0) const;
  Element element(std::string_view name) const;
  Type shaped(Type::Kind kind);
  Type pointer();
  Attribute number();
  Attribute number_of(std::string_view digits, bool hexadecimal, const Type& type);
  std::string digits(bool* hexadecimal);
  Attribute dense();
  Attribute dense_item(const Type* type);
  Attribute numbers_of_type();
  Attribute dialect();
  std::string balanced();

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  // Lines are counted from the last counted position.
  mutable size_t counted_ = 0;
  mutable int line_ = 1;
};

}  // namespace kinema::interpreter
