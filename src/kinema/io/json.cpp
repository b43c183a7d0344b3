#include "kinema/io/json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {
namespace {

constexpr size_t kMaxDepth = 100;

std::string shortened(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 60)) {
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return text.size() > 60 ? out + "..." : out;
}

std::string json_string(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string number_text(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  std::string text = fmt::format("{}", value);
  // A float stays a float when it is read back: 5.0 must not become the integer 5.
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void write(const Json& value, int indent, int level, std::string& out);

// The brackets and separators of arrays and objects.
template <typename Items, typename WriteItem>
void write_list(const Items& items, const char* brackets, int indent, int level, std::string& out,
                WriteItem&& write_item) {
  out += brackets[0];
  bool first = true;
  for (const auto& item : items) {
    out += first ? "" : (indent < 0 ? ", " : ",");
    first = false;
    if (indent >= 0) {
      out += '\n';
      out.append(static_cast<size_t>(indent) * (static_cast<size_t>(level) + 1), ' ');
    }
    write_item(item);
  }
  if (indent >= 0 && !items.empty()) {
    out += '\n';
    out.append(static_cast<size_t>(indent) * static_cast<size_t>(level), ' ');
  }
  out += brackets[1];
}

void write(const Json& value, int indent, int level, std::string& out) {
  switch (value.kind()) {
    case Json::Kind::Null:
      out += "null";
      break;
    case Json::Kind::Bool:
      out += value.as_bool() ? "true" : "false";
      break;
    case Json::Kind::Integer:
      out += fmt::format("{}", value.as_int());
      break;
    case Json::Kind::Number:
      out += number_text(value.as_number());
      break;
    case Json::Kind::String:
      out += json_string(value.as_string());
      break;
    case Json::Kind::Array:
      write_list(value.items(), "[]", indent, level, out,
                 [&](const Json& item) { write(item, indent, level + 1, out); });
      break;
    case Json::Kind::Object:
      write_list(value.members(), "{}", indent, level, out, [&](const Json::Member& member) {
        out += json_string(member.first) + ": ";
        write(member.second, indent, level + 1, out);
      });
      break;
  }
}

}  // namespace

// Builds the tree from nlohmann's events, which are parsed without recursion, so that the depth can
// be limited.
struct JsonReader : nlohmann::json_sax<nlohmann::json> {
  explicit JsonReader(std::string_view name) : source(std::make_shared<std::string>(name)) {}

  bool place(Json value) {
    value.source_ = source;
    Json* parent = stack.empty() ? nullptr : stack.back();
    Json* slot = &root;
    if (parent == nullptr) {
      root = std::move(value);
    } else if (parent->kind_ == Json::Kind::Array) {
      value.path_ = fmt::format("{}[{}]", parent->path_, parent->items_.size());
      parent->items_.push_back(std::move(value));
      slot = &parent->items_.back();
    } else {
      value.path_ = path_of(*parent, keys.back());
      parent->members_.back().second = std::move(value);
      slot = &parent->members_.back().second;
    }
    last = slot;
    return true;
  }
  /// For messages. Keys are shortened, because a long key would be in the path of each value below
  /// it, with quadratic memory.
  static std::string path_of(const Json& parent, const std::string& key) {
    constexpr size_t kLongestPath = 300;
    const std::string& path = parent.path_;
    std::string own = shortened(key);
    return path.empty() ? own : path.size() < kLongestPath ? path + "." + own : "..." + own;
  }
  bool open(Json value) {
    check(stack.size() < kMaxDepth, "[json] {} is nested more than {} levels deep", *source,
          kMaxDepth);
    place(std::move(value));
    stack.push_back(last);
    keys.emplace_back();
    seen.emplace_back();
    return true;
  }
  bool close() {
    stack.pop_back();
    keys.pop_back();
    seen.pop_back();
    return true;
  }

  bool null() override { return place(Json()); }
  bool boolean(bool value) override { return place(Json(value)); }
  bool number_integer(int64_t value) override { return place(Json(value)); }
  bool number_unsigned(uint64_t value) override {
    // A number beyond int64 becomes a double, for which as_int() throws.
    return value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
               ? place(Json(static_cast<int64_t>(value)))
               : place(Json(static_cast<double>(value)));
  }
  bool number_float(double value, const std::string& text) override {
    check(std::isfinite(value), "[json] {}: the number {} is out of range", *source,
          shortened(text));
    return place(Json(value));
  }
  bool string(std::string& value) override { return place(Json(std::move(value))); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool start_array(size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool start_object(size_t /*size*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override {
    Json& object = *stack.back();
    check(seen.back().insert(name).second, "[json] {}: the key `{}` appears twice", *source,
          shortened(object.path_.empty() ? name : object.path_ + "." + name));
    object.members_.emplace_back(name, Json());
    keys.back() = std::move(name);
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    std::string text = error.what();
    // nlohmann prefixes `[json.exception.parse_error.101] `, which does not help users.
    if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos) {
      text.erase(0, end + 2);
    }
    fail("[json] {} is not JSON: {}", *source, shortened_line(text));
  }
  static std::string shortened_line(std::string text) {
    for (char& c : text) {
      c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return text.size() > 200 ? text.substr(0, 200) + "..." : text;
  }

  std::shared_ptr<const std::string> source;
  Json root;
  Json* last = nullptr;
  // Values under construction. A parent's vector grows only while its child is not on the stack, so
  // the pointers stay valid.
  std::vector<Json*> stack;
  std::vector<std::string> keys;
  std::vector<std::set<std::string>> seen;
};

Json::Json(std::string value) : kind_(Kind::String), text_(std::move(value)) {}

Json Json::array(std::vector<Json> items) {
  Json out;
  out.kind_ = Kind::Array;
  out.items_ = std::move(items);
  return out;
}

Json Json::object(std::vector<Member> members) {
  Json out;
  out.kind_ = Kind::Object;
  out.members_ = std::move(members);
  return out;
}

Json Json::parse(std::string_view text, std::string_view source) {
  JsonReader reader(source);
  nlohmann::json::sax_parse(text, &reader);
  return std::move(reader.root);
}

Json Json::read(const std::filesystem::path& path) {
  return parse(read_text(path, size_t{256} << 20), path.string());
}

bool Json::as_bool() const {
  check(kind_ == Kind::Bool, "[json] {} is {} but must be true or false", where(), describe());
  return integer_ != 0;
}

int64_t Json::as_int() const {
  check(kind_ == Kind::Integer, "[json] {} is {} but must be an integer", where(), describe());
  return integer_;
}

double Json::as_number() const {
  check(kind_ == Kind::Integer || kind_ == Kind::Number, "[json] {} is {} but must be a number",
        where(), describe());
  return kind_ == Kind::Integer ? static_cast<double>(integer_) : number_;
}

const std::string& Json::as_string() const {
  check(kind_ == Kind::String, "[json] {} is {} but must be a string", where(), describe());
  return text_;
}

const std::vector<Json>& Json::items() const {
  check(kind_ == Kind::Array, "[json] {} is {} but must be a list", where(), describe());
  return items_;
}

const std::vector<Json::Member>& Json::members() const {
  check(kind_ == Kind::Object, "[json] {} is {} but must be an object", where(), describe());
  return members_;
}

std::vector<int64_t> Json::as_ints() const {
  std::vector<int64_t> out;
  for (const Json& item : items()) {
    out.push_back(item.as_int());
  }
  return out;
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members()) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  const Json* value = find(key);
  check(value != nullptr, "[json] {} has no `{}`", where(), key);
  return *value;
}

Json& Json::set(std::string_view key, Json value) {
  members();  // throws unless it is an object
  for (auto& [name, old] : members_) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  members_.emplace_back(std::string(key), std::move(value));
  return *this;
}

Json& Json::append(Json value) {
  items();  // throws unless it is an array
  items_.push_back(std::move(value));
  return *this;
}

std::string Json::where() const {
  const std::string source = source_ ? *source_ : "the value";
  return path_.empty() ? source : fmt::format("{}: `{}`", source, shortened(path_));
}

std::string Json::describe() const {
  switch (kind_) {
    case Kind::Null:
      return "null";
    case Kind::Bool:
      return integer_ != 0 ? "true" : "false";
    case Kind::Integer:
      return fmt::format("the integer {}", integer_);
    case Kind::Number:
      return fmt::format("the number {}", number_text(number_));
    case Kind::String:
      return fmt::format("the string \"{}\"", shortened(text_));
    case Kind::Array:
      return fmt::format("a list of {}", items_.size());
    case Kind::Object:
      return fmt::format("an object of {} keys", members_.size());
  }
  return "a value";
}

std::string Json::brief() const {
  constexpr size_t kMost = 8;
  if (kind_ != Kind::Array || items_.size() <= kMost) {
    return shortened(dump(-1));
  }
  return fmt::format("[{}, {}, {}, ...: {} in all]", items_[0].brief(), items_[1].brief(),
                     items_[2].brief(), items_.size());
}

std::string Json::dump(int indent) const {
  std::string out;
  write(*this, indent, 0, out);
  return out;
}

}  // namespace kinema::io
