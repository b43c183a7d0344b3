#include "kinema/encoders/umt5_encoder.h"

#include <utility>

#include "kinema/encoders/two_texts.h"
#include "kinema/encoders/weighted_t5.h"

namespace kinema::encoders {
namespace {

class Umt5TextEncoder final : public TextEncoder {
 public:
  Umt5TextEncoder(const pjrt::Client& client, T5Settings settings)
      : states_(client, std::move(settings)) {}

  std::string name() const override { return "umt5"; }
  Shape shape() const override { return states_.shape(); }
  void release() const override { states_.release(); }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    if (all_plain(prompts)) {
      return {.states = states_.encode(single_texts(prompts, name()))};
    }
    return {.states = encode_weighted(states_, weighted(prompts))};
  }
  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return all_plain(prompts) ? states_.memory_bytes(single_texts(prompts, name()))
                              : weighted_memory_bytes(states_, weighted(prompts));
  }
  std::vector<T5Prompt> weighted(std::span<const Prompt> prompts) const {
    std::vector<T5Prompt> out;
    for (const std::string& text : single_texts(prompts, name())) {
      out.push_back({.text = text, .syntax = prompts[out.size()].syntax});
    }
    return out;
  }

  mutable T5States states_;
};

}  // namespace

std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, T5Settings settings) {
  return std::make_unique<Umt5TextEncoder>(client, std::move(settings));
}

}  // namespace kinema::encoders
