#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kinema::io {

/// A JSON value that stores where it was read, so that errors about a wrong type contain file and
/// key: ``config.json: `num_layers` is the string "one" but must be an integer``.
///
/// Parsing is strict: no NaN or Infinity, no comments, no duplicate keys, at most 100 levels.
/// Members keep their order, also in dump().
class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Integer, Number, String, Array, Object };
  using Member = std::pair<std::string, Json>;

  Json() = default;
  Json(bool value) : kind_(Kind::Bool), integer_(value ? 1 : 0) {}  // NOLINT(*-explicit-*)
  Json(int value) : Json(static_cast<int64_t>(value)) {}            // NOLINT(*-explicit-*)
  Json(int64_t value) : kind_(Kind::Integer), integer_(value) {}    // NOLINT(*-explicit-*)
  Json(double value) : kind_(Kind::Number), number_(value) {}       // NOLINT(*-explicit-*)
  Json(std::string value);                                          // NOLINT(*-explicit-*)
  Json(std::string_view value) : Json(std::string(value)) {}        // NOLINT(*-explicit-*)
  Json(const char* value) : Json(std::string(value)) {}             // NOLINT(*-explicit-*)
  static Json array(std::vector<Json> items = {});
  static Json object(std::vector<Member> members = {});

  /// Parses a document; `source` is its name in errors.
  static Json parse(std::string_view text, std::string_view source);
  /// Reads a file of at most 256 MiB.
  static Json read(const std::filesystem::path& path);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  bool is_string() const { return kind_ == Kind::String; }
  bool is_array() const { return kind_ == Kind::Array; }
  bool is_object() const { return kind_ == Kind::Object; }

  // Typed access: throws an Error with file, path and value if the type differs.
  bool as_bool() const;
  /// An integer written as one: `1.0` and `"1"` are errors.
  int64_t as_int() const;
  /// Any finite number.
  double as_number() const;
  const std::string& as_string() const;
  const std::vector<Json>& items() const;
  const std::vector<Member>& members() const;
  /// All items as integers.
  std::vector<int64_t> as_ints() const;

  /// The member, or null if it does not exist; throws an Error if this is not an object.
  const Json* find(std::string_view key) const;
  /// The member; throws an Error with the missing key.
  const Json& at(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// Sets or replaces a member of an object.
  Json& set(std::string_view key, Json value);
  /// Appends to an array.
  Json& append(Json value);

  /// The value's location for messages: `config.json: `num_layers``.
  std::string where() const;
  /// The value, shortened, for messages: `the string "one"`.
  std::string describe() const;
  /// The value as JSON on one line, shortened, for messages: `[0.1, 0.2, 0.3, ...: 1000 in all]`.
  std::string brief() const;

  /// Text with members in order; indent < 0 writes one line. Non-finite numbers become null,
  /// because JSON cannot express them.
  std::string dump(int indent = 2) const;

 private:
  friend struct JsonReader;
  Kind kind_ = Kind::Null;
  int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;
  std::shared_ptr<const std::string> source_;  // shared by all values of a document
  std::string path_;
};

}  // namespace kinema::io
