#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/text/a1111_prompt.h"
#include "kinema/text/weighted_text.h"

namespace kinema::text {

/// A prompt in compel's syntax, as a tree of two levels.
struct CompelPrompt {
  /// Texts whose states are blended: one, or those of `.blend()`.
  struct Clause {
    std::vector<std::vector<WeightedText>> texts;
    std::vector<double> shares;  // of the texts
    bool normalize = true;       // the shares are divided by their sum
    double weight = 1.0;         // of the clause in `.and()`

    bool operator==(const Clause&) const = default;
  };
  std::vector<Clause> clauses;  // those of `.and()`, whose states follow each other
  std::vector<LoraTag> loras;   // of `withLora(name, scale)`
};

/// Parses compel's syntax (PyPI `compel`, 2.x): `word++` and `(two words)-` multiply the weight
/// by 1.1 or 0.9 for each sign, `(words)1.3` by a number; brackets and quotes nest, `\(` is a
/// bracket of the text; `("a", "b").blend(0.7, 0.3)`, `("a", "b").and(1, 0.5)`, `withLora(name,
/// 0.8)`. Text that does not fit the syntax is text, as in compel. Neighbouring parts have
/// different weights.
///
/// Throws an Error for weights that are not as many as texts, for text after `.blend(...)`, and for
/// `.swap(...)`, which is not supported.
CompelPrompt parse_compel(std::string_view prompt);

}  // namespace kinema::text
