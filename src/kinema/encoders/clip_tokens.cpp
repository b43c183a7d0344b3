#include "kinema/encoders/clip_tokens.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

/// The longest word whose name is at the start of the tokens; null if there is none.
const LearnedWord* word_at(std::span<const LearnedWord> words, std::span<const int64_t> ids) {
  for (const LearnedWord& word : words) {
    if (word.ids.size() <= ids.size() && std::ranges::equal(word.ids, ids.first(word.ids.size()))) {
      return &word;
    }
  }
  return nullptr;
}

/// Appends the tokens of one part; `part` is its index.
void append_part(const text::ClipTokenizer& tokenizer, const text::WeightedText& text, size_t part,
                 std::span<const LearnedWord> words, std::vector<ClipToken>& out) {
  const std::vector<int64_t> ids = word_ids(tokenizer, text.text);
  for (size_t i = 0; i < ids.size();) {
    const LearnedWord* word = word_at(words, std::span(ids).subspan(i));
    if (word == nullptr) {
      out.push_back({.id = ids[i++], .weight = text.weight, .part = part});
      continue;
    }
    const auto width = static_cast<size_t>(word->rows.shape.dims[1]);
    const std::span<const float> rows = word->rows.as<float>();
    for (size_t row = 0; row * width < rows.size(); ++row) {
      out.push_back(
          {.id = 0, .weight = text.weight, .part = part, .row = rows.subspan(row * width, width)});
    }
    i += word->ids.size();
  }
}

/// True if both are rows of one learned word, in order.
bool continues(const ClipToken& before, const ClipToken& token) {
  return !token.row.empty() && before.row.data() + before.row.size() == token.row.data();
}

/// The number of tokens of the next sequence of compel.
size_t split_point(const text::ClipTokenizer& tokenizer, std::span<const ClipToken> tokens,
                   size_t most) {
  if (tokens.size() <= most) {
    return tokens.size();
  }
  const auto last = [&](auto&& is_end) -> std::optional<size_t> {
    for (size_t i = most; i > 0; --i) {
      if (tokens[i - 1].row.empty() && is_end(tokenizer.token(tokens[i - 1].id))) {
        return i;
      }
    }
    return std::nullopt;
  };
  constexpr std::string_view kWordEnd = "</w>";
  std::optional<size_t> end = last([](const std::string& token) { return token == ".</w>"; });
  end = end ? end : last([](const std::string& token) {
    return token == ".</w>" || token == ",</w>" || token == ";</w>" || token == ":</w>";
  });
  end = end ? end : last([&](const std::string& token) { return token.ends_with(kWordEnd); });
  return end.value_or(most);
}

}  // namespace

std::vector<ClipToken> clip_tokens(const text::ClipTokenizer& tokenizer,
                                   std::span<const text::WeightedText> parts,
                                   std::span<const LearnedWord> words) {
  std::vector<ClipToken> out;
  for (size_t part = 0; part < parts.size(); ++part) {
    append_part(tokenizer, parts[part], part, words, out);
  }
  return out;
}

ClipSequences a1111_sequences(const text::ClipTokenizer& tokenizer,
                              std::span<const std::vector<text::WeightedText>> sections,
                              std::span<const LearnedWord> words, size_t most) {
  constexpr size_t kAfterComma = 20;
  const std::vector<int64_t> comma_ids = word_ids(tokenizer, ",");
  const int64_t comma = comma_ids.size() == 1 ? comma_ids[0] : -1;
  ClipSequences out{{}};
  for (size_t section = 0; section < sections.size(); ++section) {
    if (section > 0) {
      out.emplace_back();
    }
    const std::vector<ClipToken> tokens = clip_tokens(tokenizer, sections[section], words);
    size_t after_comma = 0;  // in the sequence; 0: it has no comma
    for (size_t i = 0; i < tokens.size(); ++i) {
      const ClipToken& token = tokens[i];
      size_t whole = 1;  // tokens that stay together
      while (i + whole < tokens.size() && continues(tokens[i + whole - 1], tokens[i + whole])) {
        ++whole;
      }
      const bool is_inside = i > 0 && continues(tokens[i - 1], token);
      const bool is_comma = token.row.empty() && token.id == comma;
      if (is_comma) {
        after_comma = out.back().size() + 1;
      } else if (out.back().size() == most && after_comma > 0 && most - after_comma < kAfterComma) {
        // What follows the last comma moves to the next sequence.
        std::vector<ClipToken> moved(out.back().begin() + static_cast<int64_t>(after_comma),
                                     out.back().end());
        out.back().resize(after_comma);
        out.push_back(std::move(moved));
        after_comma = 0;
      }
      if (out.back().size() + (is_inside ? 1 : whole) > most) {
        out.emplace_back();
        after_comma = 0;
      }
      out.back().push_back(token);
    }
  }
  if (out.size() > 1 && out.back().empty()) {
    out.pop_back();
  }
  return out;
}

ClipSequences compel_sequences(const text::ClipTokenizer& tokenizer, std::vector<ClipToken> tokens,
                               size_t most) {
  ClipSequences out;
  std::span<const ClipToken> rest(tokens);
  do {
    const size_t count = split_point(tokenizer, rest, most);
    out.emplace_back(rest.begin(), rest.begin() + static_cast<int64_t>(count));
    rest = rest.subspan(count);
  } while (!rest.empty());
  return out;
}

ClipSequence clip_sequence(const text::ClipTokenizer& tokenizer, std::span<const ClipToken> tokens,
                           int64_t length) {
  check(std::ssize(tokens) + 2 <= length, "[encoders] a sequence of {} tokens exceeds CLIP's {}",
        tokens.size(), length - 2);
  ClipSequence out{.ids = {tokenizer.start()}};
  for (const ClipToken& token : tokens) {
    if (!token.row.empty()) {
      out.rows.push_back({.position = std::ssize(out.ids), .values = token.row});
    }
    out.ids.push_back(token.id);
  }
  out.ids.push_back(tokenizer.end());
  out.ids.resize(static_cast<size_t>(length), tokenizer.pad());
  return out;
}

}  // namespace kinema::encoders
