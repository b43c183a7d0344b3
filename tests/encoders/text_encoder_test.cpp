#include "kinema/encoders/text_encoder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace kinema::encoders {
namespace {

/// What an encoder was asked for.
struct Calls {
  int encoded = 0;
  int released = 0;
};

class Counting final : public TextEncoder {
 public:
  explicit Counting(Calls& calls) : calls_(calls) {}
  std::string name() const override { return "counting"; }
  Shape shape() const override { return {DType::F32, {1, 1}}; }
  HostArray encode(std::span<const std::string> prompts) const override {
    ++calls_.encoded;
    const std::vector<float> states(prompts.size(), static_cast<float>(prompts[0].size()));
    return HostArray::f32({static_cast<int64_t>(prompts.size()), 1, 1}, states);
  }
  void release() const override { ++calls_.released; }

 private:
  Calls& calls_;
};

TEST(RememberingTextEncoder, EncodesPromptsThatComeAgainOnce) {
  Calls calls;
  const auto encoder = remembering(std::make_shared<Counting>(calls));
  const std::vector<std::string> first{"a", "b"};
  const std::vector<std::string> second{"long", "b"};

  const HostArray states = encoder->encode(first);
  EXPECT_EQ(encoder->encode(first).bytes, states.bytes);
  EXPECT_EQ(calls.encoded, 1);
  EXPECT_EQ(calls.released, 1);  // its memory is free between
  EXPECT_EQ(encoder->encode(second).as<float>()[0], 4);
  EXPECT_EQ(encoder->encode(first).bytes, states.bytes);
  EXPECT_EQ(calls.encoded, 3);
  EXPECT_EQ(encoder->name(), "counting");
}

}  // namespace
}  // namespace kinema::encoders
