// Training, preparing and sampling with paths in stores, against real servers.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/remote/store.h"
#include "remote/store_servers.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using remote::servers;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::Not;
using ::testing::StartsWith;

class StoresOnCpu : public RunsTest {
 protected:
  static std::string uri(const std::string& scheme, const std::string& name) {
    return fmt::format("{}://{}/{}/{}", scheme, remote::StoreServers::kBucket,
                       testing::UnitTest::GetInstance()->current_test_info()->name(), name);
  }

  /// Runs with the cache of one of several machines.
  Outcome on(const std::string& machine, const std::vector<std::string>& arguments) {
    return run(arguments, "KINEMA_CACHE='" + (folder_ / machine).string() + "'");
  }

  static std::vector<std::string> names(const std::string& path) {
    std::vector<std::string> out;
    for (const auto& file : remote::Store(*remote::read_store_path(path)).list()) {
      out.push_back(file.name);
    }
    return out;
  }
  static std::string text(const std::string& path) {
    return remote::Store(*remote::read_store_path(path)).read("");
  }
};

TEST_F(StoresOnCpu, ARunGoesOnOnAnotherMachine) {
  for (const std::string scheme : {"gs", "s3"}) {
    SCOPED_TRACE(scheme);
    const std::string output = "output_dir=" + uri(scheme, "out");
    const std::string folder = uri(scheme, "out/tiny");
    ASSERT_EQ(run({"train", "tiny.yml"}).status, 0);

    const Outcome half = on(
        "a", {"train", "tiny.yml", output, "max_train_steps=2", "learning_rate_schedule_steps=4"});
    ASSERT_EQ(half.status, 0) << half.err;
    EXPECT_THAT(half.out, HasSubstr("done after 2 steps: " + folder));
    const Outcome rest = on("b", {"train", "tiny.yml", output});
    ASSERT_EQ(rest.status, 0) << rest.err;

    EXPECT_THAT(rest.out, HasSubstr("resumed after step 2"));
    EXPECT_EQ(losses_of(text(folder + "/metrics.jsonl")), losses("tiny"));
    EXPECT_THAT(
        (std::vector<std::string>{"config.yml", "flags.json", "loss.svg", "metrics.jsonl",
                                  "checkpoints/2/manifest.json", "checkpoints/4/manifest.json"}),
        IsSubsetOf(names(folder)));
    EXPECT_THAT(names(folder), Contains(StartsWith("tensorboard/events")));
    EXPECT_THAT(on("c", {"watch", folder, "--json"}).out,
                AllOf(HasSubstr("\"steps\": 4"), HasSubstr("\"checkpoints\"")));
    EXPECT_EQ(on("c", {"inspect", "--check", folder + "/checkpoints/4"}).status, 0);
  }
}

TEST_F(StoresOnCpu, EachKeyOfTheOutputMayNameAStore) {
  const Outcome outcome = on(
      "a", {"train", "tiny.yml", "checkpoint_dir=" + uri("gs", "checkpoints"),
            "tensorboard_dir=" + uri("s3", "events"), "metrics_file=" + uri("gs", "m/rows.jsonl"),
            "timing_metrics_file=" + uri("gs", "m/timings.jsonl"), "gcs_metrics=true",
            "log_period=3", "metrics_dir=" + uri("s3", "metrics"), "save_config_to_gcs=true",
            "base_output_directory=" + uri("gs", "base")});

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(names(uri("gs", "checkpoints")), Contains("4/manifest.json"));
  EXPECT_THAT(names(uri("s3", "events")), Contains(StartsWith("events.out")));
  const std::string rows = text(uri("gs", "m/rows.jsonl"));
  EXPECT_EQ(losses_of(rows).size(), 4U);
  EXPECT_EQ(text(uri("s3", "metrics/metrics_step_000000_to_step_000002.txt")) +
                text(uri("s3", "metrics/metrics_step_000003_to_step_000003.txt")),
            rows);
  EXPECT_THAT(text(uri("gs", "m/timings.jsonl")), HasSubstr("\"steps\""));
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny/timings.jsonl"));
  EXPECT_THAT(text(uri("gs", "base/tiny/config.yml")),
              HasSubstr("checkpoint_dir: \"" + uri("gs", "checkpoints")));
  EXPECT_TRUE(fs::exists(folder_ / "out/tiny/config.yml"));
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny/checkpoints"));
}

TEST_F(StoresOnCpu, RecordsGoToAStoreAndAreTrainedOnFromThere) {
  const std::string clips = std::string(KINEMA_SOURCE_DIR) + "/tests/golden/dataset";
  const remote::Store store(*remote::read_store_path(uri("gs", "clips")));
  for (const auto& entry : fs::recursive_directory_iterator(clips)) {
    if (entry.is_regular_file()) {
      store.upload(entry.path(), entry.path().lexically_relative(clips).string());
    }
  }
  const std::vector<std::string> words{"prepare", "tiny.yml", "no_records_per_shard=5",
                                       "train_data_dir=" + uri("gs", "clips"),
                                       "tfrecords_dir=" + uri("s3", "data/records")};

  const Outcome made = on("a", words);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("12 records in 3 shards of " + uri("s3", "data/records")));
  EXPECT_THAT(names(uri("s3", "data")),
              AllOf(Contains("records/file_00-5.tfrec"), Contains("records.prepare.json")));
  const Outcome again = on("b", words);
  EXPECT_THAT(again.out, HasSubstr("(12 were there)")) << again.err;

  const std::vector<std::string> train{"train",
                                       "tiny.yml",
                                       "dataset_type=tfrecord",
                                       "train_data_dir=" + uri("s3", "data/records"),
                                       "eval_every=2",
                                       "eval_data_dir=" + uri("s3", "data/records")};
  const Outcome trained = on("c", train);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::vector<std::string> of_copy = losses("tiny");
  EXPECT_TRUE(fs::exists(folder_ / "c/stores/read"));

  // The same without a local copy.
  fs::remove_all(folder_ / "out");
  const Outcome ranged =
      run(train, "KINEMA_STORE_COPY_GB=0 KINEMA_CACHE='" + (folder_ / "d").string() + "'");
  ASSERT_EQ(ranged.status, 0) << ranged.err;
  EXPECT_EQ(losses("tiny"), of_copy);
  EXPECT_FALSE(fs::exists(folder_ / "d/stores/read"));
  EXPECT_TRUE(fs::exists(folder_ / "d/stores/index"));
}

TEST_F(StoresOnCpu, VideosAreMadeOfARunInAStore) {
  const std::string output = "output_dir=" + uri("s3", "out");
  ASSERT_EQ(on("a", {"train", "tiny.yml", output}).status, 0);

  const Outcome own = on("b", {"generate", "tiny.yml", output, "prompt=a ball"});
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr(uri("s3", "out/tiny/samples/4/")));
  EXPECT_THAT(names(uri("s3", "out/tiny/samples/4")), Contains(testing::EndsWith(".mp4")));
  const Outcome other = on("b", {"generate", "tiny.yml", output, "prompt=a ball",
                                 "video_folder=" + uri("gs", "videos")});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(names(uri("gs", "videos")), Contains(testing::EndsWith(".mp4")));
}

// The store was unreachable when the run of one process wrote its last checkpoint.
TEST_F(StoresOnCpu, ACheckpointThatWasNotSentIsSentByARunOfTwoProcesses) {
  const std::string output = "output_dir=" + uri("gs", "out");
  const std::vector<std::string> words{"train",
                                       "tiny.yml",
                                       output,
                                       "global_batch_size=2",
                                       "checkpoint_every=2",
                                       "learning_rate_schedule_steps=8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Outcome one = on("a", with({}));
  ASSERT_EQ(one.status, 0) << one.err;
  remote::Store(*remote::read_store_path(uri("gs", "out/tiny/checkpoints"))).remove_folder("4");
  const fs::path here = folder_ / "a/stores/written/gs" / remote::StoreServers::kBucket /
                        testing::UnitTest::GetInstance()->current_test_info()->name() /
                        "out/tiny/checkpoints";
  ASSERT_TRUE(fs::exists(here / "4/manifest.json"));
  std::ofstream(here / "4.unsent");

  // The commands of both processes, started at the same time.
  std::string both = "cd " + quoted(folder_.string()) + "\n";
  for (const char* rank : {"1", "0"}) {
    both += "KINEMA_CACHE=a " + quoted(std::string(KINEMA_BINARY_DIR) + "/kinema");
    for (const std::string& word :
         with({"max_train_steps=6", "num_processes=2", std::string("process_id=") + rank,
               fmt::format("coordinator_address=127.0.0.1:{}", 20000 + ::getpid() % 10000),
               "cpu_device_count=1", "ici_data_parallelism=2"})) {
      both += " " + quoted(word);
    }
    both += fmt::format(" >.out{} 2>.err{} </dev/null &\n", rank, rank);
  }
  both += "wait -n && wait -n";
  write("both.sh", both);
  const int status = std::system(("bash " + quoted((folder_ / "both.sh").string())).c_str());
  const std::string said = read_text(folder_ / ".err0");
  ASSERT_EQ(status, 0) << said << read_text(folder_ / ".err1");
  EXPECT_THAT(said, HasSubstr("checkpoints/4, which an earlier run could not send, is sent to"));
  EXPECT_THAT(read_text(folder_ / ".out0"), HasSubstr("resumed after step 4"));
  EXPECT_THAT(names(uri("gs", "out/tiny")), Contains("checkpoints/4/manifest.json"));

  // One process resumes from the checkpoint of both, immediately: no partial file was left.
  const Outcome again = on("a", with({"max_train_steps=8"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("resumed after step 6"));
}

TEST_F(StoresOnCpu, AStoreThatIsAwayIsOneError) {
  servers()->spoil("s3", 1, "403");
  const std::string output = "output_dir=" + uri("s3", "out");

  on("a", {"train", "tiny.yml", output}).expect_error("[remote] " + uri("s3", "out/tiny"));
  on("a", {"train", "tiny.yml", "train_data_dir=" + uri("s3", "data"), "dataset_type=tfrecord"})
      .expect_error("credentials come from");
  servers()->spoil("s3", 0);
  on("a", {"train", "tiny.yml", "train_data_dir=" + uri("s3", "data"), "dataset_type=tfrecord"})
      .expect_error("does not exist, or holds nothing");
}

TEST_F(StoresOnCpu, KeysThatTakeNoStoreSaySo) {
  run({"train", "tiny.yml", "dump_to=gs://bucket/x"})
      .expect_error("dump_to is \"gs://bucket/x\": expected a local path");
  run({"train", "tiny.yml", "output_dir=gs://no"}).expect_error("gs://BUCKET/PATH");
  run({"train", "tiny.yml", "metrics_file=gs://"}).expect_error("gs://BUCKET/PATH");
  run({"train", "tiny.yml", "timing_metrics_file=s3://bucket/"}).expect_error("a file in one");
}

}  // namespace
}  // namespace kinema::jobs_test
