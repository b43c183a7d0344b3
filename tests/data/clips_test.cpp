// Lists of the clips in folders as users have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/clip_folder.h"
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

using Pairs = std::map<std::string, std::string>;

TEST(ListFolder, FindsEveryContainerWhateverItsCaseAndFolder) {
  const ClipFolder folder;
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
  const ClipFolder folder;
  folder.clip("A.MP4");
  folder.text("A.TXT", "loud");
  folder.clip("b.mp4");
  folder.text("b.CAPTION", "of kohya");
  folder.text("LIST.CSV.bak.TXT", "a companion");
  EXPECT_EQ(folder.list(), (Pairs{{"A.MP4", "loud"}, {"b.mp4", "of kohya"}}));
}

TEST(ListFolder, NamesSkippedFiles) {
  const ClipFolder folder;
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

TEST(ListFolder, NamesPipesAndDoesNotOpenThem) {
  const ClipFolder folder;
  folder.captioned("a.mp4", "x");
  ASSERT_EQ(::mkfifo((folder.path() / "b.mp4").c_str(), 0600), 0);
  EXPECT_EQ(folder.list(),
            (Pairs{{"a.mp4", "x"}, {"b.mp4", "- a pipe, socket or device, not a file"}}));
}

TEST(ListFolder, SaysThatAFileIsListedMoreThanOnce) {
  const ClipFolder folder;
  folder.clip("a.mp4");
  folder.clip("b.mp4");
  folder.text("metadata.jsonl", R"({"file_name": "a.mp4", "text": "x"}
{"file_name": "b.mp4", "text": "y"}
{"file_name": "./a.mp4", "text": "z"})");
  const Listing list = list_folder(folder.path(), {});
  EXPECT_EQ(list.clips.size(), 3U);
  EXPECT_THAT(list.notes, ElementsAre(HasSubstr("metadata.jsonl: 1 row lists a file more than "
                                                "once, the first of them a.mp4")));
}

TEST(ListFolder, LetsEachFolderHaveItsOwnMetadata) {
  const ClipFolder folder;
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
  const ClipFolder folder;
  folder.captioned("train/a.mp4");
  folder.captioned("test/b.mp4");
  EXPECT_EQ(folder.list(), (Pairs{{"train/a.mp4", "x"}, {"test/", "- of the split `test`"}}));
  EXPECT_EQ(folder.list({.split = "test"}),
            (Pairs{{"test/b.mp4", "x"}, {"train/", "- of the split `train`"}}));

  const ClipFolder alone;  // without a `test`, `train` is an ordinary folder
  alone.captioned("train/a.mp4");
  alone.captioned("plane/b.mp4");
  EXPECT_EQ(alone.list(), (Pairs{{"train/a.mp4", "x"}, {"plane/b.mp4", "x"}}));
}

TEST(ListFolder, TakesTheUsualNamesOfColumnsAndSaysWhichAreThere) {
  const ClipFolder folder;
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
  const ClipFolder folder;
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
  const ClipFolder folder;
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
  const ClipFolder folder;
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
  const ClipFolder folder;
  fs::copy_file(golden("dataset/videos/clip_00.mp4"), outside / "a.mp4");
  write_file(outside / "a.txt", "x");
  fs::create_directory_symlink(outside.path(), folder / "more");
  fs::create_directory_symlink(folder.path(), folder / "round");

  EXPECT_EQ(list_clips(folder.path()).size(), 1U);
}

TEST(ListFolder, NamesACaptionThatIsNoUtf8) {
  const ClipFolder folder;
  folder.captioned("a.mp4", "caf\xe9");
  folder.captioned("b.mp4", "\xef\xbb\xbfgood");

  EXPECT_THAT([&] { list_clips(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.txt: the caption is not UTF-8"),
                                         HasSubstr("0xe9 at 3"), HasSubstr("iconv"))));
  EXPECT_THAT(folder.list().at("a.mp4"), HasSubstr("not UTF-8"));
  EXPECT_EQ(folder.list().at("b.mp4"), "good");
  folder.text("a.txt", std::string("\xff\xfe"
                                   "x\0",
                                   4));
  EXPECT_THAT(folder.list().at("a.mp4"), HasSubstr("iconv -f utf-16 -t utf-8"));
  folder.text("metadata.csv", "file_name,text\na.mp4,caf\xe9\n");
  EXPECT_THAT(folder.list().at("a.mp4"), HasSubstr("metadata.csv:2: the caption is not UTF-8"));
}

TEST(ListFolder, TakesImagesAsClipsOfOneFrameWhereTheyFit) {
  const ClipFolder folder;
  folder.captioned("a.mp4");
  folder.image("a.png");
  folder.image("b.png");
  EXPECT_EQ(folder.list({.images = false}),
            (Pairs{{"a.mp4", "a picture"},
                   {"a.png", "- an image, which num_frames=1 takes as a clip"},
                   {"b.png", "- an image, which num_frames=1 takes as a clip"}}));

  const ClipFolder pictures;
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

// As for kohya's scripts: captions, and folder names with a number of repeats and class words.
TEST(ListFolder, ReadsFoldersOfKohyasScripts) {
  const ClipFolder folder;
  folder.clip("10_red fox/a.mp4");
  folder.text("10_red fox/a.Caption", " a fox\n");
  folder.clip("10_red fox/b.mp4");
  folder.text("10_red fox/b.caption", "not this");
  folder.text("10_red fox/b.TXT", "a fox in snow");
  folder.clip("10_red fox/c.mp4");
  folder.clip("1_owl/d.mp4");
  folder.captioned("2024_summer/e.mp4", "a year");
  folder.captioned("3_/f.mp4", "no words");
  EXPECT_EQ(folder.list(), (Pairs{{"10_red fox/a.mp4", "a fox"},
                                  {"10_red fox/b.mp4", "a fox in snow"},
                                  {"10_red fox/c.mp4", "red fox"},
                                  {"1_owl/d.mp4", "owl"},
                                  {"2024_summer/e.mp4", "a year"},
                                  {"3_/f.mp4", "no words"}}));
  const Listing listed = list_folder(folder.path());
  EXPECT_EQ(listed.clips.size(), 10U * 3 + 1 + 1 + 3);
  EXPECT_THAT(
      listed.notes,
      ElementsAre("10_red fox/: each clip counts 10 times an epoch, by the folder's name; 1 "
                  "without a caption has `red fox`",
                  "1_owl/: each clip counts once an epoch, by the folder's name; 1 without "
                  "a caption has `owl`",
                  "3_/: each clip counts 3 times an epoch, by the folder's name"));

  // A metadata file counts alone.
  folder.text("metadata.jsonl", R"({"file_name": "1_owl/d.mp4", "text": "x"})"
                                "\n"
                                R"({"file_name": "1_owl/d.mp4", "text": "x"})"
                                "\n");
  const Listing by_list = list_folder(folder.path());
  EXPECT_EQ(by_list.clips.size(), 2U);
  EXPECT_THAT(by_list.notes, ElementsAre(HasSubstr("1 row lists a file more than once")));
}

TEST(ListFolder, LeavesOutMasksOfPictures) {
  const ClipFolder folder;
  folder.image("1_ball/0.png");
  folder.image("1_ball/0-mask.png");
  folder.image("1_ball/0-masklabel.png");
  folder.image("1_ball/my-mask.png");  // without a picture `my`
  EXPECT_EQ(
      folder.list(),
      (Pairs{{"1_ball/0.png", "a picture"},
             {"1_ball/my-mask.png", "a picture"},
             {"1_ball/0-mask.png", "- a mask by its name, which mask_dir=FOLDER uses"},
             {"1_ball/0-masklabel.png", "- a mask by its name, which mask_dir=FOLDER uses"}}));
}

TEST(ListFolder, ReadsKohyasLists) {
  const ClipFolder folder;
  for (const char* name : {"0.png", "1.png", "2.png"}) {
    folder.image(name);
  }
  folder.text("meta_cap.json",
              R"({"0.png": {"caption": "a red ball", "tags": "ball, red"},)"
              R"( "1.png": {"caption": "a blue ball"}, "2.png": {"tags": "green, ball"}})");
  EXPECT_EQ(folder.list(), (Pairs{{"0.png", "a red ball, ball, red"},
                                  {"1.png", "a blue ball"},
                                  {"2.png", "green, ball"}}));
  // Names without an extension, as merge_captions_to_metadata.py writes them.
  folder.text("meta_cap.json", R"({"0": {"caption": "a"}, "2": {"tags": "b"}})");
  EXPECT_THAT(folder.list(), ::testing::IsSupersetOf(Pairs{{"0.png", "a"}, {"2.png", "b"}}));
  for (const auto& [text, problem] :
       {std::pair(R"([1])", "expected an object of files"),
        std::pair(R"({"0.png": "a"})", "`0.png` is"),
        std::pair(R"({"0.png": {"train_resolution": [1, 2]}})", "has neither `text`"),
        std::pair(R"({"../0.png": {"tags": "a"}})", "lies outside")}) {
    folder.text("meta_cap.json", text);
    EXPECT_THAT([&] { list_folder(folder.path()); }, ThrowsMessage<Error>(HasSubstr(problem)));
  }
}

TEST(ListFolder, CountsControlsAndRefusesTwoOfThem) {
  const ClipFolder folder;
  folder.image("a.png");
  folder.image("b.png");
  folder.image("before/a.png");
  const std::string plain = R"({"file_name": "b.png", "text": "b"})";
  const std::string begin = R"({"file_name": "a.png", "text": "a", "source": "before/a.png")";
  folder.text("metadata.jsonl", begin + "}\n" + plain + "\n");
  EXPECT_THAT(list_folder(folder.path()).notes,
              ::testing::Contains(HasSubstr("1 of 2 clips have a control or source")));
  folder.text("metadata.jsonl", begin + R"(, "control": "before/a.png"})" + "\n" + plain);
  EXPECT_THAT([&] { list_folder(folder.path()); },
              ThrowsMessage<Error>(HasSubstr("has `control` and `source`")));
}

TEST(ListFolder, SaysOfAnAnimationThatItIsOne) {
  const ClipFolder folder;
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
  const ClipFolder clips;
  clips.captioned("a.mp4");
  EXPECT_THAT([&] { tfrecord_source({.folder = clips.path()}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("holds no TFRecords"),
                                         HasSubstr("dataset_type=videos reads them"))));
  const ClipFolder records;
  records.text("file_00-64.tfrec", "");
  EXPECT_THAT([&] { folder_clips(records.path(), "text"); },
              ThrowsMessage<Error>(HasSubstr("dataset_type=tfrecord reads them")));
  const ClipFolder tables;
  tables.text("train.parquet", "");
  EXPECT_THAT([&] { folder_clips(tables.path(), "text"); },
              ThrowsMessage<Error>(HasSubstr("dataset_type=hf reads them")));
  EXPECT_EQ(detect_dataset_type({"README.md"}), "");
  EXPECT_EQ(detect_dataset_type({"a.tfrec", "metadata.jsonl"}), "tfrecord");
  EXPECT_EQ(detect_dataset_type({"metadata.jsonl", "videos/a.mp4", "tfrecords/a.tfrec"}), "videos");
}

}  // namespace
}  // namespace kinema::data
