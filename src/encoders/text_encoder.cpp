#include "encoders/text_encoder.h"

#include <algorithm>

namespace kinema::encoders {
namespace {

class HashedTextEncoder final : public TextEncoder {
 public:
  explicit HashedTextEncoder(const text::HashedEncoder& settings) : settings_(settings) {}

  std::string name() const override { return "hashed"; }
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

}  // namespace

std::unique_ptr<TextEncoder> hashed_text_encoder(const text::HashedEncoder& settings) {
  return std::make_unique<HashedTextEncoder>(settings);
}

}  // namespace kinema::encoders
