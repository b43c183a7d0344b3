#include "kinema/data/set_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "data/clip_folder.h"
#include "kinema/core/error.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/survey.h"
#include "kinema/data/video_source.h"

namespace kinema::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const ClipFormat kFormat{.height = 16, .width = 16, .num_frames = 1};

/// Pictures in the folders `few` (2) and `many` (6).
void write_pictures(const ClipFolder& folder) {
  for (const char* name :
       {"few/a", "few/b", "many/c", "many/d", "many/e", "many/f", "many/g", "many/h"}) {
    folder.image(std::string(name) + ".png");
  }
}

DatasetFile two_sets(const ClipFolder& folder, const SetRules& few, const SetRules& many) {
  DatasetFile out;
  out.parts.resize(2);
  out.parts[0].folder = folder / "few";
  out.parts[0].rules = few;
  out.parts[1].folder = folder / "many";
  out.parts[1].rules = many;
  return out;
}

Sample sample_of(const Clip& clip) { return {.latents = clip.pixels, .encoder_hidden_states = {}}; }

std::unique_ptr<Source> source_of(const DatasetFile& sets, int64_t batch) {
  std::shared_ptr<const ClipSet> clips = dataset_clips(sets, {}, kFormat);
  Survey survey = survey_clips(*clips, {.clips = clips->size(), .format = kFormat});
  VideoOptions options{.format = kFormat, .batch = batch, .seed = 7};
  options.buckets = std::move(survey.buckets);
  options.problems = std::move(survey.problems);
  return video_source(std::move(clips), options, sample_of);
}

/// The number of times that each clip is used.
std::map<std::string, int> counts_of(const Source& source, int64_t samples) {
  std::map<std::string, int> out;
  for (int64_t position = 0; position < samples; ++position) {
    ++out[source.at(position).id];
  }
  return out;
}

TEST(SetRules, WeightsAreProportionsOfSamples) {
  const ClipFolder folder;
  write_pictures(folder);
  const auto source = source_of(two_sets(folder, {.weight = 3}, {.weight = 1}), 1);
  // Of 96 samples, 72 are of the two clips of weight 3, and 24 of the six others.
  EXPECT_EQ(counts_of(*source, 96), (std::map<std::string, int>{{"a.png", 36},
                                                                {"b.png", 36},
                                                                {"c.png", 4},
                                                                {"d.png", 4},
                                                                {"e.png", 4},
                                                                {"f.png", 4},
                                                                {"g.png", 4},
                                                                {"h.png", 4}}));
  // Without weights every clip counts the same.
  const auto equal = source_of(two_sets(folder, {}, {}), 1);
  for (const auto& [name, count] : counts_of(*equal, 96)) {
    EXPECT_EQ(count, 12) << name;
  }
}

TEST(SetRules, SetsOfDifferentSizesFormBatchesInTheProportionsOfTheWeights) {
  const ClipFolder folder;
  write_pictures(folder);
  const SetRules small{.weight = 1, .sizes = {.buckets = {{1, 8, 8}}, .automatic = std::nullopt}};
  const auto source = source_of(two_sets(folder, {.weight = 2}, small), 4);
  std::map<int64_t, int> batches;  // by height
  for (int64_t batch = 0; batch < 30; ++batch) {
    const int64_t height = source->at(4 * batch).latents.shape.dims[2];
    ++batches[height];
    for (int64_t i = 1; i < 4; ++i) {
      EXPECT_EQ(source->at(4 * batch + i).latents.shape.dims[2], height) << batch;
    }
  }
  EXPECT_EQ(batches, (std::map<int64_t, int>{{8, 10}, {16, 20}}));
  EXPECT_EQ(source->examples().size(), 2U);
  const std::map<std::string, int> counts = counts_of(*source, 120);
  EXPECT_EQ(counts.at("a.png"), 40);  // 80 samples of two clips
  // 40 samples of six clips.
  for (const char* name : {"c.png", "d.png", "e.png", "f.png", "g.png", "h.png"}) {
    EXPECT_GE(counts.at(name), 6) << name;
    EXPECT_LE(counts.at(name), 7) << name;
  }
}

TEST(SetRules, OneSetIsMirrored) {
  const ClipFolder folder;
  HostArray pixels(Shape{DType::U8, {16, 16, 3}});
  pixels.bytes[0] = std::byte{255};  // the left upper corner
  for (const char* name : {"few/a.png", "many/b.png"}) {
    folder.image(name);
    media::write_png(folder / name, pixels);
  }
  const auto source = source_of(two_sets(folder, {.flip = true}, {}), 1);
  std::map<std::string, int> mirrored;
  for (int64_t position = 0; position < 40; ++position) {
    const Sample sample = source->at(position);
    mirrored[sample.id] += sample.latents.as<float>()[0] < 0.0F ? 1 : 0;
  }
  EXPECT_GT(mirrored["a.png"], 2);
  EXPECT_LT(mirrored["a.png"], 18);
  EXPECT_EQ(mirrored["b.png"], 0);
}

TEST(SetRules, AWeightedSetWithoutUsableClipsIsNamed) {
  const ClipFolder folder;
  write_pictures(folder);
  for (const char* name : {"c", "d", "e", "f", "g", "h"}) {
    folder.text(std::string("many/") + name + ".png", "no picture");
  }
  EXPECT_THAT([&] { source_of(two_sets(folder, {.weight = 1}, {.weight = 1}), 1); },
              ThrowsMessage<Error>(HasSubstr("many, which has a weight")));
}

TEST(SetRules, OwnSizesTakeWhatIsMissingFromTheRun) {
  const AutoBuckets keys{.area = 0, .step = 8, .min_side = 8, .max_side = 64};
  const SampleSizes none;
  const SampleSizes automatic{.buckets = {}, .automatic = keys};
  const auto sizes = [&](const SizeChanges& changes, const SampleSizes& run) {
    return own_sizes(changes, run, keys, kFormat, "datasets[1]");
  };
  EXPECT_TRUE(sizes({}, none).empty());
  EXPECT_TRUE(sizes({}, automatic).empty());
  EXPECT_THAT(sizes({.height = 8, .width = 24}, none).buckets, ElementsAre(Bucket{1, 8, 24}));
  EXPECT_EQ(sizes({.height = 8, .width = 24}, automatic).automatic->area, 192);
  EXPECT_EQ(sizes({.automatic = true}, none).automatic->area, 256);
  EXPECT_EQ(sizes({.step = 16}, automatic).automatic->step, 16);
  EXPECT_THAT(sizes({.automatic = false}, automatic).buckets, ElementsAre(Bucket{1, 16, 16}));
  EXPECT_THAT([&] { sizes({.step = 16}, none); },
              ThrowsMessage<Error>(HasSubstr("datasets[1] has rules of sizes by aspect ratio")));
  EXPECT_THAT([&] { sizes({.automatic = true, .area = 4}, none); },
              ThrowsMessage<Error>(HasSubstr("datasets[1]")));
}

}  // namespace
}  // namespace kinema::data
