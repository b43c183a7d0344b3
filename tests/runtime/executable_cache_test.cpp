#include "kinema/runtime/executable_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "kinema/runtime/content_hash.h"
#include "runtime/cpu_client.h"

namespace kinema::runtime {
namespace {

using testing::Optional;

namespace fs = std::filesystem;

using ExecutableCacheTest = CpuClientTest;

constexpr char kKey[] = "0123456789abcdef0123456789abcdef";
constexpr char kOtherKey[] = "fedcba9876543210fedcba9876543210";

std::string entry(const std::string& folder, const std::string& key = kKey) {
  return folder + "/" + key + ".executable";
}

// Changes one byte of the file.
void flip_byte(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char old = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(old ^ 1));
}

TEST_F(ExecutableCacheTest, FindsStoredPrograms) {
  const ExecutableCache cache(folder() + "/made", 1 << 20);
  EXPECT_EQ(cache.find(kKey), std::nullopt);

  EXPECT_TRUE(cache.put(kKey, "some bytes"));

  EXPECT_THAT(cache.find(kKey), Optional(std::string("some bytes")));
  EXPECT_EQ(cache.find(kOtherKey), std::nullopt);
  cache.drop(kKey);
  EXPECT_EQ(cache.find(kKey), std::nullopt);
}

TEST_F(ExecutableCacheTest, LeavesOnlyTheEntry) {
  const ExecutableCache cache(folder(), 1 << 20);
  cache.put(kKey, "a");
  cache.put(kKey, "b");

  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
}

TEST_F(ExecutableCacheTest, IgnoresACorruptEntry) {
  const ExecutableCache cache(folder(), 1 << 20);
  cache.put(kKey, "some bytes");
  const auto size = static_cast<std::streamoff>(fs::file_size(entry(folder())));
  // A byte of the magic, the key, the size, the checksum, and the last byte of the content.
  for (const std::streamoff at :
       {std::streamoff{0}, std::streamoff{8}, std::streamoff{40}, std::streamoff{48}, size - 1}) {
    SCOPED_TRACE(at);
    flip_byte(entry(folder()), at);
    EXPECT_EQ(cache.find(kKey), std::nullopt);
    flip_byte(entry(folder()), at);
    EXPECT_THAT(cache.find(kKey), Optional(std::string("some bytes")));
  }
  fs::resize_file(entry(folder()), static_cast<uintmax_t>(size - 1));
  EXPECT_EQ(cache.find(kKey), std::nullopt);
  fs::resize_file(entry(folder()), 3);
  EXPECT_EQ(cache.find(kKey), std::nullopt);
}

TEST_F(ExecutableCacheTest, IgnoresAnEntryUnderAnotherKey) {
  const ExecutableCache cache(folder(), 1 << 20);
  cache.put(kKey, "some bytes");
  fs::rename(entry(folder()), entry(folder(), kOtherKey));

  EXPECT_EQ(cache.find(kOtherKey), std::nullopt);
}

TEST_F(ExecutableCacheTest, DropsTheLeastRecentlyUsedBeyondItsLimit) {
  // Three entries of 1,000 bytes and their headers do not fit, two do.
  const ExecutableCache cache(folder(), 2500);
  const std::string content(1000, 'x');
  const std::string third = "00000000000000000000000000000000";
  const auto now = fs::file_time_type::clock::now();
  cache.put(kKey, content);
  cache.put(kOtherKey, content);
  fs::last_write_time(entry(folder(), kKey), now - std::chrono::hours(2));
  fs::last_write_time(entry(folder(), kOtherKey), now - std::chrono::hours(1));
  cache.find(kKey);  // used just now, so the other one is the oldest

  cache.put(third, content);

  EXPECT_NE(cache.find(kKey), std::nullopt);
  EXPECT_EQ(cache.find(kOtherKey), std::nullopt);
  EXPECT_NE(cache.find(third), std::nullopt);
}

TEST_F(ExecutableCacheTest, RemovesIncompleteWrites) {
  const ExecutableCache cache(folder(), 1 << 20);
  const std::string old = folder() + "/old.executable.1.0.tmp";
  const std::string fresh = folder() + "/fresh.executable.2.0.tmp";
  std::ofstream(old) << "half";
  std::ofstream(fresh) << "half";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));

  cache.put(kKey, "some bytes");

  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(ExecutableCacheTest, KeepsNothingWhereTheFolderCannotBeMade) {
  std::ofstream(folder() + "/file") << "in the way";

  const ExecutableCache cache(folder() + "/file/cache", 1 << 20);
  EXPECT_FALSE(cache.put(kKey, "some bytes"));
  EXPECT_EQ(cache.find(kKey), std::nullopt);
}

// Two builds of a plugin may have the same size and version.
TEST_F(ExecutableCacheTest, GivesAPluginOfEqualSizeAnotherKey) {
  const std::string plugin = folder() + "/plugin.so";
  fs::copy_file(client().plugin().path(), plugin);
  const pjrt::Client opened = open_client({.plugin = plugin});
  const std::string key = ExecutableCache::key(opened, "program", "options");

  fs::copy_file(plugin, folder() + "/other.so");
  flip_byte(folder() + "/other.so", static_cast<std::streamoff>(fs::file_size(plugin)) - 1);
  fs::last_write_time(folder() + "/other.so", fs::last_write_time(plugin));
  fs::rename(folder() + "/other.so", plugin);

  EXPECT_NE(ExecutableCache::key(opened, "program", "options"), key);
}

TEST(ContentHash, HashesTheBytesAndIsCachedByFile) {
  const fs::path folder = fs::path(testing::TempDir()) / "kinema_content_hash";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string path = folder / "file";
  const std::string memory = folder / "memory";
  std::ofstream(path) << "some bytes";
  const std::string hash = content_hash(path, memory);
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(content_hash(path, memory), hash);
  ASSERT_EQ(std::distance(fs::directory_iterator(memory), fs::directory_iterator()), 1);

  std::ofstream(folder / "same") << "some bytes";
  EXPECT_EQ(content_hash(folder / "same", memory), hash);
  const auto time = fs::last_write_time(path);
  std::ofstream(path) << "same bytes";
  fs::last_write_time(path, time);
  EXPECT_NE(content_hash(path, memory), hash);

  // A mapping that is not writable, and a missing file.
  std::ofstream(folder / "third") << "some bytes";
  EXPECT_EQ(content_hash(folder / "third", path + "/below a file"), hash);
  EXPECT_EQ(content_hash(folder / "none", memory).size(), 32U);
  fs::remove_all(folder);
}

TEST_F(ExecutableCacheTest, GivesEveryDifferenceAKeyOfItsOwn) {
  const std::string key = ExecutableCache::key(client(), "program", "options");

  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, ExecutableCache::key(client(), "program", "options"));
  EXPECT_NE(key, ExecutableCache::key(client(), "programo", "ptions"));
  EXPECT_NE(key, ExecutableCache::key(client(), "program", "other options"));
  EXPECT_NE(key, ExecutableCache::key(open_client({.cpu_devices = 3}), "program", "options"));
  // Flags in the environment, which the plugin reads, also determine the program.
  setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false", /*overwrite=*/1);
  EXPECT_NE(key, ExecutableCache::key(client(), "program", "options"));
  unsetenv("XLA_FLAGS");
  EXPECT_EQ(key, ExecutableCache::key(client(), "program", "options"));
}

}  // namespace
}  // namespace kinema::runtime
