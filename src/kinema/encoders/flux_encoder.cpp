#include "kinema/encoders/flux_encoder.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/two_texts.h"

namespace kinema::encoders {
namespace {

// diffusers' limit: the transformer was trained with at most this many.
constexpr int64_t kLongest = 512;

T5Settings t5_settings(const FluxTextSettings& s) {
  check(s.max_sequence_length >= 1 && s.max_sequence_length <= kLongest,
        "[encoders] max_sequence_length is {}, but Flux.1 takes 1 to {}", s.max_sequence_length,
        kLongest);
  return {.model = s.pipeline / "text_encoder_2",
          .tokenizer = s.pipeline / "tokenizer_2",
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

class FluxTextEncoder final : public TextEncoder {
 public:
  FluxTextEncoder(const pjrt::Client& client, const FluxTextSettings& s)
      : clip_(client, {.model = s.pipeline / "text_encoder",
                       .tokenizer = s.pipeline / "tokenizer",
                       .dtype = s.clip_dtype,
                       .precision = s.options.precision,
                       .scan_layers = s.options.scan_layers,
                       .program = s.program,
                       .adapters = s.clip_adapters,
                       .on_note = s.on_note}),
        t5_(client, t5_settings(s)) {
    check(s.pooled_width == 0 || s.pooled_width == clip_.config().hidden_size,
          "[encoders] CLIP of {} is {} wide but the transformer takes {}", s.pipeline.string(),
          clip_.config().hidden_size, s.pooled_width);
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
    return {.states = t5_.encode(second_texts(prompts)),
            .pooled = clip_.encode(first_texts(prompts)).pooled};
  }
  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return clip_.memory_bytes() + t5_.memory_bytes(second_texts(prompts));
  }

  mutable ClipText clip_;
  mutable T5States t5_;
};

}  // namespace

std::unique_ptr<TextEncoder> flux_text_encoder(const pjrt::Client& client,
                                               FluxTextSettings settings) {
  return std::make_unique<FluxTextEncoder>(client, settings);
}

}  // namespace kinema::encoders
