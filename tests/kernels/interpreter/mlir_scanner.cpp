#include "kernels/interpreter/mlir_scanner.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace kinema::interpreter {
namespace {

constexpr int kMostDepth = 100;
constexpr int64_t kMostElements = int64_t{1} << 25;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_part_of_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

std::optional<Element> element_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Element::F32); ++i) {
    if (to_string(static_cast<Element>(i)) == name) return static_cast<Element>(i);
  }
  return std::nullopt;
}

}  // namespace

Scanner::Deeper::Deeper(Scanner& scanner) : scanner_(scanner) {
  if (++scanner_.depth_ > kMostDepth) {
    --scanner_.depth_;
    scanner_.error("more than {} things in one another", kMostDepth);
  }
}

int Scanner::line() const {
  line_ += static_cast<int>(std::count(text_.begin() + counted_, text_.begin() + at_, '\n'));
  counted_ = at_;
  return line_;
}

char Scanner::peek(size_t ahead) const {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

void Scanner::skip_blanks() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
      ++at_;
    } else if (peek() == '/' && peek(1) == '/') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else {
      return;
    }
  }
}

bool Scanner::at_end() {
  skip_blanks();
  return at_ == text_.size();
}

bool Scanner::sees(std::string_view mark) {
  skip_blanks();
  return text_.substr(at_).starts_with(mark);
}

bool Scanner::take(std::string_view mark) {
  const bool found = sees(mark);
  if (found) at_ += mark.size();
  return found;
}

void Scanner::expect(std::string_view mark) {
  if (!take(mark)) {
    const std::string_view rest = text_.substr(at_, 20);
    error("`{}` is expected before `{}`", mark, rest.substr(0, rest.find('\n')));
  }
}

bool Scanner::take_word(std::string_view word) {
  if (!sees(word) || is_part_of_word(peek(word.size()))) return false;
  at_ += word.size();
  return true;
}

std::string Scanner::word() {
  skip_blanks();
  if (!is_letter(peek())) error("a name is expected before `{}`", text_.substr(at_, 10));
  const size_t start = at_;
  while (is_part_of_word(peek())) ++at_;
  return std::string(text_.substr(start, at_ - start));
}

std::string Scanner::value_name() {
  expect("%");
  const size_t start = at_;
  while (is_part_of_word(peek()) || peek() == '-') ++at_;
  if (at_ == start) error("a value's name is expected after %");
  return std::string(text_.substr(start, at_ - start));
}

std::string Scanner::string() {
  expect("\"");
  std::string out;
  while (peek() != '"') {
    if (at_ >= text_.size() || peek() == '\n') error("a string does not end");
    if (peek() != '\\') {
      out += text_[at_++];
      continue;
    }
    const char escaped = peek(1);
    if (escaped == '\\' || escaped == '"') {
      out += escaped;
      at_ += 2;
    } else if (escaped == 'n' || escaped == 't') {
      out += escaped == 'n' ? '\n' : '\t';
      at_ += 2;
    } else if (std::isxdigit(static_cast<unsigned char>(escaped)) != 0 &&
               std::isxdigit(static_cast<unsigned char>(peek(2))) != 0) {
      out += static_cast<char>(std::stoi(std::string(text_.substr(at_ + 1, 2)), nullptr, 16));
      at_ += 3;
    } else {
      error("`\\{}` in a string is not covered", escaped);
    }
  }
  ++at_;
  return out;
}

int64_t Scanner::integer() {
  skip_blanks();
  const bool negative = take("-");
  if (!is_digit(peek())) error("an integer is expected before `{}`", text_.substr(at_, 10));
  int64_t value = 0;
  for (; is_digit(peek()); ++at_) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, peek() - '0', &value)) {
      error("an integer is too large");
    }
  }
  return negative ? -value : value;
}

Element Scanner::element(std::string_view name) const {
  const std::optional<Element> found = element_named(name);
  if (!found) error("element type `{}` is not covered", name);
  return *found;
}

Type Scanner::pointer() {
  expect("!tt.ptr<");
  Type type;
  type.element = element(word());
  type.pointer = true;
  if (take(",")) integer();  // the address space
  expect(">");
  return type;
}

Type Scanner::shaped(Type::Kind kind) {
  expect("<");
  Type type;
  while (is_digit(peek())) {
    type.dims.push_back(integer());
    if (type.dims.back() > kMostElements || type.elements() > kMostElements) {
      error("a type of more than {} elements", kMostElements);
    }
    expect("x");
  }
  if (sees("!")) {
    type.element = pointer().element;
    type.pointer = true;
  } else {
    type.element = element(word());
  }
  type.kind = kind;
  if (kind == Type::Kind::MEMREF && take(",")) {
    const Attribute space = attribute();
    if (space.kind != Attribute::Kind::DIALECT || space.text != "tpu.memory_space") {
      error("a memref with anything but #tpu.memory_space is not covered");
    }
    type.memory_space = space.body;
  }
  expect(">");
  return type;
}

Type Scanner::type() {
  if (sees("!")) return pointer();
  const std::string name = word();
  if (name == "vector") return shaped(Type::Kind::VECTOR);
  if (name == "memref") return shaped(Type::Kind::MEMREF);
  if (name == "tensor") return shaped(Type::Kind::TENSOR);
  Type scalar;
  scalar.element = element(name);
  return scalar;
}

std::vector<Type> Scanner::types() {
  if (!take("(")) return {type()};
  std::vector<Type> out;
  if (take(")")) return out;
  do {
    out.push_back(type());
  } while (take(","));
  expect(")");
  return out;
}

void Scanner::skip_location() {
  if (take_word("loc")) balanced();
}

// The text in the next bracket, up to its closing one; without both.
std::string Scanner::balanced() {
  skip_blanks();
  constexpr std::string_view kOpen = "<([{";
  constexpr std::string_view kClose = ">)]}";
  std::string closing;
  const size_t start = at_ + 1;
  do {
    if (at_ >= text_.size()) error("a bracket is not closed");
    const char c = text_[at_];
    if (c == '"') {
      string();
      continue;
    }
    ++at_;
    if (c == '-' && peek() == '>') {
      ++at_;
    } else if (const size_t open = kOpen.find(c); open != std::string_view::npos) {
      closing += kClose[open];
    } else if (kClose.find(c) != std::string_view::npos) {
      if (closing.empty() || closing.back() != c) error("`{}` closes nothing", c);
      closing.pop_back();
    } else if (closing.empty()) {
      error("a bracket is expected before `{}`", c);
    }
  } while (!closing.empty());
  return std::string(text_.substr(start, at_ - 1 - start));
}

}  // namespace kinema::interpreter
