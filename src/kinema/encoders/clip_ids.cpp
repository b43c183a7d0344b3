#include "kinema/encoders/clip_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_tokens.h"

namespace kinema::encoders {
namespace {

/// The words as the reader of prompts takes them: their rows are their ids.
std::vector<LearnedWord> as_learned(const text::ClipTokenizer& tokenizer,
                                    std::span<const TrainedWord> words) {
  std::vector<LearnedWord> out;
  for (const TrainedWord& word : words) {
    check(!word_ids(tokenizer, word.name).empty(),
          "[config] textual_inversion: the word `{}` has no tokens", word.name);
    HostArray ids(Shape{DType::F32, {word.rows, 1}});
    for (int64_t row = 0; row < word.rows; ++row) {
      ids.as<float>()[static_cast<size_t>(row)] = static_cast<float>(word.first_id + row);
    }
    out.push_back({.name = word.name,
                   .written = word.name,
                   .ids = word_ids(tokenizer, word.name),
                   .rows = ids});
  }
  std::ranges::stable_sort(out, std::ranges::greater(),
                           [](const LearnedWord& each) { return each.ids.size(); });
  return out;
}

class ClipIdsEncoder final : public TextEncoder {
 public:
  explicit ClipIdsEncoder(ClipIdsSettings settings) : settings_(std::move(settings)) {
    for (size_t i = 0; i < settings_.tokenizers.size(); ++i) {
      words_.push_back(i < settings_.words.size()
                           ? as_learned(settings_.tokenizers[i], settings_.words[i])
                           : std::vector<LearnedWord>());
    }
  }

  std::string name() const override { return "clip token ids"; }
  Shape shape() const override {
    return settings_.states ? settings_.states->shape()
                            : Shape{DType::S32, {settings_.length, encoders()}};
  }
  Shape pooled_shape() const override {
    return settings_.states ? Shape{DType::S32, {settings_.length}} : Shape{};
  }
  void release() const override {
    if (settings_.states) {
      settings_.states->release();
    }
  }

 private:
  int64_t encoders() const { return std::ssize(settings_.tokenizers); }

  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    TextStates out;
    if (settings_.states) {
      out.states = settings_.states->encode(prompts).states;
    }
    const int64_t n = std::ssize(prompts);
    HostArray ids(Shape{DType::S32, {n, settings_.length, encoders()}});
    for (int64_t i = 0; i < n; ++i) {
      const Prompt& prompt = prompts[static_cast<size_t>(i)];
      for (int64_t e = 0; e < encoders(); ++e) {
        const std::vector<int32_t> row =
            tokens(e == 0 ? prompt.text : prompt.for_second(), static_cast<size_t>(e));
        for (int64_t t = 0; t < settings_.length; ++t) {
          ids.as<int32_t>()[static_cast<size_t>((i * settings_.length + t) * encoders() + e)] =
              row[static_cast<size_t>(t)];
        }
      }
    }
    if (settings_.states) {
      ids.shape.dims = {n, settings_.length};
      out.pooled = std::move(ids);
    } else {
      out.states = std::move(ids);
    }
    return out;
  }

  /// Start, tokens, end and padding: `length` ids.
  std::vector<int32_t> tokens(const std::string& text, size_t encoder) const {
    const text::ClipTokenizer& tokenizer = settings_.tokenizers[encoder];
    const std::vector<text::WeightedText> parts{{.text = text}};
    const std::vector<ClipToken> all = clip_tokens(tokenizer, parts, words_[encoder]);
    const int64_t most = settings_.length - 2;
    if (std::ssize(all) > most && settings_.on_note && encoder == 0) {
      settings_.on_note(fmt::format("a prompt has {} tokens, {} fit into CLIP: the rest is dropped",
                                    all.size(), most));
    }
    std::vector<int32_t> out{static_cast<int32_t>(tokenizer.start())};
    for (const ClipToken& token : all) {
      if (std::ssize(out) > most) {
        break;
      }
      out.push_back(token.row.empty() ? static_cast<int32_t>(token.id)
                                      : static_cast<int32_t>(token.row[0]));
    }
    out.push_back(static_cast<int32_t>(tokenizer.end()));
    out.resize(static_cast<size_t>(settings_.length), static_cast<int32_t>(tokenizer.pad()));
    return out;
  }

  ClipIdsSettings settings_;
  std::vector<std::vector<LearnedWord>> words_;  // of each encoder
};

}  // namespace

std::unique_ptr<TextEncoder> clip_ids_encoder(ClipIdsSettings settings) {
  return std::make_unique<ClipIdsEncoder>(std::move(settings));
}

}  // namespace kinema::encoders
