#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::io {

/// A YAML document whose scalars stay text: the reader decides the meaning of `on`, `010` or `1e-5`
/// (YAML 1.1 and 1.2 disagree on all three).
///
/// At most 4 MiB, 64 levels and 100,000 values after aliases are expanded; one document; no
/// duplicate keys; keys are scalars.
class Yaml {
 public:
  enum class Kind : uint8_t { Null, Scalar, Sequence, Mapping };
  struct Member;

  Yaml() = default;
  /// Parses a document; `source` is its name in errors. Empty text gives Null.
  static Yaml parse(std::string_view text, std::string_view source);
  static Yaml read(const std::filesystem::path& path);

  Kind kind() const { return kind_; }
  /// The scalar's text after unescaping; empty for other kinds.
  const std::string& text() const { return text_; }
  /// True if the scalar was quoted or in a block (`|`, `>`): it is a string then.
  bool quoted() const { return quoted_; }
  /// Line of the value, from 1.
  int line() const { return line_; }
  /// `wan.yml:12`, for messages.
  std::string where() const;

  /// Items of a sequence, empty for other kinds.
  const std::vector<Yaml>& items() const { return items_; }
  /// Members of a mapping in order, empty for other kinds.
  const std::vector<Member>& members() const;
  /// The member's value, or null.
  const Yaml* find(std::string_view key) const;

 private:
  friend class YamlReader;
  Kind kind_ = Kind::Null;
  bool quoted_ = false;
  int line_ = 0;
  std::string text_;
  std::vector<Yaml> items_;
  std::vector<Member> members_;
  std::shared_ptr<const std::string> source_;  // shared by all values of a document
};

struct Yaml::Member {
  std::string key;
  int line = 0;
  Yaml value;
};

}  // namespace kinema::io
