#include "kinema/sample/start.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::sample {
namespace {

using schedulers::Mix;
using schedulers::Noise;
using schedulers::Sampler;
using schedulers::Schedule;
using schedulers::ScheduleConfig;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// diffusers: init = min(int(n strength), n), t_start = n - init; Flux: t_start = int(n - n
// strength).
TEST(FirstStep, IsThatOfDiffusers) {
  const ScheduleConfig plain{.sampler = Sampler::EULER};
  const ScheduleConfig flux{.even_sigmas = true};
  EXPECT_EQ(first_step(plain, 4, 0.7), 2);
  EXPECT_EQ(first_step(flux, 4, 0.7), 1);
  EXPECT_EQ(first_step(plain, 50, 0.9999), 1);
  for (const ScheduleConfig& each : {plain, flux}) {
    EXPECT_EQ(first_step(each, 20, 1.0), 0);
    EXPECT_EQ(first_step(each, 20, 0.5), 10);
  }
  EXPECT_EQ(first_step(flux, 4, 0.1), 3);
  EXPECT_THAT([&] { first_step(plain, 4, 0.1); },
              ThrowsMessage<Error>(HasSubstr("strength 0.1 of 4 steps leaves no step")));
}

// The levels of a schedule from a later step on are those of the whole one, and a sampler without
// memory takes the same steps.
TEST(FirstStep, LeavesTheLevelsOfTheOthers) {
  for (const schedulers::SamplerInfo& info : schedulers::samplers()) {
    ScheduleConfig config{.sampler = info.sampler};
    config.noise = info.kinds.front();
    config.solver.skip_prk_steps = true;
    const Schedule whole = schedulers::make_schedule(config, 12);
    config.first_step = 5;
    const Schedule later = schedulers::make_schedule(config, 12);
    ASSERT_LT(later.size(), whole.size()) << info.word;
    // PNDM evaluates its second level twice, wherever it starts.
    const auto shared = info.sampler == Sampler::PNDM ? later.size() - 3 : later.size();
    for (int64_t i = 1; i <= shared; ++i) {
      EXPECT_EQ(later.timesteps[later.size() - i], whole.timesteps[whole.size() - i]) << info.word;
      EXPECT_EQ(later.sigmas[later.size() - i], whole.sigmas[whole.size() - i]) << info.word;
    }
    EXPECT_EQ(later.steps.back().values().size(), whole.steps.back().values().size());
    if (info.sampler == Sampler::EULER || info.sampler == Sampler::DDIM ||
        schedulers::is_flow_match(info.sampler) || info.sampler == Sampler::LCM) {
      EXPECT_EQ(later.steps.front().values(),
                whole.steps[whole.steps.size() - later.steps.size()].values())
          << info.word;
    }
  }
}

// Those of all eight steps, of orders 1 2 1 2 1 2 1 1; the fourth has no evaluation before it.
TEST(FirstStep, LeavesTheGroupsOfEvaluations) {
  const ScheduleConfig config{
      .sampler = Sampler::DPM_SINGLESTEP, .noise = Noise::DIFFUSION, .first_step = 3};
  const schedulers::Schedule schedule = schedulers::make_schedule(config, 8);
  std::vector<float> begins;
  for (const schedulers::StepCoefficients& step : schedule.steps) {
    begins.push_back(step.correct_x);
  }
  EXPECT_THAT(begins, testing::ElementsAre(1, 1, 0, 1, 1));
}

TEST(FirstStep, StartsWithoutHistory) {
  for (const Sampler sampler : {Sampler::UNIPC, Sampler::DPM_MULTISTEP, Sampler::LMS}) {
    ScheduleConfig config{.sampler = sampler, .noise = Noise::DIFFUSION, .first_step = 3};
    const schedulers::StepCoefficients first = schedulers::make_schedule(config, 12).steps.front();
    EXPECT_EQ(first.from_m1, 0.0F);
    EXPECT_EQ(first.correct_m1, 0.0F);
  }
}

TEST(FirstStep, MustBeOneOfTheSteps) {
  ScheduleConfig config{.sampler = Sampler::EULER, .first_step = 4};
  EXPECT_THROW(schedulers::make_schedule(config, 4), Error);
  config.first_step = -1;
  EXPECT_THROW(schedulers::make_schedule(config, 4), Error);
}

TEST(MixOf, IsTheReferencesAddNoise) {
  const auto at = [](Sampler sampler, Noise noise, int64_t step) {
    return schedulers::make_schedule({.sampler = sampler, .noise = noise}, 10).mix(step);
  };
  const Schedule euler =
      schedulers::make_schedule({.sampler = Sampler::EULER, .noise = Noise::DIFFUSION}, 10);
  EXPECT_EQ(euler.mix(3).signal, 1.0F);  // x + sigma eps
  EXPECT_EQ(euler.mix(3).noise, euler.sigmas[3]);
  const Mix ddim = at(Sampler::DDIM, Noise::DIFFUSION, 3);  // sqrt(a) x + sqrt(1 - a) eps
  EXPECT_NEAR(std::hypot(ddim.signal, ddim.noise), 1.0, 1e-6);
  EXPECT_GT(ddim.noise, 0.5F);
  const Mix flow = at(Sampler::UNIPC, Noise::FLOW, 3);  // (1 - sigma) x + sigma eps
  EXPECT_NEAR(flow.signal + flow.noise, 1.0, 1e-6);
  const Mix end = at(Sampler::UNIPC, Noise::FLOW, 10);
  EXPECT_EQ(end.signal, 1.0F);
  EXPECT_EQ(end.noise, 0.0F);
}

HostArray picture(int64_t height, int64_t width, uint8_t value) {
  HostArray out(Shape{DType::U8, {1, height, width, 3}});
  std::ranges::fill(out.as<uint8_t>(), value);
  return out;
}

/// A mask whose right half is made.
HostArray right_half(int64_t height, int64_t width) {
  HostArray out(Shape{DType::U8, {height, width}});
  const auto values = out.as<uint8_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(i) % width >= width / 2 ? 255 : 0;
  }
  return out;
}

TEST(KeptPixels, AreReturnedExactly) {
  const StartFrames given{.frames = picture(16, 32, 77), .mask = right_half(16, 32)};
  const VideoSizes sizes{.num_frames = 1, .height = 16, .width = 32, .latents = {4, 1, 2, 4}};
  HostArray frames = picture(16, 32, 200);
  return_kept_pixels(given, sizes, frames);
  for (int64_t x = 0; x < 32; ++x) {
    EXPECT_EQ(frames.as<uint8_t>()[static_cast<size_t>(3 * x)], x < 16 ? 77 : 200) << x;
  }
}

TEST(KeptPixels, AreMixedOverABlurredEdge) {
  StartFrames given{.frames = picture(16, 64, 0), .mask = right_half(16, 64)};
  given.mask_blur = 4.0;
  const VideoSizes sizes{.num_frames = 1, .height = 16, .width = 64, .latents = {4, 1, 2, 8}};
  HostArray frames = picture(16, 64, 200);
  return_kept_pixels(given, sizes, frames);
  const auto values = frames.as<uint8_t>();
  const auto at = [&](int64_t x) {
    return static_cast<double>(values[static_cast<size_t>(3 * x)]);
  };
  // The edge of a Gaussian: its distribution function, cut at 2.5 deviations.
  for (int64_t x = 0; x < 64; ++x) {
    const double part = 0.5 * std::erfc(-(static_cast<double>(x) - 31.5) / (4.0 * std::sqrt(2.0)));
    EXPECT_NEAR(at(x), 200.0 * part, 3.0) << x;
  }
  EXPECT_EQ(at(20), 0.0);
  EXPECT_EQ(at(43), 200.0);
}

TEST(CheckStart, NamesWhatIsWrong) {
  EXPECT_NO_THROW(check_start({}));
  EXPECT_THAT([] { check_start({.mask = right_half(4, 4)}); },
              ThrowsMessage<Error>(HasSubstr("no image or video")));
  EXPECT_THAT([] { check_start({.frames = picture(4, 4, 0), .strength = 0.0}); },
              ThrowsMessage<Error>(HasSubstr("strength is 0")));
  EXPECT_THAT([] { check_start({.frames = right_half(4, 4)}); },
              ThrowsMessage<Error>(HasSubstr("expected u8[f,h,w,3]")));
  EXPECT_THAT([] { check_start({.frames = picture(4, 4, 0), .mask = picture(4, 4, 0)}); },
              ThrowsMessage<Error>(HasSubstr("expected u8[h,w]")));
}

TEST(StartNoise, DependsOnNameAndIndexOnly) {
  const StartNoise all{.seed = 3, .videos = 3, .all_videos = 3};
  const StartNoise last{.seed = 3, .first_index = 2, .first = 2, .all_videos = 3};
  const Dims dims{2, 1, 3, 4};
  const HostArray noise = all.draw("noise", dims);
  const HostArray other = all.draw("vae_noise", dims);
  EXPECT_NE(noise.bytes, other.bytes);
  const size_t row = noise.bytes.size() / 3;
  EXPECT_EQ(
      last.draw("noise", dims).bytes,
      (std::vector<std::byte>(noise.bytes.end() - static_cast<int64_t>(row), noise.bytes.end())));
}

}  // namespace
}  // namespace kinema::sample
