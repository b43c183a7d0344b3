#include "kinema/data/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/auto_buckets.h"
#include "kinema/data/prefetch.h"
#include "kinema/data/record.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/data/video_source.h"
#include "kinema/io/atomic_write.h"
#include "kinema/media/video.h"
#include "kinema/records/tfrecord.h"

namespace kinema::data {
namespace {

using io::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<Bucket> kBuckets = {
    {81, 480, 832}, {49, 480, 832}, {81, 832, 480}, {49, 240, 416}, {17, 640, 640}};

std::string chosen(const ClipSize& clip, int64_t stride = 1) {
  return to_string(kBuckets[choose_bucket(kBuckets, clip, stride)]);
}

// The sizes of kohya's make_bucket_resolutions((512, 512), 256, 1024, 64), as height and width.
TEST(AutoBuckets, AreThoseOfKohya) {
  const AutoBuckets options{.area = 512 * 512, .max_side = 1024};
  std::set<std::pair<int64_t, int64_t>> found;
  for (const Bucket& each : auto_buckets(options, 1)) {
    EXPECT_EQ(each.frames, 1);
    EXPECT_TRUE(found.emplace(each.height, each.width).second);
  }
  const std::set<std::pair<int64_t, int64_t>> expected{
      {256, 832}, {256, 896}, {256, 960}, {256, 1024}, {320, 704}, {320, 768},
      {384, 640}, {448, 576}, {512, 512}, {576, 448},  {640, 384}, {704, 320},
      {768, 320}, {832, 256}, {896, 256}, {960, 256},  {1024, 256}};
  EXPECT_EQ(found, expected);
}

TEST(AutoBuckets, AreChosenByTheAspectRatio) {
  const AutoBuckets options{.area = 512 * 512, .max_side = 1024};
  const std::vector<Bucket> all = auto_buckets(options, 5);
  const auto of = [&](const AutoBuckets& how, int64_t height, int64_t width) {
    return to_string(auto_bucket(how, all, {.frames = 9, .height = height, .width = width}));
  };
  EXPECT_EQ(of(options, 1000, 1000), "5x512x512");
  EXPECT_EQ(of(options, 1080, 1920), "5x384x640");
  EXPECT_EQ(of(options, 300, 3000), "5x256x1024");
  EXPECT_EQ(of(options, 200, 200), "5x512x512");
  AutoBuckets small = options;
  small.upscale = false;
  EXPECT_EQ(of(small, 200, 330), "5x192x320");
  EXPECT_EQ(of(small, 1080, 1920), "5x384x640");
  EXPECT_THAT([&] { of(small, 60, 200); },
              ThrowsMessage<Error>(AllOf(HasSubstr("60x200"), HasSubstr("bucket_upscale"))));
  EXPECT_THAT([&] { auto_buckets({.area = 1000}, 1); },
              ThrowsMessage<Error>(HasSubstr("no square of multiples of 64")));
  EXPECT_THAT([&] { auto_buckets({.area = 1 << 20, .max_side = 128}, 1); },
              ThrowsMessage<Error>(HasSubstr("exceeds")));
}

TEST(ChooseBucket, TakesTheNearestShapeThenTheMostFramesThenTheSize) {
  EXPECT_EQ(chosen({100, 720, 1280}), "81x480x832");
  EXPECT_EQ(chosen({81, 720, 1280}), "81x480x832");
  EXPECT_EQ(chosen({80, 720, 1280}), "49x480x832");
  EXPECT_EQ(chosen({80, 300, 500}), "49x240x416");  // the other one would enlarge it
  EXPECT_EQ(chosen({80, 100, 160}), "49x240x416");  // both would enlarge it
  EXPECT_EQ(chosen({81, 1280, 720}), "81x832x480");
  EXPECT_EQ(chosen({20, 500, 500}), "17x640x640");
  EXPECT_EQ(chosen({161, 720, 1280}, 2), "81x480x832");
  EXPECT_EQ(chosen({160, 720, 1280}, 2), "49x480x832");
}

TEST(ChooseBucket, SaysHowManyFramesAreMissing) {
  EXPECT_THAT(
      [] {
        chosen({48, 720, 1280});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("48 frames"), HasSubstr("need 49"))));
  // A clip too short for the buckets of its aspect ratio is not squeezed into another ratio's
  // bucket.
  EXPECT_THAT([] { chosen({80, 1280, 720}); }, ThrowsMessage<Error>(HasSubstr("need 81")));
  EXPECT_THROW(chosen({81, 0, 720}), Error);
}

std::vector<std::vector<int64_t>> groups(std::initializer_list<int64_t> sizes) {
  std::vector<std::vector<int64_t>> out;
  int64_t next = 0;
  for (const int64_t size : sizes) {
    out.emplace_back(static_cast<size_t>(size));
    std::iota(out.back().begin(), out.back().end(), next);
    next += size;
  }
  return out;
}

TEST(GroupedOrder, FillsEveryBatchFromOneGroup) {
  for (const bool shuffle : {false, true}) {
    const GroupedOrder order(groups({7, 1, 12}), 4, 3, shuffle);
    std::set<size_t> seen;
    for (int64_t batch = 0; batch < 200; ++batch) {
      const size_t group = order.at(batch * 4).group;
      seen.insert(group);
      for (int64_t i = 1; i < 4; ++i) {
        ASSERT_EQ(order.at(batch * 4 + i).group, group) << batch;
      }
    }
    EXPECT_EQ(seen.size(), 3U);
  }
}

TEST(GroupedOrder, ShowsEverySampleEquallyOften) {
  for (const bool shuffle : {false, true}) {
    const GroupedOrder order(groups({7, 1, 12}), 4, 3, shuffle);
    // After 4 epochs (80 samples) every group has filled complete batches: 7, 1 and 12.
    std::map<std::pair<size_t, int64_t>, int> times;
    for (int64_t position = 0; position < 80; ++position) {
      const auto place = order.at(position);
      ++times[{place.group, place.index}];
    }
    EXPECT_EQ(times.size(), 20U);
    for (const auto& [sample, count] : times) {
      EXPECT_EQ(count, 4) << sample.first << " " << sample.second;
    }
  }
}

TEST(GroupedOrder, MixesBatchesAndSamplesAnewInEachEpoch) {
  const GroupedOrder order(groups({40, 40}), 4, 3, true);
  const auto epoch = [&](int64_t number) {
    std::vector<std::pair<size_t, int64_t>> out;
    for (int64_t i = 0; i < 80; ++i) {
      const auto place = order.at(number * 80 + i);
      out.emplace_back(place.group, place.index);
    }
    return out;
  };
  EXPECT_NE(epoch(0), epoch(1));
  const auto batches_of = [](const auto& places) {
    std::vector<size_t> out;
    for (size_t i = 0; i < places.size(); i += 4) {
      out.push_back(places[i].first);
    }
    return out;
  };
  EXPECT_NE(batches_of(epoch(0)), batches_of(epoch(1)));
  EXPECT_FALSE(std::ranges::is_sorted(batches_of(epoch(0))));
  // Unshuffled: in stored order.
  const GroupedOrder stored(groups({4, 2}), 2, 3, false);
  std::vector<int64_t> seen;
  for (int64_t position = 0; position < 6; ++position) {
    const auto place = stored.at(position);
    seen.push_back(stored.groups()[place.group][static_cast<size_t>(place.index)]);
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(GroupedOrder, ReachesFarPositionsAndGroupsSmallerThanABatch) {
  const GroupedOrder order(groups({1, 2}), 64, 0, true);
  for (const int64_t position : {int64_t{0}, int64_t{1} << 40, (int64_t{1} << 61) + 5}) {
    const auto place = order.at(position);
    EXPECT_LT(place.index, place.group == 0 ? 1 : 2);
  }
  EXPECT_THROW(order.at(-1), Error);
  EXPECT_THROW(GroupedOrder({{}}, 4, 0, true), Error);
}

/// Eight clips: wide ones of 5 and 9 frames, tall ones of 5.
class Clips {
 public:
  Clips() {
    const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
        {5, 16, 32}, {9, 16, 32}, {9, 16, 32}, {5, 32, 16},
        {5, 32, 16}, {5, 16, 32}, {9, 16, 32}, {5, 32, 16}};
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto [frames, height, width] = sizes[i];
      HostArray pixels(Shape{DType::U8, {frames, height, width, 3}});
      std::ranges::fill(pixels.bytes, std::byte(20 * i));
      const std::string name = "clip_" + std::to_string(i);
      media::write_mp4(folder_ / (name + ".mp4"), pixels);
      io::write_file(folder_ / (name + ".txt"), name);
    }
  }
  std::shared_ptr<const ClipSet> list() const { return folder_clips(folder_.path(), "text"); }
  ClipBuckets choose(std::vector<std::string>* problems = nullptr) const {
    return bucket_clips(
        8, {{9, 16, 32}, {5, 16, 32}, {5, 32, 16}}, ClipFormat{},
        [&](int64_t clip) { return list()->measure(clip); }, 2,
        [&](int64_t, const std::string& why) { problems->push_back(why); });
  }
  const Scratch& folder() const { return folder_; }

 private:
  Scratch folder_;
};

Sample plain(const Clip& clip) { return {clip.pixels, HostArray::f32({1, 1}, std::vector{1.F})}; }

TEST(VideoSource, BringsClipsToTheirBuckets) {
  const Clips clips;
  VideoOptions options{.buckets = clips.choose(), .batch = 2, .seed = 5};
  EXPECT_THAT(options.buckets.bucket_of, ElementsAre(1, 0, 0, 2, 2, 1, 0, 2));
  const auto source = video_source(clips.list(), options, plain);
  EXPECT_EQ(source->size(), 8);
  EXPECT_EQ(source->examples().size(), 3U);
  std::set<std::string> seen;
  std::set<Dims> shapes;
  for (int64_t batch = 0; batch < 8; ++batch) {  // two epochs
    const Sample a = source->at(2 * batch);
    const Sample b = source->at(2 * batch + 1);
    EXPECT_EQ(a.latents.shape, b.latents.shape);
    shapes.insert(a.latents.shape.dims);
    seen.insert(a.id);
    seen.insert(b.id);
  }
  EXPECT_EQ(seen.size(), 8U);
  EXPECT_EQ(shapes, (std::set<Dims>{{3, 9, 16, 32}, {3, 5, 16, 32}, {3, 5, 32, 16}}));
}

TEST(VideoSource, LeavesClipsWithoutABucketOut) {
  const Clips clips;
  io::write_file(clips.folder() / "clip_1.mp4", "no video");
  std::vector<std::string> problems;
  const VideoOptions options{.buckets = clips.choose(&problems), .batch = 2};
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("clip_1.mp4"));
  const auto source = video_source(clips.list(), options, plain);
  EXPECT_EQ(source->size(), 7);
  for (int64_t position = 0; position < 28; ++position) {
    EXPECT_NE(source->at(position).id, "clip_1.mp4");
  }
}

TEST(Prefetcher, GivesTheSameBatchesOfBucketsFromAnyPlaceOnAnyThreads) {
  const Clips clips;
  const VideoOptions options{.buckets = clips.choose(), .batch = 2, .seed = 5};
  const auto source = video_source(clips.list(), options, plain);
  const auto ids = [&](int64_t start, int threads) {
    Prefetcher ahead(*source, {.batch_size = 2, .start = start, .threads = threads});
    std::vector<std::vector<std::string>> out;
    for (int64_t batch = start / 2; batch < 12; ++batch) {
      out.push_back(ahead.next()->ids);
    }
    return out;
  };
  const auto whole = ids(0, 1);
  EXPECT_EQ(ids(0, 3), whole);
  // In the middle of an epoch of four batches.
  EXPECT_EQ(ids(6, 2), std::vector(whole.begin() + 3, whole.end()));
}

void write_records(const std::filesystem::path& path, const std::vector<Dims>& latents) {
  records::TfRecordWriter writer(path);
  for (const Dims& dims : latents) {
    Sample record{.latents = HostArray(Shape{DType::F32, dims}),
                  .encoder_hidden_states = HostArray(Shape{DType::F32, {2, 3}})};
    writer.append(serialize_record(record));
  }
  writer.close();
}

TEST(TfRecordSource, KeepsShapesApartWhenAsked) {
  const Scratch folder;
  const Dims wide = {1, 2, 2, 4};
  const Dims tall = {1, 2, 4, 2};
  write_records(folder / "0.tfrec", {wide, tall, wide});
  write_records(folder / "1.tfrec", {tall, wide, wide});
  const auto source =
      tfrecord_source({.folder = folder.path(), .seed = 2, .by_shape = true, .batch = 2});

  EXPECT_EQ(source->size(), 6);
  ASSERT_EQ(source->examples().size(), 2U);
  EXPECT_EQ(source->examples()[1].latents.shape.dims, tall);
  std::set<std::string> seen;
  for (int64_t batch = 0; batch < 6; ++batch) {
    const Sample a = source->at(2 * batch);
    const Sample b = source->at(2 * batch + 1);
    EXPECT_EQ(a.latents.shape, b.latents.shape);
    seen.insert({a.id, b.id});
  }
  EXPECT_EQ(seen.size(), 6U);
  const auto mixed = tfrecord_source({.folder = folder.path(), .shuffle = false});
  EXPECT_THAT(
      [&] {
        stack({mixed->at(0), mixed->at(1)});
      },
      ThrowsMessage<Error>(HasSubstr("buckets=auto")));
}

}  // namespace
}  // namespace kinema::data
