// The opcodes: CPython's Lib/pickletools.py.
#include "kinema/io/pickle.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/io/pickle_names.h"

namespace kinema::io {
namespace {

/// UTF-8 of a character; nothing if there is none with that number.
std::string utf8_of(uint32_t c) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto rest = [&](int shift) { return byte(0x80 | (shift & 0x3f)); };
  if (c < 0x80) {
    return {byte(c)};
  }
  if (c < 0x800) {
    return {byte(0xc0 | c >> 6), rest(static_cast<int>(c))};
  }
  if (c < 0x10000) {
    return {byte(0xe0 | c >> 12), rest(static_cast<int>(c >> 6)), rest(static_cast<int>(c))};
  }
  return c > 0x10ffff ? ""
                      : std::string{byte(0xf0 | c >> 18), rest(static_cast<int>(c >> 12)),
                                    rest(static_cast<int>(c >> 6)), rest(static_cast<int>(c))};
}

class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  Pickle read() {
    for (;;) {
      const size_t at = at_;
      const auto op = number<uint8_t>();
      if (op == '.') {
        out_.root = pop();
        out_.size = at_;
        return std::move(out_);
      }
      const bool known = constant(op) || text(op) || container(op) || memo(op) || call(op);
      check(known,
            "[pickle] {}: the byte {:#04x} at {} is no opcode that is read\n  it is damaged, or "
            "made by another program than torch or Python's pickle",
            source_, op, at);
      check(out_.values.size() + listed_ <= kMostPickleValues && memo_.size() <= kMostPickleValues,
            "[pickle] {} has more than {} values\n  save its tensors alone", source_,
            kMostPickleValues);
    }
  }

 private:
  // Bytes.

  std::span<const std::byte> take(uint64_t count) {
    check(count <= bytes_.size() - at_,
          "[pickle] {}: {} bytes are wanted at {}, and {} are left (is it truncated?)", source_,
          count, at_, bytes_.size() - at_);
    const auto out = bytes_.subspan(at_, count);
    at_ += count;
    return out;
  }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// The text up to the end of the line.
  std::string_view line() {
    const auto* from = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const std::string_view left(from, bytes_.size() - at_);
    const size_t end = left.find('\n');
    check(end != std::string_view::npos,
          "[pickle] {}: the line at {} has no end (is it truncated?)", source_, at_);
    at_ += end + 1;
    return left.substr(0, end);
  }

  void require(bool ok) const {
    check(ok,
          "[pickle] {}: the opcodes before byte {} contradict themselves\n  it is damaged: "
          "download it again",
          source_, at_);
  }

  // The stack. A mark is a height of it.

  PickleId push(PickleValue value) {
    out_.values.push_back(std::move(value));
    stack_.push_back(static_cast<PickleId>(out_.values.size() - 1));
    return stack_.back();
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleId top() const {
    require(stack_.size() > floor());
    return stack_.back();
  }

  PickleId pop() {
    const PickleId out = top();
    stack_.pop_back();
    return out;
  }

  /// The values above the last mark, which is removed with them.
  std::vector<PickleId> pop_to_mark() {
    require(!marks_.empty());
    const auto from = stack_.begin() + static_cast<int64_t>(marks_.back());
    std::vector<PickleId> out(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return out;
  }

  void push_tuple(size_t count) {
    PickleValue tuple{.kind = PickleKind::TUPLE, .items = std::vector<PickleId>(count)};
    for (size_t i = count; i > 0; --i) {
      tuple.items[i - 1] = pop();
    }
    push(std::move(tuple));
  }

  void append(PickleKind kind, std::span<const PickleId> items) {
    PickleValue& into = out_.values[top()];
    require(into.kind == kind && (kind != PickleKind::DICT || items.size() % 2 == 0));
    into.items.insert(into.items.end(), items.begin(), items.end());
  }

  // Opcodes, by what they do. Each group returns whether it has the opcode.

  bool constant(uint8_t op) {
    switch (op) {
      case 0x80:  // PROTO
        return number<uint8_t>() <= 5;
      case 0x95: {  // FRAME
        const auto length = number<uint64_t>();
        require(length <= bytes_.size() - at_);
        return true;
      }
      case 'N':
        push({});
        return true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push({.kind = PickleKind::BOOL, .number = op == 0x88 ? 1 : 0});
        return true;
      case 'J':
        push_integer(number<int32_t>());
        return true;
      case 'K':
        push_integer(number<uint8_t>());
        return true;
      case 'M':
        push_integer(number<uint16_t>());
        return true;
      case 0x8a:  // LONG1
        push_long(take(number<uint8_t>()));
        return true;
      case 0x8b:  // LONG4
        push_long(take(number<uint32_t>()));
        return true;
      case 'I':
      case 'L':
        push_decimal(line());
        return true;
      case 'F':
        push_decimal_float(line());
        return true;
      case 'G': {  // big-endian
        const uint64_t bits = __builtin_bswap64(number<uint64_t>());
        double value;
        std::memcpy(&value, &bits, sizeof(value));
        push({.kind = PickleKind::FLOAT, .real = value});
        return true;
      }
      default:
        return false;
    }
  }

  void push_integer(int64_t value) { push({.kind = PickleKind::INT, .number = value}); }

  /// Two's complement, little-endian.
  void push_long(std::span<const std::byte> bytes) {
    if (bytes.size() > sizeof(int64_t)) {
      push({.kind = PickleKind::LONG, .bytes = bytes});
      return;
    }
    const bool negative = !bytes.empty() && (bytes.back() & std::byte{0x80}) != std::byte{0};
    int64_t value = negative ? -1 : 0;
    if (!bytes.empty()) {
      std::memcpy(&value, bytes.data(), bytes.size());
    }
    push_integer(value);
  }

  void push_decimal(std::string_view text) {
    if (text == "00" || text == "01") {
      push({.kind = PickleKind::BOOL, .number = text == "01" ? 1 : 0});
      return;
    }
    if (text.ends_with('L')) {
      text.remove_suffix(1);
    }
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size());
    push_integer(value);
  }

  void push_decimal_float(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size());
    push({.kind = PickleKind::FLOAT, .real = value});
  }

  bool text(uint8_t op) {
    switch (op) {
      case 'X':
        push({.kind = PickleKind::TEXT, .bytes = take(number<uint32_t>())});
        return true;
      case 0x8c:  // SHORT_BINUNICODE
        push({.kind = PickleKind::TEXT, .bytes = take(number<uint8_t>())});
        return true;
      case 0x8d:  // BINUNICODE8
        push({.kind = PickleKind::TEXT, .bytes = take(number<uint64_t>())});
        return true;
      case 'V':
        push_escaped(line());
        return true;
      case 'S': {  // quoted by Python 2
        const std::string_view quoted = line();
        require(quoted.size() >= 2 && quoted.front() == quoted.back() &&
                (quoted.front() == '\'' || quoted.front() == '"') &&
                quoted.find('\\') == std::string_view::npos);
        push({.kind = PickleKind::BYTES,
              .bytes = std::as_bytes(std::span(quoted.substr(1, quoted.size() - 2)))});
        return true;
      }
      case 'T':
      case 'B':
        push({.kind = PickleKind::BYTES, .bytes = take(number<uint32_t>())});
        return true;
      case 'U':
      case 'C':
        push({.kind = PickleKind::BYTES, .bytes = take(number<uint8_t>())});
        return true;
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        push({.kind = PickleKind::BYTES, .bytes = take(number<uint64_t>())});
        return true;
      default:
        return false;
    }
  }

  /// A text of protocol 0: Latin-1 with \uXXXX and \UXXXXXXXX.
  void push_escaped(std::string_view line) {
    std::string text;
    while (!line.empty()) {
      const auto c = static_cast<unsigned char>(line[0]);
      const bool escaped = c == '\\' && line.size() > 1 && (line[1] == 'u' || line[1] == 'U');
      if (!escaped) {
        text += utf8_of(c);
        line.remove_prefix(1);
        continue;
      }
      const size_t digits = line[1] == 'u' ? 4 : 8;
      require(line.size() >= 2 + digits);
      const char* const from = line.data() + 2;
      uint32_t code = 0;
      const auto [end, error] = std::from_chars(from, from + digits, code, 16);
      require(error == std::errc() && end == from + digits);
      text += utf8_of(code);
      line.remove_prefix(2 + digits);
    }
    const auto bytes = std::as_bytes(std::span(text));
    push({.kind = PickleKind::TEXT, .bytes = out_.keep({bytes.begin(), bytes.end()})});
  }

  bool container(uint8_t op) {
    switch (op) {
      case '(':
        marks_.push_back(stack_.size());
        check(marks_.size() <= kMostPickleValues, "[pickle] {} has more than {} open containers",
              source_, kMostPickleValues);
        return true;
      case ']':
      case 0x8f:  // EMPTY_SET
        push({.kind = PickleKind::LIST});
        return true;
      case ')':
        push({.kind = PickleKind::TUPLE});
        return true;
      case '}':
        push({.kind = PickleKind::DICT});
        return true;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        push_tuple(op - 0x84);
        return true;
      case 't':
        push({.kind = PickleKind::TUPLE, .items = pop_to_mark()});
        return true;
      case 'l':
      case 0x91:  // FROZENSET
        push({.kind = PickleKind::LIST, .items = pop_to_mark()});
        return true;
      case 'd':
        push({.kind = PickleKind::DICT, .items = pop_to_mark()});
        require(out_.values.back().items.size() % 2 == 0);
        return true;
      case 'a': {
        const PickleId item = pop();
        append(PickleKind::LIST, std::span(&item, 1));
        return true;
      }
      case 'e':
      case 0x90: {  // ADDITEMS
        const std::vector<PickleId> items = pop_to_mark();
        append(PickleKind::LIST, items);
        return true;
      }
      case 's': {
        const PickleId value = pop();
        const PickleId item[] = {pop(), value};
        append(PickleKind::DICT, item);
        return true;
      }
      case 'u': {
        const std::vector<PickleId> items = pop_to_mark();
        append(PickleKind::DICT, items);
        return true;
      }
      default:
        return false;
    }
  }

  bool memo(uint8_t op) {
    switch (op) {
      case '0':
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        stack_.push_back(top());
        ++listed_;
        return true;
      case 'p':
        memo_[decimal(line())] = top();
        return true;
      case 'q':
        memo_[number<uint8_t>()] = top();
        return true;
      case 'r':
        memo_[number<uint32_t>()] = top();
        return true;
      case 0x94:  // MEMOIZE
        memo_[memo_.size()] = top();
        return true;
      case 'g':
        push_memo(decimal(line()));
        return true;
      case 'h':
        push_memo(number<uint8_t>());
        return true;
      case 'j':
        push_memo(number<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  uint64_t decimal(std::string_view text) const {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size());
    return value;
  }

  void push_memo(uint64_t key) {
    const auto found = memo_.find(key);
    require(found != memo_.end());
    stack_.push_back(found->second);
    ++listed_;
  }

  bool call(uint8_t op) {
    switch (op) {
      case 'c': {
        const std::string_view module = line();
        push_name(module, line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleId name = pop();
        const PickleId module = pop();
        require(out_[name].kind == PickleKind::TEXT && out_[module].kind == PickleKind::TEXT);
        push_name(out_[module].text(), out_[name].text());
        return true;
      }
      case 'R':
      case 0x81: {  // NEWOBJ
        const PickleId arguments = pop();
        const PickleId name = pop();
        require(out_[name].kind == PickleKind::NAME && out_[arguments].kind == PickleKind::TUPLE);
        push(pickle_call(out_, *out_[name].name, out_[arguments].items, bytes_.size(), source_));
        listed_ += out_.values.back().items.size();
        return true;
      }
      case 'b': {
        const PickleId state = pop();
        pickle_build(out_, top(), state, source_);
        return true;
      }
      case 'Q':
        push(pickle_storage(out_, pop(), source_));
        return true;
      case 'i': {  // an object of a class
        const std::string_view module = line();
        pickle_name(module, line(), source_);
        return false;
      }
      default:
        return false;
    }
  }

  void push_name(std::string_view module, std::string_view name) {
    push({.kind = PickleKind::NAME, .name = &pickle_name(module, name, source_)});
  }

  std::span<const std::byte> bytes_;
  const std::string& source_;
  size_t at_ = 0;
  Pickle out_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickleId> memo_;
  size_t listed_ = 0;  // uses of values that are there already
};

}  // namespace

std::span<const std::byte> Pickle::keep(std::vector<std::byte> bytes) {
  made_bytes += bytes.size();
  made.push_back(std::move(bytes));
  return made.back();
}

const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != PickleKind::DICT) {
    return nullptr;
  }
  for (size_t i = dict.items.size(); i >= 2; i -= 2) {  // the last one counts
    const PickleValue& name = values[dict.items[i - 2]];
    if ((name.kind == PickleKind::TEXT || name.kind == PickleKind::BYTES) && name.text() == key) {
      return &values[dict.items[i - 1]];
    }
  }
  return nullptr;
}

Pickle Pickle::read(std::span<const std::byte> bytes, const std::string& source) {
  return PickleReader(bytes, source).read();
}

}  // namespace kinema::io
