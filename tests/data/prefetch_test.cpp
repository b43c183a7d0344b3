#include "kinema/data/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Sample i holds the number i; position `bad` throws.
class Counting : public Source {
 public:
  explicit Counting(int64_t bad = -1) : bad_(bad) {}
  int64_t size() const override { return 1000; }
  Sample at(int64_t position) const override {
    ++made;
    check(position != bad_, "[test] sample {} is bad", position);
    Sample sample;
    sample.latents = HostArray::f32({1}, std::vector{static_cast<float>(position)});
    sample.encoder_hidden_states = HostArray(Shape{DType::F32, {1, 1}});
    sample.id = std::to_string(position);
    return sample;
  }
  mutable std::atomic<int64_t> made = 0;

 private:
  int64_t bad_;
};

std::vector<float> values(const Batch& batch) {
  const auto v = batch.latents.as<float>();
  return {v.begin(), v.end()};
}

TEST(Prefetcher, KeepsTheOrderWithManyThreads) {
  const Counting source;
  Prefetcher ahead(source, {.batch_size = 3, .start = 6, .threads = 4, .depth = 5});
  for (int64_t k = 0; k < 40; ++k) {
    SCOPED_TRACE(k);
    EXPECT_EQ(ahead.position(), 6 + 3 * k);
    const auto batch = ahead.next();
    ASSERT_TRUE(batch.has_value());
    const auto first = static_cast<float>(6 + 3 * k);
    EXPECT_EQ(values(*batch), (std::vector{first, first + 1, first + 2}));
  }
}

TEST(Prefetcher, StopsAtItsEnd) {
  const Counting source;
  Prefetcher ahead(source, {.batch_size = 2, .end = 5});

  EXPECT_EQ(values(*ahead.next()), (std::vector{0.0F, 1.0F}));
  EXPECT_EQ(values(*ahead.next()), (std::vector{2.0F, 3.0F}));
  EXPECT_EQ(values(*ahead.next()), (std::vector{4.0F, 5.0F}));
  EXPECT_FALSE(ahead.next().has_value());
  EXPECT_FALSE(ahead.next().has_value());
}

TEST(Prefetcher, TakesItsPartOfAGlobalBatch) {
  const Counting source;
  Prefetcher ahead(source, {.batch_size = 6, .rows = {4, 5}});

  EXPECT_EQ(values(*ahead.next()), (std::vector{4.0F, 5.0F}));
  EXPECT_EQ(values(*ahead.next()), (std::vector{10.0F, 11.0F}));
  EXPECT_EQ(ahead.position(), 12);
}

TEST(Prefetcher, ThrowsAWorkersErrorAtItsBatch) {
  const Counting source(4);
  Prefetcher ahead(source, {.batch_size = 2, .threads = 3});

  EXPECT_TRUE(ahead.next().has_value());
  EXPECT_TRUE(ahead.next().has_value());
  EXPECT_THAT([&] { ahead.next(); }, ThrowsMessage<Error>(HasSubstr("sample 4 is bad")));
  EXPECT_THAT([&] { ahead.next(); }, ThrowsMessage<Error>(HasSubstr("sample 4 is bad")));
}

TEST(Prefetcher, StopsWhileWorkersAreBusyOrWaiting) {
  const Counting source;
  for (int i = 0; i < 50; ++i) {
    Prefetcher ahead(source, {.batch_size = 1, .threads = 3, .depth = 2});
    if (i % 2 == 0) {
      ahead.next();
    }
  }
  // At most two ahead plus the one taken.
  EXPECT_LE(source.made, 50 * 3);
}

TEST(Prefetcher, RefusesSizesThatMakeNoSense) {
  const Counting source;
  EXPECT_THROW(Prefetcher(source, {.batch_size = 0}), Error);
  EXPECT_THROW(Prefetcher(source, {.batch_size = 4, .rows = {3, 4}}), Error);
}

}  // namespace
}  // namespace kinema::data
