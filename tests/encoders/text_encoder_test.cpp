#include "kinema/encoders/text_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

/// Records the calls to an encoder.
struct Calls {
  int encoded = 0;
  int released = 0;
};

class Counting final : public TextEncoder {
 public:
  explicit Counting(Calls& calls) : calls_(calls) {}
  std::string name() const override { return "counting"; }
  Shape shape() const override { return {DType::F32, {1, 1}}; }
  Shape pooled_shape() const override { return {DType::F32, {1}}; }
  void release() const override { ++calls_.released; }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    ++calls_.encoded;
    const auto n = static_cast<int64_t>(prompts.size());
    const std::vector<float> states(prompts.size(), static_cast<float>(prompts[0].text.size()));
    const std::vector<float> pooled(prompts.size(),
                                    static_cast<float>(prompts[0].for_second().size()));
    return {.states = HostArray::f32({n, 1, 1}, states), .pooled = HostArray::f32({n, 1}, pooled)};
  }

  Calls& calls_;
};

TEST(RememberingTextEncoder, EncodesPromptsThatComeAgainOnce) {
  Calls calls;
  const auto encoder = remembering(std::make_shared<Counting>(calls));
  const std::vector<std::string> first{"a", "b"};
  const std::vector<std::string> second{"long", "b"};

  const HostArray states = encoder->encode(first).states;
  EXPECT_EQ(encoder->encode(first).states.bytes, states.bytes);
  EXPECT_EQ(calls.encoded, 1);
  EXPECT_EQ(calls.released, 1);  // its memory is freed in between
  EXPECT_EQ(encoder->encode(second).states.as<float>()[0], 4);
  EXPECT_EQ(encoder->encode(first).states.bytes, states.bytes);
  EXPECT_EQ(calls.encoded, 3);
  EXPECT_EQ(encoder->name(), "counting");
  EXPECT_EQ(encoder->pooled_shape(), (Shape{DType::F32, {1}}));
}

TEST(RememberingTextEncoder, PromptsForTheSecondEncoderAreOthers) {
  Calls calls;
  const auto encoder = remembering(std::make_shared<Counting>(calls));
  const std::vector<Prompt> one{{"a"}};
  const std::vector<Prompt> two{{.text = "a", .second = "longer"}};

  EXPECT_EQ(encoder->encode(one).pooled.as<float>()[0], 1);
  EXPECT_EQ(encoder->encode(two).pooled.as<float>()[0], 6);
  EXPECT_EQ(encoder->encode(two).pooled.as<float>()[0], 6);
  EXPECT_EQ(calls.encoded, 2);
}

TEST(TextEncoder, WordsOfAPromptThatAreDroppedAreSaid) {
  std::vector<std::string> notes;
  const auto encoder = hashed_text_encoder({.max_sequence_length = 3, .text_dim = 4},
                                           [&](const std::string& note) { notes.push_back(note); });
  encoder->encode(std::vector<std::string>{"one, two, three", "a b c d e f", "1 2 3 4"});
  EXPECT_THAT(notes, ::testing::ElementsAre(
                         "a prompt has 3 words more than max_sequence_length 3 holds: they are "
                         "dropped",
                         "a prompt has 1 word more than max_sequence_length 3 holds: it is "
                         "dropped"));
}

TEST(TextEncoder, ATextForASecondEncoderThatThereIsNotIsRefused) {
  const auto encoder = hashed_text_encoder({.max_sequence_length = 3, .text_dim = 4});
  const std::vector<Prompt> two{{.text = "a", .second = "b"}};

  EXPECT_THAT([&] { encoder->encode(two); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("hashed is the only one")));
  EXPECT_TRUE(encoder->encode(std::vector<std::string>{"a"}).pooled.bytes.empty());
  EXPECT_TRUE(encoder->pooled_shape().dims.empty());
}

}  // namespace
}  // namespace kinema::encoders
