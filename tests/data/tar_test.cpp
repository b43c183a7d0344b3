// Clips in tars.
#include "kinema/data/tar_clips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/clip_file.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/hash.h"
#include "kinema/io/mapped_file.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using io::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// `tar OPTIONS -cf OUT NAMES` in a folder.
void tar(const fs::path& folder, const std::string& options, const fs::path& out,
         const std::string& names) {
  const std::string command =
      "tar -C '" + folder.string() + "' " + options + " -cf '" + out.string() + "' " + names;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

std::string clip_bytes(int number) {
  return io::read_text(golden("dataset/videos") / ("clip_0" + std::to_string(number) + ".mp4"));
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Files as in webdataset, and a tar of them in a folder.
class Shard {
 public:
  Shard() { fs::create_directory(scratch_ / "set"); }
  void file(const std::string& name, const std::string& text) {
    fs::create_directories((scratch_ / "files" / name).parent_path());
    write_file(scratch_ / "files" / name, text);
    names_ += " '" + name + "'";
  }
  fs::path make(const std::string& options = "--format=ustar", const std::string& name = "a.tar") {
    tar(scratch_ / "files", options, folder() / name, names_);
    names_.clear();
    return folder() / name;
  }
  fs::path folder() const { return scratch_ / "set"; }

 private:
  Scratch scratch_;
  std::string names_;
};

TEST(Tar, ListsFilesWhereTheyLie) {
  // Longer than the 100 and 255 characters of the old header.
  const std::string deep = std::string(90, 'd') + "/" + std::string(120, 'e') + "/" +
                           std::string(120, 'f') + "/\xc3\xa9.txt";
  for (const char* format : {"--format=pax", "--format=gnu"}) {
    SCOPED_TRACE(format);
    Shard shard;
    shard.file("a.txt", "first");
    shard.file("empty.txt", "");
    shard.file(deep, std::string(3000, 'x'));
    const std::string bytes = io::read_text(shard.make(format));
    const std::vector<io::TarMember> members = io::list_tar(as_bytes(bytes), "a.tar");

    ASSERT_EQ(members.size(), 3U);
    EXPECT_EQ(members[0].name, "a.txt");
    EXPECT_TRUE(members[1].bytes.empty());
    EXPECT_EQ(members[2].name, deep);
    EXPECT_EQ(members[2].bytes.size(), 3000U);
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    EXPECT_GE(members[2].bytes.data(), begin);
    EXPECT_LE(members[2].bytes.data() + 3000, begin + bytes.size());
    EXPECT_EQ(members[2].bytes[2999], std::byte{'x'});
  }
}

TEST(Tar, PassesOverWhatIsNoFile) {
  Shard shard;
  shard.file("a.txt", "first");
  const fs::path files = shard.folder().parent_path() / "files";
  fs::create_symlink("/etc/passwd", files / "link.txt");
  fs::create_hard_link(files / "a.txt", files / "same.txt");
  fs::create_directory(files / "folder");
  tar(files, "--format=gnu", shard.folder() / "b.tar", "a.txt link.txt same.txt folder");
  const std::string bytes = io::read_text(shard.folder() / "b.tar");

  const std::vector<io::TarMember> members = io::list_tar(as_bytes(bytes), "b.tar");
  ASSERT_EQ(members.size(), 1U);
  EXPECT_EQ(members[0].name, "a.txt");
}

TEST(Tar, RefusesWhatIsCutOffOrCompressed) {
  Shard shard;
  shard.file("a.txt", std::string(5000, 'x'));
  const std::string whole = io::read_text(shard.make());
  for (const size_t size : {100U, 700U, 3000U}) {
    SCOPED_TRACE(size);
    const std::string cut = whole.substr(0, size);
    EXPECT_THAT([&] { io::list_tar(as_bytes(cut), "a.tar"); },
                ThrowsMessage<Error>(HasSubstr("[tar] a.tar")));
  }
  Shard zipped;
  zipped.file("a.txt", std::string(5000, 'x'));
  const std::string gz = io::read_text(zipped.make("-z"));
  EXPECT_THAT([&] { io::list_tar(as_bytes(gz), "a.tar"); },
              ThrowsMessage<Error>(HasSubstr("compressed")));
}

// As webdataset 1.0's base_plus_ext splits them.
TEST(TarSamples, HaveTheKeysThatWebdatasetGivesThem) {
  using Split = std::pair<std::string, std::string>;
  EXPECT_EQ(key_and_ending("a.mp4"), (Split{"a", "mp4"}));
  EXPECT_EQ(key_and_ending("./x.y/a.LEFT.Mp4"), (Split{"./x.y/a", "left.mp4"}));
  EXPECT_EQ(key_and_ending("x.y/a"), std::nullopt);
  EXPECT_EQ(key_and_ending("x/.hidden"), std::nullopt);
  EXPECT_EQ(key_and_ending("a."), (Split{"a", ""}));
}

TEST(TarSamples, AreNeighboursOfOneKey) {
  std::vector<io::TarMember> members;
  for (const char* name : {"__notes__/i.txt", "a.mp4", "note", "a.txt", "b/a.mp4", "b/a.json",
                           "a.jpg", "__meta__/c.txt"}) {
    members.push_back({name, {}});
  }
  const std::vector<TarSample> samples = group_samples(members, "x.tar");

  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].key, "a");
  EXPECT_NE(samples[0].find("txt"), nullptr);
  EXPECT_EQ(samples[1].key, "b/a");
  EXPECT_EQ(samples[2].parts.size(), 1U) << "a key that comes again is a sample of its own";

  members = {{"a.mp4", {}}, {"a.MP4", {}}};
  EXPECT_THAT([&] { group_samples(members, "x.tar"); },
              ThrowsMessage<Error>(HasSubstr("a.MP4 twice")));
}

TEST(TarClips, AreTheClipsOfTheirBytes) {
  Shard shard;
  shard.file("one.mp4", clip_bytes(0));
  shard.file("one.txt", " first\n");
  shard.file("two.json", R"({"caption": "second", "id": 2})");
  shard.file("two.mp4", clip_bytes(1));
  shard.file("lone.txt", "no video");
  shard.make("--format=ustar", "00.tar");
  shard.file("one.mp4", clip_bytes(2));
  shard.file("one.txt", "third");
  shard.make("--format=ustar", "01.tar");

  const auto clips = folder_clips(shard.folder(), "text");

  ASSERT_EQ(clips->size(), 3);
  EXPECT_EQ(clips->where(0), "00.tar/one.mp4");
  EXPECT_EQ(clips->caption(0), "first");
  EXPECT_EQ(clips->caption(1), "second");
  EXPECT_EQ(clips->caption(2), "third");
  ASSERT_EQ(clips->left_out().size(), 1U);
  EXPECT_EQ(clips->left_out()[0].file, "00.tar/lone.txt");
  const ClipFormat format{.height = 16, .width = 24, .num_frames = 5};
  for (int i = 0; i < 3; ++i) {
    const fs::path file = golden("dataset/videos") / ("clip_0" + std::to_string(i) + ".mp4");
    EXPECT_EQ(clips->read(i, format, {}).bytes, read_clip(file, format).bytes);
    EXPECT_EQ(clips->hash(i), io::hash_file(file));
    EXPECT_EQ(clips->measure(i).frames, 17);
  }
  EXPECT_NE(clips->stamp(0), clips->stamp(2));
  EXPECT_EQ(folder_clips(shard.folder() / "01.tar", "text")->size(), 1);
}

TEST(TarClips, OfPicturesThatAreNotReadAreSaid) {
  Shard shard;
  shard.file("a.txt", "a cat");
  shard.file("a.heic", "x");
  shard.make();
  EXPECT_THAT([&] { folder_clips(shard.folder(), "text", true, true, ""); },
              ThrowsMessage<Error>(HasSubstr("a HEIC picture, which is not supported")));
}

TEST(TarClips, WithoutACaptionAreNamedOrKeptAsBad) {
  Shard shard;
  shard.file("a.mp4", clip_bytes(0));
  shard.file("b.mp4", clip_bytes(1));
  shard.file("b.json", R"({"words": "x"})");
  shard.file("c.mp4", clip_bytes(1));
  shard.file("c.txt", "caf\xe9");
  const fs::path path = shard.make();

  EXPECT_THAT([&] { folder_clips(path, "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.tar/a.mp4"), HasSubstr("a.json"))));
  const auto clips = folder_clips(path, "text", /*keep_bad=*/true);
  ASSERT_EQ(clips->size(), 3);
  EXPECT_THAT([&] { clips->measure(1); }, ThrowsMessage<Error>(HasSubstr("b.json has words")));
  EXPECT_THAT([&] { clips->measure(2); }, ThrowsMessage<Error>(HasSubstr("not UTF-8")));
  EXPECT_EQ(folder_clips(path, "words", /*keep_bad=*/true)->caption(1), "x");
}

}  // namespace
}  // namespace kinema::data
