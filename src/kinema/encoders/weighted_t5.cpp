#include "kinema/encoders/weighted_t5.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/text/a1111_prompt.h"
#include "kinema/text/compel_prompt.h"

namespace kinema::encoders {
namespace {

using Parts = std::vector<text::WeightedText>;

/// The tokens of weighted parts, with the end of the sequence.
struct Tokens {
  T5Sequence sequence;
  std::vector<double> weights;  // of the tokens, and 1 of the end
  std::vector<size_t> parts;
};

Tokens tokens_of(const T5States& t5, const Parts& parts, bool notes) {
  Tokens out;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const int64_t id : t5.tokens(parts[part].text)) {
      out.sequence.ids.push_back(id);
      out.weights.push_back(parts[part].weight);
      out.parts.push_back(part);
    }
  }
  const auto most = static_cast<size_t>(t5.shape().dims[0]) - 1;
  if (out.weights.size() > most) {
    if (notes) {
      t5.note_dropped(std::ssize(out.weights) - static_cast<int64_t>(most));
    }
    out.sequence.ids.resize(most);
    out.weights.resize(most);
    out.parts.resize(most);
  }
  out.sequence.ids.push_back(t5.tokenizer().end());
  out.weights.push_back(1.0);
  out.parts.push_back(parts.size());
  return out;
}

Parts joined(const std::vector<Parts>& sections) {
  Parts out;
  for (const Parts& section : sections) {
    out.insert(out.end(), section.begin(), section.end());
  }
  return out;
}

/// The texts of a prompt whose states are blended, with their shares.
struct Texts {
  std::vector<Parts> texts;
  std::vector<double> shares;
};

Texts texts_of(const T5Prompt& prompt) {
  if (prompt.syntax == text::PromptSyntax::A1111) {
    return {{joined(text::parse_a1111(prompt.text))}, {1.0}};
  }
  if (prompt.syntax == text::PromptSyntax::PLAIN) {
    return {{{{prompt.text}}}, {1.0}};
  }
  const text::CompelPrompt parsed = text::parse_compel(prompt.text);
  if (parsed.clauses.size() > 1) {
    Parts all;
    for (const text::CompelPrompt::Clause& clause : parsed.clauses) {
      for (text::WeightedText part : joined(clause.texts)) {
        part.weight *= clause.weight;
        all.push_back(std::move(part));
      }
    }
    return {{std::move(all)}, {1.0}};
  }
  const text::CompelPrompt::Clause& clause = parsed.clauses.front();
  Texts out{clause.texts, clause.shares};
  const double total = std::accumulate(out.shares.begin(), out.shares.end(), 0.0);
  check(!clause.normalize || total != 0, "[text] the weights of the prompt's `.blend` sum up to 0");
  for (double& share : out.shares) {
    share /= clause.normalize ? total : 1.0;
  }
  return out;
}

/// The states of one sequence, f32 [1, t, d].
HostArray run(T5States& t5, const T5Sequence& sequence) {
  return t5.encode(std::span(&sequence, 1));
}

std::span<float> row(HostArray& states, size_t i) {
  const auto width = static_cast<size_t>(states.shape.dims[2]);
  return states.as<float>().subspan(i * width, width);
}

double total_of(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

HostArray a1111(T5States& t5, const Tokens& tokens) {
  HostArray z = run(t5, tokens.sequence);
  const double mean = total_of(z.as<float>());
  for (size_t i = 0; i < tokens.weights.size(); ++i) {
    for (float& value : row(z, i)) {
      value *= static_cast<float>(tokens.weights[i]);
    }
  }
  const bool weighted = std::ranges::any_of(tokens.weights, [](double w) { return w != 1.0; });
  const double after = total_of(z.as<float>());
  for (float& value : weighted&& after != 0 ? z.as<float>() : std::span<float>()) {
    value *= static_cast<float>(mean / after);
  }
  return z;
}

/// e + w (z - e), with the empty prompt's states e.
HostArray weighed(T5States& t5, const Tokens& tokens, const T5Sequence& sequence) {
  HostArray z = run(t5, sequence);
  if (std::ranges::all_of(tokens.weights, [](double w) { return w == 1.0; })) {
    return z;
  }
  HostArray e = run(t5, {.ids = {t5.tokenizer().end()}});
  for (size_t i = 0; i < tokens.weights.size(); ++i) {
    const auto w = static_cast<float>(tokens.weights[i]);
    const std::span<float> own = row(z, i);
    const std::span<const float> none = row(e, i);
    for (size_t d = 0; w != 1.0F && d < own.size(); ++d) {
      own[d] = none[d] + (own[d] - none[d]) * w;
    }
  }
  return z;
}

HostArray compel(T5States& t5, const Tokens& tokens, const Parts& parts) {
  HostArray out = weighed(t5, tokens, tokens.sequence);
  double shares = 1;
  for (size_t part = 0; part < parts.size(); ++part) {
    constexpr double kLeast = 1e-5;
    const double weight = std::max(kLeast, parts[part].weight);
    T5Sequence without = tokens.sequence;
    for (const size_t own : tokens.parts) {
      without.masked.push_back(own == part);
    }
    if (weight >= 1 || std::ranges::count(without.masked, true) == 0) {
      continue;
    }
    const HostArray other = weighed(t5, tokens, without);
    const auto share = static_cast<float>(std::tan((1 - weight) * std::numbers::pi / 2));
    std::ranges::transform(out.as<float>(), other.as<float>(), out.as<float>().begin(),
                           [share](float a, float b) { return a + share * b; });
    shares += share;
  }
  for (float& value : out.as<float>()) {
    value /= static_cast<float>(shares);
  }
  return out;
}

}  // namespace

HostArray encode_weighted(T5States& t5, std::span<const T5Prompt> prompts) {
  HostArray out(Shape{DType::F32, {std::ssize(prompts), t5.shape().dims[0], t5.shape().dims[1]}});
  const auto size = static_cast<size_t>(t5.shape().elements());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Texts texts = texts_of(prompts[i]);
    const std::span<float> to = out.as<float>().subspan(i * size, size);
    for (size_t text = 0; text < texts.texts.size(); ++text) {
      const Tokens tokens = tokens_of(t5, texts.texts[text], true);
      const HostArray states = prompts[i].syntax == text::PromptSyntax::COMPEL
                                   ? compel(t5, tokens, texts.texts[text])
                                   : a1111(t5, tokens);
      const auto share = static_cast<float>(texts.shares[text]);
      std::ranges::transform(to, states.as<float>(), to.begin(),
                             [share](float a, float b) { return a + share * b; });
    }
  }
  return out;
}

int64_t weighted_memory_bytes(T5States& t5, std::span<const T5Prompt> prompts) {
  std::vector<T5Sequence> all;
  for (const T5Prompt& prompt : prompts) {
    for (const Parts& parts : texts_of(prompt).texts) {
      all.push_back(tokens_of(t5, parts, false).sequence);
    }
  }
  return t5.memory_bytes(std::span<const T5Sequence>(all));
}

}  // namespace kinema::encoders
