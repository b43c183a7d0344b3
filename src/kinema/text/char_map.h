#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// The normalisation inside a sentencepiece model (`precompiled_charsmap`): a double-array trie
/// from character sequences to what they become.
///
/// Layout: u32 bytes of the trie, the trie (u32 units), then the replacements, each ended by NUL.
class CharMap {
 public:
  /// Maps nothing.
  CharMap() = default;
  /// Throws an Error when the sizes do not fit together.
  explicit CharMap(std::string_view bytes);

  /// The text with every grapheme, or else each of its characters, replaced as the map says.
  ///
  /// As Hugging Face's tokenizers do it: a grapheme of less than 6 bytes that begins with a mapped
  /// sequence becomes that sequence's replacement (what follows in the grapheme is lost).
  std::string normalize(std::string_view text) const;

 private:
  std::optional<std::string_view> find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace kinema::text
