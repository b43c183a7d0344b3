#include "kinema/encoders/weighted_clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_tokens.h"
#include "kinema/text/a1111_prompt.h"
#include "kinema/text/compel_prompt.h"

namespace kinema::encoders {
namespace {

using Values = std::vector<float>;  // [sequences * t, d]

/// A prompt's sequences with the learned words that its tokens refer to.
class Reader {
 public:
  Reader(const ClipText& clip, const LearnedWords& words, const std::string& text)
      : clip_(clip), words_(words.in(text, clip.tokenizer())) {}

  ClipSequences plain(const std::string& text, bool notes = false) const {
    std::vector<ClipToken> tokens = tokens_of({{text}});
    if (tokens.size() > most() && notes) {
      clip_.note(fmt::format("a prompt has {} tokens, {} fit into CLIP: the rest is dropped",
                             tokens.size(), most()));
    }
    tokens.resize(std::min(tokens.size(), most()));
    return {std::move(tokens)};
  }
  ClipSequences a1111(const std::string& text) const {
    return a1111_sequences(clip_.tokenizer(), text::parse_a1111(text), words_, most());
  }
  ClipSequences compel(const std::vector<text::WeightedText>& parts) const {
    return compel_sequences(clip_.tokenizer(), tokens_of(parts), most());
  }

 private:
  size_t most() const { return static_cast<size_t>(clip_.length() - 2); }
  std::vector<ClipToken> tokens_of(const std::vector<text::WeightedText>& parts) const {
    return clip_tokens(clip_.tokenizer(), parts, words_);
  }

  const ClipText& clip_;
  std::vector<LearnedWord> words_;
};

/// The states of one prompt.
struct Encoded {
  Values hidden;
  Values pooled;
  Values text_embeds;
};

Values values_of(const HostArray& array) {
  return array.bytes.empty() ? Values()
                             : Values(array.as<float>().begin(), array.as<float>().end());
}

double sum(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Encodes prompts one after the other.
class Weighting {
 public:
  Weighting(ClipText& clip, const LearnedWords& words) : clip_(clip), words_(words) {}

  Encoded operator()(const ClipPrompt& prompt) {
    layer_ = prompt.hidden_layer;
    const Reader reader(clip_, words_, prompt.text);
    switch (prompt.syntax) {
      case text::PromptSyntax::PLAIN:
        return first_of(run(reader.plain(prompt.text, true)));
      case text::PromptSyntax::A1111:
        return a1111(reader.a1111(prompt.text));
      case text::PromptSyntax::COMPEL:
        break;
    }
    Encoded out = first_of(run(reader.plain(prompt.text)));
    out.hidden = compel(reader, text::parse_compel(prompt.text));
    return out;
  }

  /// The states of the empty prompt.
  const Values& empty(int64_t layer) {
    auto found = empty_.find(layer);
    if (found == empty_.end()) {
      layer_ = layer;
      found = empty_.emplace(layer, values_of(run({{}}).hidden)).first;
    }
    return found->second;
  }

 private:
  size_t width() const { return static_cast<size_t>(clip_.config().hidden_size); }
  size_t length() const { return static_cast<size_t>(clip_.length()); }

  ClipText::States run(const ClipSequences& sequences,
                       const std::vector<std::vector<bool>>& masks = {}) {
    std::vector<ClipSequence> inputs;
    for (size_t i = 0; i < sequences.size(); ++i) {
      inputs.push_back(clip_sequence(clip_.tokenizer(), sequences[i], clip_.length()));
      if (!masks.empty() && std::ranges::count(masks[i], true) > 0) {
        inputs.back().masked = masks[i];
      }
    }
    const std::vector<int64_t> layers(inputs.size(), layer_);
    return clip_.encode(std::span<const ClipSequence>(inputs), layers);
  }

  /// All states, with the pooled ones of the first sequence.
  static Encoded first_of(const ClipText::States& states) {
    const auto first = [&](const HostArray& array) {
      Values all = values_of(array);
      all.resize(array.bytes.empty() ? 0 : static_cast<size_t>(array.shape.dims[1]));
      return all;
    };
    return {.hidden = values_of(states.hidden),
            .pooled = first(states.pooled),
            .text_embeds = first(states.text_embeds)};
  }

  Encoded a1111(const ClipSequences& sequences) {
    Encoded out = first_of(run(sequences));
    for (size_t s = 0; s < sequences.size(); ++s) {
      const std::span<float> z =
          std::span(out.hidden).subspan(s * length() * width(), length() * width());
      const double mean = sum(z);
      for (size_t i = 0; i < sequences[s].size(); ++i) {
        for (float& value : z.subspan((i + 1) * width(), width())) {
          value *= static_cast<float>(sequences[s][i].weight);
        }
      }
      const bool weighted =
          std::ranges::any_of(sequences[s], [](const auto& each) { return each.weight != 1.0; });
      const double after = sum(z);
      for (float& value : weighted&& after != 0 ? z : std::span<float>()) {
        value *= static_cast<float>(mean / after);
      }
    }
    return out;
  }

  /// e + w (z - e) of each token.
  void weigh(const ClipSequences& sequences, Values& z) {
    const int64_t layer = layer_;
    const Values& e = empty(layer);
    layer_ = layer;
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (size_t i = 0; i < sequences[s].size(); ++i) {
        const auto w = static_cast<float>(sequences[s][i].weight);
        for (size_t d = 0; w != 1.0F && d < width(); ++d) {
          float& value = z[(s * length() + i + 1) * width() + d];
          const float zero = e[(i + 1) * width() + d];
          value = zero + (value - zero) * w;
        }
      }
    }
  }

  /// The masks of a part's tokens, and of all between them but the first and last position of each
  /// sequence. Nothing if the part has no token.
  std::optional<std::vector<std::vector<bool>>> masks_of(const ClipSequences& sequences,
                                                         size_t part) const {
    std::optional<size_t> first;
    size_t last = 0;
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (size_t i = 0; i < sequences[s].size(); ++i) {
        if (sequences[s][i].part == part) {
          last = s * length() + i + 1;
          first = first ? first : last;
        }
      }
    }
    if (!first) {
      return std::nullopt;
    }
    std::vector<std::vector<bool>> masks(sequences.size(), std::vector<bool>(length()));
    for (size_t place = *first; place <= last; ++place) {
      const size_t inside = place % length();
      masks[place / length()][inside] = inside != 0 && inside != length() - 1;
    }
    return masks;
  }

  /// The states of one text.
  Values compel(const ClipSequences& sequences, const std::vector<text::WeightedText>& parts) {
    Values out = values_of(run(sequences).hidden);
    weigh(sequences, out);
    double shares = 1;
    for (size_t part = 0; part < parts.size(); ++part) {
      constexpr double kLeast = 1e-5;
      const double weight = std::max(kLeast, parts[part].weight);
      const auto masks = weight < 1 ? masks_of(sequences, part) : std::nullopt;
      if (!masks) {
        continue;
      }
      Values without = values_of(run(sequences, *masks).hidden);
      weigh(sequences, without);
      const double share = std::tan((1 - weight) * std::numbers::pi / 2);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] += static_cast<float>(share) * without[i];
      }
      shares += share;
    }
    for (float& value : out) {
      value /= static_cast<float>(shares);
    }
    return out;
  }

  /// Pads to the same number of sequences with the states of the empty prompt.
  void pad(Values& values, size_t size) {
    const int64_t layer = layer_;
    const Values& e = empty(layer);
    layer_ = layer;
    while (values.size() < size) {
      values.insert(values.end(), e.begin(), e.end());
    }
  }

  Values compel(const Reader& reader, const text::CompelPrompt& prompt) {
    Values out;
    for (const text::CompelPrompt::Clause& clause : prompt.clauses) {
      std::vector<Values> all;
      size_t longest = 0;
      for (const std::vector<text::WeightedText>& parts : clause.texts) {
        all.push_back(compel(reader.compel(parts), parts));
        longest = std::max(longest, all.back().size());
      }
      const double total =
          clause.normalize ? std::accumulate(clause.shares.begin(), clause.shares.end(), 0.0) : 1.0;
      check(total != 0, "[text] the weights of the prompt's `.blend` sum up to 0");
      Values blended(longest);
      for (size_t text = 0; text < all.size(); ++text) {
        pad(all[text], longest);
        const auto share = static_cast<float>(clause.shares[text] / total);
        for (size_t i = 0; i < longest; ++i) {
          blended[i] += share * all[text][i];
        }
      }
      if (clause.weight != 1) {
        Values none;
        pad(none, longest);
        for (size_t i = 0; i < longest; ++i) {
          blended[i] = none[i] + (blended[i] - none[i]) * static_cast<float>(clause.weight);
        }
      }
      out.insert(out.end(), blended.begin(), blended.end());
    }
    return out;
  }

  ClipText& clip_;
  const LearnedWords& words_;
  int64_t layer_ = 0;
  std::map<int64_t, Values> empty_;
};

void append(HostArray& to, std::span<const float> values, Dims dims) {
  if (values.empty()) {
    return;
  }
  to.shape = {DType::F32, std::move(dims)};
  const std::span<const std::byte> bytes = std::as_bytes(values);
  to.bytes.insert(to.bytes.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::vector<int64_t> layers_of(std::span<const Prompt> prompts, int64_t layer, int64_t clip_skip) {
  std::vector<int64_t> layers;
  for (const Prompt& prompt : prompts) {
    layers.push_back(layer - (prompt.is_negative ? 0 : clip_skip));
  }
  return layers;
}

std::vector<ClipPrompt> clip_prompts(std::span<const Prompt> prompts,
                                     const std::vector<std::string>& texts,
                                     const std::vector<int64_t>& layers) {
  std::vector<ClipPrompt> out;
  for (size_t i = 0; i < prompts.size(); ++i) {
    out.push_back({.text = texts[i], .syntax = prompts[i].syntax, .hidden_layer = layers[i]});
  }
  return out;
}

int64_t clip_sequences(const ClipText& clip, const LearnedWords& words, const ClipPrompt& prompt) {
  if (prompt.syntax == text::PromptSyntax::PLAIN) {
    return 1;
  }
  const Reader reader(clip, words, prompt.text);
  if (prompt.syntax == text::PromptSyntax::A1111) {
    return std::ssize(reader.a1111(prompt.text));
  }
  int64_t out = 0;
  for (const text::CompelPrompt::Clause& clause : text::parse_compel(prompt.text).clauses) {
    int64_t longest = 1;
    for (const std::vector<text::WeightedText>& parts : clause.texts) {
      longest = std::max<int64_t>(longest, std::ssize(reader.compel(parts)));
    }
    out += longest;
  }
  return out;
}

ClipText::States encode_weighted(ClipText& clip, const LearnedWords& words,
                                 std::span<const ClipPrompt> prompts, int64_t sequences) {
  Weighting weighting(clip, words);
  const auto n = static_cast<int64_t>(prompts.size());
  const int64_t width = clip.config().hidden_size;
  const int64_t rows = sequences * clip.length();
  ClipText::States out;
  for (const ClipPrompt& prompt : prompts) {
    Encoded made = weighting(prompt);
    while (std::ssize(made.hidden) < rows * width) {
      const Values& e = weighting.empty(prompt.hidden_layer);
      made.hidden.insert(made.hidden.end(), e.begin(), e.end());
    }
    append(out.hidden, made.hidden, {n, rows, width});
    append(out.pooled, made.pooled, {n, width});
    append(out.text_embeds, made.text_embeds, {n, clip.config().projection_dim});
  }
  return out;
}

}  // namespace kinema::encoders
