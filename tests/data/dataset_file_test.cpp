#include "kinema/data/dataset_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "data/clip_folder.h"
#include "kinema/core/error.h"

namespace kinema::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Captions of all clips, by place, with the number of times.
std::map<std::pair<std::string, std::string>, int> captions_of(const ClipSet& clips) {
  std::map<std::pair<std::string, std::string>, int> out;
  for (int64_t clip = 0; clip < clips.size(); ++clip) {
    ++out[{clips.where(clip), clips.caption(clip)}];
  }
  return out;
}

TEST(DatasetFile, OfKohyaHasSubsetsWithRepeatsWordsAndCaptionRules) {
  const ClipFolder folder;
  folder.image("fox/a.png");
  folder.image("fox/inner/not.png");
  folder.text("fox/a.cap", "a fox, snow");
  std::filesystem::remove(folder / "fox/a.txt");
  folder.image("3_owl/b.png");
  std::filesystem::remove(folder / "3_owl/b.txt");
  folder.text("sets.toml", R"(
[general]
shuffle_caption = true
caption_extension = "cap"
[[datasets]]
resolution = [512, 512]
batch_size = 2
keep_tokens = 1
  [[datasets.subsets]]
  image_dir = 'fox'
  num_repeats = 4
  caption_prefix = "photo:"
  [[datasets.subsets]]
  image_dir = '3_owl'
  class_tokens = "an owl"
  shuffle_caption = false
  [[datasets.subsets]]
  image_dir = 'fox'
  num_repeats = 0
)");
  const auto clips = folder_clips(folder / "sets.toml", "text");
  const std::string fox = (folder / "fox").string() + "/a.png";
  const std::string owl = (folder / "3_owl").string() + "/b.png";
  EXPECT_EQ(captions_of(*clips), (std::map<std::pair<std::string, std::string>, int>{
                                     {{fox, "photo: a fox, snow"}, 4}, {{owl, "an owl"}, 1}}));
  EXPECT_EQ(clips->measure(4).width, 32);
  const CaptionRules rules{.variants = 6, .seed = 5};
  EXPECT_EQ(clips->caption_variants(rules), 6);
  EXPECT_TRUE(clips->caption_rules(0, rules).shuffle);
  EXPECT_EQ(clips->caption_rules(0, rules).keep, 1);
  EXPECT_EQ(clips->caption_rules(0, rules).seed, 5U);
  EXPECT_FALSE(clips->caption_rules(4, rules).varies());
  EXPECT_EQ(varied_caption(*clips, 4, rules, 3), "an owl");
  EXPECT_THAT(clips->notes(), ElementsAre(HasSubstr("sets.toml: not read: batch_size"),
                                          HasSubstr("fox: 1 clip, each 4 times an epoch"),
                                          HasSubstr("3_owl: 1 clip")));
}

TEST(DatasetFile, OfMusubiHasFoldersAndLists) {
  const ClipFolder folder;
  folder.image("far/a.png");
  folder.captioned("videos/c.mp4", "a clip");
  folder.text("lists/list.jsonl",
              R"({"image_path": ")" + (folder / "far/a.png").string() + R"(", "caption": "red"})");
  folder.text("sets.toml", R"(
[general]
resolution = [960, 544]
caption_extension = ".txt"
[[datasets]]
video_directory = "videos"
target_frames = [1, 25]
num_repeats = 2
[[datasets]]
image_jsonl_file = "lists/list.jsonl"
cache_directory = "cache"
)");
  const auto clips = folder_clips(folder / "sets.toml", "text");
  ASSERT_EQ(clips->size(), 3);
  EXPECT_EQ(clips->caption(1), "a clip");
  EXPECT_EQ(clips->caption(2), "red");
  EXPECT_EQ(clips->measure(2).frames, 1);
}

TEST(DatasetFile, SizesAndMirroringMayDiffer) {
  const ClipFolder folder;
  folder.text("sets.toml", R"(
[general]
enable_bucket = true
min_bucket_reso = 128
[[datasets]]
resolution = [768, 512]
bucket_reso_steps = 32
bucket_no_upscale = true
  [[datasets.subsets]]
  image_dir = 'a'
  flip_aug = true
[[datasets]]
resolution = 256
enable_bucket = false
  [[datasets.subsets]]
  image_dir = 'b'
)");
  const std::vector<DatasetPart> parts = read_dataset_file(folder / "sets.toml").parts;
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].rules.flip, true);
  EXPECT_EQ(parts[0].sizes.width, 768);
  EXPECT_EQ(parts[0].sizes.height, 512);
  EXPECT_EQ(parts[0].sizes.automatic, true);
  EXPECT_EQ(parts[0].sizes.step, 32);
  EXPECT_EQ(parts[0].sizes.min_side, 128);
  EXPECT_EQ(parts[0].sizes.upscale, false);
  EXPECT_FALSE(parts[1].rules.flip.has_value());
  EXPECT_EQ(parts[1].sizes.height, 256);
  EXPECT_FALSE(parts[1].sizes.min_side.has_value());  // without buckets it has no effect
}

TEST(DatasetFile, OfKohyasListsHasNamesWithoutExtensions) {
  const ClipFolder folder;
  folder.image("fox/a.png");
  folder.text("meta.json", R"({"a": {"caption": "one", "tags": "x"}, "gone": {"tags": "y"}})");
  folder.text("sets.toml",
              "[[datasets]]\n[[datasets.subsets]]\nimage_dir = 'fox'\nmetadata_file = "
              "'meta.json'\n");
  const auto clips = folder_clips(folder / "sets.toml", "text", /*keep_bad=*/true);
  ASSERT_EQ(clips->size(), 2);
  EXPECT_EQ(clips->caption(0), "one, x");
  EXPECT_EQ(clips->measure(0).frames, 1);
  EXPECT_EQ(clips->cause(1), "missing");
  EXPECT_THROW(clips->measure(1), Error);
}

TEST(DatasetFile, NamesThePartThatHasNoClips) {
  const ClipFolder folder;
  folder.image("fox/a.png");
  const auto expect_error = [&](const std::string& set, const std::string& problem) {
    folder.text("sets.toml", "[[datasets]]\nimage_dir = 'fox'\nclass_tokens = 'a fox'\n" + set);
    EXPECT_THAT([&] { folder_clips(folder / "sets.toml", "text"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("datasets[1]"), HasSubstr(problem))));
  };
  expect_error("[[datasets]]\nimage_dir = 'nowhere'\n", "nowhere does not exist");
  expect_error("[[datasets]]\nimage_dir = 'fox/a.png'\n", "expected a folder of clips");
  folder.text("fox/a.txt", "x");
  expect_error("[[datasets]]\nimage_dir = 'fox'\ncaption_extension = 'cap'\n",
               "a.cap is not there (caption_extension)");
}

// musubi's: pictures beside clips of several frames.
TEST(DatasetFile, OfMusubiHasPicturesAsClipsOfOneFrame) {
  const ClipFolder folder;
  folder.image("pictures/a.png");
  folder.image("clips/b.png");
  folder.text("sets.toml",
              "[general]\nresolution = [16, 16]\n[[datasets]]\nimage_directory = 'pictures'\n"
              "[[datasets]]\nvideo_directory = 'clips'\nbatch_size = 1\nsource_fps = 16.0\n");
  DatasetFile file = read_dataset_file(folder / "sets.toml");
  EXPECT_THAT(file.notes.at(0), HasSubstr("batch_size (per_device_batch_size), source_fps"));
  const ClipFormat format{.height = 32, .width = 32, .num_frames = 5};
  for (DatasetPart& part : file.parts) {
    part.rules.sizes = own_sizes(part.sizes, {}, {}, format, part.where);
  }
  EXPECT_EQ(file.parts.at(0).rules.sizes.buckets, (std::vector<Bucket>{{1, 16, 16}}));
  EXPECT_EQ(file.parts.at(1).rules.sizes.buckets, (std::vector<Bucket>{{5, 16, 16}}));
  file.parts.pop_back();
  EXPECT_EQ(dataset_clips(file, {.images = false}, format)->size(), 1);
  // By aspect ratio too.
  const SizeChanges pictures{.frames = 1, .automatic = true};
  const AutoBuckets automatic{.area = 256, .step = 8, .min_side = 8, .max_side = 32};
  const SampleSizes sizes = own_sizes(pictures, {}, automatic, format, "x");
  EXPECT_TRUE(takes_pictures(sizes, format));
  for (const Bucket& each : possible_sizes({{.sizes = sizes}}, {}, format)) {
    EXPECT_EQ(each.frames, 1);
  }
}

TEST(DatasetFile, IsRefusedWhereItAsksForWhatIsNotDone) {
  const ClipFolder folder;
  folder.image("fox/a.png");
  const auto expect_error = [&](const std::string& text, const std::string& problem) {
    folder.text("sets.toml", text);
    EXPECT_THAT([&] { read_dataset_file(folder / "sets.toml"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("sets.toml"), HasSubstr(problem))))
        << text;
  };
  const std::string set = "[[datasets]]\nimage_dir = 'fox'\n";
  expect_error("a = 1", "has no [[datasets]]");
  expect_error("[more]\n" + set, "has `more`");
  expect_error("[[datasets]]\n", "names no clips");
  expect_error(set + "is_reg = 1", "is_reg");
  expect_error(set + "random_crop = true", "datasets[0]: random_crop is true");
  expect_error(set + "flip_aug = 1", "flip_aug");
  expect_error(set + "resolution = [1, 2, 3]", "resolution");
  expect_error(set + "resolution = -512", "resolution");
  expect_error(set + "min_bucket_reso = 'small'", "min_bucket_reso");
  expect_error(set + "caption_dropout_rate = 0.1", "caption_dropout");
  expect_error(set + "num_repeat = 2", "has `num_repeat`, which is not a key");
  expect_error(set + "image_jsonl_file = 'a.jsonl'", "has a folder and a list");
  expect_error(set + "num_repeats = -1", "num_repeats is -1");
  expect_error(set + "num_repeats = 'two'", "num_repeats");
  expect_error(set + "num_repeats = 0", "num_repeats is 0 in all data sets");
  expect_error(set + "is_reg = true", "is_reg is true in all data sets");
  expect_error(set + "custom_attributes = {a = 1}", "take it away");
  expect_error("[[datasets]\n", "sets.toml:1");
  folder.text("sets.toml", set + "is_reg = false\nflip_aug = false\nface_crop_aug_range = ''\n");
  EXPECT_EQ(read_dataset_file(folder / "sets.toml").parts.size(), 1U);
}

}  // namespace
}  // namespace kinema::data
