// `generate` that starts from a picture or a video.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Editing : public RunsTest {
 protected:
  static constexpr int64_t kHeight = 64;
  static constexpr int64_t kWidth = 32;

  void SetUp() override {
    RunsTest::SetUp();
    HostArray picture(Shape{DType::U8, {kHeight, kWidth, 3}});
    HostArray mask = picture;  // the lower half is made
    for (int64_t i = 0; i < kHeight * kWidth * 3; ++i) {
      const int64_t row = i / 3 / kWidth;
      picture.as<uint8_t>()[i] = static_cast<uint8_t>(3 * row + 20 * (i % 3));
      mask.as<uint8_t>()[i] = row < kHeight / 2 ? 0 : 255;
    }
    media::write_png(folder_ / "cat.png", picture);
    media::write_png(folder_ / "mask.png", mask);
    picture_ = picture;
  }
  Outcome generate(const std::string& model, std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"generate", io::golden("control/" + model).string(), "prompt=a ball",
                  "num_inference_steps=4", "contact_sheet=false", "seed=1"});
    return run(words);
  }
  HostArray made(const std::string& file) const { return media::read_image(folder_ / file); }
  HostArray latents(const std::string& file) const {
    return io::SafetensorsFile::open(folder_ / file).at("latents").copy();
  }
  /// The mean distance of two pictures' values.
  static double distance(const HostArray& a, const HostArray& b) {
    double sum = 0.0;
    for (size_t i = 0; i < a.bytes.size(); ++i) {
      sum += std::abs(static_cast<int>(a.as<uint8_t>()[i]) - static_cast<int>(b.as<uint8_t>()[i]));
    }
    return sum / static_cast<double>(a.bytes.size());
  }

  HostArray picture_;
};

TEST_F(Editing, ImageToImageDependsOnPictureStrengthAndSeed) {
  const auto at = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"image=cat.png", "save_latents=" + name, "video_folder=v_" + name});
    const Outcome outcome = generate("sdxl", more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return latents(name);
  };
  const HostArray half = at("half", {"strength=0.5"});
  EXPECT_EQ(half.bytes, at("again", {"strength=0.5"}).bytes);
  EXPECT_NE(half.bytes, at("other_seed", {"strength=0.5", "seed=2"}).bytes);
  EXPECT_NE(half.bytes, at("more", {"strength=1"}).bytes);
  // image_url is another name.
  const Outcome url =
      generate("sdxl", {"image_url=cat.png", "strength=0.5", "save_latents=url", "video_folder=u"});
  EXPECT_EQ(url.status, 0) << url.err;
  EXPECT_EQ(half.bytes, latents("url").bytes);
  // Each image's noise is its own, in any batch.
  const HostArray two = at("two", {"strength=0.5", "num_images_per_prompt=2"});
  EXPECT_TRUE(std::equal(half.bytes.begin(), half.bytes.end(), two.bytes.begin()));
  EXPECT_FALSE(std::equal(half.bytes.begin(), half.bytes.end(),
                          two.bytes.begin() + static_cast<ptrdiff_t>(half.bytes.size())));
}

TEST_F(Editing, InpaintingReturnsKeptPixels) {
  for (const char* model : {"sdxl", "sdxl_inpaint9", "flux_dev", "flux_fill"}) {
    const std::string folder = std::string("v_") + model;
    const Outcome outcome =
        generate(model, {"image=cat.png", "mask=mask.png", "video_folder=" + folder,
                         "max_sequence_length=40", "height=64", "width=32"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const HostArray image = made(folder + "/000_a_ball.png");
    const size_t half = image.bytes.size() / 2;
    EXPECT_TRUE(std::equal(image.bytes.begin(), image.bytes.begin() + static_cast<ptrdiff_t>(half),
                           picture_.bytes.begin()))
        << model;
    EXPECT_GT(distance(image, picture_), 1.0) << model;
  }
}

TEST_F(Editing, AControlImageIsFollowed) {
  const auto of = [&](const std::string& file) {
    const Outcome outcome =
        generate("flux_control", {"control_image=" + file, "video_folder=v_" + file, "height=64",
                                  "width=32", "max_sequence_length=40", "save_latents=l_" + file});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return latents("l_" + file);
  };
  EXPECT_NE(of("cat.png").bytes, of("mask.png").bytes);
  EXPECT_THAT(generate("flux_control", {"max_sequence_length=40"}).err,
              HasSubstr("set control_image=FILE"));
  EXPECT_THAT(generate("flux_dev", {"control_image=cat.png", "max_sequence_length=40"}).err,
              HasSubstr("follows no control image"));
}

TEST_F(Editing, KontextEditsAPicture) {
  const auto of = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"resize_reference=false", "max_sequence_length=40",
                             "video_folder=v_" + name, "save_latents=" + name});
    const Outcome outcome = generate("flux_kontext", more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return latents(name);
  };
  const HostArray cat = of("cat", {"image=cat.png"});
  EXPECT_EQ(cat.shape.dims, (Dims{1, 6, 1, kHeight / 8, kWidth / 8}));  // that of the picture
  EXPECT_EQ(cat.bytes, of("named", {"reference_images=[cat.png]"}).bytes);
  EXPECT_NE(cat.bytes, of("mask", {"image=mask.png"}).bytes);
  EXPECT_NE(cat.bytes, of("text", {"height=64", "width=32"}).bytes);
  // A given size is that of the result.
  EXPECT_EQ(of("wide", {"image=cat.png", "height=32", "width=64"}).shape.dims,
            (Dims{1, 6, 1, 4, 8}));
  // Plain networks take a reference too, beside a picture to start from.
  const Outcome both =
      generate("flux_dev", {"image=cat.png", "reference_images=mask.png", "strength=0.5",
                            "resize_reference=false", "max_sequence_length=40", "video_folder=b"});
  EXPECT_EQ(both.status, 0) << both.err;
}

TEST_F(Editing, VideoToVideoTakesTheFirstFramesAtItsRate) {
  const std::string video = io::golden("dataset/videos").string();
  const std::string clip =
      std::ranges::min(std::vector<fs::path>{fs::directory_iterator(video), {}}).string();
  const media::Video given = media::read_video(fs::path(clip));
  const std::string fps = "fps=" + std::to_string(std::lround(given.fps));
  const Outcome outcome =
      generate("wan21_t2v", {"video=" + clip, "strength=0.5", "num_frames=5", fps, "height=32",
                             "width=48", "max_sequence_length=48", "video_folder=v"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("starting from 5 frames of "));
  EXPECT_EQ(media::read_video(folder_ / "v/000_a_ball.mp4").frames.shape.dims[0], 5);
  EXPECT_THAT(generate("wan21_t2v", {"video=" + clip, fps, "num_frames=4001"}).err,
              HasSubstr("frames at"));
}

TEST_F(Editing, NamesWhatDoesNotGoTogether) {
  const auto error = [&](const std::string& model, const std::vector<std::string>& words) {
    const Outcome outcome = generate(model, words);
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  };
  EXPECT_THAT(error("sdxl", {"mask=mask.png"}), HasSubstr("mask is given without image=FILE"));
  EXPECT_THAT(error("sdxl", {"strength=0.5"}), HasSubstr("strength is given without image=FILE"));
  EXPECT_THAT(error("sdxl", {"image=cat.png", "strength=0"}), HasSubstr("above 0"));
  EXPECT_THAT(error("sdxl", {"image=cat.png", "strength=0.01"}), HasSubstr("leaves no step"));
  EXPECT_THAT(error("sdxl", {"image=cat.png", "image_url=mask.png"}), HasSubstr("the same key"));
  EXPECT_THAT(error("sdxl", {"video=cat.png"}), HasSubstr("makes images"));
  EXPECT_THAT(error("sdxl", {"image=absent.png"}), HasSubstr("absent.png"));
  EXPECT_THAT(error("wan21_t2v", {"image=cat.png"}), HasSubstr("starts from video=FILE"));
  EXPECT_THAT(error("flux_kontext", {"image=cat.png", "mask=mask.png"}),
              HasSubstr("mask has no meaning for a model that edits whole images"));
  EXPECT_THAT(error("flux_kontext", {"image=cat.png", "strength=0.5"}),
              HasSubstr("strength has no meaning"));
  EXPECT_THAT(error("flux_kontext", {"image=cat.png", "reference_images=mask.png"}),
              HasSubstr("give only one of them"));
  EXPECT_THAT(error("flux_kontext", {"reference_images=[cat.png, mask.png]"}),
              HasSubstr("there are 2 reference pictures, but this model takes one"));
  EXPECT_THAT(error("flux_kontext", {"reference_images=absent.png"}), HasSubstr("absent.png"));
  EXPECT_THAT(error("sdxl", {"reference_images=cat.png"}), HasSubstr("takes no reference picture"));
  EXPECT_THAT(error("sdxl", {"reference_image=cat.png"}), HasSubstr("reference_images"));
  EXPECT_THAT(error("wan21_t2v", {"video=cat.png"}), HasSubstr("is the picture"));
  write("broken.png", "no picture");
  EXPECT_THAT(error("sdxl", {"image=broken.png"}), HasSubstr("broken.png"));
}

TEST_F(Editing, TakesThePicturesOwnSize) {
  const Outcome outcome = generate("sdxl", {"image=cat.png", "video_folder=v"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Dims dims = made("v/000_a_ball.png").shape.dims;
  EXPECT_EQ(dims[0] % 16, 0);
  EXPECT_EQ(dims[0], 2 * dims[1]);
}

}  // namespace
}  // namespace kinema::jobs_test
