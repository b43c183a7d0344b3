// A Generator keeps the model, and its pictures have the bits of `generate`.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/jobs/generate.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/same_model.h"
#include "kinema/runtime/compilation_watch.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;

class GeneratorTest : public RunsTest {
 protected:
  resolve::Settings settings(std::vector<std::string> words) const {
    words.insert(words.begin(), {model_.string(), "prompt=a ball", "num_inference_steps=2",
                                 "height=32", "width=32", "contact_sheet=false", "seed=1",
                                 "video_folder=" + (folder_ / "out").string()});
    return resolve::load_generation(words, {}, Job());
  }
  /// A picture made by the generator, which is that of a new process's `generate`.
  HostArray expect_same(const std::vector<std::string>& words) {
    const resolve::Settings request = settings(words);
    compiled_ = 0;
    auto watch = runtime::also_watch_compilation([this](const std::string& program) {
      compiled_ += program == "denoise_step" ? 1 : 0;
      return nullptr;
    });
    const GenerateResult kept = generator_.generate(request, {});
    watch.reset();
    const GenerateResult alone = jobs::generate(request, {});
    EXPECT_EQ(kept.videos.size(), alone.videos.size());
    for (size_t i = 0; i < kept.videos.size(); ++i) {
      EXPECT_EQ(kept.videos[i].frames.bytes, alone.videos[i].frames.bytes) << i;
      EXPECT_EQ(kept.videos[i].latents.bytes, alone.videos[i].latents.bytes) << i;
    }
    last_ = kept.made.timings;
    return kept.videos.front().frames;
  }

  fs::path model_ = io::golden("control/sdxl");
  jobs::Generator generator_;
  sample::Timings last_;
  int compiled_ = 0;  // steps, compiled or loaded from the cache, by the last request
};

TEST_F(GeneratorTest, LoadsAndCompilesOnce) {
  EXPECT_FALSE(generator_.is_loaded());
  const HostArray first = expect_same({});
  EXPECT_TRUE(generator_.is_loaded());
  EXPECT_GT(last_.load, 0.0);
  EXPECT_EQ(compiled_, 1);
  for (const char* change :
       {"prompt=a cube", "seed=2", "num_inference_steps=3", "guidance_scale=3"}) {
    SCOPED_TRACE(change);
    EXPECT_NE(expect_same({change}).bytes, first.bytes);
    EXPECT_EQ(last_.load, 0.0);
    EXPECT_EQ(compiled_, 0);
  }
  EXPECT_NE(expect_same({"height=64"}).bytes, first.bytes);
  EXPECT_EQ(last_.load, 0.0);
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(expect_same({}).bytes, first.bytes);
  EXPECT_EQ(compiled_, 0);
  generator_.release();
  EXPECT_FALSE(generator_.is_loaded());
  EXPECT_EQ(expect_same({}).bytes, first.bytes);
}

TEST_F(GeneratorTest, LoadsAgainWhatIsNotTheSame) {
  const HostArray first = expect_same({});
  EXPECT_NE(expect_same({"weights_dtype=float32", "activations_dtype=float32"}).bytes, first.bytes);
  EXPECT_GT(last_.load, 0.0);
  expect_same({"clip_skip=1"});
  EXPECT_GT(last_.load, 0.0);
  // A file that changed: the weights of the model's copy are replaced by others.
  fs::copy(model_, folder_ / "copy", fs::copy_options::recursive);
  model_ = folder_ / "copy";
  EXPECT_EQ(expect_same({}).bytes, first.bytes);
  EXPECT_GT(last_.load, 0.0);
  const fs::path config = model_ / "unet/config.json";
  io::write_file(config, io::Json::read(config).dump(2) + "\n\n");
  expect_same({});
  EXPECT_GT(last_.load, 0.0);
}

TEST_F(GeneratorTest, KeepsSeveralModelsAsLongAsTheyAreTheSame) {
  fs::copy(model_, folder_ / "copy", fs::copy_options::recursive);
  const fs::path first = model_;
  const fs::path second = folder_ / "copy";
  jobs::Generator two(2);
  const auto load_time = [&](const fs::path& model) {
    model_ = model;
    return two.generate(settings({}), {}).made.timings.load;
  };
  EXPECT_GT(load_time(first), 0.0);
  EXPECT_GT(load_time(second), 0.0);
  EXPECT_EQ(load_time(first), 0.0);
  EXPECT_EQ(load_time(second), 0.0);
  const fs::path config = second / "unet/config.json";
  io::write_file(config, io::Json::read(config).dump(2) + "\n\n");
  EXPECT_EQ(load_time(first), 0.0);
  EXPECT_GT(load_time(second), 0.0);
  // A third one takes the place of that used longest ago.
  fs::copy(model_, folder_ / "third", fs::copy_options::recursive);
  EXPECT_GT(load_time(folder_ / "third"), 0.0);
  EXPECT_EQ(load_time(second), 0.0);
  EXPECT_GT(load_time(first), 0.0);
}

TEST_F(GeneratorTest, ShowsPreviewsWithoutAnEffectOnTheResult) {
  const HostArray plain = generator_.generate(settings({}), {}).videos.front().frames;
  GenerateObserver observer;
  std::vector<Dims> shown;
  int64_t bytes = 0;
  observer.previews = {
      .every = 1, .pause = 0, .folder = folder_ / "colors", .show = [&](const HostArray& picture) {
        shown.push_back(picture.shape.dims);
      }};
  observer.on_memory = [&](int64_t needed, int64_t limit) {
    bytes = needed;
    EXPECT_GT(limit, needed);
  };
  const auto make = [&] {
    return generator_.generate(settings({"num_inference_steps=2"}), observer).videos.front().frames;
  };
  EXPECT_EQ(make().bytes, plain.bytes);
  ASSERT_EQ(shown.size(), 1U);  // not of the last step, after which the picture comes
  EXPECT_EQ(shown[0].size(), 3U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "colors"), {}), 1);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(make().bytes, plain.bytes);
  EXPECT_EQ(shown.size(), 2U);
  EXPECT_GT(generator_.device().limit, generator_.device().bytes);
}

TEST_F(GeneratorTest, StaysLoadedWhenStopped) {
  expect_same({});
  std::stop_source stop;
  GenerateObserver observer;
  observer.on_step = [&](int64_t, int64_t) { stop.request_stop(); };
  EXPECT_THROW(generator_.generate(settings({}), observer, {.stop = stop.get_token()}), Stopped);
  EXPECT_TRUE(generator_.is_loaded());
  expect_same({"seed=3"});
  EXPECT_EQ(last_.load, 0.0);
  EXPECT_THROW(generator_.generate(settings({"height=33"}), {}), Error);
  expect_same({});
}

TEST(SameModel, IgnoresOnlyKeysOfARequest) {
  const auto with = [](const std::string& word) {
    return resolve::Settings(resolve::load_command_line(std::vector{word}, {}, Job()));
  };
  const resolve::Settings plain = with("seed=0");
  EXPECT_TRUE(resolve::same_model(plain, with("prompt=other")));
  EXPECT_FALSE(resolve::same_model(plain, with("activations_dtype=float32")));
  EXPECT_TRUE(resolve::same_devices(plain, with("activations_dtype=float32")));
  EXPECT_FALSE(resolve::same_programs(plain, with("activations_dtype=float32")));
  EXPECT_TRUE(resolve::same_programs(plain, with("pretrained_model_name_or_path=there")));
  EXPECT_FALSE(resolve::same_devices(plain, with("hardware=gpu")));
}

}  // namespace
}  // namespace kinema::jobs_test
