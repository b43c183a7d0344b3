#include "kinema/encoders/sdxl_encoder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/two_texts.h"
#include "kinema/encoders/weighted_clip.h"

namespace kinema::encoders {
namespace {

constexpr int64_t kHiddenLayer = -2;

/// Both encoders truncate a prompt equally and report it; this passes one report on.
std::function<void(const std::string&)> said_once(std::function<void(const std::string&)> say) {
  if (!say) {
    return {};
  }
  return [say = std::move(say),
          said = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (said->insert(note).second) {
      say(note);
    }
  };
}

ClipTextSettings clip_settings(const SdxlTextSettings& s, const std::string& behind,
                               const std::vector<weights::Adapter>& adapters) {
  check(s.clip_skip >= 0, "[encoders] clip_skip is {}, expected 0 up", s.clip_skip);
  const TextFiles files =
      (behind.empty() ? s.first : s.second)
          .value_or(TextFiles{
              .model = s.pipeline / ("text_encoder" + behind),
              .part = behind.empty() ? model_files::kTextEncoder : model_files::kTextEncoder2,
              .tokenizer = s.pipeline / ("tokenizer" + behind)});
  return {.model = files.model,
          .tokenizer = files.tokenizer,
          .part = files.part,
          .config = files.config,
          .hidden_layer = kHiddenLayer - s.clip_skip,
          .dtype = s.dtype,
          .precision = s.precision,
          .scan_layers = s.scan_layers,
          .program = s.program,
          .adapters = adapters,
          .on_note = s.on_note};
}

/// [n, t, a] and [n, t, b] -> [n, t, a + b].
HostArray joined(const HostArray& a, const HostArray& b) {
  Shape shape = a.shape;
  shape.dims.back() += b.shape.dims.back();
  HostArray out(shape);
  const auto bytes = [](const HostArray& x) {
    return static_cast<size_t>(x.shape.dims.back() * byte_size(x.shape.dtype));
  };
  std::byte* to = out.bytes.data();
  for (size_t row = 0; row * bytes(a) < a.bytes.size(); ++row) {
    for (const HostArray* part : {&a, &b}) {
      std::memcpy(to, part->bytes.data() + row * bytes(*part), bytes(*part));
      to += bytes(*part);
    }
  }
  return out;
}

class SdxlTextEncoder final : public TextEncoder {
 public:
  SdxlTextEncoder(const pjrt::Client& client, const SdxlTextSettings& s)
      : first_(client, clip_settings(s, "", s.adapters)),
        second_(client, clip_settings(s, "_2", s.adapters_2)),
        clip_skip_(s.clip_skip) {
    const std::string where = s.first ? s.first->model.string() : s.pipeline.string();
    check(first_.length() == second_.length(),
          "[encoders] the text encoders of {} take {} and {} tokens, but must take the same number",
          where, first_.length(), second_.length());
    check(second_.config().projection_dim > 0,
          "[encoders] {} has no projection: expected a CLIPTextModelWithProjection",
          s.second ? s.second->model.string() : where + "/text_encoder_2");
    check(s.width == 0 || s.width == width(),
          "[encoders] the text encoders of {} give states of width {} but the network takes {}",
          where, width(), s.width);
    check(s.pooled_width == 0 || s.pooled_width == second_.config().projection_dim,
          "[encoders] the second text encoder of {} pools {} numbers but the network takes {}",
          where, second_.config().projection_dim, s.pooled_width);
    if (!s.embeddings.empty()) {
      words_ = LearnedWords(s.embeddings, "clip_l", first_.config().hidden_size);
      words_2_ = LearnedWords(s.embeddings, "clip_g", second_.config().hidden_size);
    }
  }

  std::string name() const override { return "sdxl"; }
  Shape shape() const override { return {DType::F32, {first_.length(), width()}}; }
  Shape pooled_shape() const override { return {DType::F32, {second_.config().projection_dim}}; }
  int64_t rows(std::span<const Prompt> prompts) const override {
    int64_t sequences = 1;
    for (const ClipPrompt& each : clip_prompts(prompts, first_texts(prompts), layers(prompts))) {
      sequences = std::max(sequences, clip_sequences(first_, words_, each));
    }
    for (const ClipPrompt& each : clip_prompts(prompts, second_texts(prompts), layers(prompts))) {
      sequences = std::max(sequences, clip_sequences(second_, words_2_, each));
    }
    return sequences * first_.length();
  }
  void release() const override {
    first_.release();
    second_.release();
  }

 private:
  int64_t width() const { return first_.config().hidden_size + second_.config().hidden_size; }

  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    if (prompts.empty()) {
      return {.states = HostArray(Shape{DType::F32, {0, first_.length(), width()}}),
              .pooled = HostArray(Shape{DType::F32, {0, second_.config().projection_dim}})};
    }
    if (all_plain(prompts) && words_.empty()) {
      const ClipText::States first = first_.encode(first_texts(prompts), layers(prompts));
      ClipText::States second = second_.encode(second_texts(prompts), layers(prompts));
      return {.states = joined(first.hidden, second.hidden),
              .pooled = std::move(second.text_embeds)};
    }
    const int64_t sequences = rows(prompts) / first_.length();
    const ClipText::States first = encode_weighted(
        first_, words_, clip_prompts(prompts, first_texts(prompts), layers(prompts)), sequences);
    ClipText::States second =
        encode_weighted(second_, words_2_,
                        clip_prompts(prompts, second_texts(prompts), layers(prompts)), sequences);
    return {.states = joined(first.hidden, second.hidden), .pooled = std::move(second.text_embeds)};
  }

  std::vector<int64_t> layers(std::span<const Prompt> prompts) const {
    return layers_of(prompts, kHiddenLayer, clip_skip_);
  }

  int64_t prompts_bytes(std::span<const Prompt> /*prompts*/) const override {
    return first_.memory_bytes() + second_.memory_bytes();
  }

  mutable ClipText first_;
  mutable ClipText second_;
  int64_t clip_skip_;
  LearnedWords words_;
  LearnedWords words_2_;
};

}  // namespace

std::unique_ptr<TextEncoder> sdxl_text_encoder(const pjrt::Client& client,
                                               SdxlTextSettings settings) {
  settings.on_note = said_once(std::move(settings.on_note));
  return std::make_unique<SdxlTextEncoder>(client, settings);
}

}  // namespace kinema::encoders
