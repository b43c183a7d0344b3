#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/hf_clips.h"
#include "kinema/data/hf_table.h"
#include "kinema/data/video_source.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

fs::path clip(int i) { return golden("dataset/videos") / ("clip_0" + std::to_string(i) + ".mp4"); }

template <typename T>
T valid(arrow::Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return std::move(result).ValueOrDie();
}

/// A table with a caption per row in `text`, and `image` stored as `media` says: struct, bytes or
/// path.
std::shared_ptr<arrow::Table> table(int first, int rows, const std::string& media) {
  arrow::StringBuilder text;
  arrow::BinaryBuilder bytes;
  arrow::StringBuilder path;
  for (int i = first; i < first + rows; ++i) {
    EXPECT_TRUE(text.Append("caption " + std::to_string(i)).ok());
    EXPECT_TRUE(bytes.Append(io::read_text(clip(i))).ok());
    EXPECT_TRUE(path.Append(clip(i).string()).ok());
  }
  const auto captions = valid(text.Finish());
  const auto contents = valid(bytes.Finish());
  const auto paths = valid(path.Finish());
  std::shared_ptr<arrow::Array> column = contents;
  if (media == "struct") {
    column = valid(
        arrow::StructArray::Make({contents, paths}, std::vector<std::string>{"bytes", "path"}));
  } else if (media == "path") {
    column = paths;
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("image", column->type())}),
      {captions, column});
}

void write_parquet(const fs::path& path, const arrow::Table& table, int64_t group = 2) {
  const auto out = valid(arrow::io::FileOutputStream::Open(path.string()));
  ASSERT_TRUE(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, group).ok());
  ASSERT_TRUE(out->Close().ok());
}

void write_arrow(const fs::path& path, const arrow::Table& table, bool stream) {
  const auto out = valid(arrow::io::FileOutputStream::Open(path.string()));
  const auto writer = valid(stream ? arrow::ipc::MakeStreamWriter(out, table.schema())
                                   : arrow::ipc::MakeFileWriter(out, table.schema()));
  ASSERT_TRUE(writer->WriteTable(table, 2).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(out->Close().ok());
}

/// The metadata of the library's ImageFolder, with the names of files in column `file`.
void write_metadata(const fs::path& path, const std::string& file) {
  arrow::StringBuilder names;
  arrow::StringBuilder texts;
  for (const char* name : {"b.mp4", "sub/a.mp4", "c.mp4"}) {
    EXPECT_TRUE(names.Append(name).ok());
    EXPECT_TRUE(texts.Append(std::string("of ") + name).ok());
  }
  const auto fields =
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field(file, arrow::utf8())});
  write_parquet(path, *arrow::Table::Make(fields, {valid(texts.Finish()), valid(names.Finish())}));
}

TEST(Metadata, OfPicturesInAFolderMayBeParquet) {
  const Scratch folder;
  fs::create_directory(folder / "sub");
  for (const char* name : {"b.mp4", "sub/a.mp4", "d.mp4"}) {
    fs::copy_file(clip(0), folder / name);
  }
  write_metadata(folder / "metadata.parquet", "file_name");
  const Listing listing = list_folder(folder.path(), {.missing = MissingClip::Keep});
  ASSERT_EQ(listing.clips.size(), 3U);
  EXPECT_EQ(listing.clips[0].caption, "of b.mp4");
  EXPECT_EQ(listing.clips[1].path.filename(), "a.mp4");
  EXPECT_EQ(listing.clips[1].caption, "of sub/a.mp4");
  EXPECT_THAT(listing.clips[2].problem, HasSubstr("metadata.parquet row 2: there is no clip"));
  ASSERT_EQ(listing.left_out.size(), 1U);
  EXPECT_EQ(listing.left_out[0].reason, "not in metadata.parquet");

  // As a data set of the hub, and where the kind of data set is asked for.
  fs::copy_file(clip(1), folder / "c.mp4");
  const auto set = hf_clips({.folder = folder.path()});
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->caption(1), "of sub/a.mp4");
  EXPECT_EQ(set->measure(1).width, set->measure(0).width);
  EXPECT_EQ(detect_dataset_type({"a.png", "metadata.parquet"}), "videos");
  EXPECT_EQ(detect_dataset_type({"a.png", "data/train.parquet"}), "hf");

  write_metadata(folder / "metadata.parquet", "name");
  EXPECT_THAT([&] { list_folder(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("metadata.parquet has no column `file_name`"),
                                         HasSubstr("it has `text`, `name`"))));
  write_parquet(folder / "metadata.parquet", *table(0, 2, "bytes"));
  EXPECT_THAT([&] { list_folder(folder.path()); },
              ThrowsMessage<Error>(HasSubstr("holds the pictures themselves")));
}

TEST(HfTable, ReadsRowsOfEveryKindOfFileAndColumn) {
  const Scratch folder;
  for (const char* media : {"struct", "bytes", "path"}) {
    const auto rows = table(0, 5, media);
    write_parquet(folder / "a.parquet", *rows);
    write_arrow(folder / "file.arrow", *rows, false);
    write_arrow(folder / "stream.arrow", *rows, true);
    for (const char* name : {"a.parquet", "file.arrow", "stream.arrow"}) {
      SCOPED_TRACE(std::string(media) + " in " + name);
      const HfTable read(folder / name, "image", "text");
      ASSERT_EQ(read.rows(), 5);
      for (const int row : {4, 0, 2}) {
        EXPECT_EQ(read.caption(row), "caption " + std::to_string(row));
        const MediaCell cell = read.media(row);
        const std::string whole = io::read_text(clip(row));
        if (std::string_view(media) == "path") {
          EXPECT_EQ(cell.path, clip(row).string());
        } else {
          EXPECT_EQ(
              std::string(reinterpret_cast<const char*>(cell.bytes.data()), cell.bytes.size()),
              whole);
        }
      }
      EXPECT_THROW(read.caption(5), Error);
    }
  }
}

TEST(HfTable, NamesColumnsThatAreNotThere) {
  const Scratch folder;
  write_parquet(folder / "a.parquet", *table(0, 2, "bytes"));
  EXPECT_THAT(
      [&] { HfTable(folder / "a.parquet", "video", "text"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("no column `video`"), HasSubstr("text, image"))));
  EXPECT_THAT([&] { HfTable(folder / "a.parquet", "text", "image").caption(0); },
              ThrowsMessage<Error>(HasSubstr("text was expected")));
}

TEST(HfTable, RefusesTruncatedAndOtherFiles) {
  const Scratch folder;
  write_parquet(folder / "whole.parquet", *table(0, 3, "struct"));
  write_arrow(folder / "whole.arrow", *table(0, 3, "struct"), true);
  for (const char* name : {"whole.parquet", "whole.arrow"}) {
    const std::string whole = io::read_text(folder / name);
    for (size_t step = 0; step < 40; ++step) {
      // A truncated file, and one with a changed byte: an Error or rows, nothing else.
      std::string damaged = whole;
      if (step % 2 == 0) {
        damaged.resize(whole.size() * step / 40);
      } else {
        damaged[whole.size() * step / 40] ^= '\x5a';
        damaged[std::min(step * 13, whole.size() - 1)] ^= '\x11';
      }
      io::write_file(folder / "damaged", damaged);
      try {
        const HfTable table(folder / "damaged", "image", "text");
        for (int64_t row = 0; row < std::min<int64_t>(table.rows(), 8); ++row) {
          table.caption(row);
          table.media(row);
        }
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("[hf]"));
      }
    }
  }
  io::write_file(folder / "text.parquet", "PAR1 and so on PAR1");
  EXPECT_THROW(HfTable(folder / "text.parquet", "image", "text"), Error);
  io::write_file(folder / "none.arrow", "nothing of the kind");
  EXPECT_THROW(HfTable(folder / "none.arrow", "image", "text"), Error);
  io::write_file(folder / "zip.parquet", "PK\x03\x04" + std::string(100, 'x'));
  EXPECT_THAT([&] { HfTable(folder / "zip.parquet", "image", "text"); },
              ThrowsMessage<Error>(HasSubstr("zip.parquet is a ZIP archive, expected Parquet")));
}

TEST(HfTable, RefusesFilesThatUnpackToFarMoreThanTheyAre) {
  const Scratch folder;
  arrow::StringBuilder text;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(text.Append(std::string(size_t{1} << 20, 'a')).ok());
  }
  const auto captions = valid(text.Finish());
  const auto rows = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("image", arrow::utf8())}),
      {captions, captions});
  const auto out = valid(arrow::io::FileOutputStream::Open((folder / "a.parquet").string()));
  const auto packed =
      parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
  ASSERT_TRUE(parquet::arrow::WriteTable(*rows, arrow::default_memory_pool(), out, 4, packed).ok());
  ASSERT_TRUE(out->Close().ok());
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.codec = valid(arrow::util::Codec::Create(arrow::Compression::ZSTD));
  const auto stream = valid(arrow::io::FileOutputStream::Open((folder / "a.arrow").string()));
  const auto writer = valid(arrow::ipc::MakeStreamWriter(stream, rows->schema(), options));
  ASSERT_TRUE(writer->WriteTable(*rows).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(stream->Close().ok());

  for (const char* name : {"a.parquet", "a.arrow"}) {
    SCOPED_TRACE(name);
    ASSERT_LT(fs::file_size(folder / name), 100'000U);
    EXPECT_EQ(HfTable(folder / name, "image", "text").caption(3).size(), size_t{1} << 20);
    EXPECT_THAT(
        [&] { HfTable(folder / name, "image", "text", /*spare_bytes=*/1 << 20).caption(3); },
        ThrowsMessage<Error>(
            AllOf(HasSubstr(name), HasSubstr("far more memory than the file has bytes"))));
  }
}

TEST(HfTable, RefusesMoreRowsThanBytes) {
  const Scratch folder;
  const auto nothing = std::make_shared<arrow::NullArray>(1'000'000);
  const auto rows = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::null()), arrow::field("image", arrow::null())}),
      {nothing, nothing});
  const auto stream = valid(arrow::io::FileOutputStream::Open((folder / "a.arrow").string()));
  const auto writer = valid(arrow::ipc::MakeStreamWriter(stream, rows->schema()));
  ASSERT_TRUE(writer->WriteTable(*rows).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(stream->Close().ok());
  EXPECT_THAT([&] { HfTable(folder / "a.arrow", "image", "text"); },
              ThrowsMessage<Error>(HasSubstr("a group of 1000000 rows, in a file of")));
}

TEST(HfClips, AreTheClipsOfTheirBytes) {
  const Scratch folder;
  fs::create_directory(folder / "data");
  write_parquet(folder / "data/train-00000-of-00002.parquet", *table(0, 3, "struct"));
  write_parquet(folder / "data/train-00001-of-00002.parquet", *table(3, 2, "path"));
  write_parquet(folder / "data/test-00000-of-00001.parquet", *table(7, 1, "struct"));
  const auto clips = hf_clips({.folder = folder.path()});
  ASSERT_EQ(clips->size(), 5);
  const ClipFormat format{.height = 16, .width = 24, .num_frames = 5};
  for (const int i : {0, 2, 3, 4}) {
    EXPECT_EQ(clips->read(i, format, {}).bytes, read_clip(clip(i), format).bytes);
    EXPECT_EQ(clips->caption(i), "caption " + std::to_string(i));
    EXPECT_EQ(clips->measure(i).frames, 17);
  }
  EXPECT_EQ(clips->name(3), "train-00001-of-00002.parquet row 0");
  EXPECT_EQ(clips->hash(3), folder_clips(golden("dataset"), "text")->hash(3));
  EXPECT_NE(clips->stamp(0), clips->stamp(1));
  EXPECT_EQ(hf_clips({.folder = folder.path(), .split = "test"})->size(), 1);
  EXPECT_EQ(hf_clips({.folder = folder / "data/test-00000-of-00001.parquet"})->size(), 1);
}

TEST(HfClips, MakeImagesClipsOfOneFrame) {
  const Scratch folder;
  HostArray image(Shape{DType::U8, {20, 30, 3}});
  std::ranges::fill(image.bytes, std::byte{200});
  media::write_png(folder / "a.png", image);
  arrow::StringBuilder text;
  arrow::BinaryBuilder bytes;
  ASSERT_TRUE(text.Append("grey").ok());
  ASSERT_TRUE(bytes.Append(io::read_text(folder / "a.png")).ok());
  const auto images = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("image", arrow::binary())}),
      {valid(text.Finish()), valid(bytes.Finish())});
  write_parquet(folder / "images.parquet", *images);
  const auto clips = hf_clips({.folder = folder.path()});
  EXPECT_EQ(clips->measure(0).frames, 1);
  EXPECT_EQ(clips->measure(0).width, 30);
  const HostArray pixels = clips->read(0, {.height = 8, .width = 8, .num_frames = 1}, {});
  EXPECT_EQ(pixels.shape, (Shape{DType::F32, {3, 1, 8, 8}}));
  EXPECT_FLOAT_EQ(pixels.as<float>()[0], 200 / 127.5F - 1);
  EXPECT_THAT([&] { clips->read(0, {.num_frames = 5}, {}); },
              ThrowsMessage<Error>(HasSubstr("is an image")));
}

TEST(HfClips, NameARowThatCannotBeUsed) {
  const Scratch folder;
  arrow::StringBuilder text;
  arrow::BinaryBuilder bytes;
  ASSERT_TRUE(text.AppendValues({"a", "b"}).ok());
  ASSERT_TRUE(text.AppendNull().ok());
  ASSERT_TRUE(bytes.Append("no video").ok());
  ASSERT_TRUE(bytes.AppendNull().ok());
  ASSERT_TRUE(bytes.Append(io::read_text(clip(0))).ok());
  write_parquet(folder / "a.parquet",
                *arrow::Table::Make(arrow::schema({arrow::field("text", arrow::utf8()),
                                                   arrow::field("image", arrow::binary())}),
                                    {valid(text.Finish()), valid(bytes.Finish())}));
  const auto clips = hf_clips({.folder = folder.path()});
  const ClipFormat format{.height = 16, .width = 24, .num_frames = 5};
  for (const int row : {0, 1}) {
    EXPECT_THAT([&] { clips->read(row, format, {}); },
                ThrowsMessage<Error>(HasSubstr("a.parquet row " + std::to_string(row))));
  }
  EXPECT_THAT([&] { clips->caption(2); }, ThrowsMessage<Error>(HasSubstr("no caption")));
}

std::vector<std::string> chosen(std::vector<std::string> names, HfOptions options = {}) {
  return choose_hf_files(std::move(names), options);
}

TEST(ChooseHfFiles, TakesThoseOfTheSplit) {
  EXPECT_THAT(
      chosen({"README.md", "data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet",
              "data/test-00000-of-00001.parquet"}),
      ElementsAre("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"));
  EXPECT_THAT(chosen({"default/test/0.parquet", "default/train/0.parquet"}, {.split = "test"}),
              ElementsAre("default/test/0.parquet"));
  EXPECT_THAT(chosen({"train/data-00000-of-00001.arrow", "train/cache-1f.arrow"}),
              ElementsAre("train/data-00000-of-00001.arrow"));
  EXPECT_THAT(chosen({"b.parquet", "a.parquet"}), ElementsAre("a.parquet", "b.parquet"));
  EXPECT_THAT(chosen({"x/train.parquet", "y/train.parquet"}, {.data_dir = "y"}),
              ElementsAre("y/train.parquet"));
  EXPECT_THAT(chosen({"x/train.parquet", "y/trainer.parquet", "y/train-1.parquet"},
                     {.files = {"y/train-*.parquet"}}),
              ElementsAre("y/train-1.parquet"));
  EXPECT_THAT([] { chosen({"a.mp4"}); },
              ThrowsMessage<Error>(HasSubstr("no .parquet or .arrow files: it has 1 file(s), "
                                             "like a.mp4\n  dataset_type=videos or images")));
  EXPECT_THAT([] { chosen({}); }, ThrowsMessage<Error>(HasSubstr("it is empty")));
  EXPECT_THAT([] { chosen({"data/test-0.parquet"}); },
              ThrowsMessage<Error>(HasSubstr("no split `train`")));
  EXPECT_THAT([] { chosen({"a.parquet"}, {.split = "test"}); },
              ThrowsMessage<Error>(HasSubstr("no split `test`")));
}

}  // namespace
}  // namespace kinema::data
