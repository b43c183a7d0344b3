#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/io/yaml.h"

namespace kinema::agents {

/// The settings of an agent's run, as the original has them: a YAML file with a block `defaults`,
/// which has every key, and named blocks that change some. A key is a path with dots,
/// `agent.opt.lr`.
class Settings {
 public:
  /// A file and words `key=value`; `preset=a,b` applies named blocks in that order before all other
  /// words; without one, a block with the name of the `task` is applied. `*.units` or `.*\.units`
  /// sets every key that ends in `.units`, `envs` the only key that ends in `.envs`. A value must
  /// have the type of its default. Throws an Error with file, line and the nearest key for an
  /// unknown one.
  static Settings read(const std::filesystem::path& file, std::span<const std::string> words = {});

  bool contains(std::string_view key) const { return find(key) != nullptr; }
  bool flag(std::string_view key) const { return at(key).as_bool(); }
  /// An integer, or a number without fraction: 1e6.
  int64_t whole(std::string_view key) const;
  double number(std::string_view key) const { return at(key).as_number(); }
  const std::string& text(std::string_view key) const { return at(key).as_string(); }
  std::vector<int64_t> wholes(std::string_view key) const { return at(key).as_ints(); }
  /// Everything below a key: `agent` gives an object with `opt`, `enc`, ...; empty if there is
  /// nothing.
  io::Json tree(std::string_view key) const;

  /// The same settings with another value, which must have the default's type.
  Settings with(std::string_view key, const io::Json& value) const;

  /// As a file that `read` reads.
  std::string yaml() const;
  /// A line for each value that differs from the original's default but has no effect here. Throws
  /// an Error for one that asks for what kinema cannot do.
  std::vector<std::string> notices() const;

 private:
  struct Entry {
    std::string key;
    io::Json value;
    io::Json standard;  // the default
  };

  const io::Json* find(std::string_view key) const;
  const io::Json& at(std::string_view key) const;
  /// Sets every key that matches `pattern`; `where` names its origin in errors.
  void set(const std::string& pattern, const io::Json& value, const std::string& where);
  void apply(const std::vector<std::pair<std::string, io::Yaml>>& block);
  std::vector<Entry*> entries_of(const std::string& pattern, const std::string& where);

  std::vector<Entry> entries_;  // in the file's order
};

}  // namespace kinema::agents
