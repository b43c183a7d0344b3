#include "kinema/preparation/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/encoders/image_condition.h"
#include "preparation/small_records.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Prepare, WritesShardsThatOurReaderReads) {
  const Scratch scratch;
  const Prepared made = run(options(scratch / "records"));

  EXPECT_THAT(names(made.shards),
              ElementsAre("file_00-5.tfrec", "file_01-10.tfrec", "file_02-15.tfrec"));
  EXPECT_EQ(made.records, 12);
  EXPECT_EQ(contents(scratch / "records").size(), 3U);  // others read every file
  const auto source = data::tfrecord_source({.folder = scratch / "records", .shuffle = false});
  ASSERT_EQ(source->size(), 12);
  const auto clips = data::list_clips(golden("dataset"));
  for (const int64_t i : {0, 4, 5, 11}) {
    SCOPED_TRACE(i);
    const data::CaptionedClip& clip = clips[static_cast<size_t>(i)];
    const data::Sample sample = source->at(i);
    const HostArray pixels = data::read_clip(clip.path, options("").format);
    EXPECT_EQ(sample.latents.bytes, blocks().encode(pixels).bytes);
    EXPECT_EQ(sample.latents.shape, (Shape{DType::F32, {192, 5, 2, 3}}));
    EXPECT_EQ(sample.encoder_hidden_states.bytes, words().encode(clip.caption).bytes);
    EXPECT_FALSE(sample.timestep);
  }
}

/// One token: the mean of the image.
class MeanOfImage final : public encoders::ImageEncoder {
 public:
  Shape shape() const override { return {DType::F32, {1, 1}}; }
  HostArray encode(const HostArray& image) const override {
    double sum = 0;
    for (const uint8_t level : image.as<uint8_t>()) {
      sum += level;
    }
    const auto count = static_cast<double>(image.bytes.size());
    return HostArray::f32({1, 1}, std::vector{static_cast<float>(sum / count)});
  }
};

/// The input of an image-to-video network.
constexpr networks::NamedInput kFirstFrame{.name = "condition"};

TEST(Prepare, AddsTheConditionOfTheFirstFrameForModelsOfImages) {
  const Scratch scratch;
  const MeanOfImage mean;
  Options wanted = options(scratch / "records");
  wanted.max_clips = 2;
  const Encoders models{
      .autoencoder = autoencoder(), .text = text_encoder(), .input = &kFirstFrame, .image = &mean};
  const Prepared made = prepare_records(wanted, models);

  const auto source = data::tfrecord_source({.folder = scratch / "records", .shuffle = false});
  const auto clips = data::list_clips(golden("dataset"));
  const HostArray image = data::frame(data::read_clip(clips[1].path, wanted.format), 0);
  const HostArray condition = encoders::image_condition(
      {.first = image, .last = {}}, {.num_frames = 5, .height = 16, .width = 24}, autoencoder());
  const data::Sample sample = source->at(1);
  EXPECT_EQ(sample.condition.shape, (Shape{DType::F32, {193, 5, 2, 3}}));
  EXPECT_EQ(sample.condition.bytes, condition.bytes);
  EXPECT_EQ(sample.image_states.bytes, mean.encode(image).bytes);
  EXPECT_EQ(made.condition, sample.condition.shape);
  EXPECT_EQ(made.image, sample.image_states.shape);
}

TEST(Prepare, RoundsToBfloat16WhenAsked) {
  const Scratch scratch;
  Options half = options(scratch / "half");
  half.dtype = DType::BF16;
  half.max_clips = 2;
  const Prepared made = run(half);

  EXPECT_EQ(made.clips, 2);
  const auto source = data::tfrecord_source({.folder = scratch / "half", .shuffle = false});
  const auto clips = data::list_clips(golden("dataset"));
  const HostArray exact = blocks().encode(data::read_clip(clips[1].path, half.format));
  EXPECT_EQ(source->at(1).latents.bytes, convert(exact, DType::BF16).bytes);
  EXPECT_EQ(source->at(1).encoder_hidden_states.shape.dtype, DType::BF16);
}

TEST(Prepare, SharesOutTimestepsOfTheEvaluation) {
  const Scratch scratch;
  Options eval = options(scratch / "eval");
  eval.max_records = 6;
  eval.timesteps = {100, 500, 900};
  const Prepared made = run(eval);

  EXPECT_EQ(made.end_clip, 6);
  const auto source = data::tfrecord_source({.folder = scratch / "eval", .shuffle = false});
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < source->size(); ++i) {
    seen.push_back(source->at(i).timestep.value_or(-1));
  }
  EXPECT_THAT(seen, ElementsAre(100, 100, 500, 500, 900, 900));

  Options rest = options(scratch / "train");
  rest.first_clip = made.end_clip;
  EXPECT_EQ(run(rest).records, 6);
  const auto others = data::tfrecord_source({.folder = scratch / "train", .shuffle = false});
  const auto clips = data::list_clips(golden("dataset"));
  EXPECT_EQ(others->at(0).encoder_hidden_states.bytes, words().encode(clips[6].caption).bytes);
}

TEST(Prepare, ChoosesTheSizeOfShardsByItself) {
  const Scratch scratch;
  Options chosen = options(scratch / "records");
  chosen.records_per_shard = 0;
  EXPECT_THAT(names(run(chosen).shards), ElementsAre("file_00-64.tfrec"));
}

TEST(Prepare, SaysWhichSizesDoNotFit) {
  const Scratch scratch;
  Options given = options(scratch / "records");
  given.format.height = 20;
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(HasSubstr("height is 20")));
  given = options(scratch / "records");
  given.max_records = 5;
  given.timesteps = {1, 2};
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(HasSubstr("2 timesteps evenly")));
  given.max_records = 14;
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(HasSubstr("has 12 clips")));
  given = options(scratch / "records");
  given.first_clip = 12;
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(HasSubstr("after the first 12")));
  EXPECT_FALSE(fs::exists(scratch / "records"));
}

}  // namespace
}  // namespace kinema::preparation
