#include "kinema/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/replay/rates.h"
#include "kinema/replay/slices.h"

namespace kinema::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostArray number(float value) { return HostArray::f32({}, std::vector<float>{value}); }

Arrays step(float value) { return {{"x", number(value)}}; }

std::vector<float> floats(const HostArray& x) {
  return {x.as<float>().begin(), x.as<float>().end()};
}

TEST(Replay, AWindowIsThereWithItsLastStep) {
  Replay replay({.length = 3, .chunk_size = 2});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(replay.windows(), std::max(0, i - 2));
    replay.add(step(static_cast<float>(i)));
  }
  EXPECT_EQ(replay.windows(), 3);
  EXPECT_THAT(floats(replay.window(replay.starts()[1]).at("x")), ElementsAre(1, 2, 3));
}

TEST(Replay, WindowsOfWorkersDoNotMix) {
  Replay replay({.length = 2, .chunk_size = 4});
  for (int i = 0; i < 3; ++i) {
    replay.add(step(static_cast<float>(i)), 0);
    replay.add(step(static_cast<float>(10 + i)), 1);
  }
  std::set<std::vector<float>> windows;
  for (const StepId& start : replay.starts()) {
    windows.insert(floats(replay.window(start).at("x")));
  }
  EXPECT_EQ(windows, (std::set<std::vector<float>>{{0, 1}, {1, 2}, {10, 11}, {11, 12}}));
}

TEST(Replay, FreesChunksOfWindowsThatWereTakenOut) {
  Replay replay({.length = 3, .capacity = 4, .chunk_size = 2});
  for (int i = 0; i < 1000; ++i) {
    replay.add(step(static_cast<float>(i)));
  }
  EXPECT_EQ(replay.windows(), 4);
  // Four windows of three steps are six steps: three chunks, or parts of four, and the new one.
  EXPECT_LE(replay.chunks(), 5);
  EXPECT_THAT(floats(replay.window(replay.starts()[0]).at("x")), ElementsAre(994, 995, 996));
}

TEST(Replay, KeepsStepsThatNoWindowBeginsInYet) {
  // Chunks are shorter than windows: the first ones are full before there is any window.
  Replay replay({.length = 7, .chunk_size = 2});
  for (int i = 0; i < 7; ++i) {
    replay.add(step(static_cast<float>(i)));
  }
  EXPECT_THAT(floats(replay.sample(1).at("x")), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(Replay, ServesNewWindowsFirstWhenItTrains) {
  Replay replay({.length = 3, .chunk_size = 8, .online = true});
  for (int i = 0; i < 7; ++i) {
    replay.add(step(static_cast<float>(i)));
  }
  const Arrays has_tap = replay.sample(1, /*training=*/false);
  EXPECT_EQ(replay.queued().size(), 2U);
  const Arrays batch = replay.sample(2);
  EXPECT_THAT(floats(batch.at("x")), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(replay.queued().empty());
}

TEST(Replay, WritesValuesBackToTheirSteps) {
  Replay replay({.length = 4, .capacity = 2, .chunk_size = 2});
  for (int i = 0; i < 4; ++i) {
    replay.add(step(static_cast<float>(i)));
  }
  const Arrays batch = replay.sample(1);
  const HostArray values = HostArray::f32({1, 4}, std::vector<float>{9, 8, 7, 6});
  replay.update(batch.at("stepid"), {{"x", values}});
  EXPECT_THAT(floats(replay.sample(1).at("x")), ElementsAre(9, 8, 7, 6));
  for (int i = 4; i < 40; ++i) {
    replay.add(step(static_cast<float>(i)));
  }
  // These steps are gone by now.
  replay.update(batch.at("stepid"), {{"x", values}});
  EXPECT_THAT(floats(replay.window(replay.starts()[0]).at("x")), ElementsAre(35, 36, 37, 38));
}

TEST(Replay, SaysWhatDoesNotFit) {
  Replay replay({.length = 2, .chunk_size = 4});
  EXPECT_THAT([&] { replay.sample(1); }, ThrowsMessage<Error>(HasSubstr("no window")));
  replay.add(step(0));
  EXPECT_THAT([&] { replay.add({{"y", number(1)}}); }, ThrowsMessage<Error>(HasSubstr("no `y`")));
  EXPECT_THAT(
      [&] {
        replay.add({{"x", HostArray::f32({2}, std::vector<float>{1, 2})}});
      },
      ThrowsMessage<Error>(HasSubstr("`x` is f32[2]")));
}

TEST(Replay, IdsOfStepsAreBytes) {
  const StepId id{.chunk = 0x0102030405060708, .index = 258};
  const auto bytes = id.bytes();
  EXPECT_EQ(bytes[8], std::byte{1});
  EXPECT_EQ(bytes[18], std::byte{1});
  EXPECT_EQ(bytes[19], std::byte{2});
  EXPECT_EQ(StepId::from_bytes(bytes), id);
}

TEST(Slices, PartsBeginWithTheEndOfTheOneBefore) {
  const Arrays windows{
      {"x", HostArray::f32({2, 5}, std::vector<float>{0, 1, 2, 3, 4, 10, 11, 12, 13, 14})}};
  const Arrays second = window_part(windows, 1, 2, 1);
  EXPECT_THAT(floats(second.at("x")), ElementsAre(2, 3, 4, 12, 13, 14));
  EXPECT_EQ(second.at("consec").as<int32_t>()[5], 1);
  EXPECT_THAT([&] { window_part(windows, 2, 2, 1); }, ThrowsMessage<Error>(HasSubstr("ends at 7")));
}

TEST(Rates, DoesAsMuchAsTheRatioSaysInTheLongRun) {
  StepRatio ratio(0.25);
  int64_t times = 0;
  for (int64_t step = 0; step <= 1000; ++step) {
    times += ratio(step);
  }
  EXPECT_EQ(times, 1 + 250);
}

TEST(Rates, TheLimiterKeepsSamplesNearInsertions) {
  SampleLimiter limiter(2.0, 3.0, 2);
  EXPECT_FALSE(limiter.may_sample());
  limiter.inserted();
  limiter.inserted();
  int samples = 0;
  for (; limiter.may_sample(); limiter.sampled()) {
    ++samples;
  }
  // -2 at first, and 2 for the second insertion; 3 more than that is the tolerance.
  EXPECT_EQ(samples, 3);
  EXPECT_TRUE(limiter.may_insert());
}

/// Adds steps to several workers, samples and writes back: what was sampled, in order.
std::vector<float> use(Replay& replay, int first, int last) {
  std::vector<float> seen;
  for (int i = first; i < last; ++i) {
    replay.add(step(static_cast<float>(i)), i % 3);
    if (i >= 20 && i % 2 == 0) {
      Arrays rows = replay.sample(2);
      const std::vector<float> values = floats(rows.at("x"));
      seen.insert(seen.end(), values.begin(), values.end());
      for (float& x : rows.at("x").as<float>()) {
        x += 1000.0F;
      }
      replay.update(rows.at("stepid"), {{"x", rows.at("x")}});
    }
  }
  return seen;
}

TEST(Replay, ARestoredOneGoesOnAsTheOtherWould) {
  // Chunks, windows and the queue all overflow within these steps.
  const ReplayOptions options{
      .length = 3, .capacity = 17, .chunk_size = 4, .online = true, .seed = 5};
  for (const int saved_at : {0, 1, 12, 13, 47, 60}) {
    Replay one(options);
    use(one, 0, saved_at);
    const Arrays index = one.index();
    std::map<uint64_t, Arrays> chunks;
    for (const uint64_t number : one.chunk_numbers()) {
      chunks[number] = one.chunk(number);
    }
    Replay other(options);
    other.restore(index, [&](uint64_t number) { return chunks.at(number); });
    EXPECT_EQ(other.starts(), one.starts());
    EXPECT_EQ(other.queued(), one.queued());
    EXPECT_EQ(use(other, saved_at, 120), use(one, saved_at, 120)) << saved_at;
    EXPECT_EQ(other.chunks(), one.chunks());
  }
}

TEST(Replay, RestoresNothingThatDoesNotFit) {
  Replay one({.length = 2, .chunk_size = 4});
  use(one, 0, 10);
  const auto chunk = [&](uint64_t number) { return one.chunk(number); };
  for (const char* name : {"chunks", "workers", "starts", "next"}) {
    Arrays index = one.index();
    index.erase(name);
    Replay other({.length = 2, .chunk_size = 4});
    EXPECT_THAT([&] { other.restore(index, chunk); },
                ThrowsMessage<Error>(HasSubstr("what was saved has no")));
  }
  Replay other({.length = 2, .chunk_size = 4});
  EXPECT_THAT([&] { other.restore(one.index(), [](uint64_t) { return Arrays(); }); },
              ThrowsMessage<Error>(HasSubstr("has 0 steps")));
}

}  // namespace
}  // namespace kinema::replay
