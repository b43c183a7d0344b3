#include "kinema/encoders/sd_encoder.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/two_texts.h"
#include "kinema/encoders/weighted_clip.h"

namespace kinema::encoders {
namespace {

constexpr int64_t kLastLayer = -1;

ClipTextSettings only_clip(SdTextSettings s) {
  check(s.clip_skip >= 0, "[encoders] clip_skip is {}, expected 0 up", s.clip_skip);
  const TextFiles files = s.files.value_or(
      TextFiles{.model = s.pipeline / "text_encoder", .tokenizer = s.pipeline / "tokenizer"});
  return {.model = files.model,
          .tokenizer = files.tokenizer,
          .part = files.part,
          .config = files.config,
          .hidden_layer = kLastLayer - s.clip_skip,
          .hidden_norm = true,
          .dtype = s.dtype,
          .precision = s.precision,
          .scan_layers = s.scan_layers,
          .program = std::move(s.program),
          .adapters = std::move(s.adapters),
          .on_note = std::move(s.on_note)};
}

class SdTextEncoder final : public TextEncoder {
 public:
  SdTextEncoder(const pjrt::Client& client, const SdTextSettings& s)
      : clip_(client, only_clip(s)), clip_skip_(s.clip_skip) {
    check(s.width == 0 || s.width == clip_.config().hidden_size,
          "[encoders] the text encoder {} gives states of width {} but the network takes {}",
          s.files ? s.files->model.string() : (s.pipeline / "text_encoder").string(),
          clip_.config().hidden_size, s.width);
    if (!s.embeddings.empty()) {
      words_ = LearnedWords(s.embeddings, "clip_l", clip_.config().hidden_size);
    }
  }

  std::string name() const override { return "sd"; }
  Shape shape() const override {
    return {DType::F32, {clip_.length(), clip_.config().hidden_size}};
  }
  int64_t rows(std::span<const Prompt> prompts) const override {
    int64_t sequences = 1;
    for (const ClipPrompt& each : read(prompts)) {
      sequences = std::max(sequences, clip_sequences(clip_, words_, each));
    }
    return sequences * clip_.length();
  }
  void release() const override { clip_.release(); }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    if (prompts.empty()) {
      return {.states =
                  HostArray(Shape{DType::F32, {0, clip_.length(), clip_.config().hidden_size}})};
    }
    if (all_plain(prompts) && words_.empty()) {
      return {.states = clip_
                            .encode(single_texts(prompts, name()),
                                    layers_of(prompts, kLastLayer, clip_skip_))
                            .hidden};
    }
    return {
        .states =
            encode_weighted(clip_, words_, read(prompts), rows(prompts) / clip_.length()).hidden};
  }

  std::vector<ClipPrompt> read(std::span<const Prompt> prompts) const {
    return clip_prompts(prompts, single_texts(prompts, name()),
                        layers_of(prompts, kLastLayer, clip_skip_));
  }

  int64_t prompts_bytes(std::span<const Prompt> /*prompts*/) const override {
    return clip_.memory_bytes();
  }

  mutable ClipText clip_;
  int64_t clip_skip_;
  LearnedWords words_;
};

}  // namespace

std::unique_ptr<TextEncoder> sd_text_encoder(const pjrt::Client& client, SdTextSettings settings) {
  return std::make_unique<SdTextEncoder>(client, settings);
}

}  // namespace kinema::encoders
