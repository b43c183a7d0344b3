#include "kinema/encoders/flux_encoder.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/two_texts.h"
#include "kinema/encoders/weighted_clip.h"
#include "kinema/encoders/weighted_t5.h"
#include "kinema/text/compel_prompt.h"

namespace kinema::encoders {
namespace {

// diffusers' limit: the transformer was trained with at most this many.
constexpr int64_t kLongest = 512;

T5Settings t5_settings(const FluxTextSettings& s) {
  check(s.max_sequence_length >= 1 && s.max_sequence_length <= kLongest,
        "[encoders] max_sequence_length is {}, but Flux.1 takes 1 to {}", s.max_sequence_length,
        kLongest);
  const TextFiles files = s.second.value_or(TextFiles{.model = s.pipeline / "text_encoder_2",
                                                      .part = model_files::kTextEncoder2,
                                                      .tokenizer = s.pipeline / "tokenizer_2"});
  return {.model = files.model,
          .tokenizer = files.tokenizer,
          .part = files.part,
          .max_sequence_length = s.max_sequence_length,
          .width = s.width,
          .batched = s.batched,
          .memory = s.memory,
          .options = s.options,
          .program = s.program,
          .on_note = s.on_note,
          .adapters = s.t5_adapters,
          .clean = false,
          .masked = false};
}

ClipTextSettings clip_settings(const FluxTextSettings& s) {
  const TextFiles files = s.first.value_or(
      TextFiles{.model = s.pipeline / "text_encoder", .tokenizer = s.pipeline / "tokenizer"});
  return {.model = files.model,
          .tokenizer = files.tokenizer,
          .part = files.part,
          .config = files.config,
          .dtype = s.clip_dtype,
          .precision = s.options.precision,
          .scan_layers = s.options.scan_layers,
          .program = s.program,
          .adapters = s.clip_adapters,
          .on_note = s.on_note};
}

class FluxTextEncoder final : public TextEncoder {
 public:
  FluxTextEncoder(const pjrt::Client& client, const FluxTextSettings& s)
      : clip_(client, clip_settings(s)), t5_(client, t5_settings(s)) {
    check(s.pooled_width == 0 || s.pooled_width == clip_.config().hidden_size,
          "[encoders] CLIP of {} is {} wide but the transformer takes {}",
          s.first ? s.first->model.string() : s.pipeline.string(), clip_.config().hidden_size,
          s.pooled_width);
    if (!s.embeddings.empty()) {
      words_ = LearnedWords(s.embeddings, "clip_l", clip_.config().hidden_size);
    }
  }

  std::string name() const override { return "flux"; }
  Shape shape() const override { return t5_.shape(); }
  Shape pooled_shape() const override { return {DType::F32, {clip_.config().hidden_size}}; }
  void release() const override {
    clip_.release();
    t5_.release();
  }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    TextStates out;
    if (all_plain(prompts)) {
      out.states = t5_.encode(second_texts(prompts));
    } else {
      out.states = encode_weighted(t5_, t5_prompts(prompts));
    }
    if (all_plain(prompts) && words_.empty()) {
      out.pooled = clip_.encode(first_texts(prompts)).pooled;
    } else {
      out.pooled = pooled(prompts);
    }
    return out;
  }

  /// CLIP's pooled rows, which have no weights.
  HostArray pooled(std::span<const Prompt> prompts) const {
    std::vector<ClipPrompt> all;
    int64_t sequences = 1;
    for (const Prompt& prompt : prompts) {
      const bool compel = prompt.syntax == text::PromptSyntax::COMPEL;
      all.push_back({.text = compel ? plain_text(prompt.text) : prompt.text,
                     .syntax = compel ? text::PromptSyntax::PLAIN : prompt.syntax,
                     .hidden_layer = clip_.hidden_layer()});
      sequences = std::max(sequences, clip_sequences(clip_, words_, all.back()));
    }
    return encode_weighted(clip_, words_, all, sequences).pooled;
  }

  /// The texts of a prompt in compel's syntax: of the first clause, joined by spaces.
  static std::string plain_text(const std::string& prompt) {
    std::string out;
    const text::CompelPrompt parsed = text::parse_compel(prompt);
    for (const std::vector<text::WeightedText>& parts : parsed.clauses.front().texts) {
      for (const text::WeightedText& part : parts) {
        out += (out.empty() ? "" : " ") + part.text;
      }
    }
    return out;
  }

  static std::vector<T5Prompt> t5_prompts(std::span<const Prompt> prompts) {
    std::vector<T5Prompt> out;
    for (const Prompt& prompt : prompts) {
      out.push_back({.text = prompt.for_second(), .syntax = prompt.syntax});
    }
    return out;
  }

  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return clip_.memory_bytes() + (all_plain(prompts)
                                       ? t5_.memory_bytes(second_texts(prompts))
                                       : weighted_memory_bytes(t5_, t5_prompts(prompts)));
  }

  mutable ClipText clip_;
  mutable T5States t5_;
  LearnedWords words_;
};

}  // namespace

std::unique_ptr<TextEncoder> flux_text_encoder(const pjrt::Client& client,
                                               FluxTextSettings settings) {
  return std::make_unique<FluxTextEncoder>(client, settings);
}

}  // namespace kinema::encoders
