// The attributes that Scanner parses.
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>

#include "kernels/interpreter/mlir_scanner.h"
#include "kinema/core/bf16.h"

namespace kinema::interpreter {
namespace {

bool fits(int64_t value, Element element) {
  const int bits = width(element);
  if (bits == 64) return true;
  // MLIR accepts both the signed and the unsigned reading.
  return value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << bits);
}

}  // namespace

std::string Scanner::digits(bool* hexadecimal) {
  skip_blanks();
  std::string out;
  if (peek() == '-') out += text_[at_++];
  *hexadecimal = peek() == '0' && peek(1) == 'x';
  if (*hexadecimal) {
    at_ += 2;
    while (std::isxdigit(static_cast<unsigned char>(peek())) != 0) out += text_[at_++];
  } else {
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) out += text_[at_++];
    if (!out.empty() && peek() == '.') {
      out += text_[at_++];
      while (std::isdigit(static_cast<unsigned char>(peek())) != 0) out += text_[at_++];
      if (peek() == 'e' || peek() == 'E') {
        out += text_[at_++];
        if (peek() == '+' || peek() == '-') out += text_[at_++];
        while (std::isdigit(static_cast<unsigned char>(peek())) != 0) out += text_[at_++];
      }
    }
  }
  if (out.empty() || out == "-") error("a number is expected before `{}`", text_.substr(at_, 10));
  if (*hexadecimal && (out.size() > 16 || out[0] == '-')) error("0x{} is not a number", out);
  return out;
}

Attribute Scanner::number_of(std::string_view digits, bool hexadecimal, const Type& type) {
  Attribute out;
  out.value_type = type;
  const std::string text(digits);
  const bool fraction = text.find('.') != std::string::npos;
  if (!is_float(type.element)) {
    if (fraction) error("{} is not of type {}", text, to_string(type.element));
    out.kind = Attribute::Kind::INTEGER;
    char* end = nullptr;
    errno = 0;
    out.integer = hexadecimal ? static_cast<int64_t>(std::strtoull(text.c_str(), &end, 16))
                              : static_cast<int64_t>(std::strtoll(text.c_str(), &end, 10));
    if (errno != 0 || *end != '\0' || !fits(out.integer, type.element)) {
      error("{} is not of type {}", text, to_string(type.element));
    }
    return out;
  }
  out.kind = Attribute::Kind::FLOAT;
  if (!hexadecimal) {
    if (!fraction) error("{} is not of type {}: a point is missing", text, to_string(type.element));
    out.number = std::strtod(text.c_str(), nullptr);
    return out;
  }
  const uint64_t bits = std::strtoull(text.c_str(), nullptr, 16);
  if (static_cast<int>(text.size()) * 4 != width(type.element)) {
    error("0x{} are not the bits of {}", text, to_string(type.element));
  }
  out.number = type.element == Element::F32    ? std::bit_cast<float>(static_cast<uint32_t>(bits))
               : type.element == Element::BF16 ? bf16_to_f32(static_cast<uint16_t>(bits))
                                               : f16_to_f32(static_cast<uint16_t>(bits));
  return out;
}

Attribute Scanner::number() {
  bool hexadecimal = false;
  const std::string text = digits(&hexadecimal);
  Type of;
  of.element = text.find('.') == std::string::npos ? Element::I64 : Element::F32;
  if (take(":")) of = type();
  if (of.kind != Type::Kind::SCALAR || of.pointer) error("a number of type {}", to_string(of));
  return number_of(text, hexadecimal, of);
}

Attribute Scanner::dense_item(const Type* type) {
  if (take_word("true") || take_word("false")) {
    Attribute out;
    out.kind = Attribute::Kind::BOOL;
    out.integer = text_[at_ - 2] == 'u' ? 1 : 0;
    return out;
  }
  bool hexadecimal = false;
  const std::string text = digits(&hexadecimal);
  Type element;
  element.element = type->element;
  return number_of(text, hexadecimal, element);
}

Attribute Scanner::dense() {
  const std::string body = balanced();
  expect(":");
  Attribute out;
  out.kind = Attribute::Kind::DENSE;
  out.value_type = type();
  if (out.value_type.pointer ||
      (out.value_type.kind != Type::Kind::VECTOR && out.value_type.kind != Type::Kind::TENSOR)) {
    error("dense<> of type {}", to_string(out.value_type));
  }
  Scanner inner(body);
  if (inner.sees("[")) error("dense<> is covered with one number for all elements only");
  try {
    out.items.push_back(inner.dense_item(&out.value_type));
  } catch (const Error&) {
    error("dense<{}> is not of type {}", body, to_string(out.value_type));
  }
  const bool is_bool = out.items[0].kind == Attribute::Kind::BOOL;
  if (!inner.at_end() || is_bool != (out.value_type.element == Element::I1)) {
    error("dense<{}> is not of type {}", body, to_string(out.value_type));
  }
  return out;
}

// array<i64: 1, 2>
Attribute Scanner::numbers_of_type() {
  expect("<");
  Attribute out;
  out.kind = Attribute::Kind::ARRAY;
  out.value_type = type();
  if (take(":")) {
    do {
      out.items.push_back(dense_item(&out.value_type));
    } while (take(","));
  }
  expect(">");
  return out;
}

Attribute Scanner::dialect() {
  expect("#");
  Attribute out;
  out.kind = Attribute::Kind::DIALECT;
  out.text = word();
  if (!sees("<")) return out;
  out.body = balanced();
  // Bracketed lists are parsed if the body contains nothing else.
  Scanner inner(out.body);
  if (!inner.sees("[")) return out;
  try {
    do {
      out.items.push_back(inner.attribute());
    } while (inner.take(","));
  } catch (const Error&) {
    out.items.clear();
  }
  if (!inner.at_end()) out.items.clear();
  return out;
}

void Scanner::dictionary(std::map<std::string, Attribute>& fields, std::string_view open,
                         std::string_view close) {
  expect(open);
  if (take(close)) return;
  do {
    const std::string name = sees("\"") ? string() : word();
    Attribute value;
    if (take("=")) value = attribute();
    if (!fields.emplace(name, std::move(value)).second) error("attribute `{}` twice", name);
  } while (take(","));
  expect(close);
}

Attribute Scanner::attribute() {
  const Deeper deeper(*this);
  Attribute out;
  if (sees("#")) return dialect();
  if (sees("\"")) {
    out.kind = Attribute::Kind::STRING;
    out.text = string();
  } else if (take("@")) {
    out.kind = Attribute::Kind::SYMBOL;
    out.text = sees("\"") ? string() : word();
  } else if (take("[")) {
    out.kind = Attribute::Kind::ARRAY;
    if (take("]")) return out;
    do {
      out.items.push_back(attribute());
    } while (take(","));
    expect("]");
  } else if (sees("{")) {
    out.kind = Attribute::Kind::DICTIONARY;
    dictionary(out.fields);
  } else if (sees("(")) {
    out.kind = Attribute::Kind::FUNCTION;
    out.types = types();
    expect("->");
    out.results = types();
  } else if (take_word("true") || take_word("false")) {
    out.kind = Attribute::Kind::BOOL;
    out.integer = text_[at_ - 2] == 'u' ? 1 : 0;
  } else if (take_word("unit")) {
    out.kind = Attribute::Kind::UNIT;
  } else if (take_word("dense")) {
    return dense();
  } else if (take_word("array")) {
    return numbers_of_type();
  } else if (sees("-") || std::isdigit(static_cast<unsigned char>(peek())) != 0) {
    return number();
  } else {
    out.kind = Attribute::Kind::TYPE;
    out.types = {type()};
  }
  return out;
}

}  // namespace kinema::interpreter
