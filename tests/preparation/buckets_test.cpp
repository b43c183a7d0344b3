// Records of clips of several sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/data/tfrecord_source.h"
#include "preparation/small_records.h"

namespace kinema::preparation {
namespace {

using io::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Clips that are wide, tall, wide and long, or too short, in turn, each with its own brightness.
class MixedClips : public data::ClipSet {
 public:
  int64_t size() const override { return 14; }
  std::string name(int64_t clip) const override { return "clip " + std::to_string(clip); }
  std::string where(int64_t clip) const override { return "mixed/" + name(clip); }
  std::string caption(int64_t clip) const override { return "caption " + std::to_string(clip); }
  data::ClipSize measure(int64_t clip) const override {
    constexpr data::ClipSize kSizes[] = {{5, 40, 60}, {5, 60, 40}, {9, 40, 60}};
    return clip == 6 ? data::ClipSize{2, 40, 60} : kSizes[clip % 3];
  }
  HostArray read(int64_t clip, const data::ClipFormat& format,
                 const data::ClipWindow& /*window*/) const override {
    HostArray out(Shape{DType::F32, {3, format.num_frames, format.height, format.width}});
    std::ranges::fill(out.as<float>(), static_cast<float>(clip) / 16);
    return out;
  }
  std::string stamp(int64_t clip) const override { return name(clip); }
  std::string hash(int64_t clip) const override { return name(clip); }
};

const std::vector<data::Bucket> kBuckets = {{9, 16, 24}, {5, 24, 16}, {5, 16, 24}};

Options mixed(const std::filesystem::path& output) {
  Options out = options(output);
  out.clips = std::make_shared<MixedClips>();
  out.buckets = kBuckets;
  out.records_per_shard = 3;
  return out;
}

TEST(PrepareBuckets, FillShardsOfTheirOwnInTheirOrder) {
  const Scratch scratch;
  const Prepared made = run(mixed(scratch / "records"));

  // Long: 2 5 8 11. Tall: 1 4 7 10 13. Wide: 0 3 9 12, without 6, which is too short.
  EXPECT_THAT(names(made.shards),
              ElementsAre("file_00-3.tfrec", "file_01-6.tfrec", "file_02-9.tfrec",
                          "file_03-12.tfrec", "file_04-15.tfrec", "file_05-18.tfrec"));
  std::vector<int64_t> records;
  for (const Shard& shard : made.shards) {
    records.push_back(shard.records);
  }
  EXPECT_THAT(records, ElementsAre(3, 1, 3, 2, 3, 1));
  ASSERT_EQ(made.skipped.size(), 1U);
  EXPECT_EQ(made.skipped[0].file, "mixed/clip 6");
  EXPECT_THAT(made.skipped[0].reason, HasSubstr("need 5 frames"));

  const auto source = data::tfrecord_source({.folder = scratch / "records", .shuffle = false});
  const std::vector<int64_t> order = {2, 5, 8, 11, 1, 4, 7, 10, 13, 0, 3, 9, 12};
  ASSERT_EQ(source->size(), static_cast<int64_t>(order.size()));
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(source->at(static_cast<int64_t>(i)).encoder_hidden_states.bytes,
              words().encode("caption " + std::to_string(order[i])).bytes);
  }
  EXPECT_EQ(source->at(4).latents.shape, (Shape{DType::F32, {192, 5, 3, 2}}));
}

TEST(PrepareBuckets, GiveTheBatchesThatTheClipsGive) {
  const Scratch scratch;
  run(mixed(scratch / "records"));
  const auto clips = std::make_shared<MixedClips>();
  data::VideoOptions wanted{
      .format = options("").format,
      .buckets = data::bucket_clips(
          clips->size(), kBuckets, {}, [&](int64_t clip) { return clips->measure(clip); }, 1,
          [](int64_t, const std::string&) {}),
      .batch = 2,
      .seed = 5,
      .bad_clip = data::BadClip::Skip};
  for (const bool shuffle : {true, false}) {
    SCOPED_TRACE(shuffle);
    wanted.shuffle = shuffle;
    const auto videos = data::video_source(clips, wanted, [](const data::Clip& clip) {
      return data::Sample{.latents = blocks().encode(clip.pixels),
                          .encoder_hidden_states = words().encode(clip.caption)};
    });
    const auto records = data::tfrecord_source({.folder = scratch / "records",
                                                .seed = 5,
                                                .shuffle = shuffle,
                                                .by_shape = true,
                                                .batch = 2});
    ASSERT_EQ(records->size(), videos->size());
    ASSERT_EQ(records->examples().size(), videos->examples().size());
    for (int64_t position = 0; position < 40; ++position) {
      const data::Sample a = records->at(position);
      const data::Sample b = videos->at(position);
      ASSERT_EQ(a.latents.shape, b.latents.shape);
      ASSERT_EQ(a.latents.bytes, b.latents.bytes);
      ASSERT_EQ(a.encoder_hidden_states.bytes, b.encoder_hidden_states.bytes);
    }
  }
}

TEST(PrepareBuckets, GoOnByteForByteWhereTheyWereStopped) {
  const Scratch scratch;
  run(mixed(scratch / "whole"));
  const auto whole = contents(scratch / "whole");
  for (int stop_after = 0; stop_after < 14; ++stop_after) {
    SCOPED_TRACE(stop_after);
    const Options parts = mixed(scratch / ("parts" + std::to_string(stop_after)));
    int64_t done = 0;
    EXPECT_TRUE(run(parts, {.on_clip = [&](int64_t now, int64_t) { done = now; },
                            .stop_requested = [&] { return done >= stop_after; }})
                    .stopped);
    const Prepared made = run(parts);
    EXPECT_EQ(made.records, 13);
    EXPECT_EQ(made.skipped.size(), 1U);
    EXPECT_EQ(contents(parts.output), whole);
  }
}

TEST(PrepareBuckets, ChooseTheSizeOfShardsByTheLargest) {
  const Scratch scratch;
  Options chosen = mixed(scratch / "records");
  // A record of the first bucket, which is made first, has 23,040 bytes of latents and less than
  // 2,000 others; the second bucket's are 1843 times as large: between 42.5 and 46.2 MB, so two fit
  // into 128 MB.
  chosen.buckets = {{5, 24, 16}, {9, 512, 768}};
  chosen.records_per_shard = 0;
  chosen.first_clip = 11;
  EXPECT_THAT(names(run(chosen).shards), ElementsAre("file_00-2.tfrec", "file_01-4.tfrec"));
}

TEST(PrepareBuckets, RefuseOtherOnesAndSizesThatDoNotFit) {
  const Scratch scratch;
  Options given = mixed(scratch / "records");
  run(given);
  given.buckets.pop_back();
  EXPECT_THAT([&] { run(given); },
              ThrowsMessage<Error>(HasSubstr("buckets is [9x16x24, 5x24x16] now and was [9x16x24, "
                                             "5x24x16, 5x16x24]")));
  given.buckets.clear();
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(HasSubstr("other settings")));
  given.buckets = {{5, 16, 25}};
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(HasSubstr("width is 25")));
  given = mixed(scratch / "none");
  given.buckets = {{100, 16, 24}};
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<Error>(AllOf(HasSubstr("none of the 14 clips"),
                                                              HasSubstr("need 100 frames"))));
}

}  // namespace
}  // namespace kinema::preparation
