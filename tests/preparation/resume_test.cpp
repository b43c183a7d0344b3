// How prepare resumes after a stop, a kill or damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "preparation/small_records.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;
using io::Scratch;
using io::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Simulates a kill: only destructors run after the throw.
struct Killed {};

TEST(Prepare, GoesOnByteForByteWhereItWasStopped) {
  const Scratch scratch;
  run(options(scratch / "whole"));
  const auto whole = contents(scratch / "whole");
  for (int stop_after = 0; stop_after < 12; ++stop_after) {
    SCOPED_TRACE(stop_after);
    const Options parts = options(scratch / ("parts" + std::to_string(stop_after)));
    int64_t done = 0;
    const Prepared first = run(parts, {.on_clip = [&](int64_t now, int64_t) { done = now; },
                                       .stop_requested = [&] { return done >= stop_after; }});
    EXPECT_TRUE(first.stopped);
    EXPECT_EQ(first.records, stop_after / 5 * 5);
    const Prepared second = run(parts);
    EXPECT_FALSE(second.stopped);
    EXPECT_EQ(second.records_found, first.records);
    EXPECT_EQ(second.records, 12);
    EXPECT_EQ(contents(parts.output), whole);
  }
}

TEST(Prepare, GoesOnAfterAShardThatWasNotNoted) {
  const Scratch scratch;
  const Options given = options(scratch / "records");
  run(given);
  const auto whole = contents(given.output);
  // As after a kill between the shard's rename and its entry in the state, with an incomplete file
  // left.
  const io::Json state = io::Json::read(scratch / "records.prepare.json");
  io::Json shorter = state;
  shorter.set("shards", io::Json::array({state.at("shards").items()[0]}));
  write_file(scratch / "records.prepare.json", shorter.dump());
  write_file(given.output / ".file_02-15.tfrec.1-0.tmp", "half");

  const Prepared again = run(given);

  EXPECT_EQ(again.records_found, 5);
  EXPECT_EQ(contents(given.output), whole);
}

TEST(Prepare, WritesALostOrTruncatedShardAgain) {
  const Scratch scratch;
  const Options given = options(scratch / "records");
  run(given);
  const auto whole = contents(given.output);
  fs::resize_file(given.output / "file_01-10.tfrec", 100);
  EXPECT_EQ(run(given).records_found, 5);
  EXPECT_EQ(contents(given.output), whole);
  fs::remove(given.output / "file_00-5.tfrec");
  EXPECT_EQ(run(given).records_found, 0);
  EXPECT_EQ(contents(given.output), whole);
  EXPECT_EQ(run(given).records_found, 12);
}

TEST(Prepare, LeavesNothingHalfWrittenWhenItFails) {
  const Scratch scratch;
  const Options given = options(scratch / "records");
  int64_t clips = 0;
  EXPECT_THROW(run(given, {.on_clip =
                               [&](int64_t, int64_t) {
                                 if (++clips == 8) {
                                   throw Killed();
                                 }
                               }}),
               Killed);
  EXPECT_THAT(contents(given.output), ::testing::SizeIs(1));
}

TEST(Prepare, RefusesOtherSettingsAndForeignFolders) {
  const Scratch scratch;
  const Options given = options(scratch / "records");
  run(given);
  Options other = given;
  other.format.height = 32;
  EXPECT_THAT([&] { run(other); },
              ThrowsMessage<Error>(AllOf(HasSubstr("height is 32 now and was 16"),
                                         HasSubstr("records.prepare.json"))));
  other = given;
  other.max_clips = 11;
  EXPECT_THAT([&] { run(other); }, ThrowsMessage<Error>(HasSubstr("the list of clips is 11 with")));
  other = given;
  other.settings["vae"] = "another";
  EXPECT_THAT([&] { run(other); }, ThrowsMessage<Error>(HasSubstr("vae is another now")));
  // Not if the shards are gone.
  other = given;
  other.format.num_frames = 5;
  for (const auto& entry : fs::directory_iterator(scratch / "records")) {
    fs::remove(entry.path());
  }
  EXPECT_EQ(run(other).records, 12);
  other = given;
  other.output = scratch / "foreign";
  write_file(scratch / "foreign.prepare.json", "{");
  EXPECT_THAT([&] { run(other); }, ThrowsMessage<Error>(HasSubstr("foreign.prepare.json")));
  fs::remove(scratch / "foreign.prepare.json");
  write_file(scratch / "foreign" / "notes.txt", "mine");
  EXPECT_THAT([&] { run(other); }, ThrowsMessage<Error>(HasSubstr("holds notes.txt already")));
  EXPECT_THAT(contents(scratch / "foreign"), ::testing::SizeIs(1));
}

/// Changes a byte without changing size or time.
void change_a_byte(const fs::path& file) {
  const auto time = fs::last_write_time(file);
  std::string bytes = io::read_text(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  fs::last_write_time(file, time);
}

TEST(Prepare, RefusesOtherClipsUnderTheSameNames) {
  const Scratch scratch;
  const fs::path videos = scratch / "clips" / "videos";
  fs::copy(io::golden("dataset"), scratch / "clips", fs::copy_options::recursive);
  Options given = options(scratch / "records");
  given.clips = clips_of(scratch / "clips");
  run(given);
  EXPECT_EQ(run(given).records_found, 12) << "they are the same";
  const auto refused = [&] {
    given.clips = clips_of(scratch / "clips");
    EXPECT_THAT([&] { run(given); },
                ThrowsMessage<Error>(HasSubstr("the list of clips, contents is ")));
  };
  fs::copy_file(videos / "clip_03.mp4", scratch / "kept");
  fs::copy_file(videos / "clip_05.mp4", videos / "clip_03.mp4",
                fs::copy_options::overwrite_existing);
  refused();
  fs::copy_file(scratch / "kept", videos / "clip_03.mp4", fs::copy_options::overwrite_existing);
  EXPECT_EQ(run(given).records_found, 12) << "they are the same again";

  ASSERT_LE(fs::file_size(videos / "clip_07.mp4"), 32768) << "all of it is a sample";
  change_a_byte(videos / "clip_07.mp4");
  refused();
}

// Clips are read once to hash their contents.
TEST(Prepare, CachesContentHashesWithTheShards) {
  const Scratch scratch;
  const Options given = options(scratch / "records");
  run(given);
  const std::string known = io::read_text(scratch / "records.contents.json");
  EXPECT_THAT(known, HasSubstr("clip_11.mp4"));
  fs::remove(scratch / "records.contents.json");  // may be deleted at any time
  EXPECT_EQ(run(given).records_found, 12);
  EXPECT_EQ(io::read_text(scratch / "records.contents.json"), known);
}

TEST(Prepare, RefusesAFolderThatIsBeingWritten) {
  const Scratch scratch;
  const Options given = options(scratch / "records");
  std::string refusal;
  run(given, {.on_clip = [&](int64_t, int64_t) {
        try {
          run(given);
        } catch (const Error& error) {
          refusal = error.what();
        }
      }});
  EXPECT_THAT(refusal, HasSubstr("another process is writing"));
}

}  // namespace
}  // namespace kinema::preparation
