#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::text {

/// A token that is found in the prompt before any other processing.
struct AddedToken {
  std::string text;
  int64_t id = 0;
  bool single_word = false;  // only if no letter, digit or underscore is adjacent
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // found in the normalised text instead
};

/// `{"content": "<pad>", "lstrip": false, ...}`; `normalized` is the default of that field.
AddedToken added_token(const io::Json& json, int64_t id, bool normalized = false);
/// `"added_tokens_decoder": {"0": {"content": "<pad>", ...}, ...}`. By default a token is found in
/// the unnormalised text; with `normalized_by_kind`, only if it is `special`.
std::vector<AddedToken> decoder_tokens(const io::Json& decoder, bool normalized_by_kind = false);
/// `"</s>"` or `{"content": "</s>", ...}`; `otherwise` for null.
std::string token_text(const io::Json& value, std::string_view otherwise);

/// Finds added tokens in a text.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Those of `all` with this value of `normalized`; empty ones never match. Throws an Error for a
  /// token of more than 512 bytes.
  AddedTokens(const std::vector<AddedToken>& all, bool normalized);

  /// Replaces each token's text; tokens that become empty are removed.
  void normalize(const std::function<std::string(std::string_view)>& form);

  /// Calls `section` with the text between tokens and `token` with the id of each, in order. Of
  /// several that start at one position, the longest matches. Takes linear time.
  void split(std::string_view text, const std::function<void(std::string_view)>& section,
             const std::function<void(int64_t)>& token) const;

 private:
  /// The longest token at the start of the text; null if there is none.
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // sorted by their texts
};

}  // namespace kinema::text
