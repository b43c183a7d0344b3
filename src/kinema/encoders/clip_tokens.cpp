#include "kinema/encoders/clip_tokens.h"

#include <algorithm>
#include <optional>
#include <string>
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

/// The tokens of one part of a prompt.
class PartTokens {
 public:
  PartTokens(const text::ClipTokenizer& tokenizer, double weight, size_t part,
             std::vector<ClipToken>& out)
      : tokenizer_(tokenizer), like_{.weight = weight, .part = part}, out_(out) {}

  /// Appends the tokens of a text. The tokens of a learned word are replaced by its rows.
  void add(const std::string& text, std::span<const LearnedWord> words) {
    const std::vector<int64_t> ids = word_ids(tokenizer_, text);
    for (size_t i = 0; i < ids.size();) {
      const LearnedWord* word = word_at(words, std::span(ids).subspan(i));
      if (word == nullptr) {
        out_.push_back(like_);
        out_.back().id = ids[i++];
        continue;
      }
      add(*word);
      i += word->ids.size();
    }
  }
  void add(const LearnedWord& word) {
    const auto width = static_cast<size_t>(word.rows.shape.dims[1]);
    const std::span<const float> rows = word.rows.as<float>();
    for (size_t row = 0; row * width < rows.size(); ++row) {
      out_.push_back(like_);
      out_.back().row = rows.subspan(row * width, width);
    }
  }

 private:
  const text::ClipTokenizer& tokenizer_;
  ClipToken like_;
  std::vector<ClipToken>& out_;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_of_word(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/// True if the word's name is in the text at this place, in letters of any case.
bool is_at(std::string_view text, size_t place, std::string_view name) {
  const size_t end = place + name.size();
  return end <= text.size() &&
         std::ranges::equal(text.substr(place, name.size()), name, {}, lower, lower) &&
         !(place > 0 && is_of_word(text[place - 1]) && is_of_word(name.front())) &&
         !(end < text.size() && is_of_word(text[end]) && is_of_word(name.back()));
}

/// The learned word with the longest name at this position of the text; null if there is none.
const LearnedWord* written_at(std::span<const LearnedWord> words, std::string_view text,
                              size_t place) {
  const LearnedWord* out = nullptr;
  for (const LearnedWord& word : words) {
    if (!word.written.empty() && is_at(text, place, word.written) &&
        (out == nullptr || word.written.size() > out->written.size())) {
      out = &word;
    }
  }
  return out;
}

/// The tokens of parts, with words that are found by their tokens.
std::vector<ClipToken> tokens_by_id(const text::ClipTokenizer& tokenizer,
                                    std::span<const text::WeightedText> parts,
                                    std::span<const LearnedWord> words) {
  std::vector<ClipToken> out;
  for (size_t part = 0; part < parts.size(); ++part) {
    PartTokens(tokenizer, parts[part].weight, part, out).add(parts[part].text, words);
  }
  return out;
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
    PartTokens tokens(tokenizer, parts[part].weight, part, out);
    const std::string& text = parts[part].text;
    size_t begin = 0;  // of what is not yet tokenized
    for (size_t i = 0; i < text.size();) {
      const LearnedWord* word = written_at(words, text, i);
      if (word == nullptr) {
        ++i;
        continue;
      }
      tokens.add(text.substr(begin, i - begin), {});
      tokens.add(*word);
      i += word->written.size();
      begin = i;
    }
    tokens.add(text.substr(begin), {});
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
    const std::vector<ClipToken> tokens = tokens_by_id(tokenizer, sections[section], words);
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
