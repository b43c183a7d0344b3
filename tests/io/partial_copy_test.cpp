#include "kinema/io/partial_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "io/failing_writes.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Byte i is a function of i.
std::byte at(int64_t i) { return static_cast<std::byte>((i * 131 + i / 256) & 0xff); }

class Elsewhere : public RangedFile {
 public:
  explicit Elsewhere(int64_t size) : size_(size) {}
  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  void read(int64_t begin, std::span<std::byte> to) const override {
    check(!fails, "[remote] gone");
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = at(begin + static_cast<int64_t>(i));
    }
    ++reads;
  }
  mutable std::atomic<int> reads = 0;
  bool fails = false;

 private:
  std::string path_ = "s3://there/file";
  int64_t size_;
};

bool is_right(std::span<const std::byte> bytes, int64_t begin) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != at(begin + static_cast<int64_t>(i))) {
      return false;
    }
  }
  return true;
}

TEST(PartialCopy, GoesOnAfterInterruptionsAndFailsWhereNothingCanBeWritten) {
  const Scratch folder;
  const Elsewhere source(100);
  {
    const FailingWrites failing(3, 0);
    PartialCopy::make(folder / "f", source, 50);
  }
  EXPECT_TRUE(is_right(MappedFile::open(folder / "f").bytes().first(50), 0));
  // An errno left by an earlier call must not be taken for this call's error.
  const FailingWrites failing(0, 1000000);
  EXPECT_THAT([&] { PartialCopy::make(folder / "g", source, 50); },
              ThrowsMessage<Error>(HasSubstr("No space left")));
}

TEST(AtomicFile, GoesOnAfterInterruptionsAndFailsWhereNothingCanBeWritten) {
  const Scratch folder;
  {
    const FailingWrites failing(3, 0);
    write_file(folder / "f", "text");
  }
  EXPECT_EQ(read_text(folder / "f", 100), "text");
  const FailingWrites failing(0, 1000000);
  EXPECT_THAT([&] { write_file(folder / "f", "other"); },
              ThrowsMessage<Error>(HasSubstr("No space left")));
  EXPECT_EQ(read_text(folder / "f", 100), "text");
}

TEST(PartialCopy, DownloadsRequestedBytesOnce) {
  const Scratch folder;
  const auto source = std::make_shared<Elsewhere>(100000);
  PartialCopy::make(folder / "f", *source, 10);
  source->reads = 0;
  const PartialCopy copy(folder / "f", source, 10);
  const MappedFile file = MappedFile::open(folder / "f");
  ASSERT_EQ(file.bytes().size(), 100000U);
  EXPECT_TRUE(is_right(file.bytes().first(10), 0));
  EXPECT_FALSE(is_right(file.bytes().subspan(5000, 100), 5000)) << "there is no hole";
  bring(file.bytes().first(10));
  EXPECT_EQ(source->reads, 0);
  bring(file.bytes().subspan(5000, 100));
  EXPECT_TRUE(is_right(file.bytes().subspan(5000, 100), 5000));
  EXPECT_EQ(copy.bytes_downloaded(), 100);
  bring(file.bytes().subspan(5020, 50));
  EXPECT_EQ(copy.bytes_downloaded(), 100);
  bring(file.bytes().subspan(4990, 200));  // including its surroundings
  EXPECT_TRUE(is_right(file.bytes().subspan(4990, 200), 4990));
  EXPECT_EQ(copy.bytes_downloaded(), 200);
  release_pages(file.bytes());
  EXPECT_TRUE(is_right(file.bytes().subspan(4990, 200), 4990));
}

TEST(PartialCopy, AnyOrderOfPartsMakesTheWhole) {
  const Scratch folder;
  constexpr int64_t kSize = 20000;
  const auto source = std::make_shared<Elsewhere>(kSize);
  PartialCopy::make(folder / "f", *source, 1);
  const PartialCopy copy(folder / "f", source, 1);
  const MappedFile file = MappedFile::open(folder / "f");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      uint32_t state = 7 + static_cast<uint32_t>(t);
      for (int i = 0; i < 300; ++i) {
        state = state * 1664525U + 1013904223U;
        const auto begin = static_cast<size_t>(state >> 8) % kSize;
        const size_t count = std::min<size_t>(state % 97 + 1, kSize - begin);
        const auto part = file.bytes().subspan(begin, count);
        bring(part);
        EXPECT_TRUE(is_right(part, static_cast<int64_t>(begin)));
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  bring(file.bytes());
  EXPECT_TRUE(is_right(file.bytes(), 0));
  EXPECT_GE(copy.bytes_downloaded(), kSize - 1);
}

TEST(PartialCopy, OtherFilesAreLeftAlone) {
  const Scratch folder;
  const auto source = std::make_shared<Elsewhere>(1000);
  PartialCopy::make(folder / "f", *source, 8);
  const std::vector<std::byte> own(64);
  {
    const PartialCopy copy(folder / "f", source, 8);
    bring(own);  // not a mapping at all
    EXPECT_EQ(copy.bytes_downloaded(), 0);
  }
  const MappedFile file = MappedFile::open(folder / "f");
  bring(file.bytes());  // nobody fills it any more
  EXPECT_FALSE(is_right(file.bytes(), 0));
}

TEST(PartialCopy, ErrorsAreThoseOfTheSource) {
  const Scratch folder;
  const auto source = std::make_shared<Elsewhere>(1000);
  PartialCopy::make(folder / "f", *source, 8);
  const PartialCopy copy(folder / "f", source, 8);
  const MappedFile file = MappedFile::open(folder / "f");
  source->fails = true;
  EXPECT_THAT([&] { bring(file.bytes()); }, ThrowsMessage<Error>(HasSubstr("[remote] gone")));
  source->fails = false;
  bring(file.bytes());
  EXPECT_TRUE(is_right(file.bytes(), 0));
  const auto longer = std::make_shared<Elsewhere>(1001);
  EXPECT_THAT([&] { PartialCopy(folder / "f", longer, 8); },
              ThrowsMessage<Error>(HasSubstr("has 1000 bytes, s3://there/file has 1001")));
}

}  // namespace
}  // namespace kinema::io
