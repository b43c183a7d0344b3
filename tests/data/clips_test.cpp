// Folders of clips as users have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/remux.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/hf_clips.h"
#include "kinema/data/metadata.h"
#include "kinema/data/survey.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using io::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// A folder whose files start with the bytes of a reference clip.
class Folder {
 public:
  const fs::path& path() const { return scratch_.path(); }
  fs::path operator/(const std::string& name) const { return path() / name; }

  void clip(const std::string& name) const {
    fs::create_directories((path() / name).parent_path());
    fs::copy_file(golden("dataset/videos/clip_00.mp4"), path() / name);
  }
  void captioned(const std::string& name, const std::string& caption = "x") const {
    clip(name);
    text(fs::path(name).replace_extension(".txt"), caption);
  }
  void text(const std::string& name, const std::string& words) const {
    fs::create_directories((path() / name).parent_path());
    write_file(path() / name, words);
  }
  /// A video of uniform frames at a rate, with a caption.
  void video(const std::string& name, int64_t frames, double fps, int64_t height = 16,
             int64_t width = 32) const {
    HostArray pixels(Shape{DType::U8, {frames, height, width, 3}});
    const size_t each = static_cast<size_t>(height * width * 3);
    for (size_t i = 0; i < pixels.bytes.size(); ++i) {
      pixels.as<uint8_t>()[i] = static_cast<uint8_t>(20 + 10 * (i / each % 20));
    }
    media::write_mp4(path() / name, pixels, {.fps = fps, .crf = 4, .preset = "ultrafast"});
    text(fs::path(name).replace_extension(".txt"), name);
  }
  void image(const std::string& name) const {
    HostArray pixels(Shape{DType::U8, {16, 32, 3}});
    media::write_png(path() / name, pixels);
    text(fs::path(name).replace_extension(".txt"), "a picture");
  }

  /// Clips by name, with caption or problem; then the ignored files.
  std::map<std::string, std::string> list(const ListOptions& options = {
                                              .missing = MissingClip::Keep}) const {
    std::map<std::string, std::string> out;
    const Listing listing = list_folder(path(), options);
    for (const CaptionedClip& each : listing.clips) {
      out[each.path.lexically_normal().lexically_relative(path().lexically_normal()).string()] =
          each.problem.empty() ? each.caption : "! " + each.problem;
    }
    for (const SkippedFile& each : listing.left_out) {
      out[each.file] = "- " + each.reason;
    }
    return out;
  }

 private:
  Scratch scratch_;
};

using Pairs = std::map<std::string, std::string>;

TEST(ListFolder, FindsEveryContainerWhateverItsCaseAndFolder) {
  const Folder folder;
  for (const char* name :
       {"a.MP4", "b.Mov", "c.avi", "d.m4v", "e.GIF", "sub/f.webm", "sub/deeper/g.mkv"}) {
    folder.captioned(name, name);
  }
  folder.text(".hidden/h.mp4", "no clip");
  folder.text("README.md", "a data set");

  EXPECT_EQ(folder.list(), (Pairs{{"a.MP4", "a.MP4"},
                                  {"b.Mov", "b.Mov"},
                                  {"c.avi", "c.avi"},
                                  {"d.m4v", "d.m4v"},
                                  {"e.GIF", "e.GIF"},
                                  {"sub/f.webm", "sub/f.webm"},
                                  {"sub/deeper/g.mkv", "sub/deeper/g.mkv"}}));
}

TEST(ListFolder, TakesCaptionsWhoseNamesAreInCapitals) {
  const Folder folder;
  folder.clip("A.MP4");
  folder.text("A.TXT", "loud");
  folder.clip("b.mp4");
  folder.text("b.CAPTION", "of kohya");
  folder.text("LIST.CSV.bak.TXT", "a companion");
  EXPECT_EQ(folder.list(), (Pairs{{"A.MP4", "loud"}, {"b.mp4", "of kohya"}}));
}

TEST(ListFolder, NamesSkippedFiles) {
  const Folder folder;
  folder.clip("a.mp4");
  folder.clip("b.MP4");
  folder.clip("sub/c.mp4");
  folder.text("d.rmvb", "");
  folder.text("e.tfrec", "");
  folder.text("sub/f.tfrec", "");
  folder.text("metadata.jsonl", R"({"file_name": "a.mp4", "text": "x"})");

  EXPECT_EQ(folder.list(),
            (Pairs{{"a.mp4", "x"},
                   {"b.MP4", "- not in metadata.jsonl"},
                   {"sub/c.mp4", "- not in metadata.jsonl"},
                   {"d.rmvb", "- neither a video nor an image by its name"},
                   {"*.tfrec", "- 2 files, neither videos nor images by their names"}}));
}

TEST(ListFolder, LetsEachFolderHaveItsOwnMetadata) {
  const Folder folder;
  folder.clip("one/a.mp4");
  folder.clip("two/a.mp4");
  folder.clip("two/deep/b.mp4");
  folder.captioned("three/c.mp4", "beside it");
  folder.text("one/metadata.csv", "file_name,text\na.mp4,first\n");
  folder.text("two/metadata.jsonl", R"({"file_name": "a.mp4", "text": "second"}
{"file_name": "deep/b.mp4", "text": "third"})");

  EXPECT_EQ(folder.list(), (Pairs{{"one/a.mp4", "first"},
                                  {"two/a.mp4", "second"},
                                  {"two/deep/b.mp4", "third"},
                                  {"three/c.mp4", "beside it"}}));
}

TEST(ListFolder, ReadsOneSplitOfSeveral) {
  const Folder folder;
  folder.captioned("train/a.mp4");
  folder.captioned("test/b.mp4");
  EXPECT_EQ(folder.list(), (Pairs{{"train/a.mp4", "x"}, {"test/", "- of the split `test`"}}));
  EXPECT_EQ(folder.list({.split = "test"}),
            (Pairs{{"test/b.mp4", "x"}, {"train/", "- of the split `train`"}}));

  const Folder alone;  // without a `test`, `train` is an ordinary folder
  alone.captioned("train/a.mp4");
  alone.captioned("plane/b.mp4");
  EXPECT_EQ(alone.list(), (Pairs{{"train/a.mp4", "x"}, {"plane/b.mp4", "x"}}));
}

TEST(ListFolder, TakesTheUsualNamesOfColumnsAndSaysWhichAreThere) {
  const Folder folder;
  folder.clip("a.mp4");
  for (const char* text :
       {"video,prompt\na.mp4,x\n", "path,caption\na.mp4,x\n", "id,file_name,text\n7,a.mp4,x\n"}) {
    folder.text("metadata.csv", text);
    EXPECT_EQ(folder.list(), (Pairs{{"a.mp4", "x"}})) << text;
  }
  folder.text("metadata.csv", "file_name,length,words\na.mp4,5,x\n");
  EXPECT_THAT([&] { folder.list(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no column `text`"),
                                         HasSubstr("it has `file_name`, `length`, `words`"),
                                         HasSubstr("caption_column"))));
  EXPECT_EQ(folder.list({.caption_column = "words"}), (Pairs{{"a.mp4", "x"}}));
  fs::remove(folder / "metadata.csv");
  folder.text("metadata.jsonl", R"({"clip": "a.mp4", "text": "x"})");
  EXPECT_THAT([&] { folder.list(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("metadata.jsonl:1"), HasSubstr("`file_name`"),
                                         HasSubstr("it has `clip`, `text`"))));
}

TEST(ListFolder, FindsTheSeparatorOfATableByItsFirstLine) {
  const Folder folder;
  folder.clip("a.mp4");
  const auto notes = [&] { return list_folder(folder.path()).notes; };
  const Pairs found{{"a.mp4", "a fox, red; alive"}};
  folder.text("metadata.csv", "file_name,text\na.mp4,\"a fox, red; alive\"\n");
  EXPECT_EQ(folder.list(), found);
  EXPECT_THAT(notes(), IsEmpty());
  folder.text("metadata.csv", "file_name;n,1;text\r\na.mp4;7;\"a fox, red; alive\"\r\n");
  EXPECT_EQ(folder.list(), found);
  EXPECT_THAT(notes(), ElementsAre("metadata.csv: its separator is a semicolon"));
  folder.text("metadata.csv", "file_name\ttext\na.mp4\ta fox, red; alive\n");
  EXPECT_EQ(folder.list(), found);
  EXPECT_THAT(notes(), ElementsAre("metadata.csv: its separator is a tab"));
  folder.text("metadata.csv", "sep=;\nfile_name;text\na.mp4;\"a fox, red; alive\"\n");
  EXPECT_EQ(folder.list(), found);
  folder.text("metadata.csv", "sep=;\nfile_name;text\na.mp4\n");
  EXPECT_THAT([&] { folder.list(); },
              ThrowsMessage<Error>(HasSubstr("metadata.csv:3 has 1 fields but the first line")));
  folder.text("metadata.csv", "file;words\na.mp4;x\n");
  EXPECT_THAT([&] { folder.list(); }, ThrowsMessage<Error>(HasSubstr("it has `file`, `words`")));
  folder.text("metadata.csv", std::string("\xff\xfe"
                                          "f\0i\0",
                                          6));
  EXPECT_THAT([&] { folder.list(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("metadata.csv is UTF-16, expected UTF-8"),
                                         HasSubstr("iconv -f utf-16 -t utf-8"))));
  fs::remove(folder / "metadata.csv");
  folder.text("metadata.tsv", "file_name\ttext\na.mp4\ta fox, red; alive\n");
  EXPECT_EQ(folder.list(), found);
  EXPECT_THAT(notes(), IsEmpty());
}

TEST(ListFolder, DoesNotLeaveTheFolder) {
  const Scratch outside;
  const Folder folder;
  fs::copy_file(golden("dataset/videos/clip_00.mp4"), outside / "secret.mp4");
  folder.clip("sub/a.mp4");
  for (const std::string& name :
       {(outside / "secret.mp4").string(),
        "../" + outside.path().filename().string() + "/secret.mp4",
        "sub/../../" + outside.path().filename().string() + "/secret.mp4"}) {
    SCOPED_TRACE(name);
    folder.text("metadata.jsonl", R"({"file_name": ")" + name + R"(", "text": "x"})");
    EXPECT_THAT([&] { list_clips(folder.path()); },
                ThrowsMessage<Error>(AllOf(HasSubstr("metadata.jsonl:1"), HasSubstr(name),
                                           HasSubstr("lies outside of"))));
    const auto kept = list_clips(folder.path(), "text", MissingClip::Keep);
    EXPECT_THAT(kept.at(0).problem, HasSubstr("lies outside of"));
  }
  // A file name inside the folder may be an absolute path, and a link is accepted as its owner's
  // choice.
  fs::create_symlink(outside / "secret.mp4", folder / "link.mp4");
  folder.text("metadata.jsonl", R"({"file_name": ")" + (folder / "sub/a.mp4").string() +
                                    R"(", "text": "x"}
{"file_name": "link.mp4", "text": "y"})");
  EXPECT_EQ(list_clips(folder.path()).size(), 2U);
}

TEST(ListFolder, DoesNotLeaveTheFolderByTheWayBackFromALink) {
  const Scratch outside;
  const Folder folder;
  fs::create_directory(outside / "shared");
  fs::copy_file(golden("dataset/videos/clip_00.mp4"), outside / "secret.mp4");
  fs::create_directory_symlink(outside / "shared", folder / "shared");
  folder.text("metadata.jsonl", R"({"file_name": "shared/../secret.mp4", "text": "x"})");

  EXPECT_THAT(list_clips(folder.path(), "text", MissingClip::Keep).at(0).problem,
              HasSubstr("there is no"));
  folder.clip("secret.mp4");
  EXPECT_EQ(list_clips(folder.path()).at(0).path, folder / "secret.mp4");
}

// huggingface_hub stores files under their hashes; a snapshot consists of links to them.
TEST(ListFolder, ReadsASnapshotOfTheHubsCache) {
  const Scratch cache;
  const fs::path snapshot = cache / "snapshots/0123";
  fs::create_directories(cache / "blobs");
  fs::create_directories(snapshot / "videos");
  fs::copy_file(golden("dataset/videos/clip_00.mp4"), cache / "blobs/f1e2");
  write_file(cache / "blobs/a0b1", R"({"file_name": "videos/a.mp4", "text": "a fox"})");
  write_file(cache / "blobs/c2d3", "a cat");
  fs::create_symlink("../../../blobs/f1e2", snapshot / "videos/a.mp4");
  fs::create_symlink("../../blobs/a0b1", snapshot / "metadata.jsonl");

  const auto listed = list_clips(snapshot);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].caption, "a fox");
  EXPECT_EQ(folder_clips(snapshot, "text", false)->measure(0).width, 64);

  fs::remove(snapshot / "metadata.jsonl");
  fs::create_symlink("../../../blobs/c2d3", snapshot / "videos/a.txt");
  EXPECT_EQ(list_clips(snapshot).at(0).caption, "a cat");
}

TEST(ListFolder, FollowsLinksToFoldersOnce) {
  const Scratch outside;
  const Folder folder;
  fs::copy_file(golden("dataset/videos/clip_00.mp4"), outside / "a.mp4");
  write_file(outside / "a.txt", "x");
  fs::create_directory_symlink(outside.path(), folder / "more");
  fs::create_directory_symlink(folder.path(), folder / "round");

  EXPECT_EQ(list_clips(folder.path()).size(), 1U);
}

TEST(ListFolder, NamesACaptionThatIsNoUtf8) {
  const Folder folder;
  folder.captioned("a.mp4", "caf\xe9");
  folder.captioned("b.mp4", "\xef\xbb\xbfgood");

  EXPECT_THAT([&] { list_clips(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.txt: the caption is no UTF-8"),
                                         HasSubstr("0xe9 at 3"), HasSubstr("iconv"))));
  EXPECT_THAT(folder.list().at("a.mp4"), HasSubstr("no UTF-8"));
  EXPECT_EQ(folder.list().at("b.mp4"), "good");
  folder.text("a.txt", std::string("\xff\xfe"
                                   "x\0",
                                   4));
  EXPECT_THAT(folder.list().at("a.mp4"), HasSubstr("iconv -f utf-16 -t utf-8"));
  folder.text("metadata.csv", "file_name,text\na.mp4,caf\xe9\n");
  EXPECT_THAT(folder.list().at("a.mp4"), HasSubstr("metadata.csv:2: the caption is no UTF-8"));
}

TEST(ListFolder, TakesImagesAsClipsOfOneFrameWhereTheyFit) {
  const Folder folder;
  folder.captioned("a.mp4");
  folder.image("a.png");
  folder.image("b.png");
  EXPECT_EQ(folder.list({.images = false}),
            (Pairs{{"a.mp4", "a picture"},
                   {"a.png", "- an image, which num_frames=1 takes as a clip"},
                   {"b.png", "- an image, which num_frames=1 takes as a clip"}}));

  const Folder pictures;
  pictures.image("a.png");
  EXPECT_THAT([&] { pictures.list({.images = false}); },
              ThrowsMessage<Error>(HasSubstr("\n  num_frames=1 takes the images")));

  const auto clips = folder_clips(folder.path(), "text");
  ASSERT_EQ(clips->size(), 3);
  EXPECT_EQ(clips->measure(2).frames, 1);
  EXPECT_EQ(clips->measure(2).width, 32);
  EXPECT_EQ(clips->read(2, {.height = 8, .width = 16, .num_frames = 1}, {}).shape,
            (Shape{DType::F32, {3, 1, 8, 16}}));
  EXPECT_THAT([&] { clips->read(2, {.height = 8, .width = 16, .num_frames = 5}, {}); },
              ThrowsMessage<Error>(HasSubstr("b.png is an image, but num_frames is 5")));
}

// As for kohya's scripts: captions, and folder names with a number of repeats.
TEST(ListFolder, ReadsFoldersOfKohyasScripts) {
  const Folder folder;
  folder.clip("10_fox/a.mp4");
  folder.text("10_fox/a.caption", " a fox\n");
  folder.clip("10_fox/b.mp4");
  folder.text("10_fox/b.caption", "not this");
  folder.text("10_fox/b.txt", "a fox in snow");
  folder.captioned("2_owl/c.mp4", "an owl");
  folder.captioned("2024/d.mp4", "a year");
  EXPECT_EQ(folder.list(), (Pairs{{"10_fox/a.mp4", "a fox"},
                                  {"10_fox/b.mp4", "a fox in snow"},
                                  {"2_owl/c.mp4", "an owl"},
                                  {"2024/d.mp4", "a year"}}));
  EXPECT_THAT(list_folder(folder.path()).notes,
              ElementsAre(AllOf(HasSubstr("10_fox/ (and 1 more) begins with is not read"),
                                HasSubstr("a clip that metadata.jsonl names n times"))));

  // A consistent entry.
  folder.text("metadata.jsonl", R"({"file_name": "2024/d.mp4", "text": "x"})"
                                "\n"
                                R"({"file_name": "2024/d.mp4", "text": "x"})"
                                "\n");
  const Listing listed = list_folder(folder.path());
  EXPECT_EQ(listed.clips.size(), 2U);
  EXPECT_THAT(listed.notes, IsEmpty());
}

TEST(ListFolder, SaysOfAnAnimationThatItIsOne) {
  const Folder folder;
  folder.image("a.png");
  std::string bytes = io::read_text(folder / "a.png", size_t{1} << 20);
  // After the header: a chunk of two frames that repeat for ever; its checksum is not verified.
  bytes.insert(33, std::string("\0\0\0\x08"
                               "acTL\0\0\0\x02\0\0\0\0\0\0\0\0",
                               20));
  folder.text("a.png", bytes);
  folder.text("b.webp",
              std::string("RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x0f\0\0\x0b\0\0ANIM", 34) +
                  std::string(6, '\0'));
  folder.text("b.txt", "x");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);
  const Survey survey = survey_clips(*clips, {.clips = 2, .any_length = true});
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_THAT(short_reason(*clips, i, survey.problems[static_cast<size_t>(i)]),
                HasSubstr(clips->name(i) + " is an animation, expected a single picture"));
  }
}

TEST(DatasetTypes, AreNamedWhereAnotherOneIsRead) {
  const Folder clips;
  clips.captioned("a.mp4");
  EXPECT_THAT([&] { tfrecord_source({.folder = clips.path()}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("holds no TFRecords"),
                                         HasSubstr("dataset_type=videos reads them"))));
  const Folder records;
  records.text("file_00-64.tfrec", "");
  EXPECT_THAT([&] { folder_clips(records.path(), "text"); },
              ThrowsMessage<Error>(HasSubstr("dataset_type=tfrecord reads them")));
  const Folder tables;
  tables.text("train.parquet", "");
  EXPECT_THAT([&] { folder_clips(tables.path(), "text"); },
              ThrowsMessage<Error>(HasSubstr("dataset_type=hf reads them")));
  EXPECT_EQ(detect_dataset_type({"README.md"}), "");
}

TEST(ReadClip, KeepsTheSpeedAtARateOfItsOwn) {
  const Folder folder;
  folder.video("a.mp4", 30, 30);  // one second
  const auto clips = folder_clips(folder.path(), "text");
  const auto steps = [&](const ClipFormat& format, const ClipWindow& window) {
    std::vector<int64_t> out;
    const HostArray pixels = clips->read(0, format, window);
    const int64_t plane = format.height * format.width;
    for (int64_t f = 0; f < format.num_frames; ++f) {
      const float level = pixels.as<float>()[static_cast<size_t>(f * plane)];
      out.push_back(std::lround(((level + 1) * 127.5F - 20) / 10));
    }
    return out;
  };
  const ClipFormat by_number{.height = 16, .width = 32, .num_frames = 5};
  ClipFormat by_time = by_number;
  by_time.fps = 10;

  EXPECT_THAT(steps(by_number, {.start = 0.0F}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(steps(by_time, {.start = 0.0F}), ElementsAre(0, 3, 6, 9, 12));
  // Ten frames of 0.1 s: the middle five begin at the third.
  EXPECT_THAT(steps(by_time, {}), ElementsAre(6, 9, 12, 15, 18));
  EXPECT_EQ(frames_in(clips->measure(0), by_time), 10);
  by_time.num_frames = 11;
  EXPECT_THAT([&] { clips->read(0, by_time, {}); },
              ThrowsMessage<Error>(
                  HasSubstr("is too short: 10 frames at target_fps 10 (in the file 30 at 30 "
                            "frames a second), but num_frames is 11")));
}

TEST(ReadClip, MakesPixelsSquare) {
  const Folder folder;
  folder.video("a.mp4", 2, 16, 16, 32);
  io::remux(folder / "a.mp4", folder / "wide.mp4", {.pixel_width = 2, .pixel_height = 1});
  write_file(folder / "wide.txt", "x");
  const auto clips = folder_clips(folder.path(), "text");

  EXPECT_EQ(clips->measure(0).width, 32);
  EXPECT_EQ(clips->measure(1).width, 64);
  EXPECT_EQ(clips->measure(1).height, 16);

  // Frames of 2 x 4 pixels with a pixel aspect ratio of 2: 2 x 8, of which 2 x 2 keeps the middle
  // quarter, half each of columns 1 and 2.
  HostArray frames(Shape{DType::U8, {1, 2, 4, 3}});
  for (size_t i = 0; i < frames.bytes.size(); ++i) {
    frames.as<uint8_t>()[i] = static_cast<uint8_t>(i / 3 % 4 * 80);
  }
  const HostArray square = fit_frames(frames, 2, 4, std::nullopt, 2);
  const HostArray plain = fit_frames(frames, 2, 4);
  const auto level = [](const HostArray& array, size_t x) {
    return std::lround((array.as<float>()[x] + 1) * 127.5F);
  };
  EXPECT_EQ(level(plain, 0), 0);
  EXPECT_EQ(level(plain, 3), 240);
  // Bilinear with pixel centres at half: columns 2 to 5 of 8 are at 0.75, 1.25, 1.75, 2.25 of 4.
  EXPECT_EQ(level(square, 0), 60);
  EXPECT_EQ(level(square, 1), 100);
  EXPECT_EQ(level(square, 2), 140);
  EXPECT_EQ(level(square, 3), 180);
}

TEST(Survey, FindsEveryClipThatCannotBeUsed) {
  const Folder folder;
  folder.video("good.mp4", 17, 16);
  folder.video("short.mp4", 3, 16);
  folder.clip("silent.mp4");
  io::remux(folder / "good.mp4", folder / "sound.avi", {.audio_only = true});
  folder.text("sound.txt", "x");
  folder.text("broken.mp4", "no video");
  folder.text("broken.txt", "x");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);

  const Survey survey = survey_clips(
      *clips, {.clips = clips->size(), .format = {.height = 16, .width = 32, .num_frames = 9}});

  ASSERT_EQ(survey.problems.size(), 5U);
  EXPECT_EQ(survey.bad(), 4);
  std::map<std::string, std::string> why;
  for (int64_t i = 0; i < clips->size(); ++i) {
    why[clips->name(i)] = short_reason(*clips, i, survey.problems[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(why["sound.avi"], "sound.avi has no video stream that can be decoded");
  EXPECT_EQ(why["short.mp4"], "short.mp4 is too short: 3 frames, but num_frames is 9");
  EXPECT_THAT(why["broken.mp4"], HasSubstr("cannot read broken.mp4: "));
  EXPECT_THAT(why["silent.mp4"], HasSubstr("silent.mp4 has no caption: silent.txt is not there"));
  EXPECT_EQ(survey_clips(*clips, {.clips = clips->size(), .any_length = true}).bad(), 3);
}

TEST(Survey, CountsWhatIsLeftOutByCause) {
  const Folder folder;
  folder.video("a.mp4", 9, 16);
  folder.video("b.mp4", 3, 16);
  folder.video("c.mp4", 4, 16);
  folder.image("d.png");
  folder.clip("silent.mp4");
  folder.captioned("latin.mp4", "caf\xe9");
  folder.captioned("book.mp4", std::string((size_t{1} << 20) + 1, 'x'));  // longer than is read
  folder.text("broken.mp4", "no video");
  folder.text("broken.txt", "x");
  folder.text("e.rmvb", "");
  folder.text("f.rmvb", "");
  folder.text("g.heic", "");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);

  const Survey survey = survey_clips(
      *clips, {.clips = clips->size(), .format = {.height = 16, .width = 32, .num_frames = 9}});

  Pairs counts;
  for (const CauseCount& each : count_causes(survey)) {
    counts[each.cause] = std::to_string(each.count);
  }
  EXPECT_EQ(counts, (Pairs{{"too short", "2"},
                           {"neither a video nor an image by its name", "2"},
                           {"a picture", "1"},
                           {"no caption", "1"},
                           {"caption is not UTF-8", "1"},
                           {"caption cannot be read", "1"},
                           {"cannot be decoded", "1"},
                           {"a HEIC picture, which is not read", "1"}}));
  EXPECT_EQ(count_causes(survey).front().count, 2) << "the most frequent first";
}

TEST(UnreadPictures, AreCountedWhereAFolderHoldsNothingElse) {
  const Scratch scratch;
  for (const char* name : {"a.heic", "b.HEIC", "c.jxl"}) {
    io::write_file(scratch / name, "x");
  }
  const char* found = "it holds 2 HEIC pictures and 1 JPEG XL picture, which are not read: convert";
  EXPECT_THAT([&] { list_clips(scratch.path(), "text"); }, ThrowsMessage<Error>(HasSubstr(found)));
  EXPECT_THAT([&] { tfrecord_source({.folder = scratch.path()}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("holds no TFRecords"), HasSubstr(found))));
}

TEST(UnreadFiles, NameAnArchive) {
  const Scratch scratch;
  io::write_file(scratch / "photos.zip", "PK\x03\x04");
  EXPECT_THAT([&] { list_clips(scratch.path(), "text"); },
              ThrowsMessage<Error>(
                  HasSubstr("it holds photos.zip, an archive, which is not read: unpack it")));
  EXPECT_THAT([&] { list_clips(scratch / "photos.zip", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("is not a folder"), HasSubstr("unpack it"))));
  io::write_file(scratch / "photos", "PK\x03\x04");
  EXPECT_THAT([&] { list_clips(scratch / "photos", "text"); },
              ThrowsMessage<Error>(HasSubstr("photos is a ZIP archive, expected a folder")));
}

TEST(Survey, NamesTheFramesThatKeepNineInTenClips) {
  Survey survey;
  for (int64_t frames = 20; frames < 40; ++frames) {  // 20 clips
    survey.sizes.push_back({.frames = frames, .height = 16, .width = 16, .fps = 24});
    survey.problems.emplace_back("too short");
    survey.causes.emplace_back(kTooShort);
  }
  survey.sizes.push_back({});
  survey.problems.emplace_back("no video");
  survey.causes.emplace_back("cannot be decoded");
  const ClipFormat format{.height = 16, .width = 16, .num_frames = 81};
  const auto of_wan = [](int64_t frames) { return frames % 4 == 1; };

  const auto fewer = suggested_num_frames(survey, format, of_wan);
  ASSERT_TRUE(fewer);
  EXPECT_EQ(fewer->num_frames, 21) << "22 frames have 18 of 20, and 21 is what the model takes";
  EXPECT_EQ(fewer->clips, 19);
  EXPECT_EQ(long_enough(survey, {.num_frames = 30}), 10);
  ClipFormat far = format;
  far.frame_stride = 4;
  EXPECT_EQ(suggested_num_frames(survey, far, of_wan)->num_frames, 5);
  EXPECT_FALSE(suggested_num_frames(survey, format, [](int64_t) { return false; }));
}

TEST(Survey, NamesFilesWhole) {
  const Folder folder;
  for (const char* name : {"one two three/x.mp4", "one two three/b c/a clip.mp4"}) {
    folder.text(name, "");
    folder.text(fs::path(name).replace_extension(".txt"), "x");
  }
  folder.clip("my clips/d.mp4");
  for (const fs::path& root : {folder.path(), folder / "one two three"}) {
    const auto clips = folder_clips(root, "text", /*keep_bad=*/true);
    const Survey survey = survey_clips(*clips, {.clips = clips->size(), .any_length = true});
    for (int64_t clip = 0; clip < clips->size(); ++clip) {
      const std::string where = clips->where(clip);
      EXPECT_THAT(
          short_reason(*clips, clip, survey.problems[static_cast<size_t>(clip)]),
          ::testing::AnyOf(where + " is empty", ::testing::StartsWith(where + " has no caption"),
                           ::testing::StartsWith("cannot read " + where)));
    }
  }
}

TEST(ReadClip, FillsTransparentPartsBeforeItIsResampled) {
  const Folder folder;
  fs::copy_file(golden("images/alpha/rgba.png"), folder / "a.png");
  fs::copy_file(golden("images/alpha/rgba.png.white.png"), folder / "white.png");
  fs::copy_file(golden("images/alpha/rgba.png.20c0ff.png"), folder / "blue.png");
  fs::copy_file(golden("images/alpha/rgba.png.drop.png"), folder / "drop.png");
  ClipFormat format{.height = 5, .width = 7, .num_frames = 1};
  for (const auto& [word, name] :
       {std::pair{"white", "white.png"}, std::pair{"#20c0ff", "blue.png"},
        std::pair{"drop", "drop.png"}}) {
    format.background = media::read_background(word);
    EXPECT_EQ(read_clip(folder / "a.png", format).bytes, read_clip(folder / name, format).bytes)
        << word;
  }
  const auto bytes = io::read_text(folder / "a.png");
  EXPECT_TRUE(measure_clip(std::as_bytes(std::span(bytes)), "a.png").has_alpha);
}

TEST(Survey, CountsCaptionsWithoutWords) {
  const Folder folder;
  folder.captioned("a.mp4", "");
  folder.captioned("b.mp4", " \n");
  folder.captioned("c.mp4", "words");
  folder.text("d.mp4", "no video");
  folder.text("d.txt", "");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);
  EXPECT_EQ(survey_clips(*clips, {.clips = 4, .any_length = true}).empty_captions, 2);
}

TEST(Survey, CountsRatesAndEnlargement) {
  const Folder folder;
  folder.video("a.mp4", 9, 30);
  folder.video("b.mp4", 9, 29.97);
  folder.video("c.mp4", 9, 16);
  folder.image("d.png");
  const auto clips = folder_clips(folder.path(), "text");
  const Survey survey = survey_clips(*clips, {.clips = 4, .any_length = true});

  const std::vector<Rate> rates = frame_rates(survey);
  ASSERT_EQ(rates.size(), 3U) << "29.97 is not 30";
  EXPECT_NEAR(rates[0].fps, 30, 1e-6);
  EXPECT_NEAR(rates[1].fps, 29.97, 1e-3);
  EXPECT_NEAR(rates[2].fps, 16, 1e-6);
  EXPECT_DOUBLE_EQ(enlargement(survey.sizes[0], {.height = 64, .width = 64}), 4);
}

TEST(Survey, ChoosesBucketsByTheFramesThatARateGives) {
  const Folder folder;
  folder.video("a.mp4", 30, 30);
  const auto clips = folder_clips(folder.path(), "text");
  const std::vector<Bucket> buckets = {{9, 16, 32}, {17, 16, 32}, {29, 16, 32}};
  const auto chosen = [&](double fps) {
    return survey_clips(*clips, {.clips = 1, .format = {.fps = fps}, .buckets = buckets})
        .buckets.bucket_of.at(0);
  };
  EXPECT_EQ(chosen(0), 2);
  EXPECT_EQ(chosen(16), 0);
  EXPECT_EQ(chosen(20), 1);
}

}  // namespace
}  // namespace kinema::data
