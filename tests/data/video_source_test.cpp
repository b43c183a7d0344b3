#include "kinema/data/video_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/hash.h"
#include "kinema/io/mapped_file.h"

namespace kinema::data {
namespace {

using io::golden;
using io::Scratch;
using io::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A sample of the unencoded pixels and the caption's length.
Sample plain(const Clip& clip) {
  Sample out;
  out.latents = clip.pixels;
  out.encoder_hidden_states =
      HostArray::f32({1, 1}, std::vector{static_cast<float>(clip.caption.size())});
  return out;
}

VideoOptions reference_options() {
  return {.format = {.height = 32, .width = 48, .num_frames = 5}};
}

std::shared_ptr<const ClipSet> reference_clips() { return folder_clips(golden("dataset"), "text"); }

void copy_clip(const std::string& name, const std::filesystem::path& to) {
  std::filesystem::copy_file(golden("dataset/videos") / name, to);
}

TEST(FirstFrame, IsTheImageThatThePixelsCameFrom) {
  HostArray frames(Shape{DType::U8, {2, 2, 4, 3}});
  for (size_t i = 0; i < frames.bytes.size(); ++i) {
    frames.as<uint8_t>()[i] = static_cast<uint8_t>(i * 5);
  }
  const HostArray image = frame(fit_frames(frames, 2, 4), 0);

  EXPECT_EQ(image.shape, (Shape{DType::U8, {2, 4, 3}}));
  EXPECT_TRUE(std::equal(image.bytes.begin(), image.bytes.end(), frames.bytes.begin()));
}

TEST(VideoSource, HandsOnWhatIsEncodedOfTheFirstFrame) {
  int encoded = 0;
  const auto source = video_source(reference_clips(), reference_options(), [&](const Clip& clip) {
    ++encoded;
    Sample out = plain(clip);
    out.condition =
        HostArray::f32({1, 1, 1, 1}, std::vector{static_cast<float>(clip.caption.size())});
    out.image_states = HostArray::f32({1, 1}, std::vector{2.0F});
    EXPECT_EQ(bytes_of(out), static_cast<int64_t>(clip.pixels.bytes.size()) + 12);
    return out;
  });
  for (int i = 0; i < 2; ++i) {
    const Sample sample = source->at(3);
    EXPECT_EQ(sample.condition.as<float>()[0], sample.encoder_hidden_states.as<float>()[0]);
    EXPECT_EQ(sample.image_states.as<float>()[0], 2.0F);
  }
  EXPECT_EQ(encoded, 1) << "the second time from the cache";
}

TEST(VideoSource, ChoosesAVariantOfTheCaptionByPosition) {
  VideoOptions options = reference_options();
  options.seed = 4;
  options.captions = {.wildcards = true, .variants = 3};
  const Scratch folder;
  copy_clip("clip_00.mp4", folder / "a.mp4");
  write_file(folder / "a.txt", "{a|bb|ccc|dddd|eeeee}");
  const auto lengths = [&] {
    std::vector<float> out;
    const auto source = video_source(folder_clips(folder.path(), "text"), options, plain);
    for (int64_t position = 0; position < 60; ++position) {
      out.push_back(source->at(position).encoder_hidden_states.as<float>()[0]);
    }
    return out;
  };
  const std::vector<float> first = lengths();
  EXPECT_EQ(first, lengths());
  const std::set<float> different(first.begin(), first.end());
  EXPECT_GT(different.size(), 1U);
  EXPECT_LE(different.size(), 3U) << "as many as there are variants";
}

TEST(ListClips, ReadsJsonLinesCsvAndTextFiles) {
  const auto jsonl = list_clips(golden("dataset"));
  const Scratch csv;
  copy_clip("clip_00.mp4", csv / "a.mp4");
  write_file(csv / "metadata.csv",
             "\xef\xbb\xbf"
             "file_name,text\r\na.mp4,\"one, \"\"two\"\"\nthree\"\r\n");
  const Scratch text;
  copy_clip("clip_00.mp4", text / "b.mp4");
  copy_clip("clip_01.mp4", text / "a.mp4");
  write_file(text / "a.txt", " first \n");
  write_file(text / "b.txt", "second");

  ASSERT_EQ(jsonl.size(), 12U);
  EXPECT_EQ(jsonl[1].caption, "A green square moves from right to left on a dark background");
  EXPECT_EQ(list_clips(csv.path())[0].caption, "one, \"two\"\nthree");
  EXPECT_EQ(list_clips(text.path())[0].caption, "first");
  write_file(csv / "metadata.csv", "file_name,long,text\na.mp4,the long one,short\n");
  EXPECT_EQ(list_clips(csv.path(), "long")[0].caption, "the long one");
  EXPECT_EQ(list_clips(text.path())[1].path.filename(), "b.mp4");
}

TEST(ListClips, NamesFileAndLineOfAWrongCaptionFile) {
  const Scratch folder;
  copy_clip("clip_00.mp4", folder / "a.mp4");
  const auto listing = [&](const char* name, const char* text) {
    write_file(folder / name, text);
    return [&] { list_clips(folder.path()); };
  };

  EXPECT_THAT([&] { list_clips(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.mp4"), HasSubstr("a.txt"))));
  EXPECT_THAT(listing("metadata.csv", "name,text\na.mp4,x\n"),
              ThrowsMessage<Error>(HasSubstr("no column `file_name`")));
  EXPECT_THAT(listing("metadata.csv", "file_name,text\na.mp4,x,y\n"),
              ThrowsMessage<Error>(HasSubstr("metadata.csv:2 has 3 fields")));
  EXPECT_THAT(listing("metadata.csv", "file_name,text\na.mp4,\"x\n"),
              ThrowsMessage<Error>(HasSubstr("does not end")));
  EXPECT_THAT(listing("metadata.jsonl", "{\"file_name\": \"a.mp4\", \"text\": \"x\"}\n{\n"),
              ThrowsMessage<Error>(HasSubstr("metadata.jsonl:2")));
  EXPECT_THAT(listing("metadata.jsonl", "{\"file_name\": \"a.mp4\"}\n"),
              ThrowsMessage<Error>(HasSubstr("no `text`")));
  EXPECT_THAT(listing("metadata.jsonl", "{\"file_name\": \"b.mp4\", \"text\": \"x\"}\n"),
              ThrowsMessage<Error>(AllOf(HasSubstr("metadata.jsonl:1"), HasSubstr("b.mp4"))));
  EXPECT_THAT(listing("metadata.jsonl", "\n"), ThrowsMessage<Error>(HasSubstr("no clips")));
  EXPECT_THROW(list_clips(folder / "none"), Error);
}

TEST(VideoSource, GivesFittedFramesInAKnownOrder) {
  const auto source = video_source(reference_clips(), reference_options(), plain);

  const Sample first = source->at(0);

  EXPECT_EQ(source->size(), 12);
  EXPECT_EQ(first.latents.shape, (Shape{DType::F32, {3, 5, 32, 48}}));
  for (const float x : first.latents.as<float>()) {
    ASSERT_GE(x, -1);
    ASSERT_LE(x, 1);
  }
  std::set<std::string> names;
  for (int64_t i = 0; i < 12; ++i) {
    names.insert(source->at(i).id);
  }
  EXPECT_EQ(names.size(), 12U);
  EXPECT_EQ(source->at(3).latents.bytes, source->at(3).latents.bytes);
}

TEST(VideoSource, IsTheSameWithAndWithoutItsCache) {
  VideoOptions options = reference_options();
  options.random_flip = true;
  const auto cached = video_source(reference_clips(), options, plain);
  options.cache_bytes = 0;
  const auto uncached = video_source(reference_clips(), options, plain);
  for (const int64_t position : {0, 5, 12, 17}) {
    SCOPED_TRACE(position);
    EXPECT_EQ(cached->at(position).latents.bytes, uncached->at(position).latents.bytes);
  }
}

TEST(VideoSource, EncodesEachClipOnceUnlessTold) {
  VideoOptions options = reference_options();
  options.max_samples = 3;
  int encoded = 0;
  const auto count = [&](const Clip& clip) {
    ++encoded;
    return plain(clip);
  };
  const auto source = video_source(reference_clips(), options, count);
  for (int64_t i = 0; i < 9; ++i) {
    source->at(i);
  }
  EXPECT_EQ(source->size(), 3);
  EXPECT_EQ(encoded, 3);

  options.cache_bytes = 0;
  const auto uncached = video_source(reference_clips(), options, count);
  for (int64_t i = 0; i < 6; ++i) {
    uncached->at(i);
  }
  EXPECT_EQ(encoded, 9);
}

TEST(VideoSource, FlipsByChance) {
  VideoOptions options = reference_options();
  options.random_flip = true;
  options.shuffle = false;
  const auto source = video_source(reference_clips(), options, plain);
  std::set<std::string> versions;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Sample sample = source->at(epoch * 12);
    versions.insert(io::hash_bytes(sample.latents.bytes));
  }
  EXPECT_EQ(versions.size(), 2U);
}

/// One frame of 4 x 16 pixels whose red is 10 times the column.
class Columns : public ClipSet {
 public:
  int64_t size() const override { return 1; }
  std::string name(int64_t /*clip*/) const override { return "columns"; }
  std::string where(int64_t /*clip*/) const override { return "columns"; }
  std::string caption(int64_t /*clip*/) const override { return "x"; }
  ClipSize measure(int64_t /*clip*/) const override { return {1, 4, 16}; }
  HostArray read(int64_t /*clip*/, const ClipFormat& format,
                 const ClipWindow& window) const override {
    HostArray frames(Shape{DType::U8, {1, 4, 16, 3}});
    for (size_t i = 0; i < frames.bytes.size(); ++i) {
      frames.as<uint8_t>()[i] = static_cast<uint8_t>(i / 3 % 16 * 10);
    }
    return fit_frames(frames, format.height, format.width, window.crop);
  }
  std::string stamp(int64_t /*clip*/) const override { return ""; }
  std::string hash(int64_t /*clip*/) const override { return ""; }
};

/// The first column of each of the first 200 samples.
std::vector<int> first_columns(const VideoOptions& options) {
  const auto source = video_source(std::make_shared<Columns>(), options, plain);
  std::vector<int> out;
  for (int64_t position = 0; position < 200; ++position) {
    const float level = source->at(position).latents.as<float>()[0];
    out.push_back(static_cast<int>(std::lround((level + 1.0F) * 127.5F / 10.0F)));
  }
  return out;
}

TEST(VideoSource, CropsAtAPlaceChosenBySeedAndPosition) {
  VideoOptions options{.format = {.height = 4, .width = 8, .num_frames = 1}, .seed = 3};
  EXPECT_EQ(first_columns(options), std::vector<int>(200, 4)) << "the middle";

  options.center_crop = false;
  const std::vector<int> columns = first_columns(options);

  // 200 draws miss one of nine places with a probability of 1e-9.
  EXPECT_EQ(std::set<int>(columns.begin(), columns.end()),
            (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(first_columns(options), columns);
  // One setting does not affect the other: there are no spare frames.
  options.random_start = true;
  EXPECT_EQ(first_columns(options), columns);
  options.seed = 4;
  EXPECT_NE(first_columns(options), columns);
  EXPECT_THROW(encoded_source(std::make_shared<Columns>(), options, {}), Error);
}

TEST(VideoSource, NamesTheClipThatIsTooShortOrDamaged) {
  const Scratch folder;
  copy_clip("clip_00.mp4", folder / "a.mp4");
  write_file(folder / "a.txt", "x");
  VideoOptions options{.format = {.height = 16, .width = 16, .num_frames = 18}};
  const auto open = [&] {
    return video_source(folder_clips(folder.path(), "text"), options, plain);
  };

  EXPECT_THAT(
      [&] { open()->at(0); },
      ThrowsMessage<Error>(AllOf(HasSubstr("a.mp4"), HasSubstr("is too short: 17 frames"))));
  const std::string whole = io::read_text(folder / "a.mp4");
  write_file(folder / "a.mp4", whole.substr(0, whole.size() - 300));
  options.format.num_frames = 17;
  EXPECT_THAT([&] { open()->at(0); }, ThrowsMessage<Error>(HasSubstr("a.mp4")));
}

TEST(VideoSource, SkipsADamagedClipWhenTold) {
  const Scratch folder;
  copy_clip("clip_00.mp4", folder / "b.mp4");
  write_file(folder / "a.mp4", "no video");
  write_file(folder / "a.txt", "x");
  write_file(folder / "b.txt", "y");
  VideoOptions options{.format = {.height = 16, .width = 16, .num_frames = 3}};
  const auto open = [&] {
    return video_source(folder_clips(folder.path(), "text"), options, plain);
  };
  EXPECT_THROW(open()->at(0).id + open()->at(1).id, Error);

  options.bad_clip = BadClip::Skip;
  std::vector<std::string> skipped;
  options.on_skip = [&](int64_t, const std::string& reason) { skipped.push_back(reason); };
  const auto source = open();

  EXPECT_EQ(source->at(0).id, "b.mp4");
  EXPECT_EQ(source->at(1).id, "b.mp4");
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_THAT(skipped[0], HasSubstr("a.mp4"));
}

// Ten bad clips in front of a good one do not make it eleven times as frequent.
TEST(VideoSource, LeavesClipsOutThatAreKnownToBeBad) {
  const Scratch folder;
  VideoOptions options{.format = {.height = 16, .width = 16, .num_frames = 3}};
  options.bad_clip = BadClip::Skip;
  for (int i = 0; i < 10; ++i) {
    write_file(folder / fmt::format("bad_{}.mp4", i), "no video");
    write_file(folder / fmt::format("bad_{}.txt", i), "x");
    options.problems.emplace_back("no video");
  }
  for (const char* name : {"good_0", "good_1", "good_2"}) {
    copy_clip("clip_00.mp4", folder / (std::string(name) + ".mp4"));
    write_file(folder / (std::string(name) + ".txt"), name);
    options.problems.emplace_back("");
  }
  options.on_skip = [](int64_t, const std::string& why) { ADD_FAILURE() << why; };
  for (const bool shuffle : {false, true}) {
    options.shuffle = shuffle;
    const auto source = video_source(folder_clips(folder.path(), "text"), options, plain);
    ASSERT_EQ(source->size(), 3);
    std::map<std::string, int> counts;
    for (int64_t position = 0; position < 12; ++position) {
      ++counts[source->at(position).id];
    }
    EXPECT_EQ(counts, (std::map<std::string, int>{
                          {"good_0.mp4", 4}, {"good_1.mp4", 4}, {"good_2.mp4", 4}}));
  }
}

// Clips that turn out bad only when decoded are replaced by clips from the whole set.
TEST(VideoSource, SpreadsWhatStandsInForADamagedClip) {
  const Scratch folder;
  VideoOptions options{.format = {.height = 16, .width = 16, .num_frames = 3}, .shuffle = false};
  options.bad_clip = BadClip::Skip;
  for (int i = 0; i < 12; ++i) {
    write_file(folder / fmt::format("bad_{:02}.mp4", i), "no video");
    write_file(folder / fmt::format("bad_{:02}.txt", i), "x");
  }
  for (const char* name : {"good_0", "good_1", "good_2", "good_3"}) {
    copy_clip("clip_00.mp4", folder / (std::string(name) + ".mp4"));
    write_file(folder / (std::string(name) + ".txt"), name);
  }
  const auto source = video_source(folder_clips(folder.path(), "text"), options, plain);
  std::set<std::string> seen;
  for (int64_t position = 0; position < 12; ++position) {
    seen.insert(source->at(position).id);
  }
  EXPECT_GE(seen.size(), 3U);
}

TEST(EncodedSource, EqualsEncodingTheClip) {
  VideoOptions options = reference_options();
  options.random_flip = true;
  const auto now = video_source(reference_clips(), options, plain);
  const auto kept = encoded_source(
      reference_clips(), options,
      [&](int64_t clip, const ClipFormat& format, bool mirrored, int64_t /*variant*/) {
        const HostArray pixels = reference_clips()->read(clip, format, {});
        return plain({.pixels = mirrored ? flipped(pixels) : pixels,
                      .caption = reference_clips()->caption(clip),
                      .id = "not asked"});
      });
  for (int64_t position = 0; position < 24; ++position) {
    const Sample expected = now->at(position);
    const Sample sample = kept->at(position);
    EXPECT_EQ(sample.latents.bytes, expected.latents.bytes);
    EXPECT_EQ(sample.encoder_hidden_states.bytes, expected.encoder_hidden_states.bytes);
    EXPECT_EQ(sample.id, expected.id);
  }
  options.random_start = true;
  EXPECT_THROW(encoded_source(reference_clips(), options, {}), Error);
}

TEST(FitFrames, CropsTheMiddleOfWhatCovers) {
  HostArray frames(Shape{DType::U8, {1, 2, 6, 3}});
  for (int64_t i = 0; i < 12; ++i) {
    frames.as<uint8_t>()[static_cast<size_t>(i * 3)] = static_cast<uint8_t>(i % 6 * 51);
  }

  const HostArray fitted = fit_frames(frames, 2, 2);

  ASSERT_EQ(fitted.shape, (Shape{DType::F32, {3, 1, 2, 2}}));
  // Red of columns 2 and 3: 102 / 127.5 - 1 and 153 / 127.5 - 1.
  EXPECT_FLOAT_EQ(fitted.as<float>()[0], -0.2F);
  EXPECT_FLOAT_EQ(fitted.as<float>()[1], 0.2F);
  EXPECT_FLOAT_EQ(fitted.as<float>()[4], -1.0F);
}

TEST(FitFrames, CropsAtTheEdgesOfWhatThereIsToSpare) {
  HostArray frames(Shape{DType::U8, {1, 6, 2, 3}});
  for (size_t i = 0; i < frames.bytes.size(); ++i) {
    frames.as<uint8_t>()[i] = static_cast<uint8_t>(i / 6 * 51);  // 51 times the row
  }
  const auto first_row = [&](std::optional<float> crop) {
    const HostArray fitted = fit_frames(frames, 2, 2, crop);
    return std::lround((fitted.as<float>()[0] + 1.0F) * 127.5F / 51.0F);
  };
  EXPECT_EQ(first_row(0.0F), 0);
  EXPECT_EQ(first_row(0.5F), 2);
  EXPECT_EQ(first_row(0.9999F), 4);
  EXPECT_EQ(first_row(1.0F), 4);
  EXPECT_EQ(first_row(std::nullopt), 2);
}

}  // namespace
}  // namespace kinema::data
