#include "kinema/allocator/large_blocks.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace kinema::allocator {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool is_multiple(const void* address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

class LargeBlocksTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!keep_large_blocks()) GTEST_SKIP() << "this build keeps its C library's malloc";
  }
};

TEST_F(LargeBlocksTest, ReusesTheFreedBlock) {
  void* first = aligned_alloc(64, 3 * kMiB);
  ASSERT_NE(first, nullptr);
  std::memset(first, 1, 3 * kMiB);
  free(first);
  const int64_t reused = large_blocks().reused;

  void* second = aligned_alloc(64, 3 * kMiB);

  EXPECT_EQ(second, first);
  EXPECT_EQ(large_blocks().reused, reused + 1);
  free(second);
}

TEST_F(LargeBlocksTest, AlignsBigBlocksForHugePages) {
  void* block = nullptr;
  ASSERT_EQ(posix_memalign(&block, 64, 9 * kMiB), 0);

  EXPECT_TRUE(is_multiple(block, 2 * kMiB));
  std::memset(block, 1, 9 * kMiB);  // touches every page
  free(block);
}

TEST_F(LargeBlocksTest, CountsWhatIsInUse) {
  const int64_t before = large_blocks().live_bytes;

  void* block = aligned_alloc(64, kMiB);
  EXPECT_EQ(large_blocks().live_bytes, before + static_cast<int64_t>(kMiB));
  free(block);

  EXPECT_EQ(large_blocks().live_bytes, before);
}

TEST_F(LargeBlocksTest, LeavesSmallAndOddlyAlignedBlocksToTheCLibrary) {
  const int64_t before = large_blocks().live_bytes;

  void* small = aligned_alloc(64, 1024);
  void* wide = aligned_alloc(1 << 16, kMiB);

  EXPECT_EQ(large_blocks().live_bytes, before);
  EXPECT_TRUE(is_multiple(wide, 1 << 16));
  free(small);
  free(wide);
}

TEST_F(LargeBlocksTest, KeepsNoMoreIdleThanItsAllowance) {
  // Sizes too different to be reused for each other; together 80 times the allowance of 8 MiB.
  for (size_t size = 8 * kMiB; size <= 128 * kMiB; size += size / 4) {
    void* block = aligned_alloc(64, size);
    ASSERT_NE(block, nullptr);
    free(block);
  }
  // The next mapping first releases idle blocks.
  void* last = aligned_alloc(64, 200 * kMiB);

  EXPECT_LE(large_blocks().idle_bytes, static_cast<int64_t>(8 * kMiB));
  free(last);
}

TEST_F(LargeBlocksTest, RecordsThePeakOfUsedBytes) {
  std::vector<void*> held;
  for (size_t i = 0; i < 20; ++i) {
    held.push_back(aligned_alloc(64, 100 * kMiB));
  }
  // Too different to be reused for each other; with so much in use all of them would be kept.
  for (size_t size = 33 * kMiB; size < 60 * kMiB; size += size / 4) {
    free(aligned_alloc(64, size));
  }

  // The allowance, plus the block freed last.
  EXPECT_LE(large_blocks().idle_bytes, static_cast<int64_t>((8 + 60) * kMiB));
  for (void* block : held) free(block);
}

TEST_F(LargeBlocksTest, ReallocatesWithTheContents) {
  auto* block = static_cast<char*>(aligned_alloc(64, kMiB));
  std::memset(block, 7, kMiB);
  const int64_t before = large_blocks().live_bytes;

  block = static_cast<char*>(realloc(block, 2 * kMiB));

  EXPECT_EQ(block[0], 7);
  EXPECT_EQ(block[kMiB - 1], 7);
  EXPECT_EQ(large_blocks().live_bytes, before - static_cast<int64_t>(kMiB));
  free(block);
}

TEST_F(LargeBlocksTest, RefusesAnInvalidAlignment) {
  void* block = nullptr;

  EXPECT_EQ(posix_memalign(&block, 24, kMiB), EINVAL);
}

TEST_F(LargeBlocksTest, EveryFunctionOfTheFamilyKnowsItsBlocks) {
  void* block = aligned_alloc(64, 3 * kMiB + 1);
  ASSERT_NE(block, nullptr);
  const size_t usable = malloc_usable_size(block);
  EXPECT_GE(usable, 3 * kMiB + 1);
  std::memset(block, 1, usable);  // all of it must be usable
  block = reallocarray(block, 4, kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(static_cast<char*>(block)[3 * kMiB], 1);
  free(block);

  for (void* other : {malloc(3 * kMiB), calloc(3, kMiB), memalign(128, 3 * kMiB), valloc(3 * kMiB),
                      pvalloc(3 * kMiB - 1), realloc(nullptr, 3 * kMiB), malloc(10)}) {
    ASSERT_NE(other, nullptr);
    EXPECT_GE(malloc_usable_size(other), 10U);
    std::memset(other, 1, malloc_usable_size(other));
    free(other);
  }
  EXPECT_EQ(malloc_usable_size(nullptr), 0U);
  const volatile size_t too_much = SIZE_MAX - 64;  // hides the value from the compiler
  EXPECT_EQ(pvalloc(too_much), nullptr);
  EXPECT_EQ(aligned_alloc(64, too_much), nullptr);
}

TEST_F(LargeBlocksTest, TrimmingGivesIdleBlocksToTheSystem) {
  void* block = aligned_alloc(64, 64 * kMiB);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 64 * kMiB);
  free(block);
  EXPECT_GE(large_blocks().idle_bytes, static_cast<int64_t>(64 * kMiB));

  EXPECT_EQ(malloc_trim(0), 1);

  EXPECT_EQ(large_blocks().idle_bytes, 0);
}

TEST_F(LargeBlocksTest, AChildOfAForkCanAllocate) {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) free(aligned_alloc(64, kMiB));
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a lock held by the busy thread would never be released
      free(aligned_alloc(64, kMiB));
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "fork " << i;
  }
  stop = true;
  busy.join();
}

// The pool's bookkeeping grows and moves while the pool holds its lock. If its old address is a
// page boundary, freeing it must not call the pool.
TEST_F(LargeBlocksTest, TracksThousandsOfBlocks) {
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> blocks;
    std::vector<void*> odds;
    for (size_t i = 0; i < 6000; ++i) {
      blocks.push_back(aligned_alloc(64, kMiB / 4));
      odds.push_back(malloc(8 * (i % 513)));  // moves the end of the heap
    }
    for (void* block : blocks) free(block);
    for (void* odd : odds) free(odd);
  }
  EXPECT_GE(large_blocks().mapped, 6000);
}

TEST_F(LargeBlocksTest, ServesManyThreads) {
  const int64_t before = large_blocks().live_bytes;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const size_t size = kMiB / 2 + static_cast<size_t>(i % 7) * 65536;
        auto* block = static_cast<char*>(aligned_alloc(64, size));
        block[0] = static_cast<char>(t);
        block[size - 1] = static_cast<char>(t);
        std::this_thread::yield();
        // If a block was given to two threads, it shows the other one's mark.
        ASSERT_EQ(block[0], static_cast<char>(t));
        ASSERT_EQ(block[size - 1], static_cast<char>(t));
        free(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(large_blocks().live_bytes, before);
}

}  // namespace
}  // namespace kinema::allocator
