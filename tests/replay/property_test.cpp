// Random operations on a replay, in memory and on the disk, against a plain model of it.
// KINEMA_REPLAY_OPERATIONS=1000000 does more of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kinema/replay/replay.h"

namespace kinema::replay {
namespace {

namespace fs = std::filesystem;

int64_t operations() {
  constexpr int64_t kFew = 24'000;
  const char* given = std::getenv("KINEMA_REPLAY_OPERATIONS");
  return given == nullptr ? kFew : std::atoll(given);
}

HostArray f32_scalar(float x) { return HostArray::f32({}, std::vector<float>{x}); }
HostArray u8_scalar(uint8_t x) {
  return HostArray::from<uint8_t>(DType::U8, {}, std::vector<uint8_t>{x});
}

/// Everything that was added, and which windows are there: no chunks, nothing is ever forgotten.
class PlainReplay {
 public:
  struct Step {
    float x;  // different in each step
    float y;  // replaced by updates
    uint8_t is_first;
    uint8_t is_last;
  };
  struct Window {
    int64_t worker;
    int64_t start;
    auto operator<=>(const Window&) const = default;
  };

  explicit PlainReplay(const ReplayOptions& options) : options_(options) {}

  void add(int64_t worker, const Step& step) {
    std::vector<Step>& steps = steps_[worker];
    places_[step.x] = {worker, std::ssize(steps)};
    steps.push_back(step);
    const int64_t start = std::ssize(steps) - options_.length;
    if (start < 0) {
      return;
    }
    if (options_.capacity > 0 && std::ssize(windows) >= options_.capacity) {
      windows.pop_front();
    }
    windows.push_back({worker, start});
    if (options_.online && (std::ssize(steps) - 1) % options_.length == 0) {
      queue.push_back({worker, start});
    }
  }
  Step& step(const Window& window, int64_t t) {
    return steps_.at(window.worker).at(static_cast<size_t>(window.start + t));
  }
  Step& step_of(float x) {
    const Window& place = places_.at(x);
    return step(place, 0);
  }
  Window place_of(float x) const { return places_.at(x); }

  std::deque<Window> windows;  // the oldest first
  std::deque<Window> queue;

 private:
  ReplayOptions options_;
  std::map<int64_t, std::vector<Step>> steps_;
  std::map<float, Window> places_;
};

/// A replay and its model, with the same operations.
class Both {
 public:
  Both(const ReplayOptions& options, bool with_recency, uint32_t seed)
      : options_(options), with_recency_(with_recency), random_(seed), plain_(options) {
    fs::remove_all(options.folder);
    replay_ = make();
  }

  void operation() {
    const int kind = pick(100);
    if (kind < 60) {
      add();
    } else if (kind < 90) {
      sample();
    } else if (kind < 99) {
      EXPECT_EQ(replay_->windows(), std::ssize(plain_.windows));
    } else {
      restart();
    }
    EXPECT_LE(replay_->mapped_bytes(), std::max(options_.memory, kMostChunk));
  }

  /// Compares all windows.
  void compare() {
    const std::vector<StepId> starts = replay_->starts();
    ASSERT_EQ(std::ssize(starts), std::ssize(plain_.windows));
    for (size_t i = 0; i < starts.size(); ++i) {
      const Arrays window = replay_->window(starts[i]);
      for (int64_t t = 0; t < options_.length; ++t) {
        const PlainReplay::Step& step = plain_.step(plain_.windows[i], t);
        ASSERT_EQ(window.at("x").as<float>()[static_cast<size_t>(t)], step.x);
        ASSERT_EQ(window.at("y").as<float>()[static_cast<size_t>(2 * t)], step.y);
      }
    }
  }

 private:
  static constexpr int64_t kMostChunk = 4096;

  int pick(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }

  std::unique_ptr<Replay> make() const {
    if (!with_recency_) {
      return std::make_unique<Replay>(options_);
    }
    std::vector<std::pair<double, std::unique_ptr<Selector>>> parts;
    parts.emplace_back(0.5, std::make_unique<Uniform>(options_.seed));
    parts.emplace_back(0.5, std::make_unique<Recency>(options_.capacity, 1.0, options_.seed));
    return std::make_unique<Replay>(options_,
                                    std::make_unique<Mixture>(std::move(parts), options_.seed));
  }

  void add() {
    constexpr int kWorkers = 3;
    constexpr int kEpisode = 7;
    const PlainReplay::Step step{.x = next_,
                                 .y = -1.0F,
                                 .is_first = static_cast<uint8_t>(pick(kEpisode) == 0),
                                 .is_last = static_cast<uint8_t>(pick(kEpisode) == 0)};
    next_ += 1.0F;
    const int64_t worker = pick(kWorkers);
    plain_.add(worker, step);
    replay_->add({{"x", f32_scalar(step.x)},
                  {"y", HostArray::f32({2}, std::vector<float>{step.y, 0.0F})},
                  {"is_first", u8_scalar(step.is_first)},
                  {"is_last", u8_scalar(step.is_last)},
                  {"log/z", f32_scalar(0.0F)}},
                 worker);
  }

  void sample() {
    const int64_t rows = 1 + pick(3);
    const bool training = pick(4) != 0;
    if (plain_.windows.empty()) {
      return;
    }
    Arrays batch = replay_->sample(rows, training);
    const auto length = static_cast<size_t>(options_.length);
    const auto x = batch.at("x").as<float>();
    const auto y = batch.at("y").as<float>();
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      const PlainReplay::Window window = plain_.place_of(x[row * length]);
      const bool is_there = std::ranges::find(plain_.windows, window) != plain_.windows.end();
      check_queue(window, is_there, training);
      for (size_t t = 0; t < length; ++t) {
        const size_t at = row * length + t;
        const PlainReplay::Step& step = plain_.step(window, static_cast<int64_t>(t));
        ASSERT_EQ(x[at], step.x);
        ASSERT_EQ(y[2 * at], step.y);
        const bool begins =
            t + 1 < length && plain_.step(window, static_cast<int64_t>(t) + 1).is_first != 0;
        ASSERT_EQ(batch.at("is_first").as<uint8_t>()[at], t == 0 ? 1 : step.is_first);
        ASSERT_EQ(batch.at("is_last").as<uint8_t>()[at] != 0, step.is_last != 0 || begins);
      }
    }
    // Another value for each step; one that is in two rows gets the last one's.
    HostArray values = batch.at("y");
    for (size_t at = 0; at < x.size(); ++at) {
      values.as<float>()[2 * at] = static_cast<float>(pick(1000));
      plain_.step_of(x[at]).y = values.as<float>()[2 * at];
    }
    replay_->update(batch.at("stepid"), {{"y", values}});
  }

  /// Rows of training come from the queue while it has windows; those that are gone are skipped.
  void check_queue(const PlainReplay::Window& window, bool is_there, bool training) {
    while (training && !plain_.queue.empty()) {
      const PlainReplay::Window front = plain_.queue.front();
      plain_.queue.pop_front();
      if (front == window) {
        return;
      }
      EXPECT_TRUE(std::ranges::find(plain_.windows, front) == plain_.windows.end())
          << "a window of the queue was skipped";
    }
    EXPECT_TRUE(is_there) << "a window that was taken out";
  }

  /// As a run that ends, and another one that goes on.
  void restart() {
    const Arrays index = replay_->index();
    std::map<uint64_t, Arrays> chunks;
    for (const uint64_t number : replay_->chunk_numbers()) {
      chunks[number] = replay_->chunk(number);
    }
    if (!options_.folder.empty()) {
      EXPECT_TRUE(chunks.empty() || chunks.begin()->second.empty() || chunks.size() <= 3U);
      replay_->sync();
    }
    if (pick(2) == 0) {
      replay_->drop_released();
    }
    replay_ = make();
    EXPECT_TRUE(
        replay_->restore(index, [&](uint64_t number) { return chunks.at(number); }).empty());
  }

  ReplayOptions options_;
  bool with_recency_;
  std::mt19937 random_;
  PlainReplay plain_;
  std::unique_ptr<Replay> replay_;
  float next_ = 1.0F;
};

void compare_with_model(const fs::path& folder, bool with_recency) {
  constexpr int64_t kPart = 2000;  // operations on one replay
  std::mt19937 random(5);
  const auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint32_t>(most - least + 1));
  };
  for (int64_t done = 0; done < operations() / 4; done += kPart) {
    const ReplayOptions options{.length = pick(1, 9),
                                .capacity = with_recency || pick(0, 3) > 0 ? pick(1, 60) : 0,
                                .chunk_size = pick(1, 12),
                                .online = pick(0, 1) == 1,
                                .seed = random(),
                                .folder = folder,
                                .memory = pick(1, 3000),
                                .updated = {"y"}};
    Both both(options, with_recency, random());
    for (int64_t i = 0; i < kPart; ++i) {
      both.operation();
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
    both.compare();
  }
}

fs::path property_folder() { return fs::path(::testing::TempDir()) / "replay_property"; }

TEST(ReplayProperty, InMemory) { compare_with_model({}, false); }
TEST(ReplayProperty, OnTheDisk) { compare_with_model(property_folder() / "disk", false); }
TEST(ReplayProperty, InMemoryWithRecency) { compare_with_model({}, true); }
TEST(ReplayProperty, OnTheDiskWithRecency) {
  compare_with_model(property_folder() / "recency", true);
}

}  // namespace
}  // namespace kinema::replay
