#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/hash.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OutputFolder, IsRemovedWithItsParentsIfEmpty) {
  const Scratch scratch;
  make_folder(scratch / "there");
  { OutputFolder(scratch / "there/a/b").make(); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "there"));
  { OutputFolder(scratch / "there").make(); }
  EXPECT_TRUE(std::filesystem::exists(scratch / "there"));
  {
    OutputFolder folder(scratch / "a/b");
    folder.make();
    write_file(scratch / "a/c", "");
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "a/b"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "a/c"));
}

TEST(Folder, IsCheckedBeforeLongWork) {
  const Scratch scratch;
  write_file(scratch / "file", "");
  check_writable(scratch / "a/b/c");
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
  make_folder(scratch / "a/b/c");
  write_file(scratch / "a/b/c/d", "");
  make_folder("");

  EXPECT_THAT([&] { check_writable(scratch / "file"); },
              ThrowsMessage<Error>(HasSubstr("cannot be a folder")));
  EXPECT_THAT([&] { make_folder(scratch / "file/a"); },
              ThrowsMessage<Error>(HasSubstr("cannot be a folder")));
  std::filesystem::create_symlink("nowhere", scratch / "link");
  EXPECT_THAT([&] { make_folder(scratch / "link/a"); },
              ThrowsMessage<Error>(HasSubstr("cannot be a folder")));
  // Nobody can create anything there, not even the superuser.
  EXPECT_THAT([&] { make_folder("/proc/nothing"); }, ThrowsMessage<Error>(HasSubstr("/proc")));
}

TEST(AtomicFile, RefusesAFolder) {
  const Scratch scratch;
  EXPECT_THAT([&] { AtomicFile(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("it is a folder")));
}

TEST(MappedFile, MapsTheBytes) {
  const Scratch scratch;
  write_file(scratch / "a", "hello");
  write_file(scratch / "empty", "");

  EXPECT_EQ(read_text(scratch / "a"), "hello");
  EXPECT_EQ(MappedFile::open(scratch / "empty").bytes().size(), 0U);
  EXPECT_THAT([&] { read_text(scratch / "a", 4); }, ThrowsMessage<Error>(HasSubstr("at most 4")));
}

TEST(MappedFile, NamesPathAndReason) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);

  EXPECT_THAT([&] { MappedFile::open(scratch / "missing"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("missing"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { MappedFile::open(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("it is a folder")));
  EXPECT_THAT([&] { MappedFile::open(scratch / "fifo"); },
              ThrowsMessage<Error>(HasSubstr("not a regular file")));
}

TEST(MappedFile, SurvivesBeingMoved) {
  const Scratch scratch;
  write_file(scratch / "a", "hello");
  MappedFile first = MappedFile::open(scratch / "a");

  const MappedFile second = std::move(first);

  EXPECT_EQ(second.bytes().size(), 5U);
  EXPECT_EQ(static_cast<char>(second.bytes()[4]), 'o');
}

TEST(MappedFile, SaysThatItBecameShorterInsteadOfDying) {
  guard_mappings();
  const Scratch scratch;
  write_file(scratch / "a", std::string(100'000, 'x'));
  write_file(scratch / "b", std::string(100'000, 'y'));
  const MappedFile cut = MappedFile::open(scratch / "a");
  const MappedFile whole = MappedFile::open(scratch / "b");
  cut.check_intact();
  std::filesystem::resize_file(scratch / "a", 10'000);

  EXPECT_EQ(static_cast<char>(cut.bytes()[90'000]), '\0');

  EXPECT_THAT([&] { check_intact(cut.bytes().subspan(5), "the first"); },
              ThrowsMessage<Error>(HasSubstr("the first became shorter")));
  EXPECT_THAT([&] { cut.check_intact(); }, ThrowsMessage<Error>(HasSubstr("became shorter")));
  check_intact(whole.bytes(), "the second");
  whole.check_intact();
  EXPECT_EQ(static_cast<char>(whole.bytes()[90'000]), 'y');
}

TEST(MappedFile, SeesTheLossOfOneByteInItsLastPage) {
  const Scratch scratch;
  write_file(scratch / "a", std::string(5'000, 'x'));
  const MappedFile file = MappedFile::open(scratch / "a");
  std::filesystem::resize_file(scratch / "a", 4'999);

  EXPECT_THAT([&] { file.check_intact(); },
              ThrowsMessage<Error>(HasSubstr("had 5000 bytes and became 4999")));
}

TEST(MappedFile, StaysValidWhenAnotherFileGetsTheName) {
  const Scratch scratch;
  write_file(scratch / "a", std::string(5'000, 'x'));
  const MappedFile file = MappedFile::open(scratch / "a");
  write_file(scratch / "a", "short");  // written under another name and renamed

  file.check_intact();
  EXPECT_EQ(static_cast<char>(file.bytes()[4'999]), 'x');
}

TEST(MappedFile, ReadsTheSameAfterReleasingPages) {
  const Scratch scratch;
  write_file(scratch / "a", std::string(50'000, 'x') + "end");
  const MappedFile file = MappedFile::open(scratch / "a");
  EXPECT_EQ(static_cast<char>(file.bytes()[40'000]), 'x');
  release_pages(file.bytes().subspan(1));
  will_read(file.bytes());

  EXPECT_EQ(static_cast<char>(file.bytes()[40'000]), 'x');
  EXPECT_EQ(static_cast<char>(file.bytes().back()), 'd');
}

TEST(MappedFileDeathTest, LeavesABusErrorFromElsewhereAlone) {
  const Scratch scratch;
  write_file(scratch / "a", "hello");
  EXPECT_DEATH(
      {
        const MappedFile file = MappedFile::open(scratch / "a");
        ::raise(SIGBUS);
        ::raise(SIGBUS);
      },
      "");
}

TEST(AtomicFile, IsInvisibleUntilCommit) {
  const Scratch scratch;
  write_file(scratch / "a", "old");
  {
    AtomicFile file(scratch / "a");
    file.write("new");
    EXPECT_EQ(read_text(scratch / "a"), "old");
  }
  EXPECT_EQ(read_text(scratch / "a"), "old");
  AtomicFile file(scratch / "a");
  const std::string large(3'000'000, 'x');
  file.write("n");
  file.write(large);
  file.commit();

  EXPECT_EQ(read_text(scratch / "a"), "n" + large);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(AtomicFile, HonoursTheUmask) {
  const Scratch scratch;
  const mode_t before = ::umask(027);
  write_file(scratch / "a", "x");
  ::umask(before);

  EXPECT_EQ(std::filesystem::status(scratch / "a").permissions(), std::filesystem::perms(0640));
}

TEST(AtomicFile, NamesTheMissingFolder) {
  const Scratch scratch;

  EXPECT_THAT([&] { AtomicFile(scratch / "none/a"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("none/a"), HasSubstr("No such file"))));
}

TEST(Hash, MatchesAcrossPiecesAndFiles) {
  const Scratch scratch;
  write_file(scratch / "a", "hello world");
  const std::string_view text = "hello world";
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(text.substr(0, 4))));
  hasher.update(std::as_bytes(std::span(text.substr(4))));

  EXPECT_EQ(hasher.hex(), hash_file(scratch / "a"));
  // XXH3_128bits of the empty input with seed 0, from the reference implementation's test vectors.
  EXPECT_EQ(hash_bytes({}), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, OfSamplesSeesBothEndsAndSizesThatAreNoMultipleOfThem) {
  const Scratch scratch;
  const auto of = [&](const std::string& text) {
    std::ofstream(scratch / "file", std::ios::binary) << text;
    return hash_sample(scratch / "file");
  };
  for (const size_t size : {size_t{0}, size_t{1}, size_t{32768}, size_t{32769}, size_t{1000003}}) {
    SCOPED_TRACE(size);
    const std::string plain(size, 'a');
    const std::string hash = of(plain);
    EXPECT_EQ(of(plain), hash);
    for (const size_t at : {size_t{0}, size_t{4095}, size - 4096, size - 1}) {
      if (at < size) {
        std::string other = plain;
        other[at] = 'b';
        EXPECT_NE(of(other), hash) << at;
      }
    }
  }
  std::string all(32768, 'a');  // the part that is read completely
  const std::string hash = of(all);
  all[17001] = 'b';
  EXPECT_NE(of(all), hash);
}

TEST(Exchange, SwapsTwoFolders) {
  const Scratch scratch;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(scratch / name);
    write_file(scratch / name / "text", name);
  }
  if (!exchange(scratch / "a", scratch / "b")) {
    GTEST_SKIP() << "this file system cannot exchange names";
  }
  EXPECT_EQ(read_text(scratch / "a/text"), "b");
  EXPECT_EQ(read_text(scratch / "b/text"), "a");
  EXPECT_THAT([&] { exchange(scratch / "a", scratch / "absent"); },
              ThrowsMessage<Error>(HasSubstr("cannot exchange")));
}

}  // namespace
}  // namespace kinema::io
