// Clips that prepare skips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "preparation/small_records.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using io::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The reference's clips with damage: the second is truncated, the fourth missing, the fifth too
/// short, the last not a video.
class DamagedClips {
 public:
  DamagedClips() {
    fs::copy(golden("dataset"), path(), fs::copy_options::recursive);
    const fs::path videos = path() / "videos";
    fs::resize_file(videos / "clip_01.mp4", 700);
    fs::remove(videos / "clip_03.mp4");
    write_file(videos / "clip_11.mp4", "no video");
  }
  fs::path path() const { return scratch_ / "clips"; }

 private:
  Scratch scratch_;
};

TEST(Prepare, SkipsBadClipsAndListsThem) {
  const DamagedClips clips;
  const Scratch scratch;
  Options given = options(scratch / "records");
  given.clips = clips_of(clips.path());
  std::vector<std::string> told;
  const Prepared made = run(given, {.on_skip = [&](const SkippedClip& clip) {
                              told.push_back(fs::path(clip.file).filename());
                              EXPECT_FALSE(clip.reason.empty());
                            }});

  EXPECT_EQ(made.records, 9);
  EXPECT_EQ(made.shards.size(), 2U);
  EXPECT_THAT(told, ElementsAre("clip_01.mp4", "clip_03.mp4", "clip_11.mp4"));
  EXPECT_EQ(made.skipped.size(), 3U);
  EXPECT_EQ(made.skipped_list, scratch / "records.skipped.jsonl");
  const auto beside = contents(scratch.path().string());
  std::istringstream list(beside.at("records.skipped.jsonl"));
  std::string line;
  std::getline(list, line);
  const io::Json first = io::Json::parse(line, "skipped.jsonl");
  EXPECT_THAT(first.at("file").as_string(), HasSubstr("clip_01.mp4"));
  EXPECT_FALSE(first.at("reason").as_string().empty());

  // A second run has nothing left to do, and still knows the skipped clips.
  const Prepared again = run(given);
  EXPECT_EQ(again.records_found, 9);
  EXPECT_EQ(again.skipped.size(), 3U);
}

TEST(Prepare, SaysWhenNoClipCanBeUsed) {
  const Scratch scratch;
  Options given = options(scratch / "records");
  given.format.num_frames = 1000;
  EXPECT_THAT([&] { run(given); },
              ThrowsMessage<Error>(AllOf(HasSubstr("none of the 12 clips"), HasSubstr("17 frames"),
                                         HasSubstr("clip_00.mp4"))));
  EXPECT_TRUE(contents(given.output).empty());
  // Nothing was made, so the settings may change.
  given.format.num_frames = 5;
  EXPECT_EQ(run(given).records, 12);
  // Ignored files in the clips' folder are on the list, but no clip of the first try.
  EXPECT_THAT(io::read_text(scratch / "records.skipped.jsonl"),
              AllOf(HasSubstr(".tfrec"), Not(HasSubstr(".mp4"))));
}

/// Latents of one clip, or text states of one caption, are not finite or throw.
class Failing final : public encoders::Autoencoder, public encoders::TextEncoder {
 public:
  std::string name() const override { return "failing"; }
  encoders::LatentLayout layout() const override { return autoencoder().layout(); }
  HostArray encode(const HostArray& pixels) const override {
    HostArray out = autoencoder().encode(pixels);
    if (clips_++ == 2) {
      out.as<float>()[7] = std::numeric_limits<float>::quiet_NaN();
    }
    return out;
  }
  void decode(const HostArray& latents, const encoders::FrameSink& sink) const override {
    autoencoder().decode(latents, sink);
  }
  Shape shape() const override { return text_encoder().shape(); }
  encoders::TextStates encode_prompts(std::span<const encoders::Prompt> prompts) const override {
    HostArray out = text_encoder().encode(prompts).states;
    for (size_t i = 0; i < prompts.size(); ++i) {
      check(prompts[i].text.find("blue triangle") == std::string::npos,
            "[text] no triangles\n  square?");
      if (prompts[i].text.find("green square") != std::string::npos) {
        out.as<float>()[i * out.as<float>().size() / prompts.size()] =
            std::numeric_limits<float>::infinity();
      }
    }
    return {.states = std::move(out)};
  }

 private:
  mutable int clips_ = 0;
};

TEST(Prepare, SkipsWhatCannotBeEncoded) {
  const Scratch scratch;
  const Failing failing;
  const Prepared made =
      prepare_records(options(scratch / "records"), {.autoencoder = failing, .text = failing});
  std::vector<std::string> reasons;
  for (const SkippedClip& clip : made.skipped) {
    reasons.push_back(clip.reason);
  }
  EXPECT_THAT(reasons, ::testing::Contains("[prepare] its latents are not finite"));
  EXPECT_THAT(reasons, ::testing::Contains("[prepare] its text states are not finite"));
  EXPECT_THAT(reasons, ::testing::Contains("[text] no triangles"));
  EXPECT_EQ(made.records, 12 - static_cast<int64_t>(reasons.size()));
}

}  // namespace
}  // namespace kinema::preparation
