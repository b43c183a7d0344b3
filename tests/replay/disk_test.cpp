// A replay whose chunks are files: damage, and a disk that is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"
#include "kinema/replay/replay.h"

namespace kinema::replay {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kChunkSteps = 8;
constexpr int64_t kWindowSteps = 3;

class ReplayOnDisk : public ::testing::Test {
 protected:
  ReplayOnDisk()
      : folder_(fs::path(::testing::TempDir()) / "replay_disk" /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
  }
  ReplayOptions options() const {
    return {.length = kWindowSteps,
            .chunk_size = kChunkSteps,
            .folder = folder_,
            .updated = {"latent"}};
  }
  static void add(Replay& replay, int first, int last) {
    for (int i = first; i < last; ++i) {
      const auto x = static_cast<float>(i);
      replay.add({{"x", HostArray::f32({}, std::vector<float>{x})},
                  {"latent", HostArray::f32({}, std::vector<float>{-x})}});
    }
  }
  fs::path chunk(int number) const {
    return folder_ / ("chunk-" + std::to_string(number) + ".safetensors");
  }
  static void overwrite(const fs::path& file, int64_t at) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
    out.put('\x7f');
  }
  static Arrays none(uint64_t) { return {}; }

  fs::path folder_;
};

TEST_F(ReplayOnDisk, ChunksAreSafetensors) {
  Replay replay(options());
  add(replay, 0, 10);
  EXPECT_THAT(replay.chunk_numbers(), IsEmpty());
  replay.sync();
  const auto file = io::SafetensorsFile::open(chunk(1));
  EXPECT_EQ(file.at("x").shape, (Shape{DType::F32, {kChunkSteps}}));
  EXPECT_EQ(file.at("x").copy().as<float>()[5], 5.0F);
}

TEST_F(ReplayOnDisk, FilesStayUntilACheckpointNoLongerNeedsThem) {
  ReplayOptions small = options();
  small.capacity = 4;
  Replay replay(small);
  add(replay, 0, 100);
  EXPECT_TRUE(fs::exists(chunk(1)));
  replay.drop_released();
  EXPECT_FALSE(fs::exists(chunk(1)));
  EXPECT_TRUE(fs::exists(chunk(13)));
}

TEST_F(ReplayOnDisk, DamagedChunksAreNamedAndLeftOut) {
  Arrays index;
  {
    Replay replay(options());
    add(replay, 0, 50);  // six full chunks, and two steps
    EXPECT_EQ(replay.windows(), 48);
    index = replay.index();
    replay.sync();
  }
  overwrite(chunk(2), -1);        // the last byte of x, of step 15
  fs::resize_file(chunk(4), 20);  // steps 24 to 31
  fs::remove(chunk(6));           // steps 40 to 47, behind which a chunk has begun
  // Values that are replaced are not those of the checkpoint after a kill.
  const auto begin = static_cast<int64_t>(fs::file_size(chunk(3))) - 2 * kChunkSteps * 4;
  overwrite(chunk(3), begin + 1);
  Replay replay(options());
  const std::vector<std::string> problems = replay.restore(index, none);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("chunk-2.safetensors is damaged; it is left out"),
                                    HasSubstr("chunk-4.safetensors"),
                                    HasSubstr("chunk-6.safetensors is missing")));
  // Of steps 0 to 7, 16 to 23 and 32 to 39 six windows each; 48 and 49 are too few.
  EXPECT_EQ(replay.windows(), 18);
  add(replay, 50, 80);
  EXPECT_EQ(replay.windows(), 18 + 30);
  std::set<float> seen;
  for (int i = 0; i < 500; ++i) {
    const Arrays rows = replay.sample(1);
    const auto x = rows.at("x").as<float>();
    EXPECT_EQ(x[2], x[0] + 2.0F);
    seen.insert(x.begin(), x.end());
  }
  for (const float lost : {8.0F, 15.0F, 24.0F, 31.0F, 40.0F, 47.0F}) {
    EXPECT_FALSE(seen.contains(lost)) << lost;
  }
  EXPECT_TRUE(seen.contains(48.0F) && seen.contains(16.0F) && seen.contains(79.0F));
}

TEST_F(ReplayOnDisk, StepsAfterTheCheckpointAreForgotten) {
  Replay replay(options());
  add(replay, 0, 20);
  const Arrays index = replay.index();
  add(replay, 100, 140);  // then the run is killed
  Replay other(options());
  EXPECT_THAT(other.restore(index, none), IsEmpty());
  EXPECT_EQ(other.windows(), 18);
  EXPECT_FALSE(fs::exists(chunk(5)));
  add(other, 20, 30);
  for (const StepId& start : other.starts()) {
    const Arrays window = other.window(start);
    EXPECT_LT(window.at("x").as<float>()[2], 30.0F);
  }
}

/// Files of this process can have so many bytes; more fails as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(ReplayOnDisk, AFullDiskLosesNothingWhileThereIsMemory) {
  ReplayOptions limited = options();
  limited.memory = 4 * kChunkSteps * 2 * 4;  // four chunks
  Replay replay(limited);
  add(replay, 0, 12);
  EXPECT_THAT(replay.take_notices(), IsEmpty());
  {
    const FileLimit full(64);
    add(replay, 12, 40);
    EXPECT_THAT(replay.take_notices(), ElementsAre(HasSubstr("stay in memory")));
    EXPECT_EQ(replay.windows(), 38);
    add(replay, 40, 100);
    EXPECT_THAT(replay.take_notices(), IsEmpty());
    // At most four chunks of new steps, and those that are being written.
    EXPECT_LE(replay.chunks(), 6);
    EXPECT_LT(replay.windows(), 48);
    EXPECT_EQ(replay.chunk_numbers().size(), static_cast<size_t>(replay.chunks()));
  }
  add(replay, 100, 120);
  EXPECT_THAT(replay.take_notices(), ElementsAre(HasSubstr("to the disk again")));
  EXPECT_LT(replay.chunk_numbers().size(), static_cast<size_t>(replay.chunks()));
  // A checkpoint has what is in memory, the folder the rest.
  const Arrays index = replay.index();
  Replay other(limited);
  EXPECT_THAT(other.restore(index, [&](uint64_t number) { return replay.chunk(number); }),
              IsEmpty());
  EXPECT_EQ(other.windows(), replay.windows());
  const Arrays last = other.window(other.starts().back());
  EXPECT_EQ(last.at("x").as<float>()[2], 119.0F);
}

}  // namespace
}  // namespace kinema::replay
