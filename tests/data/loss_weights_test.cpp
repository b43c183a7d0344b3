#include "kinema/data/loss_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "data/clip_folder.h"
#include "kinema/core/error.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/video_source.h"

namespace kinema::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const ClipFormat kMasked{.height = 16, .width = 16, .num_frames = 1};
const Dims kLatents{4, 1, 2, 2};

/// A picture that is white where `level` says so.
void write_picture(const std::filesystem::path& path, int64_t height, int64_t width,
                   const std::function<uint8_t(int64_t y, int64_t x)>& level) {
  HostArray pixels(Shape{DType::U8, {height, width, 3}});
  for (int64_t i = 0; i < height * width; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      pixels.as<uint8_t>()[static_cast<size_t>(i * 3 + c)] = level(i / width, i % width);
    }
  }
  std::filesystem::create_directories(path.parent_path());
  media::write_png(path, pixels);
}

uint8_t left_half(int64_t /*y*/, int64_t x) { return x < 8 ? 255 : 0; }

std::vector<float> mask_of(const ClipSet& clips, bool flipped = false, bool alpha = false,
                           const ClipWindow& window = {}, const ClipFormat& format = kMasked) {
  const HostArray mask = mask_of_latents(clips, 0, format, window, flipped, alpha, kLatents);
  EXPECT_EQ(mask.shape, (Shape{DType::F32, {1, 1, 2, 2}}));
  return {mask.as<float>().begin(), mask.as<float>().end()};
}

std::unique_ptr<ClipSet> with_masks(const ClipFolder& folder) {
  return folder_clips(folder / "photos", ListOptions{.mask_folder = folder / "masks"});
}

TEST(LossWeights, AreMeansOfTheMaskFilesPixels) {
  const ClipFolder folder;
  write_picture(folder / "photos/a.png", 16, 16, left_half);
  folder.text("photos/a.txt", "x");
  // The upper left latent counts fully, the lower left one to three quarters, the right ones not.
  write_picture(folder / "masks/a.jpg.png", 16, 16, left_half);  // another picture's
  write_picture(folder / "masks/a.png", 16, 16, [](int64_t y, int64_t x) -> uint8_t {
    return x >= 8 || (y >= 12 && x < 4) ? 0 : 255;
  });
  const auto clips = with_masks(folder);
  EXPECT_TRUE(have_loss_weights(*clips, false));
  EXPECT_THAT(clips->notes(), ElementsAre(HasSubstr("1 of 1 clips have a mask")));
  EXPECT_THAT(mask_of(*clips), ElementsAre(1, 0, 0.75, 0));
  EXPECT_THAT(mask_of(*clips, /*flipped=*/true), ElementsAre(0, 1, 0, 0.75));
  const HostArray video = mask_of_latents(*clips, 0, kMasked, {}, false, false, {4, 3, 2, 2});
  EXPECT_EQ(video.shape, (Shape{DType::F32, {1, 3, 2, 2}}));
  EXPECT_EQ(video.as<float>()[4 * 2 + 2], 0.75F);
}

TEST(LossWeights, AreCroppedAndResizedAsThePicture) {
  const ClipFolder folder;
  write_picture(folder / "photos/a.png", 16, 32, [](int64_t, int64_t) -> uint8_t { return 7; });
  folder.text("photos/a.txt", "x");
  // Twice the size of the picture; white in the left half.
  write_picture(folder / "masks/a.png", 32, 64,
                [](int64_t, int64_t x) -> uint8_t { return x < 32 ? 255 : 0; });
  const auto clips = with_masks(folder);
  // The filter of the reduction by two mixes the two columns beside the edge.
  EXPECT_THAT(mask_of(*clips, false, false, {.crop = 0.0F}), Each(FloatNear(1, 1.0F / 32)));
  EXPECT_THAT(mask_of(*clips, false, false, {.crop = 1.0F}), Each(FloatNear(0, 1.0F / 32)));
  // The middle.
  const std::vector<float> middle = mask_of(*clips);
  EXPECT_NEAR(middle[0], 1, 1.0 / 8);
  EXPECT_NEAR(middle[1], 0, 1.0 / 8);
}

TEST(LossWeights, AreTheAlphaChannel) {
  const ClipFolder folder;
  const std::filesystem::path rgba =
      std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden/images/alpha/rgba.png";
  std::filesystem::create_directories(folder / "photos");
  std::filesystem::copy_file(rgba, folder / "photos/a.png");
  folder.text("photos/a.txt", "x");
  const auto clips = folder_clips(folder / "photos", ListOptions{});
  const ClipSize size = clips->measure(0);
  ASSERT_TRUE(size.has_alpha);
  EXPECT_FALSE(have_loss_weights(*clips, false));
  EXPECT_TRUE(have_loss_weights(*clips, true));
  const ClipFormat own{.height = size.height, .width = size.width, .num_frames = 1};
  EXPECT_TRUE(clips->read_mask(0, own, {}, false).bytes.empty());
  const HostArray mask = clips->read_mask(0, own, {}, true);
  // Over any background b, a colour c shows as c a + b (1 - a), to half a level.
  const HostArray stored = media::read_image(folder / "photos/a.png", {.drop = true});
  const HostArray grey = media::read_image(folder / "photos/a.png", {.rgb = {128, 128, 128}});
  float least = 1;
  for (size_t i = 0; i < mask.as<float>().size(); ++i) {
    const float a = mask.as<float>()[i];
    const float shown = static_cast<float>(stored.as<uint8_t>()[3 * i]) * a + 128.0F * (1 - a);
    EXPECT_NEAR(shown, grey.as<uint8_t>()[3 * i], 0.5 + 1e-3);
    least = std::min(least, a);
  }
  EXPECT_LT(least, 0.5F);
}

TEST(LossWeights, MasksAreNamedInMetadata) {
  const ClipFolder folder;
  for (const char* name : {"photos/a.png", "photos/b.png", "photos/m/a_mask.png"}) {
    write_picture(folder / name, 16, 16, left_half);
  }
  folder.text("photos/metadata.jsonl",
              "{\"file_name\": \"a.png\", \"text\": \"x\", \"mask\": \"m/a_mask.png\"}\n"
              "{\"file_name\": \"b.png\", \"text\": \"y\", \"mask\": null}\n");
  const auto clips = folder_clips(folder / "photos", ListOptions{});
  ASSERT_EQ(clips->size(), 2);
  EXPECT_THAT(mask_of(*clips), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(clips->left_out(), ElementsAre());
  EXPECT_THAT(mask_of_latents(*clips, 1, kMasked, {}, false, false, kLatents).as<float>(), Each(1));
  folder.text("photos/metadata.csv", "file_name,text,mask\na.png,x,m/a_mask.png\nb.png,y,\n");
  std::filesystem::remove(folder / "photos/metadata.jsonl");
  EXPECT_THAT(mask_of(*folder_clips(folder / "photos", ListOptions{})), ElementsAre(1, 0, 1, 0));
}

TEST(LossWeights, ChangeTheHashOfAClip) {
  const ClipFolder folder;
  write_picture(folder / "photos/a.png", 16, 16, left_half);
  folder.text("photos/a.txt", "x");
  write_picture(folder / "masks/a.png", 16, 16, left_half);
  const std::string plain = folder_clips(folder / "photos", ListOptions{})->hash(0);
  const std::string masked = with_masks(folder)->hash(0);
  const std::string stamp = with_masks(folder)->stamp(0);
  write_picture(folder / "masks/a.png", 16, 16, [](int64_t, int64_t) -> uint8_t { return 3; });
  EXPECT_NE(masked, plain);
  EXPECT_NE(with_masks(folder)->hash(0), masked);
  EXPECT_NE(with_masks(folder)->stamp(0), stamp);
}

TEST(LossWeights, ErrorsNameTheMask) {
  const ClipFolder folder;
  write_picture(folder / "photos/a.png", 16, 16, left_half);
  folder.text("photos/a.txt", "x");
  const auto expect_error = [&](const std::string& problem) {
    EXPECT_THAT([&] { mask_of(*with_masks(folder)); }, ThrowsMessage<Error>(HasSubstr(problem)));
  };
  expect_error("masks does not exist");
  folder.text("masks/a.txt", "x");
  expect_error("has no pictures");
  write_picture(folder / "masks/b.png", 16, 16, left_half);
  expect_error("a.png has no mask: no picture in");
  write_picture(folder / "masks/a.png", 16, 32, left_half);
  expect_error("is 16x32 (height x width), but its clip is 16x16");
  folder.text("masks/a.png", "no picture");
  expect_error("masks/a.png");
  folder.text("photos/metadata.jsonl",
              "{\"file_name\": \"a.png\", \"text\": \"x\", \"mask\": \"../masks/b.png\"}\n");
  expect_error("lies outside of");
  folder.text("photos/metadata.jsonl",
              "{\"file_name\": \"a.png\", \"text\": \"x\", \"mask\": \"gone.png\"}\n");
  expect_error("there is no mask");
  folder.text("photos/metadata.jsonl",
              "{\"file_name\": \"a.png\", \"text\": \"x\", \"mask\": 3}\n");
  expect_error("mask");
}

TEST(LossWeights, OfRegularizationPicturesAreThePriorWeightOfHalfOfTheSamples) {
  const ClipFolder folder;
  for (const char* name : {"10_fox/a.png", "10_fox/b.png"}) {
    folder.image(std::string("photos/") + name);
  }
  for (const char* name : {"c", "d", "e", "f", "g"}) {
    folder.image(std::string("reg/1_animal/") + name + ".png");
    std::filesystem::remove(folder / (std::string("reg/1_animal/") + name + ".txt"));
  }
  DatasetFile sets;
  sets.parts.resize(2);
  sets.parts[0].folder = folder / "photos";
  sets.parts[1].folder = folder / "reg";
  sets.parts[1].rules = {.loss_weight = 0.25, .regularization = true};
  for (DatasetPart& part : sets.parts) {
    part.folders = true;
  }
  std::shared_ptr<const ClipSet> clips = dataset_clips(sets, {}, {.num_frames = 1});
  ASSERT_EQ(clips->size(), 25);
  std::map<std::string, std::string> captions;
  const auto source = video_source(clips, {.format = kMasked, .seed = 3}, [&](const Clip& clip) {
    captions[clip.id] = clip.caption;
    return Sample{.latents = HostArray(Shape{DType::F32, {4, 1, 2, 2}}),
                  .encoder_hidden_states = {}};
  });
  std::map<std::string, int> counts;
  for (int64_t position = 0; position < 100; ++position) {
    const Sample sample = source->at(position);
    ++counts[sample.id];
    const bool is_reg = captions[sample.id] == "animal";
    EXPECT_THAT(sample.loss_weights.as<float>(), Each(is_reg ? 0.25F : 1.0F)) << sample.id;
  }
  for (const char* name : {"c.png", "d.png", "e.png", "f.png", "g.png"}) {
    EXPECT_EQ(counts[name], 10) << name;
  }
  EXPECT_EQ(counts["a.png"] + counts["b.png"], 50);
  EXPECT_THAT(clips->notes(),
              Contains(AllOf(HasSubstr("regularization"), HasSubstr("0.25 in the loss"))));
}

}  // namespace
}  // namespace kinema::data
