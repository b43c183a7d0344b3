// Engines whose connections are cut repeatedly.
#include <gmock/gmock.h>

#include <random>

#include "kinema/world/communicator.h"
#include "world/cutting_proxy.h"
#include "world/tcp_engines.h"

namespace kinema::world {
namespace {

/// Engines of `size` processes that meet and communicate through a proxy.
struct CutOff {
  std::string coordinator = free_address();
  CuttingProxy proxy;
  Engines all;

  CutOff(int64_t size, double shortest, double longest)
      : proxy(coordinator, /*seed=*/5, shortest, longest) {
    auto first = start(coordinator, {{0, size}});
    std::vector<std::pair<int64_t, int64_t>> wanted;
    for (int64_t rank = 1; rank < size; ++rank) {
      wanted.emplace_back(rank, size);
    }
    auto others = start(proxy.address(), wanted);
    all.push_back(first.front().get());
    for (auto& each : others) {
      all.push_back(each.get());
    }
  }
};

/// The i-th message from one process to another: from nothing to megabytes.
std::string text_of(int64_t from, int64_t to, int i) {
  std::mt19937_64 random(static_cast<uint64_t>((from * 100 + to) * 1000 + i));
  const size_t largest = i % 10 == 9 ? 3 << 20 : 5000;
  std::string out(random() % largest, '\0');
  for (size_t at = 0; at < out.size(); at += 64) {
    out[at] = static_cast<char>(random());
  }
  return out;
}

TEST(CutConnections, EachMessageArrivesOnceAndInOrder) {
  constexpr int64_t kSize = 3;
  constexpr int kMessages = 40;
  // Less than a handshake, or some parts.
  CutOff run(kSize, 500, 4e6);
  std::vector<std::unique_ptr<Pending>> sends;
  std::map<std::tuple<int64_t, int64_t, int>, std::unique_ptr<Pending>> receives;
  for (int i = 0; i < kMessages; ++i) {
    for (int64_t from = 0; from < kSize; ++from) {
      for (int64_t to = 0; to < kSize; ++to) {
        if (from == to) {
          continue;
        }
        const std::string text = text_of(from, to, i);
        sends.push_back(
            run.all[static_cast<size_t>(from)]->send(0, Message::copy_of(text), to, i % 3));
        receives[{from, to, i}] =
            run.all[static_cast<size_t>(to)]->receive(0, text.size(), from, i % 3);
      }
    }
  }
  for (const auto& [key, pending] : receives) {
    const auto [from, to, i] = key;
    ASSERT_TRUE(text_of(*pending) == text_of(from, to, i)) << from << " to " << to << ": " << i;
  }
  for (const auto& each : sends) {
    wait(*each);
  }
  EXPECT_GT(run.proxy.cuts(), 30);
  run.proxy.cut_no_more();
}

TEST(CutConnections, TextsBarriersAndKeysGoOn) {
  constexpr int64_t kSize = 4;
  CutOff run(kSize, 300, 20000);
  std::vector<std::future<void>> done;
  for (const std::shared_ptr<Engine>& each : run.all) {
    done.push_back(std::async(std::launch::async, [each] {
      Communicator communicator(each);
      for (int i = 0; i < 25; ++i) {
        const std::vector<std::string> all = communicator.gather(
            fmt::format("{} of {}", i, each->rank()), {.what = "a test", .seconds = 60});
        for (int64_t rank = 0; rank < kSize; ++rank) {
          EXPECT_EQ(all.at(static_cast<size_t>(rank)), fmt::format("{} of {}", i, rank));
        }
        const auto key = [i](int64_t rank) { return fmt::format("{}/{}", rank, i); };
        each->put(key(each->rank()), all.back());
        communicator.barrier({.what = "the keys", .seconds = 60});
        EXPECT_EQ(each->get(key((each->rank() + 1) % kSize)), all.back());
      }
    }));
  }
  for (std::future<void>& each : done) {
    each.get();
  }
  EXPECT_GT(run.proxy.cuts(), 10);
  run.proxy.cut_no_more();
}

}  // namespace
}  // namespace kinema::world
