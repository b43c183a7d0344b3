#include "kinema/encoders/qwen3_encoder.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/two_texts.h"

namespace kinema::encoders {
namespace {

// Z-Image fills texts up to multiples of this.
constexpr int64_t kRowsTogether = 32;

class Qwen3TextEncoder final : public TextEncoder {
 public:
  Qwen3TextEncoder(const pjrt::Client& client, Qwen3Settings settings)
      : states_(client, std::move(settings)) {}

  std::string name() const override { return "qwen3"; }
  Shape shape() const override { return states_.shape(); }
  int64_t rows(std::span<const Prompt> prompts) const override {
    return std::min(states_.rows(texts_of(prompts), kRowsTogether), shape().dims[0]);
  }
  void release() const override { states_.release(); }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    return {.states = states_.encode(texts_of(prompts)), .pooled = {}};
  }
  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return states_.memory_bytes(texts_of(prompts));
  }
  /// A chat has no place for weights of words.
  std::vector<std::string> texts_of(std::span<const Prompt> prompts) const {
    check(all_plain(prompts),
          "[encoders] Qwen3 takes prompts as plain text, without another program's syntax\n"
          "  set prompt_syntax=plain");
    return single_texts(prompts, name());
  }

  mutable Qwen3States states_;
};

}  // namespace

std::unique_ptr<TextEncoder> qwen3_text_encoder(const pjrt::Client& client,
                                                Qwen3Settings settings) {
  return std::make_unique<Qwen3TextEncoder>(client, std::move(settings));
}

}  // namespace kinema::encoders
