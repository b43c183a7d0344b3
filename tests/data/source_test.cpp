#include "kinema/data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "kinema/core/error.h"
#include "kinema/data/synthetic.h"

namespace kinema::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Sample sample(std::string id, Dims latents, Dims states) {
  Sample out;
  out.latents = HostArray(Shape{DType::F32, std::move(latents)});
  out.encoder_hidden_states = HostArray(Shape{DType::F32, std::move(states)});
  out.id = std::move(id);
  return out;
}

TEST(ShuffledIndex, VisitsEverySampleOnceAnEpoch) {
  for (const int64_t size : {1, 2, 3, 7, 64, 504}) {
    SCOPED_TRACE(size);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < size; ++i) {
        seen.insert(shuffled_index(5, epoch * size + i, size));
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
  }
}

TEST(ShuffledIndex, DependsOnSeedAndEpoch) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 50; ++i) {
      out.push_back(shuffled_index(seed, epoch * 50 + i, 50));
    }
    return out;
  };

  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
}

TEST(ShuffledIndex, PutsEverySampleEverywhereAboutEquallyOften) {
  std::array<std::array<int, 5>, 5> counts{};
  for (int64_t epoch = 0; epoch < 2000; ++epoch) {
    for (int64_t i = 0; i < 5; ++i) {
      ++counts[static_cast<size_t>(i)][static_cast<size_t>(shuffled_index(0, epoch * 5 + i, 5))];
    }
  }
  // 2000 draws at p = 1/5: 400 with a standard deviation of 18; six deviations.
  for (const auto& row : counts) {
    for (const int count : row) {
      EXPECT_NEAR(count, 400, 108);
    }
  }
}

TEST(Stack, JoinsSamplesAlongANewAxis) {
  std::vector<Sample> samples;
  samples.push_back(sample("a", {2, 3}, {4, 5}));
  samples.push_back(sample("b", {2, 3}, {4, 5}));
  samples[1].latents.as<float>()[0] = 7;

  const Batch batch = stack(std::move(samples));

  EXPECT_EQ(batch.latents.shape, (Shape{DType::F32, {2, 2, 3}}));
  EXPECT_EQ(batch.encoder_hidden_states.shape, (Shape{DType::F32, {2, 4, 5}}));
  EXPECT_EQ(batch.latents.as<float>()[6], 7);
  EXPECT_THAT(batch.ids, ::testing::ElementsAre("a", "b"));
}

TEST(Stack, NamesTheSampleThatDiffers) {
  const auto mixed = [] {
    std::vector<Sample> samples;
    samples.push_back(sample("a.mp4", {2, 3}, {4, 5}));
    samples.push_back(sample("b.mp4", {2, 4}, {4, 5}));
    stack(std::move(samples));
  };

  EXPECT_THAT(mixed, ThrowsMessage<Error>(AllOf(HasSubstr("b.mp4"), HasSubstr("f32[2,4]"))));
}

TEST(Stack, JoinsImageConditionsAndRefusesABatchWithSomeOnly) {
  const auto both = [](bool second) {
    std::vector<Sample> samples;
    for (const char* id : {"a.mp4", "b.mp4"}) {
      samples.push_back(sample(id, {2, 3}, {4, 5}));
      if (second || samples.size() == 1) {
        samples.back().condition = HostArray(Shape{DType::F32, {3, 1, 2, 2}});
        samples.back().image_states = HostArray(Shape{DType::BF16, {7, 2}});
      }
    }
    return stack(std::move(samples));
  };

  const Batch batch = both(true);
  EXPECT_EQ(batch.condition.shape, (Shape{DType::F32, {2, 3, 1, 2, 2}}));
  EXPECT_EQ(batch.image_states.shape, (Shape{DType::BF16, {2, 7, 2}}));
  EXPECT_THAT([&] { both(false); },
              ThrowsMessage<Error>(HasSubstr("b.mp4 has no image condition, unlike a.mp4")));
}

TEST(Synthetic, HasImageConditionsWhereAskedFor) {
  SyntheticOptions options{.height = 16, .width = 24, .num_frames = 5};
  EXPECT_TRUE(synthetic_source(options)->at(0).condition.bytes.empty());
  options.condition_channels = 20;
  options.image_tokens = 5;
  options.image_dim = 3;
  const Sample made = synthetic_source(options)->at(4);
  EXPECT_EQ(made.condition.shape, (Shape{DType::F32, {20, 2, 2, 3}}));
  EXPECT_EQ(made.image_states.shape, (Shape{DType::F32, {5, 3}}));
  EXPECT_NE(made.condition.as<float>()[0], made.latents.as<float>()[0]);
}

TEST(Synthetic, IsAFunctionOfSeedAndPosition) {
  const SyntheticOptions small{.height = 16,
                               .width = 24,
                               .num_frames = 5,
                               .max_sequence_length = 3,
                               .text_embed_dim = 4,
                               .num_samples = 10,
                               .seed = 3};
  const auto source = synthetic_source(small);

  const Sample first = source->at(2);

  EXPECT_EQ(first.latents.shape, (Shape{DType::F32, {16, 2, 2, 3}}));
  EXPECT_EQ(first.encoder_hidden_states.shape, (Shape{DType::F32, {3, 4}}));
  EXPECT_EQ(first.latents.bytes, source->at(2).latents.bytes);
  EXPECT_EQ(first.latents.bytes, source->at(12).latents.bytes);
  EXPECT_NE(first.latents.bytes, source->at(3).latents.bytes);
}

TEST(Synthetic, IsStandardNormal) {
  // Whole blocks of frames, no single ones.
  const auto blocks =
      synthetic_source({.height = 64, .width = 64, .num_frames = 16, .first_frame_alone = false});
  EXPECT_EQ(blocks->at(0).latents.shape.dims, (Dims{16, 4, 8, 8}));
  const auto source = synthetic_source({.height = 64, .width = 64, .num_frames = 17});
  double sum = 0;
  double squares = 0;
  const Sample one = source->at(0);
  for (const float x : one.latents.as<float>()) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  const auto n = static_cast<double>(one.latents.as<float>().size());  // 5120
  EXPECT_NEAR(sum / n, 0, 0.07);     // five standard deviations of 1 / sqrt(5120)
  EXPECT_NEAR(squares / n, 1, 0.1);  // five of sqrt(2 / 5120)
}

TEST(Synthetic, RefusesSizesThatDoNotDivide) {
  EXPECT_THAT([] { synthetic_source({.height = 481}); },
              ThrowsMessage<Error>(HasSubstr("height 481 and width 832")));
  EXPECT_THAT([] { synthetic_source({.num_frames = 80}); },
              ThrowsMessage<Error>(HasSubstr("1 more than a multiple of 4")));
  EXPECT_THAT([] { synthetic_source({.num_frames = 81, .first_frame_alone = false}); },
              ThrowsMessage<Error>(HasSubstr("must be a multiple of 4")));
}

}  // namespace
}  // namespace kinema::data
