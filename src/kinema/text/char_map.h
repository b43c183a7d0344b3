#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// The normalisation in a sentencepiece model (`precompiled_charsmap`): a double-array trie from
/// character sequences to their replacements.
///
/// Layout: u32 bytes of the trie, the trie (u32 units), then the replacements, each terminated by
/// NUL.
class CharMap {
 public:
  /// Maps nothing.
  CharMap() = default;
  /// Throws an Error if the sizes are inconsistent.
  explicit CharMap(std::string_view bytes);

  /// The text with every grapheme, or else each of its characters, replaced by the map.
  ///
  /// As in Hugging Face's tokenizers: a grapheme of less than 6 bytes that starts with a mapped
  /// sequence becomes that sequence's replacement (the rest of the grapheme is lost).
  std::string normalize(std::string_view text) const;

 private:
  std::optional<std::string_view> find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace kinema::text
