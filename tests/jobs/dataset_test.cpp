// Training on videos that are encoded once and cached.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>

#include <set>
#include <string>

#include "cli/served_hub.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/data/video_source.h"
#include "kinema/io/json.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using cli_test::Hub;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Dataset : public RunsTest {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::copy(fs::path(KINEMA_SOURCE_DIR) / "tests/golden/dataset", folder_ / "clips",
             fs::copy_options::recursive);
    std::string config = tiny_config();
    config.replace(config.find("synthetic"), std::string("synthetic").size(), "videos");
    write("tiny.yml", config + "train_data_dir: clips\n");
  }
};

/// The clips of a folder as a Parquet file, in groups of five rows.
void write_parquet(const fs::path& clips, const fs::path& path) {
  arrow::StringBuilder text;
  arrow::BinaryBuilder bytes;
  for (const data::CaptionedClip& clip : data::list_clips(clips)) {
    ASSERT_TRUE(text.Append(clip.caption).ok());
    ASSERT_TRUE(bytes.Append(read_text(clip.path)).ok());
  }
  const auto captions = text.Finish().ValueOrDie();
  const auto videos =
      arrow::StructArray::Make({bytes.Finish().ValueOrDie()}, std::vector<std::string>{"bytes"})
          .ValueOrDie();
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("video", videos->type())}),
      {captions, videos});
  fs::create_directories(path.parent_path());
  const auto out = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 5).ok());
  ASSERT_TRUE(out->Close().ok());
}

// Two data sets of a TOML file, repeats, tags in any order, sizes by aspect ratio: all of it is a
// function of seed and position.
TEST_F(Dataset, OfATomlFileWithVariedCaptionsResumesBitForBit) {
  fs::create_directories(folder_ / "more");
  for (const char* name : {"clip_00", "clip_01"}) {
    fs::copy_file(folder_ / "clips/videos" / (std::string(name) + ".mp4"),
                  folder_ / "more" / (std::string(name) + ".mp4"));
  }
  write("more/clip_00.txt", "a {red|blue} fox, snow, night, one, two");
  write("sets.toml",
        "[[datasets]]\nvideo_directory = 'clips'\n"
        "[[datasets]]\nvideo_directory = 'more'\nnum_repeats = 3\nclass_tokens = 'a, b, c'\n"
        "shuffle_caption = true\nenable_wildcard = true\n");
  const auto train = [&](const std::string& name, const std::string& steps,
                         const std::string& more) {
    const Outcome out =
        run({"train", "tiny.yml", "train_data_dir=sets.toml", "run_name=" + name,
             "max_train_steps=" + steps, "learning_rate_schedule_steps=6", "buckets=auto",
             "bucket_step=8", "bucket_min=8", "bucket_max=64", "caption_variants=5",
             "caption_tag_dropout=0.2", "random_flip=true", more});
    EXPECT_EQ(out.status, 0) << out.err;
    return out;
  };
  EXPECT_THAT(train("whole", "6", "dataset_save_location=").err,
              HasSubstr("more: 2 clips, each 3 times an epoch"));
  train("parts", "2", "dataset_save_location=");
  train("parts", "6", "dataset_save_location=");
  EXPECT_EQ(losses("parts"), losses("whole"));
  train("kept", "6", "dataset_save_location=kept");
  EXPECT_EQ(losses("kept"), losses("whole"));
  EXPECT_THAT(train("again", "6", "dataset_save_location=kept").err, Not(HasSubstr("encoded")));
  run({"train", "tiny.yml", "train_data_dir=sets.toml", "dataset_type=tfrecord", "run_name=other"})
      .expect_error("dataset_type=images or videos");
}

// Weights, own sizes, mirroring and captions of a list of data sets: a function of seed and
// position.
TEST_F(Dataset, OfAListWithWeightsAndOwnSizesResumesBitForBit) {
  fs::create_directories(folder_ / "more");
  for (const char* name : {"clip_00", "clip_01", "clip_02"}) {
    fs::copy_file(folder_ / "clips/videos" / (std::string(name) + ".mp4"),
                  folder_ / "more" / (std::string(name) + ".mp4"));
    write("more/" + std::string(name) + ".txt", "a fox, snow, night");
  }
  const std::string more =
      "{path: more, weight: 1, height: 8, width: 8, random_flip: true, "
      "caption_shuffle_tags: true}";
  const std::string sets = "datasets=[{path: clips, weight: 3}, " + more + "]";
  const auto train = [&](const std::string& name, const std::string& steps,
                         const std::string& more) {
    const Outcome out = run({"train", "tiny.yml", "train_data_dir=", sets, "run_name=" + name,
                             "max_train_steps=" + steps, "learning_rate_schedule_steps=8", more});
    EXPECT_EQ(out.status, 0) << out.err;
    return out;
  };
  EXPECT_THAT(train("whole", "8", "dataset_save_location=").err,
              AllOf(HasSubstr("clips: 12 clips, 75 % of the samples"),
                    HasSubstr("more: 3 clips, 25 % of the samples, at 8x8")));
  train("parts", "3", "dataset_save_location=");
  train("parts", "8", "decode_threads=1");
  EXPECT_EQ(losses("parts"), losses("whole"));
  train("kept", "8", "dataset_save_location=kept");
  EXPECT_EQ(losses("kept"), losses("whole"));
  EXPECT_THAT(train("again", "8", "dataset_save_location=kept").err, Not(HasSubstr("encoded")));
  const Outcome held = run({"train", "tiny.yml", "train_data_dir=", sets, "run_name=held",
                            "max_train_steps=2", "eval_split=0.3", "eval_every=1"});
  EXPECT_EQ(held.status, 0) << held.err;

  run({"prepare", "tiny.yml", "train_data_dir=", sets, "tfrecords_dir=records"})
      .expect_error("records have no weights");
  const std::string repeated =
      "datasets=[{path: clips}, {path: more, repeats: 2, height: 8, width: 8}]";
  const Outcome prepared =
      run({"prepare", "tiny.yml", "train_data_dir=", repeated, "tfrecords_dir=records"});
  EXPECT_EQ(prepared.status, 0) << prepared.err;
  const std::vector<std::string> how = {"train", "tiny.yml", "max_train_steps=4", "buckets=auto"};
  const auto with = [&](std::vector<std::string> keys) {
    keys.insert(keys.begin(), how.begin(), how.end());
    const Outcome out = run(keys);
    EXPECT_EQ(out.status, 0) << out.err;
  };
  with({"run_name=records", "dataset_type=tfrecord", "train_data_dir=records"});
  with({"run_name=sets", "train_data_dir=", repeated, "buckets=[]"});
  EXPECT_EQ(losses("records"), losses("sets"));

  const auto refused = [&](const std::string& keys, const std::string& problem) {
    run({"train", "tiny.yml", "run_name=other", "train_data_dir=", "datasets=" + keys})
        .expect_error(problem);
  };
  refused("[{path: clips, wieght: 2}]", "the nearest is `weight`");
  refused("[{path: clips, weight: 2}, {path: more}]", "1 of 2 entries have a weight");
  refused("[{path: clips, weight: -1}]", "expected a number above 0");
  refused("[{path: clips, repeats: 0}]", "expected 1 to");
  refused("[{path: clips, height: 8}]", "only one of height and width");
  refused("[{path: clips, height: 9, width: 8}]", "9");
  refused("[{path: clips, random_flip: 3}]", "must be true or false");
  refused("[{weight: 1}]", "datasets[0] has no path");
  refused("[clips]", "expected the keys of a data set");
  refused("{path: clips}", "expected a list");
  refused("[{path: gs://b/clips}]", "is in a store");
  refused("[{path: gone}]", "gone does not exist");
  run({"train", "tiny.yml", "run_name=other", "datasets=[{path: more}]"})
      .expect_error("both datasets and train_data_dir (clips)");
}

/// Masks of this level in their left halves, and black in the right ones.
void write_masks(const fs::path& folder, uint8_t level) {
  fs::create_directories(folder);
  HostArray pixels(Shape{DType::U8, {16, 16, 3}});
  for (size_t i = 0; i < pixels.bytes.size(); ++i) {
    pixels.as<uint8_t>()[i] = i / 3 % 16 < 8 ? level : 0;
  }
  for (int i = 0; i < 12; ++i) {
    media::write_png(folder / fmt::format("clip_{:02}.png", i), pixels);
  }
}

TEST_F(Dataset, WithMasksTrainsTheSameFromClipsCachesAndRecords) {
  write_masks(folder_ / "masks", 255);
  write_masks(folder_ / "black", 0);
  const auto train = [&](const std::string& name, const std::string& steps,
                         std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.yml", "run_name=" + name, "max_train_steps=" + steps,
                               "learning_rate_schedule_steps=6"});
    const Outcome out = run(more);
    EXPECT_EQ(out.status, 0) << out.err;
    return out;
  };
  const std::vector<std::string> masked = {"mask_dir=masks", "random_flip=true"};
  EXPECT_THAT(train("whole", "6", masked).err, HasSubstr("12 of 12 clips have a mask"));
  train("parts", "2", masked);
  train("parts", "6", masked);
  EXPECT_EQ(losses("parts"), losses("whole"));
  train("kept", "6", {"mask_dir=masks", "random_flip=true", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("whole"));
  train("plain", "6", {"random_flip=true"});
  EXPECT_NE(losses("plain"), losses("whole"));
  train("black", "2", {"mask_dir=black"});
  for (const std::string& loss : losses("black")) {
    EXPECT_EQ(std::stod(loss), 0);
  }
  const Outcome prepared = run({"prepare", "tiny.yml", "tfrecords_dir=records", "mask_dir=masks"});
  EXPECT_EQ(prepared.status, 0) << prepared.err;
  train("clips", "4", {"mask_dir=masks"});
  train("records", "4", {"dataset_type=tfrecord", "train_data_dir=records"});
  EXPECT_EQ(losses("records"), losses("clips"));

  fs::remove(folder_ / "masks/clip_03.png");
  run({"train", "tiny.yml", "run_name=other", "mask_dir=masks"})
      .expect_error("clip_03.mp4 has no mask");
  write("masks/clip_03.png", "no picture");
  run({"train", "tiny.yml", "run_name=other", "mask_dir=masks"}).expect_error("clip_03.png");
  run({"train", "tiny.yml", "run_name=other", "mask_dir=gone"}).expect_error("gone does not exist");
}

TEST_F(Dataset, WithRegularizationPicturesHasThemInHalfOfTheSamples) {
  fs::create_directories(folder_ / "reg/1_a ball");
  for (const char* name : {"clip_00", "clip_01", "clip_02"}) {
    fs::copy_file(folder_ / "clips/videos" / (std::string(name) + ".mp4"),
                  folder_ / "reg/1_a ball" / (std::string(name) + ".mp4"));
  }
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.yml", "run_name=" + name, "max_train_steps=6"});
    const Outcome out = run(more);
    EXPECT_EQ(out.status, 0) << out.err;
    return out.err;
  };
  EXPECT_THAT(train("one", {"reg_data_dir=reg", "prior_loss_weight=0.5"}),
              AllOf(HasSubstr("reg: 3 clips, regularization, 0.5 in the loss"),
                    HasSubstr("3 without a caption have `a ball`")));
  train("kept", {"reg_data_dir=reg", "prior_loss_weight=0.5", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("one"));
  // The same as a list, and as a TOML file.
  train("list", {"train_data_dir=", "datasets=[{path: clips}, {path: reg, regularization: true}]",
                 "prior_loss_weight=0.5"});
  EXPECT_EQ(losses("list"), losses("one"));
  // Weight 1 and weight 0 differ, and weight 1 needs no weights.
  train("full", {"reg_data_dir=reg"});
  train("none", {"reg_data_dir=reg", "prior_loss_weight=0"});
  EXPECT_NE(losses("full"), losses("one"));
  EXPECT_NE(losses("none"), losses("one"));
  run({"prepare", "tiny.yml", "tfrecords_dir=records", "reg_data_dir=reg"})
      .expect_error("reg_data_dir has regularization pictures");
  run({"train", "tiny.yml", "run_name=other", "reg_data_dir=gone"})
      .expect_error("gone does not exist");
  run({"train", "tiny.yml", "run_name=other", "reg_data_dir=reg", "prior_loss_weight=-1"})
      .expect_error("prior_loss_weight");
  run({"train", "tiny.yml", "run_name=other", "reg_data_dir=reg", "dataset_type=tfrecord"})
      .expect_error("reg_data_dir");
}

TEST_F(Dataset, WithOtherColorsResumesBitForBit) {
  const auto train = [&](const std::string& name, const std::string& steps, const std::string& on) {
    const Outcome out = run({"train", "tiny.yml", "run_name=" + name, "max_train_steps=" + steps,
                             "learning_rate_schedule_steps=8", "color_aug=" + on});
    EXPECT_EQ(out.status, 0) << out.err;
  };
  train("whole", "8", "true");
  train("parts", "3", "true");
  train("parts", "8", "true");
  EXPECT_EQ(losses("parts"), losses("whole"));
  train("plain", "8", "false");
  EXPECT_NE(losses("plain"), losses("whole"));
  run({"train", "tiny.yml", "run_name=other", "color_aug=true", "dataset_save_location=kept"})
      .expect_error("color_aug changes the colours of clips each time");
}

TEST_F(Dataset, IsEncodedOnceAndTrainsTheSame) {
  const std::vector<std::string> how = {"train", "tiny.yml", "random_flip=true",
                                        "caption_dropout=0.5", "max_train_steps=8"};
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), how.begin(), how.end());
    more.push_back("run_name=" + name);
    return run(more);
  };
  ASSERT_EQ(train("memory", {}).status, 0);
  const Outcome first = train("first", {"dataset_save_location=kept"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("encoded 12 clips and 12 captions, cached in kept"));
  const Outcome second = train("second", {"dataset_save_location=kept"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, Not(HasSubstr("encoded")));

  EXPECT_EQ(losses("memory").size(), 8U);
  EXPECT_EQ(losses("first"), losses("memory"));
  EXPECT_EQ(losses("second"), losses("memory"));
  run({"train", "tiny.yml", "dataset_save_location=kept", "random_start=true"})
      .expect_error("random_start");
}

TEST_F(Dataset, OfPicturesNeedsNoNumberOfFramesInAVideoModel) {
  fs::create_directories(folder_ / "pictures");
  for (const std::string name : {"a", "b", "c"}) {
    fs::copy_file(fs::path(KINEMA_SOURCE_DIR) / "tests/golden/images/alpha/rgba.png",
                  folder_ / "pictures" / (name + ".png"));
    write("pictures/" + name + ".txt", "picture " + name);
  }
  write_parquet(folder_ / "pictures", folder_ / "table/train.parquet");
  std::string config = read_text(folder_ / "tiny.yml");
  config.erase(config.find("num_frames: 2"), std::string("num_frames: 2").size());
  write("unsaid.yml", config);
  const auto train = [&](const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", file, "max_train_steps=1", "train_data_dir=pictures"});
    return run(more);
  };
  const Outcome given = train("tiny.yml", {"run_name=given", "num_frames=1"});
  ASSERT_EQ(given.status, 0) << given.err;
  const Outcome unsaid = train("unsaid.yml", {"run_name=unsaid", "dataset_type=images"});
  ASSERT_EQ(unsaid.status, 0) << unsaid.err;
  EXPECT_EQ(losses("unsaid"), losses("given"));
  EXPECT_THAT(read_text(folder_ / "out/unsaid/config.yml"), HasSubstr("num_frames: 1\n"));
  // A data set of the hub's kind may hold either: the error says what takes pictures.
  const std::vector<std::string> rows = {"dataset_type=hf", "train_data_dir=table",
                                         "skip_bad_clips=true", "run_name=rows"};
  train("unsaid.yml", rows)
      .expect_error("num_frames=1 keeps 3 of 3, pictures as clips of one frame");
  std::vector<std::string> one = rows;
  one.emplace_back("num_frames=1");
  const Outcome taken = train("unsaid.yml", one);
  ASSERT_EQ(taken.status, 0) << taken.err;
  EXPECT_EQ(losses("rows"), losses("given"));
}

TEST_F(Dataset, OfTheEvaluationIsDetectedByItsFiles) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  fs::create_directory(folder_ / "empty");
  run({"evaluate", "tiny.yml", "eval_data_dir=empty"})
      .expect_error("empty holds no clips, pictures or records\n  put videos or images there");
  write("phone/a.heic", "x");
  run({"evaluate", "tiny.yml", "eval_data_dir=phone"})
      .expect_error("it holds 1 HEIC picture, which is not read");
  for (const char* type : {"videos", "tfrecord"}) {
    run({"train", "tiny.yml", "run_name=other", "train_data_dir=phone",
         std::string("dataset_type=") + type})
        .expect_error("it holds 1 HEIC picture, which is not read");
  }
  run({"prepare", "tiny.yml", "train_data_dir=phone", "tfrecords_dir=records"})
      .expect_error("it holds 1 HEIC picture, which is not read");
}

TEST_F(Dataset, IsCroppedAtPlacesThatAResumedRunFindsAgain) {
  // Half the width of the clips, so that the crop matters.
  const auto train = [&](const std::string& name, const std::string& steps,
                         std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.yml", "width=8", "run_name=" + name,
                               "max_train_steps=" + steps, "learning_rate_schedule_steps=8"});
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return losses(name);
  };
  const std::vector<std::string> whole = train("whole", "8", {"center_crop=false"});
  ASSERT_EQ(whole.size(), 8U);
  train("parts", "3", {"center_crop=false"});
  EXPECT_EQ(train("parts", "8", {"center_crop=false", "decode_threads=3"}), whole);
  EXPECT_NE(train("middle", "8", {}), whole);
  // Cached encodings are cropped once.
  const std::vector<std::string> kept = {"dataset_save_location=kept", "center_crop=false"};
  const std::vector<std::string> once = train("once", "8", kept);
  EXPECT_EQ(train("again", "8", kept), once);
  EXPECT_NE(once, whole);
}

TEST_F(Dataset, ResumesEncodingAfterAKill) {
  // Killed after a different time in each attempt, until a run completes.
  write("kill.sh", "cd " + quoted(folder_.string()) +
                       "\nfor i in $(seq 60); do\n"
                       "timeout -s KILL $((3 * i / 100)).$(printf %02d $((3 * i % 100))) " +
                       quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                       " train tiny.yml dataset_save_location=kept >>.log 2>&1 && exit 0\n"
                       "done\nexit 1\n");
  const int status =
      std::system(("bash " + quoted((folder_ / "kill.sh").string()) + " 2>/dev/null").c_str());
  ASSERT_EQ(WEXITSTATUS(status), 0) << read_text(folder_ / ".log");
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=memory"}).status, 0);
  EXPECT_EQ(losses("tiny"), losses("memory"));
}

TEST_F(Dataset, StopsDuringEncoding) {
  // Two thousand captions, so that there is time for the signal.
  std::string list;
  for (int i = 0; i < 2000; ++i) {
    list += "{\"file_name\": \"videos/clip_00.mp4\", \"text\": \"" + std::to_string(i) + "\"}\n";
  }
  write("clips/metadata.jsonl", list);
  write("stop.sh", "cd " + quoted(folder_.string()) + "\n" +
                       quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                       " train tiny.yml dataset_save_location=kept >.out 2>.err &\n"
                       "for i in $(seq 600); do [ -e kept/text ] && break; sleep 0.1; done\n"
                       "kill -TERM $!\nwait $!\n");
  const int stopped = std::system(("bash " + quoted((folder_ / "stop.sh").string())).c_str());
  EXPECT_EQ(WEXITSTATUS(stopped), 0) << read_text(folder_ / ".err");
  EXPECT_THAT(read_text(folder_ / ".out"), HasSubstr("stopped while clips were encoded"));
}

TEST_F(Dataset, SkipsUnusableClipsIfConfigured) {
  write("clips/videos/clip_03.mp4", "no video");
  fs::remove(folder_ / "clips/videos/clip_05.mp4");
  run({"train", "tiny.yml", "dataset_save_location=kept"}).expect_error("clip_0");
  const Outcome outcome = run({"train", "tiny.yml", "dataset_save_location=kept",
                               "skip_bad_clips=true", "max_train_steps=8"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("encoded 10 clips"));
  EXPECT_THAT(outcome.err, HasSubstr("clip_03.mp4"));
  ASSERT_EQ(
      run({"train", "tiny.yml", "run_name=memory", "skip_bad_clips=true", "max_train_steps=8"})
          .status,
      0);
  EXPECT_EQ(losses("tiny"), losses("memory"));
}

TEST_F(Dataset, IsTheSameAsParquetOfAFolderOrOfTheHub) {
  write_parquet(folder_ / "clips", folder_ / "table/data/train-00000-of-00001.parquet");
  const std::vector<std::string> how = {"train", "tiny.yml", "dataset_type=hf",
                                        "image_column=video"};
  const auto train = [&](const std::string& name, std::vector<std::string> more,
                         const std::string& environment = "") {
    more.insert(more.begin(), how.begin(), how.end());
    more.push_back("run_name=" + name);
    const Outcome outcome = run(more, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return losses(name);
  };
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=videos"}).status, 0);
  EXPECT_EQ(train("local", {"train_data_dir=table"}), losses("videos"));
  EXPECT_EQ(train("kept", {"train_data_dir=table", "dataset_save_location=kept"}),
            losses("videos"));
  // The default column `image` is replaced by `video` if only the latter exists.
  EXPECT_EQ(train("unnamed", {"image_column=image", "train_data_dir=table"}), losses("videos"));
  run({"train", "tiny.yml", "dataset_type=hf", "image_column=clip", "train_data_dir=table"})
      .expect_error("no column `clip`");

  // Records of the rows equal those of the folder.
  ASSERT_EQ(run({"prepare", "tiny.yml", "tfrecords_dir=of_folder"}).status, 0);
  const Outcome prepared = run({"prepare", "tiny.yml", "dataset_type=hf", "image_column=video",
                                "train_data_dir=table", "tfrecords_dir=of_rows"});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_THAT(prepared.out, HasSubstr("12 records in 1 shard of"));
  EXPECT_EQ(read_text(folder_ / "of_rows/file_00-64.tfrec"),
            read_text(folder_ / "of_folder/file_00-64.tfrec"));

  const fs::path cached = folder_ / "cache/datasets--some--clips";
  fs::create_directories(cached / "snapshots/0123");
  fs::create_directories(cached / "refs");
  write("cache/datasets--some--clips/refs/main", std::string(40, '1'));
  fs::create_directories(cached / "snapshots" / std::string(40, '1'));
  fs::copy(folder_ / "table", cached / "snapshots" / std::string(40, '1'),
           fs::copy_options::recursive);
  const std::string offline = "HF_HUB_OFFLINE=1 HF_HUB_CACHE=cache";
  EXPECT_EQ(train("hub", {"train_data_dir=", "dataset_name=some/clips"}, offline),
            losses("videos"));
  run({"train", "tiny.yml", "run_name=others", "dataset_type=hf",
       "train_data_dir=", "dataset_name=some/others"},
      offline)
      .expect_error("some/others is incomplete");
}

TEST_F(Dataset, OfTheHubIsFetchedOnceAndTrainsTheSame) {
  write_parquet(folder_ / "clips", folder_ / "table/data/train-00000-of-00001.parquet");
  Hub hub(folder_ / "table", Hub::Kind::DATASET);
  const auto how = [](const std::string& name) {
    return std::vector<std::string>{"train",           "tiny.yml",
                                    "dataset_type=hf", "image_column=video",
                                    "train_data_dir=", "dataset_name=org/name",
                                    "run_name=" + name};
  };
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=videos"}).status, 0);
  const std::string cache = hub.environment(folder_ / "cache");
  const Outcome fetched = run(how("fetched"), cache);
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  EXPECT_EQ(losses("fetched"), losses("videos"));

  for (const int status : {401, 403, 404}) {
    hub.status = status;
    run(how("none"), hub.environment(folder_ / "empty")).expect_error(std::to_string(status));
  }
  EXPECT_EQ(run(how("kept"), cache).status, 0) << "the hub is not asked again";
  EXPECT_EQ(losses("kept"), losses("videos"));
  hub.status = 200;
  std::vector<std::string> split = how("split");
  split.push_back("train_split=test");
  run(split, cache).expect_error("no split `test`");
}

TEST_F(Dataset, SkipsUnusableRowsIfConfigured) {
  write("clips/videos/clip_03.mp4", "no video");
  write_parquet(folder_ / "clips", folder_ / "table/train.parquet");
  const std::vector<std::string> how = {"train",
                                        "tiny.yml",
                                        "dataset_type=hf",
                                        "image_column=video",
                                        "train_data_dir=table",
                                        "max_train_steps=8"};
  run(how).expect_error("train.parquet row 3");
  std::vector<std::string> skip = how;
  skip.insert(skip.end(), {"skip_bad_clips=true", "run_name=skip"});
  const Outcome outcome = run(skip);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("train.parquet row 3"));

  std::vector<std::string> prepare = how;
  prepare[0] = "prepare";
  prepare.push_back("tfrecords_dir=records");
  const Outcome prepared = run(prepare);
  EXPECT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_THAT(prepared.out, HasSubstr("11 records"));
  EXPECT_THAT(read_text(folder_ / "records.skipped.jsonl"), HasSubstr("train.parquet row 3"));
}

TEST_F(Dataset, OfRecordsHasAliases) {
  ASSERT_EQ(run({"prepare", "tiny.yml", "tfrecords_dir=records"}).status, 0);
  for (const char* type : {"tfrecord", "tf", "grain"}) {
    const Outcome outcome =
        run({"train", "tiny.yml", "train_data_dir=records", std::string("dataset_type=") + type,
             std::string("run_name=") + type});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(losses(type), losses("tfrecord"));
  }
}

class Buckets : public Dataset {
 protected:
  void SetUp() override {
    Dataset::SetUp();
    if (IsSkipped()) {
      return;
    }
    // Tall clips and short ones, in addition to the wide ones of 17 frames.
    for (int i = 0; i < 12; i += 2) {
      const bool tall = i % 4 == 0;
      HostArray frames(Shape{DType::U8, {tall ? 8 : 4, tall ? 48 : 32, tall ? 32 : 48, 3}});
      for (size_t j = 0; j < frames.bytes.size(); ++j) {
        frames.bytes[j] = std::byte((j / 3 * static_cast<size_t>(i + 1)) % 251);
      }
      const std::string name = fmt::format("clips/videos/clip_{:02}.mp4", i);
      media::write_mp4(folder_ / name, frames);
    }
  }

  std::vector<std::string> train(const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.yml", "run_name=" + name});
    outcome_ = run(more);
    EXPECT_EQ(outcome_.status, 0) << outcome_.err;
    return losses(name);
  }
  Outcome outcome_;
  const std::string sizes_ = "buckets=[[8,16,24],[4,16,24],[4,24,16],[8,24,16]]";
};

TEST_F(Buckets, HaveAStepEachAndResume) {
  const std::vector<std::string> whole =
      train("whole", {sizes_, "max_train_steps=10", "learning_rate_schedule_steps=10"});
  ASSERT_EQ(whole.size(), 10U);
  // Three sizes exist, and each is printed.
  for (const char* batch :
       {"f32[2,48,8,4,6] with", "f32[2,48,4,4,6] with", "f32[2,48,8,6,4] with"}) {
    EXPECT_THAT(outcome_.out, HasSubstr(batch));
  }
  // Twelve clips are six batches per epoch: the second part starts in the middle of the first
  // epoch.
  train("parts", {sizes_, "max_train_steps=3", "learning_rate_schedule_steps=10"});
  EXPECT_EQ(train("parts", {sizes_, "max_train_steps=10", "learning_rate_schedule_steps=10",
                            "decode_threads=3"}),
            whole);
  EXPECT_THAT(outcome_.out, HasSubstr("resumed after step 3"));
  EXPECT_EQ(train("kept", {sizes_, "max_train_steps=10", "learning_rate_schedule_steps=10",
                           "dataset_save_location=kept"}),
            whole);
  run({"train", "tiny.yml", "run_name=parts", "max_train_steps=11"}).expect_error("buckets");

  // Operations are counted for the size of each step.
  std::set<std::string> tflops;
  std::ifstream in(folder_ / "out/whole/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    tflops.insert(io::Json::parse(line, "metrics").at("perf/per_device_tflops").dump());
  }
  EXPECT_EQ(tflops.size(), 2U);  // 8x16x24 and 8x24x16 have the same number of tokens
}

TEST_F(Buckets, RefuseClipsThatFitNone) {
  run({"train", "tiny.yml", "buckets=[[8,16,24],[8,24,16]]"}).expect_error("need 8 frames");
  const Outcome skipped =
      run({"train", "tiny.yml", "buckets=[[8,16,24],[8,24,16]]", "skip_bad_clips=true"});
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("need 8 frames"));
  run({"train", "tiny.yml", "run_name=new", "buckets=[[8,16,23]]"}).expect_error("width is 23");
  run({"train", "tiny.yml", "run_name=new", "buckets=auto", "bucket_step=128"})
      .expect_error("holds no square of multiples of 128");
  run({"train", "tiny.yml", "run_name=new", "buckets=8x16"}).expect_error("is not a size");
}

}  // namespace
}  // namespace kinema::jobs_test
