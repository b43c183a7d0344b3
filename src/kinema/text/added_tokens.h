#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::text {

/// A token that is found in the prompt as it is written, before anything else happens to it.
struct AddedToken {
  std::string text;
  int64_t id = 0;
  bool single_word = false;  // only where no letter, digit or underscore touches it
  bool lstrip = false;       // takes the white space in front of it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // found in the normalised text instead
};

/// `{"content": "<pad>", "lstrip": false, ...}`; `normalized` is what a token that does not say is.
AddedToken added_token(const io::Json& json, int64_t id, bool normalized = false);
/// `"added_tokens_decoder": {"0": {"content": "<pad>", ...}, ...}`. A token that does not say is
/// found in the text as it is, unless `normalized_by_kind`: then only one that is `special` is.
std::vector<AddedToken> decoder_tokens(const io::Json& decoder, bool normalized_by_kind = false);
/// `"</s>"` or `{"content": "</s>", ...}`; `otherwise` for null.
std::string token_text(const io::Json& value, std::string_view otherwise);

/// Where a text holds added tokens.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Those of `all` that are `normalized` as told; those without a text are nowhere. Throws an
  /// Error for one of more than 512 bytes.
  AddedTokens(const std::vector<AddedToken>& all, bool normalized);

  /// Replaces each token's text; those that have none then are left out.
  void normalize(const std::function<std::string(std::string_view)>& form);

  /// Calls `section` with the text between tokens and `token` with the id of each, in order. Of
  /// several that begin at one place, the longest counts. Time grows with the text's length.
  void split(std::string_view text, const std::function<void(std::string_view)>& section,
             const std::function<void(int64_t)>& token) const;

 private:
  /// The longest token that the text begins with; null where it begins with none.
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // in the order of their texts
};

}  // namespace kinema::text
