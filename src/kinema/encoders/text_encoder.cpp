#include "kinema/encoders/text_encoder.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kinema::encoders {
namespace {

class HashedTextEncoder final : public TextEncoder {
 public:
  explicit HashedTextEncoder(const text::HashedEncoder& settings) : settings_(settings) {}

  std::string name() const override { return "hashed"; }
  Shape shape() const override {
    return {DType::F32, {settings_.max_sequence_length, settings_.text_dim}};
  }
  HostArray encode(std::span<const std::string> prompts) const override {
    HostArray out(Shape{
        DType::F32,
        {static_cast<int64_t>(prompts.size()), settings_.max_sequence_length, settings_.text_dim}});
    auto to = out.bytes.begin();
    for (const std::string& prompt : prompts) {
      to = std::ranges::copy(settings_.encode(prompt).bytes, to).out;
    }
    return out;
  }

 private:
  text::HashedEncoder settings_;
};

class RememberingTextEncoder final : public TextEncoder {
 public:
  explicit RememberingTextEncoder(std::shared_ptr<const TextEncoder> encoder)
      : encoder_(std::move(encoder)) {}

  std::string name() const override { return encoder_->name(); }
  Shape shape() const override { return encoder_->shape(); }
  HostArray encode(std::span<const std::string> prompts) const override {
    // All prompts of a call together: an encoder may take them as one batch.
    if (!std::ranges::equal(prompts, prompts_)) {
      states_ = encoder_->encode(prompts);
      prompts_.assign(prompts.begin(), prompts.end());
      encoder_->release();
    }
    return states_;
  }
  int64_t memory_bytes(std::span<const std::string> prompts) const override {
    return std::ranges::equal(prompts, prompts_) ? 0 : encoder_->memory_bytes(prompts);
  }
  void release() const override { encoder_->release(); }

 private:
  std::shared_ptr<const TextEncoder> encoder_;
  mutable std::vector<std::string> prompts_;
  mutable HostArray states_;
};

}  // namespace

std::unique_ptr<TextEncoder> remembering(std::shared_ptr<const TextEncoder> encoder) {
  return std::make_unique<RememberingTextEncoder>(std::move(encoder));
}

std::unique_ptr<TextEncoder> hashed_text_encoder(const text::HashedEncoder& settings) {
  return std::make_unique<HashedTextEncoder>(settings);
}

}  // namespace kinema::encoders
