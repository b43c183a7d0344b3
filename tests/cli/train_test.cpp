// Training and sampling on the CPU plugin.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <csignal>
#include <string>

#include "cli/run_kinema.h"
#include "kinema/io/gzip.h"
#include "kinema/io/json.h"

namespace kinema::cli_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t found = text.find(before);
  if (found == std::string::npos) {
    return "";
  }
  const size_t start = found + before.size();
  return text.substr(start, text.find(after, start) - start);
}

class TrainCommand : public KinemaOnCpu {
 protected:
};

TEST_F(TrainCommand, WritesARunFolder) {
  const Outcome outcome = run({"train", "tiny.yml"});

  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("completed step: 4, seconds: "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("completed step: 5,")));
  const fs::path folder = folder_ / "out" / "tiny";
  for (const char* file :
       {"config.yml", "metrics.jsonl", "checkpoints/4/manifest.json",
        "checkpoints/4/transformer/config.json", "checkpoints/4/train_state.json"}) {
    EXPECT_TRUE(fs::exists(folder / file)) << file;
  }
  EXPECT_EQ(losses("tiny").size(), 4U);
  EXPECT_EQ(run({"inspect", "--check", "out/tiny/checkpoints/4"}).status, 0);
  EXPECT_EQ(run({"inspect", "out/tiny"}).status, 0);
  // The saved configuration is valid.
  EXPECT_EQ(run({"config", "out/tiny/config.yml"}).status, 0);
}

TEST_F(TrainCommand, GoesOnBitForBitWhereItStopped) {
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=whole"}).status, 0);
  const Outcome first = run({"train", "tiny.yml", "run_name=parts", "max_train_steps=2",
                             "learning_rate_schedule_steps=4", "--verbose"});
  ASSERT_EQ(first.status, 0) << first.err;
  const Outcome second =
      run({"train", "tiny.yml", "run_name=parts", "learning_rate_schedule_steps=4", "--verbose"});

  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("resumed after step 2"));
  EXPECT_EQ(losses("parts"), losses("whole"));
  // The log shows that the checkpoint is read as it was written, part by part.
  const std::string parts =
      between(first.out, "checkpoint of step 2 saved: out/parts/checkpoints/2: ", "\n");
  EXPECT_THAT(parts, AllOf(HasSubstr("optimizer/mu "), HasSubstr("optimizer/nu "),
                           HasSubstr("train_state "), HasSubstr("transformer ")));
  EXPECT_EQ(between(second.out, "checkpoint read: out/parts/checkpoints/2: ", ";"), parts);
  EXPECT_THAT(run({"train", "tiny.yml", "run_name=short"}).out,
              HasSubstr("checkpoint of step 4 saved: out/short/checkpoints/4\n"));
}

TEST_F(TrainCommand, TakesAFileOfMaxDiffusion) {
  const fs::path source(KINEMA_SOURCE_DIR);
  const fs::path golden = source / "tests/golden";
  const Outcome outcome =
      run({"train", (source / "tests/config/maxdiffusion_wan.yml").string(), "run_name=theirs",
           "output_dir=out", "hardware=cpu", "max_train_steps=2",
           "pretrained_model_name_or_path=" + (golden / "wan21_t2v").string(),
           "train_data_dir=" + (golden / "dataset/tfrecords/train").string()});

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("completed step: 2, seconds: "));
  EXPECT_THAT(outcome.err, HasSubstr("no meaning in kinema"));
}

TEST_F(TrainCommand, EndsAfterWholeEpochs) {
  // Two synthetic batches, each seen three times.
  const Outcome outcome = run(
      {"train", "tiny.yml", "max_train_steps=-1", "num_train_epochs=3", "synthetic_num_samples=2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(losses("tiny").size(), 6U);
  run({"train", "tiny.yml", "run_name=endless", "max_train_steps=-1"}).expect_error("no end");
}

// From the lower bound only, with the nearest batch that was compiled and fits.
TEST_F(TrainCommand, RefusesABatchThatCannotFitAndNamesOneThatDoes) {
  const Outcome outcome = run({"train", "tiny.yml", "height=8", "width=8", "num_frames=1",
                               "num_layers=400", "per_device_batch_size=1000000"});
  outcome.expect_error("[train] a step with its state (a lower bound) needs ");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("are free\n  with "), HasSubstr("per_device_batch_size="),
                    HasSubstr("gradient_accumulation_steps=")));
}

// The run's videos would fail only after hours, because the schedule has fewer steps than the
// sampler.
TEST_F(TrainCommand, RefusesMoreSamplerStepsThanTheScheduleHasAtOnce) {
  run({"train", "tiny.yml", "eval_every=2", "enable_generate_video_for_eval=true", "prompt=a",
       "num_inference_steps=2000"})
      .expect_error("num_inference_steps is 2000, expected 1 to 1000");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "tiny" / "metrics.jsonl"));
}

TEST_F(TrainCommand, DoesNothingTwice) {
  ASSERT_EQ(run({"train", "tiny.yml"}).status, 0);
  const std::vector<std::string> before = losses("tiny");
  const Outcome again = run({"train", "tiny.yml"});

  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("nothing to do: 4 steps are made, and max_train_steps is 4"));
  EXPECT_EQ(again.err.find("without effect"), std::string::npos) << again.err;
  EXPECT_THAT(run({"train", "tiny.yml", "learning_rate=0.5"}).err,
              HasSubstr("without effect, as no step is left: learning_rate: "));
  EXPECT_EQ(losses("tiny"), before);

  // Also for keys of a file, which may have changed since.
  write("other.yml", std::string("base: tiny.yml\npretrained_model_name_or_path: ") +
                         KINEMA_SOURCE_DIR + "/tests/golden/wan21_t2v\n");
  const Outcome other = run({"train", "other.yml"});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("this run has another model, with "
                                   "pretrained_model_name_or_path ``, not `"));
  EXPECT_LT(other.err.find("another model"), other.err.find("nothing to do"));
}

TEST_F(TrainCommand, RefusesToResumeWithOtherSettings) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  run({"train", "tiny.yml", "seed=5"}).expect_error("seed is 5, but the run of");
  run({"train", "tiny.yml", "num_layers=3"}).expect_error("num_layers is 3, but the run of");
  run({"train", "tiny.yml", "per_device_batch_size=1"}).expect_error("global_batch_size is 1");
}

TEST_F(TrainCommand, SaysWhatChangedSinceTheCheckpoint) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1", "save_optimizer=false"}).status, 0);
  const Outcome outcome = run({"train", "tiny.yml", "max_train_steps=2", "learning_rate=2e-3",
                               "adam_b2=0.99", "log_period=7"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("changed: learning_rate: 0.001 -> 0.002\n"),
                                 HasSubstr("changed: max_train_steps: 1 -> 2\n"),
                                 HasSubstr("changed: adam_b2: 0.999 -> 0.99\n"),
                                 HasSubstr("moments start at zero"), Not(HasSubstr("log_period"))));
}

TEST_F(TrainCommand, KeepsTheScheduleOfARunThatIsMadeLonger) {
  const auto rates = [&] {
    std::vector<double> out;
    std::istringstream in(read_text(folder_ / "out" / "tiny" / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      out.push_back(
          io::Json::parse(line, "metrics").at("learning/current_learning_rate").as_number());
    }
    return out;
  };
  const std::vector<std::string> falling{"train", "tiny.yml", "warmup_steps_fraction=0",
                                         "lr_decay_fraction=0.5", "final_lr_fraction=0.25"};
  const auto with = [&](const char* word) {
    std::vector<std::string> out = falling;
    out.emplace_back(word);
    return out;
  };
  ASSERT_EQ(run(with("max_train_steps=4")).status, 0);
  const Outcome longer = run(with("max_train_steps=6"));
  ASSERT_EQ(longer.status, 0) << longer.err;
  EXPECT_THAT(longer.out, HasSubstr("keeps the run's original schedule of 4 steps"));
  // Full, full, half way, and then the rest: the rate never increases again.
  EXPECT_THAT(rates(),
              ::testing::ElementsAre(
                  ::testing::DoubleNear(1e-3, 1e-9), ::testing::DoubleNear(1e-3, 1e-9),
                  ::testing::DoubleNear(1e-3, 1e-9), ::testing::DoubleNear(6.25e-4, 1e-9),
                  ::testing::DoubleNear(2.5e-4, 1e-9), ::testing::DoubleNear(2.5e-4, 1e-9)));

  // The rate would be 0.
  const std::vector<std::string> to_zero{"train", "tiny.yml", "run_name=zero",
                                         "lr_decay_fraction=0.5", "max_train_steps=2"};
  ASSERT_EQ(run(to_zero).status, 0);
  std::vector<std::string> more = to_zero;
  more.back() = "max_train_steps=4";
  run(more).expect_error("falls to 0 at step 2");
  more.emplace_back("learning_rate_schedule_steps=4");
  EXPECT_EQ(run(more).status, 0) << "what is asked for is made";
}

TEST_F(TrainCommand, GoesOnFromAnotherRunOrTakesItsWeights) {
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=whole"}).status, 0);
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=first", "max_train_steps=2",
                 "learning_rate_schedule_steps=4"})
                .status,
            0);
  // With optimizer, step and position: the rest of the uninterrupted run, in another folder.
  const Outcome fork = run({"train", "tiny.yml", "run_name=fork", "resume_from=out/first"});
  ASSERT_EQ(fork.status, 0) << fork.err;
  EXPECT_THAT(fork.out, HasSubstr("resumed after step 2"));
  EXPECT_EQ(read_text(folder_ / "out/fork/checkpoints/4/optimizer/nu.safetensors"),
            read_text(folder_ / "out/whole/checkpoints/4/optimizer/nu.safetensors"));
  run({"train", "tiny.yml", "run_name=lost", "resume_from=out"})
      .expect_error("neither a run's folder");

  // With the weights only.
  for (const char* model : {"out/first", "out/first/checkpoints/2"}) {
    const Outcome next = run({"train", "tiny.yml", "run_name=next", "max_train_steps=1",
                              std::string("pretrained_model_name_or_path=") + model});
    ASSERT_EQ(next.status, 0) << next.err;
    EXPECT_THAT(next.out, HasSubstr("from out/first/checkpoints/2/transformer"));
    fs::remove_all(folder_ / "out" / "next");
  }
}

TEST_F(TrainCommand, LoadsNothingWhereNothingIsLeftToDoOrToSave) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  // Loading a plugin that does not exist would be an error.
  const Outcome again = run({"train", "tiny.yml", "max_train_steps=1", "pjrt_plugin=/absent.so"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("nothing to do: 1 step is made, and max_train_steps is 1"));

  const Outcome lost = run({"train", "tiny.yml", "run_name=lost", "max_train_steps=1",
                            "checkpoint_every=-1", "save_final_checkpoint=false"});
  ASSERT_EQ(lost.status, 0) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("WILL END WITHOUT WEIGHTS"));
  EXPECT_FALSE(fs::exists(folder_ / "out/lost/checkpoints/1"));
}

TEST_F(TrainCommand, SaysHowManySamplesAStepTakes) {
  const Outcome half =
      run({"train", "tiny.yml", "per_device_batch_size=0.5", "cpu_device_count=4",
           "ici_data_parallelism=2", "ici_context_parallelism=2", "max_train_steps=1"});
  ASSERT_EQ(half.status, 0) << half.err;
  EXPECT_THAT(half.out,
              HasSubstr("global batch: 2 samples (per_device_batch_size 0.5 on 4 devices)"));
}

TEST_F(TrainCommand, ChecksSizesPromptsAndRoomBeforeTheWork) {
  run({"train", "tiny.yml", "height=12"}).expect_error("8 and 16 work");
  run({"train", "tiny.yml", "width=17"}).expect_error("width is 17");
  run({"train", "tiny.yml", "height=65536"}).expect_error("height is 65536, but the model has");
  run({"train", "tiny.yml", "enable_ssim=true", "prompt_file=absent.txt", "pjrt_plugin=/absent.so"})
      .expect_error("absent.txt");
  run({"train", "tiny.yml", "checkpoint_dir=tiny.yml/a", "pjrt_plugin=/absent.so"})
      .expect_error("tiny.yml is a file");
}

TEST_F(TrainCommand, RefusesOutputsThatCannotBeWrittenBeforeTheWork) {
  run({"train", "tiny.yml", "metrics_file=tiny.yml/m.jsonl", "pjrt_plugin=/absent.so"})
      .expect_error("tiny.yml is a file");
  run({"train", "tiny.yml", "timing_metrics_file=.", "pjrt_plugin=/absent.so"})
      .expect_error("expected a file");
  run({"train", "tiny.yml", "tensorboard_dir=/dev/null", "pjrt_plugin=/absent.so"})
      .expect_error("/dev/null");
  ASSERT_EQ(std::system(("mkfifo " + quoted((folder_ / "pipe").string())).c_str()), 0);
  run({"train", "tiny.yml", "compiled_step=pipe"}).expect_error("is not a compiled program");
}

TEST_F(TrainCommand, BeginsNothingAnewOverDamagedCheckpoints) {
  ASSERT_EQ(run({"train", "tiny.yml"}).status, 0);
  const std::vector<std::string> before = losses("tiny");
  for (const auto& entry : fs::directory_iterator(folder_ / "out/tiny/checkpoints")) {
    fs::remove(entry.path() / "manifest.json");
  }
  run({"train", "tiny.yml", "max_train_steps=5"}).expect_error("checkpoints are all corrupt");
  EXPECT_EQ(losses("tiny"), before);
  // Every command that reads them says so, and names each.
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"inspect", "out/tiny"},
        {"inspect", "out/tiny/checkpoints"},
        {"inspect", "out/tiny", "--check"},
        {"generate", "out/tiny/config.yml"},
        {"evaluate", "out/tiny/config.yml"},
        {"train", "tiny.yml", "max_train_steps=5"},
        {"train", "tiny.yml", "run_name=next", "init_from=tiny"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command[0];
    for (const auto& entry : fs::directory_iterator(folder_ / "out/tiny/checkpoints")) {
      EXPECT_THAT(outcome.err, HasSubstr("checkpoints/" + entry.path().filename().string()))
          << command[0];
    }
  }
  const Outcome json = run({"inspect", "out/tiny", "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_THAT(io::Json::parse(json.out, "stdout").at("problem").as_string(),
              HasSubstr("has no valid checkpoint"));
}

// Some supervisors start programs like this: no file of the run may become standard output.
TEST_F(TrainCommand, WritesNoLinesIntoFilesWhereTheStandardStreamsAreClosed) {
  const std::string command = "cd " + quoted(folder_.string()) + " && " +
                              quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                              " train tiny.yml <&- >&- 2>&-";
  EXPECT_EQ(WEXITSTATUS(std::system(("bash -c " + quoted(command)).c_str())), 0);
  EXPECT_EQ(losses("tiny").size(), 4U);
  EXPECT_THAT(read_text(folder_ / "out/tiny/.lock"), Not(HasSubstr("completed")));
}

TEST_F(TrainCommand, PrintsJsonAlone) {
  const Outcome outcome = run({"train", "tiny.yml", "max_train_steps=1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(io::Json::parse(outcome.out, "stdout").at("steps").as_int(), 1);
}

TEST_F(TrainCommand, NamesWhatItCannotTrain) {
  run({"train", "tiny.yml", "run_name="}).expect_error("run_name");
  run({"train", "tiny.yml", "run_name=../x"}).expect_error("output_dir");
  run({"train", "tiny.yml", "run_name=."}).expect_error("output_dir");
  run({"train", "tiny.yml", "eval_every=2"}).expect_error("eval_data_dir is empty");
  run({"train", "tiny.yml", "eval_every=2", "eval_data_dir=none"}).expect_error("does not exist");
  run({"train", "tiny.yml", "enable_lora=True"}).expect_error("trains an adapter of a model");
  run({"train", "tiny.yml", "dataset_type=tfrecord"}).expect_error("train_data_dir");
  run({"train", "tiny.yml", "dataset_type=videos", "train_data_dir=absent"}).expect_error("absent");
  run({"train", "tiny.yml", "pretrained_model_name_or_path=Wan-AI/Some"},
      "HF_HUB_OFFLINE=1 HF_HUB_CACHE=cache")
      .expect_error("Wan-AI/Some");
  run({"train", "tiny.yml", "pretrained_model_name_or_path=./Wan-AI/Some"})
      .expect_error("Wan-AI/Some");
  run({"train", "tiny.yml", "attention_head_dim=11"}).expect_error("attention_head_dim");
  run({"train", "tiny.yml", "patch_size=[1,3,3]"}).expect_error("patches of 3 cells");
  run({"train", "tiny.yml", "height=12"}).expect_error("8 and 16 work");
  run({"train", "tiny.yml", "width=17"}).expect_error("width is 17");
  run({"train", "tiny.yml", "per_device_batch_size=0.5"}).expect_error("per_device_batch_size");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "tiny" / "checkpoints" / "4"));
}

TEST_F(TrainCommand, ProfilesStepsAndNamesThePartsOfTheModel) {
  const Outcome outcome =
      run({"train", "tiny.yml", "enable_profiler=true", "skip_first_n_steps_for_profiler=1",
           "profiler_steps=2", "jit=false"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("profile of steps 2 to 3: out/tiny/profile/plugins/profile/"));
  const auto trace_of = [&](const char* run_name) {
    std::string trace;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder_ / "out" / run_name / "profile")) {
      if (entry.path().string().ends_with(".trace.json.gz")) {
        const std::string bytes = read_text(entry.path());
        for (const std::byte each : io::gunzip(std::as_bytes(std::span(bytes)), "trace")) {
          trace += static_cast<char>(each);
        }
      }
    }
    return trace;
  };
  const std::string trace = trace_of("tiny");
  for (const char* name : {"patch_embedding", "blocks", "grad/blocks", "proj_out", "train_step",
                           "wait for data", "read batch"}) {
    EXPECT_THAT(trace, HasSubstr('"' + std::string(name) + '"'));
  }
  // As one program, with products large enough for a kernel.
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=whole", "enable_profiler=true",
                 "skip_first_n_steps_for_profiler=1", "height=64", "width=64",
                 "attention_head_dim=32", "ffn_dim=256", "max_train_steps=2"})
                .status,
            0);
  const std::string whole = trace_of("whole");
  for (const char* name : {"blocks/attn1", "blocks/ffn", "grad/blocks/ffn", "train_step"}) {
    EXPECT_THAT(whole, HasSubstr('"' + std::string(name) + '"'));
  }
  run({"train", "tiny.yml", "run_name=short", "enable_profiler=true"})
      .expect_error("the first recorded step would be 6, but the run ends after 4");
}

TEST_F(TrainCommand, SaysBeforeTheFirstStepThatAStepDoesNotFit) {
  run({"train", "tiny.yml", "per_device_batch_size=1000000"}).expect_error("are free");
}

TEST_F(TrainCommand, NamesAPluginThatIsMissingOrNone) {
  run({"train", "tiny.yml", "pjrt_plugin=/absent.so"}).expect_error("/absent.so");
  write("text.so", "not a shared object");
  run({"train", "tiny.yml", "pjrt_plugin=text.so"}).expect_error("text.so");
  // A shared library that is not a plugin.
  run({"train", "tiny.yml", "pjrt_plugin=libm.so.6"}).expect_error("libm.so.6");
  run({"train", "tiny.yml", "hardware=tpu"}).expect_error("tpu");
}

TEST_F(TrainCommand, SavesWhenItIsToldToStop) {
  // A shell sends the signal after some steps are reported.
  write("stop.sh", "cd " + quoted(folder_.string()) + "\n" +
                       quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                       " train tiny.yml max_train_steps=100000000 >.out 2>.err &\n"
                       "for i in $(seq 600); do grep -q 'step: 1' .out && break; sleep 0.1; done\n"
                       "kill -TERM $!\nwait $!\n");
  const int stopped = std::system(("bash " + quoted((folder_ / "stop.sh").string())).c_str());

  EXPECT_EQ(WEXITSTATUS(stopped), 0) << read_text(folder_ / ".err");
  EXPECT_THAT(read_text(folder_ / ".out"), HasSubstr("stopped after"));
  bool saved = false;
  for (const auto& entry : fs::directory_iterator(folder_ / "out" / "tiny" / "checkpoints")) {
    saved = saved || fs::exists(entry.path() / "manifest.json");
  }
  EXPECT_TRUE(saved);
}

TEST_F(TrainCommand, LeavesNothingWhereGenerateIsToldToStop) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  // Compiles everything first, so that the stop does not wait for the compiler.
  ASSERT_EQ(run({"generate", "tiny.yml", "num_inference_steps=1", "video_folder=first"}).status, 0);
  write(
      "stop.sh",
      "cd " + quoted(folder_.string()) + "\n" + quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
          " generate tiny.yml num_inference_steps=1000 num_videos_per_prompt=1000 >.out "
          "2>.err &\n"
          "for i in $(seq 600); do grep -q 'sampling 1000 videos' .err && break; sleep 0.1; done\n"
          "sleep 0.5\nkill -TERM $!\nwait $!\n");
  const int stopped = std::system(("bash " + quoted((folder_ / "stop.sh").string())).c_str());

  EXPECT_EQ(WEXITSTATUS(stopped), 0) << read_text(folder_ / ".err");
  EXPECT_THAT(read_text(folder_ / ".err"),
              AllOf(HasSubstr("stopping after this step of the sampler; nothing is written yet; "
                              "again to end now"),
                    HasSubstr("stopped: nothing is written; the same command starts over")));
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny/samples/1/videos.jsonl"));
}

TEST_F(TrainCommand, SavesAndNamesItWhenItsFolderIsRemoved) {
  write("remove.sh",
        "cd " + quoted(folder_.string()) + "\n" +
            quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
            " train tiny.yml max_train_steps=100000000 >.out 2>.err &\n"
            "for i in $(seq 600); do grep -q 'step: 1' .out && break; sleep 0.1; done\n"
            "rm -r out/tiny\nwait $!\n");
  const int status = std::system(("bash " + quoted((folder_ / "remove.sh").string())).c_str());

  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(read_text(folder_ / ".err"),
              HasSubstr("run folder out/tiny was deleted during the run: stopped after"));
  const fs::path saved = fs::directory_iterator(folder_ / "out/tiny/checkpoints")->path();
  EXPECT_EQ(run({"inspect", "--check", saved.string()}).status, 0);
}

TEST_F(TrainCommand, SaysWhatIsLeftAndWhatAStepTook) {
  const Outcome outcome = run({"train", "tiny.yml"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(", 0:00 left\n"));
  const std::string rows = read_text(folder_ / "out/tiny/metrics.jsonl");
  const io::Json row = io::Json::parse(rows.substr(0, rows.find('\n')), "metrics.jsonl");
  EXPECT_GT(row.at("perf/peak_rss_bytes").as_number(), 1e7);
}

TEST_F(TrainCommand, LosesNothingWhenTheDiskIsFull) {
  const fs::path disk = folder_ / "disk";
  fs::create_directory(disk);
  if (geteuid() != 0 || mount("none", disk.c_str(), "tmpfs", 0, "size=600k") != 0) {
    GTEST_SKIP() << "only root may mount a small disk";
  }
  const Outcome outcome = run({"train", "tiny.yml", "output_dir=disk", "checkpoint_every=1",
                               "max_train_steps=40", "checkpoints_to_keep=0"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the disk will be full before the run ends"),
                                 HasSubstr("o space left")));
  // Checkpoints that were complete before are still valid.
  int valid = 0;
  for (const auto& entry : fs::directory_iterator(disk / "tiny" / "checkpoints")) {
    if (fs::exists(entry.path() / "manifest.json")) {
      ++valid;
      EXPECT_EQ(run({"inspect", "--check", entry.path().string()}).status, 0);
    }
  }
  EXPECT_GT(valid, 0);
  // Nothing is started that could not be saved.
  std::ofstream(disk / "rest") << std::string(size_t{1} << 20, 'x');
  const Outcome none = run({"train", "tiny.yml", "output_dir=disk", "run_name=more"});
  none.expect_error("a checkpoint takes");
  umount(disk.c_str());
}

class GenerateCommand : public TrainCommand {};

TEST_F(GenerateCommand, MakesAVideoAPromptAndAContactSheet) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  write("prompts.txt", "a red circle\na blue square\n");
  const Outcome outcome = run({"generate", "tiny.yml", "prompt_file=prompts.txt",
                               "save_latents=latents.safetensors", "--json"});

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json report = io::Json::parse(outcome.out, "stdout");
  ASSERT_EQ(report.at("videos").items().size(), 2U);
  for (const io::Json& video : report.at("videos").items()) {
    EXPECT_TRUE(fs::exists(folder_ / video.at("path").as_string()));
  }
  EXPECT_TRUE(fs::exists(folder_ / report.at("contact_sheet").as_string()));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "tiny" / "samples" / "1" / "metadata.jsonl"));
  EXPECT_EQ(run({"inspect", "--check", "latents.safetensors"}).status, 0);

  // A prompt on the command line overrides the file in the configuration.
  write("with_file.yml", std::string(tiny_config()) + "prompt_file: prompts.txt\n");
  const Outcome single = run({"generate", "with_file.yml", "prompt=a circle", "--json"});
  EXPECT_EQ(io::Json::parse(single.out, "stdout").at("videos").items().size(), 1U) << single.err;

  // The same noise from a file gives the same latents; the file is checked.
  run({"generate", "tiny.yml", "prompt_file=prompts.txt", "initial_latents=absent.safetensors"})
      .expect_error("absent.safetensors");
}

TEST_F(GenerateCommand, SaysHowManyFramesItMakes) {
  const std::string pairs = "space_to_depth_temporal=2";  // of frames
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1", pairs}).status, 0);
  const Outcome outcome =
      run({"generate", "tiny.yml", pairs, "num_frames=3", "num_inference_steps=1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("num_frames 3 is made 2"),
                                 HasSubstr("sampling 1 video of 2 frames of 16 x 16 in 1 step\n")));
}

TEST_F(GenerateCommand, ChecksItsFoldersBeforeTheWork) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  write("file", "");
  for (const char* folder : {"file", "file/a", "/proc/nothing"}) {
    const Outcome outcome = run({"generate", "tiny.yml", std::string("video_folder=") + folder});
    outcome.expect_error("[io] ");
    EXPECT_THAT(outcome.err, Not(HasSubstr("sampling"))) << "steps were made";
  }
  run({"generate", "tiny.yml", "save_latents=file/a.safetensors"}).expect_error("cannot be a");
  run({"generate", "tiny.yml", "save_latents=out"}).expect_error("a file was expected");
}

TEST_F(GenerateCommand, ReadsPromptFilesByTheirLines) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  write("prompts.txt",
        "\xef\xbb\xbf"
        "a red circle\r\n \t\n\n");
  const Outcome outcome = run({"generate", "tiny.yml", "prompt_file=prompts.txt", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json report = io::Json::parse(outcome.out, "stdout");
  ASSERT_EQ(report.at("videos").items().size(), 1U);
  EXPECT_EQ(report.at("videos").items()[0].at("prompt").as_string(), "a red circle");
  write("blank.txt", " \n\t\n");
  run({"generate", "tiny.yml", "prompt_file=blank.txt"}).expect_error("contains no prompt");
  ASSERT_EQ(std::system(("mkfifo " + quoted((folder_ / "pipe").string())).c_str()), 0);
  run({"generate", "tiny.yml", "prompt_file=pipe"}).expect_error("not a regular file");
  run({"generate", "tiny.yml", "prompt_file=/dev/zero"}).expect_error("not a regular file");
  write("latin.txt", "a\nna\xefve\n");
  run({"generate", "tiny.yml", "prompt_file=latin.txt"}).expect_error("latin.txt:2 is not text");
}

TEST_F(GenerateCommand, SaysWhatIsMissing) {
  run({"generate", "tiny.yml"}).expect_error("no checkpoint");
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  run({"generate", "tiny.yml", "prompt_file=absent.txt"}).expect_error("absent.txt");
  run({"generate", "tiny.yml", "generate_checkpoint_step=77"}).expect_error("77");
  run({"generate", "tiny.yml", "image_url=a.png"}).expect_error("cannot read a.png");
  run({"generate", "tiny.yml", "image_url=tiny.yml"}).expect_error("tiny.yml cannot be decoded");
  run({"generate", "tiny.yml", "image_url=http://127.0.0.1:1/a.png?key=secret"})
      .expect_error("http://127.0.0.1:1/a.png was not downloaded");
  run({"generate", "tiny.yml", "image_url=https://"}).expect_error("is not a URL");
}

class DoctorCommand : public TrainCommand {};

TEST_F(DoctorCommand, NamesThePluginAndItsDevices) {
  const Outcome outcome = run({"doctor", "cpu_device_count=3"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("nothing is missing"));
  EXPECT_THAT(outcome.out, HasSubstr("devices      3"));
}

TEST_F(DoctorCommand, ExplainsHowToInstallMissingParts) {
  const Outcome outcome = run({"doctor", "pjrt_plugin=/absent.so"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("/absent.so"));
}

}  // namespace
}  // namespace kinema::cli_test
