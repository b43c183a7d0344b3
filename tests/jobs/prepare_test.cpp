// Videos to TFRecords, and training on them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <map>
#include <string>

#include "arrays.h"
#include "jobs/call_kinema.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/io/json.h"
#include "kinema/media/video.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PrepareCommand : public RunsTest {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    write("tiny.yml", tiny_config() + std::string("no_records_per_shard: 5\n"
                                                  "tfrecords_dir: records\n"
                                                  "train_data_dir: " +
                                                  golden_ + "\n"));
  }

  /// Every file of a folder by name.
  std::map<std::string, std::string> contents(const std::string& folder) const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_ / folder)) {
      out[entry.path().filename().string()] = read_text(entry.path());
    }
    return out;
  }

  std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden/dataset";
};

TEST_F(PrepareCommand, WritesShardsAndSaysSo) {
  const Outcome outcome = run({"prepare", "tiny.yml"});

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("file_01-10.tfrec: 5 records"));
  EXPECT_THAT(outcome.out, HasSubstr("prepared for training: 12 records in 3 shards of records"));
  EXPECT_EQ(contents("records").size(), 3U);
  EXPECT_EQ(run({"inspect", "--check", "records/file_00-5.tfrec"}).status, 0);

  const Outcome again = run({"prepare", "tiny.yml"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("(12 were there)"));
  run({"prepare", "tiny.yml", "width=32"}).expect_error("width is 32 now and was 16");
  run({"prepare", "tiny.yml", "space_to_depth_std=0.5"}).expect_error("space_to_depth is");
}

TEST_F(PrepareCommand, PrintsJsonAlone) {
  fs::copy(golden_, folder_ / "clips", fs::copy_options::recursive);
  fs::remove(folder_ / "clips" / "videos" / "clip_02.mp4");
  const Outcome outcome = run({"prepare", "tiny.yml", "train_data_dir=clips", "--json"});

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json report = io::Json::parse(outcome.out, "stdout").at("folders").items().at(0);
  EXPECT_EQ(report.at("records").as_int(), 11);
  EXPECT_EQ(report.at("skipped").items().size(), 1U);
  EXPECT_THAT(report.at("skipped").items()[0].at("reason").as_string(), HasSubstr("clip_02.mp4"));
  EXPECT_THAT(outcome.err, HasSubstr("skipped: [data]"));
  EXPECT_GT(report.at("bytes").as_int(), 0);
  EXPECT_THAT(read_text(folder_ / "records.skipped.jsonl"), HasSubstr("clip_02.mp4"));
}

TEST_F(PrepareCommand, HoldsOutClipsForTheEvaluation) {
  const Outcome outcome = run({"prepare", "tiny.yml", "eval_tfrecords_dir=eval",
                               "num_eval_samples=4", "timesteps_list=[250,750]"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("prepared for evaluation: 4 records"));
  EXPECT_THAT(outcome.out, HasSubstr("prepared for training: 8 records"));
  EXPECT_THAT(run({"inspect", "eval/file_00-5.tfrec"}).out, HasSubstr("timesteps"));

  const Outcome alone = run({"prepare", "tiny.yml", "tfrecords_dir=alone", "num_eval_samples=4",
                             "timesteps_list=[250,750]", "enable_eval_timesteps=True"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(contents("alone"), contents("eval"));
}

TEST_F(PrepareCommand, NamesWhatItCannotPrepare) {
  run({"prepare", "tiny.yml", "train_data_dir="}).expect_error("train_data_dir");
  run({"prepare", "tiny.yml", "tfrecords_dir="}).expect_error("tfrecords_dir");
  run({"prepare", "tiny.yml", "train_data_dir=absent"}).expect_error("absent");
  run({"prepare", "tiny.yml", "height=18"}).expect_error("height is 18");
  const Outcome all_bad = run({"prepare", "tiny.yml", "num_frames=500"});
  EXPECT_EQ(all_bad.status, 1);
  EXPECT_THAT(all_bad.err, HasSubstr("none of the 12 clips"));
  run({"prepare", "tiny.yml", "tfrecords_dir=tiny.yml"}).expect_error("tiny.yml");
  run({"prepare", "tiny.yml", "eval_tfrecords_dir=e", "num_eval_samples=3"})
      .expect_error("num_eval_samples 3");
  run({"prepare", "tiny.yml", "eval_tfrecords_dir=e", "enable_eval_timesteps=True"})
      .expect_error("set only one of them");
  run({"prepare", "tiny.yml", "eval_tfrecords_dir=./records/", "num_eval_samples=7"})
      .expect_error("are both records");
  run({"prepare", "tiny.yml", "eval_tfrecords_dir=e", "num_eval_samples=14"})
      .expect_error("has 12 clips");
}

TEST_F(PrepareCommand, SurvivesBeingKilledAtAnyMoment) {
  ASSERT_EQ(run({"prepare", "tiny.yml", "tfrecords_dir=whole", "no_records_per_shard=1"}).status,
            0);
  const auto whole = contents("whole");
  // Killed repeatedly, a little later each time, until one run completes.
  write("kill.sh", "cd " + quoted(folder_.string()) + "\nfor i in $(seq 1 400); do\n" +
                       quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                       " prepare tiny.yml no_records_per_shard=1 >>.log 2>&1 &\n"
                       "sleep 0.$(printf %03d $((20 + 5 * i)))\n"
                       "kill -KILL $! 2>/dev/null\nwait $! && exit 0\ndone\nexit 1\n");
  const int status = std::system(("bash " + quoted((folder_ / "kill.sh").string())).c_str());

  EXPECT_EQ(WEXITSTATUS(status), 0) << read_text(folder_ / ".log");
  EXPECT_EQ(contents("records"), whole);
}

TEST_F(PrepareCommand, MakesRecordsThatTrain) {
  ASSERT_EQ(run({"prepare", "tiny.yml"}).status, 0);
  const Outcome videos =
      run({"train", "tiny.yml", "dataset_type=videos", "max_train_steps=2", "run_name=videos"});
  const Outcome records = run({"train", "tiny.yml", "dataset_type=tfrecord", "max_train_steps=2",
                               "run_name=records", "train_data_dir=records"});

  ASSERT_EQ(videos.status, 0) << videos.err;
  ASSERT_EQ(records.status, 0) << records.err;
  EXPECT_EQ(losses("records").size(), 2U);
  // The same clips, in the same order, at the same noise.
  EXPECT_EQ(losses("records"), losses("videos"));
}

TEST_F(PrepareCommand, MakesRecordsOfSeveralSizesThatTrain) {
  fs::copy(golden_, folder_ / "clips", fs::copy_options::recursive);
  for (int i = 0; i < 12; i += 2) {  // tall and short ones, in addition to the square ones
    const bool tall = i % 4 == 0;
    HostArray frames(Shape{DType::U8, {tall ? 8 : 4, tall ? 48 : 32, tall ? 32 : 48, 3}});
    for (size_t j = 0; j < frames.bytes.size(); ++j) {
      frames.bytes[j] = std::byte((j / 3 * static_cast<size_t>(i + 1)) % 251);
    }
    media::write_mp4(folder_ / fmt::format("clips/videos/clip_{:02}.mp4", i), frames);
  }
  const std::string sizes = "buckets=[[8,16,24],[4,16,24],[8,24,16]]";
  const Outcome prepared = run({"prepare", "tiny.yml", "train_data_dir=clips", sizes});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_THAT(prepared.out, HasSubstr("file_01-10.tfrec: 1 record\n"));
  EXPECT_THAT(prepared.out, HasSubstr("12 records in 4 shards"));
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.yml", "max_train_steps=9", "run_name=" + name});
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return losses(name);
  };
  const auto videos = train("videos", {"dataset_type=videos", "train_data_dir=clips", sizes});
  EXPECT_EQ(videos.size(), 9U);
  const std::vector<std::string> records = {"dataset_type=tfrecord", "train_data_dir=records"};
  EXPECT_EQ(train("same", {records[0], records[1], sizes}), videos);
  EXPECT_EQ(train("auto", {records[0], records[1], "buckets=auto"}), videos);
  run({"prepare", "tiny.yml", "train_data_dir=clips", "buckets=auto", "tfrecords_dir=none"})
      .expect_error("records need a list of sizes");
}

TEST_F(PrepareCommand, SaysThatRecordsHoldTheMiddle) {
  const Outcome outcome = run({"prepare", "tiny.yml", "center_crop=false", "random_start=true"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("center_crop (command line) has no meaning for records"));
  EXPECT_THAT(outcome.err, HasSubstr("random_start (command line) has no meaning for records"));
}

// Records depend on the contents of a model's folder, not on its path.
TEST_F(PrepareCommand, RefusesToGoOnWithOtherWeightsInTheSameFolder) {
  fs::copy(std::string(KINEMA_SOURCE_DIR) + "/tests/golden/wan21_t2v", folder_ / "model",
           fs::copy_options::recursive);
  write("wan.yml",
        "height: 64\nwidth: 64\nnum_frames: 17\nmax_sequence_length: 32\nmax_train_samples: 2\n"
        "tfrecords_dir: wan\nexecutable_cache: ../kinema_cli_programs\ntrain_data_dir: " +
            golden_ + "\n");
  const auto prepare = [&](const std::string& model) {
    return run({"prepare", "wan.yml", "pretrained_model_name_or_path=" + model});
  };
  ASSERT_EQ(prepare("model").status, 0);
  fs::copy(folder_ / "model", folder_ / "moved", fs::copy_options::recursive);
  const Outcome moved = prepare("moved");
  EXPECT_EQ(moved.status, 0) << moved.err;
  EXPECT_THAT(moved.out, HasSubstr("(2 were there)"));

  for (const char* part : {"vae", "text_encoder"}) {
    SCOPED_TRACE(part);
    for (const auto& entry : fs::directory_iterator(folder_ / "model" / part)) {
      if (entry.path().extension() != ".safetensors") {
        continue;
      }
      const auto time = fs::last_write_time(entry.path());
      const std::string whole = read_text(entry.path());
      std::string other = whole;
      other.back() = static_cast<char>(other.back() ^ 1);
      std::ofstream(entry.path(), std::ios::binary) << other;
      fs::last_write_time(entry.path(), time);  // with the same size and time as before
      prepare("model").expect_error(
          part == std::string("vae") ? "content of vae is" : "content of text encoder's folder");
      std::ofstream(entry.path(), std::ios::binary) << whole;
      break;
    }
  }
}

TEST_F(PrepareCommand, GivesTheReferencesRecords) {
  const std::string golden = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
  write("wan.yml",
        "output_dir: out\nheight: 64\nwidth: 64\nnum_frames: 17\nmax_sequence_length: 96\n"
        "no_records_per_shard: 8\ntfrecords_dir: wan\nexecutable_cache: ../kinema_cli_programs\n"
        "pretrained_model_name_or_path: " +
            golden + "/wan21_t2v\ntrain_data_dir: " + golden_ + "\n");
  const Outcome outcome = run({"prepare", "wan.yml"});

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto made = data::tfrecord_source({.folder = folder_ / "wan", .shuffle = false});
  const auto wanted =
      data::tfrecord_source({.folder = golden_ + "/tfrecords/train", .shuffle = false});
  ASSERT_EQ(made->size(), wanted->size());
  // Decoded pixels are within 3 of 255 levels of the reference's, 0.024 in [-1, 1]; the encoder's
  // means follow them about one to one, and latents are divided by a deviation near 1.
  constexpr double kPixels = 3.0 / 127.5;
  // Embeddings differ only by rounding: the reference's own error is 1e-6.
  constexpr double kRounding = 1e-4;
  for (int64_t i = 0; i < made->size(); ++i) {
    SCOPED_TRACE(i);
    const data::Sample a = made->at(i);
    const data::Sample b = wanted->at(i);
    EXPECT_EQ(a.id, b.id);
    EXPECT_LT(largest_difference(a.latents, b.latents), kPixels);
    EXPECT_LT(largest_difference(a.encoder_hidden_states, b.encoder_hidden_states), kRounding);
  }
}

}  // namespace
}  // namespace kinema::jobs_test
