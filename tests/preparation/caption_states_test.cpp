#include "kinema/preparation/caption_states.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::preparation {
namespace {

/// States equal to the caption's length; counts its calls.
class Lengths final : public encoders::TextEncoder {
 public:
  std::string name() const override { return "lengths"; }
  Shape shape() const override { return {DType::F32, {1, 1}}; }
  encoders::TextStates encode_prompts(std::span<const encoders::Prompt> prompts) const override {
    ++calls;
    check(!broken, "the encoder is broken");
    std::vector<float> states;
    for (const encoders::Prompt& each : prompts) {
      check(!each.text.starts_with("bad"), "`{}` cannot be encoded", each.text);
      states.push_back(static_cast<float>(each.text.size()));
    }
    return {.states = HostArray::f32({static_cast<int64_t>(prompts.size()), 1, 1}, states)};
  }
  mutable int calls = 0;
  bool broken = false;
};

class CaptionStatesTest : public testing::Test {
 protected:
  CaptionStates states() {
    return {encoder, [this](int64_t place) {
              const std::string& caption = captions.at(static_cast<size_t>(place));
              check(caption != "none", "no caption");
              return caption;
            }};
  }
  float at(CaptionStates& subject, int64_t place) {
    const HostArray& found = subject.at(place, static_cast<int64_t>(captions.size())).states;
    EXPECT_EQ(found.shape, (Shape{DType::F32, {1, 1}}));
    return found.as<float>()[0];
  }

  Lengths encoder;
  std::vector<std::string> captions;
};

TEST_F(CaptionStatesTest, ManyCaptionsTakeOneCall) {
  for (size_t i = 0; i < 40; ++i) captions.emplace_back(i + 1, 'x');
  CaptionStates subject = states();

  subject.begin(0, 40);
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(at(subject, i), static_cast<float>(i + 1));
  }

  EXPECT_EQ(encoder.calls, 3);  // of 16, 16 and 8
}

TEST_F(CaptionStatesTest, ACaptionThatCannotBeEncodedIsTheOnlyOneThatFails) {
  captions = {"a", "bad one", "none", "dog"};
  CaptionStates subject = states();

  subject.begin(0, 4);

  EXPECT_EQ(at(subject, 0), 1.0F);
  EXPECT_THROW(at(subject, 1), Error);
  EXPECT_THROW(at(subject, 2), Error);
  EXPECT_EQ(at(subject, 3), 3.0F);
}

TEST_F(CaptionStatesTest, AnEncoderThatFailsWithAnyCaptionFailsAtTheBeginning) {
  captions = {"a", "b"};
  encoder.broken = true;
  CaptionStates subject = states();

  EXPECT_THROW(subject.begin(0, 2), Error);
}

TEST_F(CaptionStatesTest, OnlyPlacesBeforeTheEndAreEncoded) {
  captions = {"a", "bad: never asked for"};
  CaptionStates subject = states();

  subject.begin(0, 1);

  EXPECT_EQ(subject.at(0, 1).states.as<float>()[0], 1.0F);
  EXPECT_EQ(encoder.calls, 1);
}

}  // namespace
}  // namespace kinema::preparation
