#include "kinema/encoders/umt5_encoder.h"

#include <utility>

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
    return {.states = states_.encode(single_texts(prompts, name()))};
  }
  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return states_.memory_bytes(single_texts(prompts, name()));
  }

  mutable T5States states_;
};

}  // namespace

std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, T5Settings settings) {
  return std::make_unique<Umt5TextEncoder>(client, std::move(settings));
}

}  // namespace kinema::encoders
