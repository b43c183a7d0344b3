// `train_expert: both`: the two transformers of a Wan 2.2 pipeline in one run.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class BothExperts : public RunsTest {
 protected:
  void SetUp() override {
    RunsTest::SetUp();
    write("both.yml", "output_dir: out\nrun_name: run\npretrained_model_name_or_path: " + golden_ +
                          "/wan22_t2v\ntrain_data_dir: " + golden_ +
                          "/dataset\ndataset_type: videos\nheight: 32\nwidth: 32\n"
                          "num_frames: 5\nweights_dtype: float32\nactivations_dtype: float32\n"
                          "max_sequence_length: 32\nper_device_batch_size: 2\n"
                          "learning_rate: 1e-2\nmax_train_steps: 6\ntrain_expert: both\n"
                          "learning_rate_schedule_steps: 6\nnum_inference_steps: 4\n"
                          "flow_shift: 5\nprompt: a ball\ncontact_sheet: false\n"
                          "dataset_save_location: kept\nseed: 2\n"
                          "executable_cache: ../kinema_cli_programs\n");
  }
  Outcome train(const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "both.yml", "run_name=" + name});
    return run(more);
  }
  void expect_trains(const std::string& name, const std::vector<std::string>& more) {
    const Outcome outcome = train(name, more);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  fs::path checkpoint(const std::string& name, int step) const {
    return folder_ / "out" / name / "checkpoints" / std::to_string(step);
  }
  /// `learning/expert` of each step.
  std::vector<std::string> experts(const std::string& name) const {
    std::vector<std::string> out;
    std::istringstream in(read_text(folder_ / "out" / name / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      if (const io::Json row = io::Json::parse(line, "metrics"); row.contains("learning/loss")) {
        out.push_back(row.at("learning/expert").as_string());
      }
    }
    return out;
  }
  std::string latents(std::vector<std::string> words) {
    words.insert(words.begin(), "generate");
    words.emplace_back("save_latents=latents.safetensors");
    const Outcome made = run(words);
    EXPECT_EQ(made.status, 0) << made.err;
    return read_text(folder_ / "latents.safetensors");
  }
  /// All bytes of a checkpoint's weights and moments.
  std::string bytes(const fs::path& folder) const {
    std::vector<fs::path> files;
    for (const auto& each : fs::recursive_directory_iterator(folder)) {
      if (each.path().extension() == ".safetensors") {
        files.push_back(each.path());
      }
    }
    std::ranges::sort(files);
    std::string out;
    for (const fs::path& file : files) {
      out += file.lexically_relative(folder).string() + read_text(file);
    }
    return out;
  }

  std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
};

TEST_F(BothExperts, StepsEqualARunOfTheExpertAlone) {
  // At a rate of 0 the weights do not change, so that a loss depends only on the step and the
  // expert.
  const Outcome both = train("both", {"learning_rate=0"});
  ASSERT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("expert: both, timesteps 0 to 1000, high_noise from 875 up"));
  expect_trains("high", {"learning_rate=0", "train_expert=high_noise"});
  expect_trains("low", {"learning_rate=0", "train_expert=low_noise"});
  const std::vector<std::string> order = experts("both");
  ASSERT_EQ(order.size(), 6U);
  EXPECT_THAT(order, AllOf(Contains("high_noise"), Contains("low_noise")));
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(losses("both")[i], losses(order[i] == "high_noise" ? "high" : "low")[i]) << i;
    EXPECT_THAT(both.out, HasSubstr("expert: " + order[i]));
  }
  EXPECT_NE(losses("high"), losses("low"));
}

TEST_F(BothExperts, StopResumeAndWaitOnTheHostBitForBit) {
  const std::vector<std::string> more{"ema_decay=0.9", "lr_schedule=linear", "expert_steps=2"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_trains("whole", with({}));
  const std::vector<std::string> order = experts("whole");
  EXPECT_EQ(order[0], order[1]);
  EXPECT_EQ(order[2], order[3]);
  for (const char* part :
       {"transformer", "transformer_2", "transformer_ema", "transformer_2_ema"}) {
    EXPECT_TRUE(fs::exists(checkpoint("whole", 6) / part / "config.json")) << part;
  }
  EXPECT_TRUE(fs::exists(checkpoint("whole", 6) / "optimizer_2" / "mu.safetensors"));

  expect_trains("parts", with({"max_train_steps=3"}));
  const Outcome rest = train("parts", with({"idle_expert=host"}));
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("resumed after step 3"));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(experts("parts"), order);
  EXPECT_TRUE(bytes(checkpoint("parts", 6)) == bytes(checkpoint("whole", 6)));

  // A resumed run must train the same experts.
  train("parts", with({"max_train_steps=8", "train_expert=low_noise"}))
      .expect_error("train_expert is low_noise, but the run of");
  train("parts", {"ema_decay=0.9", "max_train_steps=8", "expert_steps=1"})
      .expect_error("expert_steps is 1, but the run of");
  train("parts", with({"max_train_steps=8", "boundary_ratio=0.5"}))
      .expect_error("boundary_ratio is 0.5, but the run of");

  // Another run starts with both, or with one of them.
  expect_trains("next", {"init_from=parts", "learning_rate=0", "max_train_steps=1"});
  for (const std::string part : {"transformer", "transformer_2"}) {
    EXPECT_TRUE(bytes(checkpoint("next", 1) / part) == bytes(checkpoint("parts", 6) / part));
  }
  expect_trains("one", {"init_from=parts", "learning_rate=0", "max_train_steps=1",
                        "train_expert=low_noise", "init_optimizer=true"});
  EXPECT_TRUE(bytes(checkpoint("one", 1) / "transformer_2") ==
              bytes(checkpoint("parts", 6) / "transformer_2"));
  train("none", {"init_from=one"}).expect_error("contains only transformer_2/");
  // A run as the model, instead of a pipeline.
  expect_trains(
      "model", {"pretrained_model_name_or_path=out/parts", "learning_rate=0", "max_train_steps=1"});
  EXPECT_TRUE(bytes(checkpoint("model", 1) / "transformer_2") ==
              bytes(checkpoint("parts", 6) / "transformer_2"));
}

TEST_F(BothExperts, AreEvaluatedSampledAndConvertedTogether) {
  fs::create_directory(folder_ / "held_out");
  for (const std::string name : {"a", "b", "c"}) {
    write("held_out/" + name + ".txt", "a ball");
    fs::copy(golden_ + "/dataset/videos/clip_00.mp4", folder_ / "held_out" / (name + ".mp4"));
  }
  const std::vector<std::string> evaluation{"eval_data_dir=held_out", "num_eval_samples=3",
                                            "timesteps_list=[500,875,950]"};
  std::vector<std::string> words{"eval_every=6", "enable_generate_video_for_eval=true",
                                 "learning_rate=0.05", "idle_expert=host"};
  words.insert(words.end(), evaluation.begin(), evaluation.end());
  const Outcome trained = train("seen", words);
  ASSERT_EQ(trained.status, 0) << trained.err;

  // The same numbers as the run's last evaluation, and a video, from its checkpoint.
  std::vector<std::string> again{"evaluate", "out/seen/config.yml"};
  const Outcome evaluated = run(again);
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  for (const char* timestep : {"500", "875", "950"}) {
    const std::string begin = std::string("mean eval loss for timestep ") + timestep;
    const size_t at = trained.out.find(begin);
    ASSERT_NE(at, std::string::npos) << trained.out;
    const size_t number = at + begin.size();
    EXPECT_THAT(evaluated.out,
                HasSubstr(std::string("loss at timestep ") + timestep +
                          trained.out.substr(number, trained.out.find('\n', at) - number)));
  }
  const Outcome made = run({"generate", "out/seen/config.yml", "video_folder=made"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(read_text(folder_ / "made/000_a_ball.mp4") ==
              read_text(folder_ / "out/seen/samples/6/000_a_ball.mp4"));
  // The checkpoint as the network of the pipeline, and only its low-noise expert.
  const std::string seen = checkpoint("seen", 6).string();
  const auto named = [&](const std::string& transformer) {
    return latents(
        {"both.yml", "run_name=", "wan_transformer_pretrained_model_name_or_path=" + transformer});
  };
  EXPECT_TRUE(named(seen) == latents({"out/seen/config.yml"}));
  fs::create_directory(folder_ / "low");
  fs::copy(checkpoint("seen", 6) / "transformer_2", folder_ / "low" / "transformer_2",
           fs::copy_options::recursive);
  EXPECT_TRUE(named("low") == named(seen + "/transformer_2"));
  EXPECT_FALSE(named("low") == named(seen));
  EXPECT_EQ(run({"inspect", "--check", seen}).status, 0);
  EXPECT_EQ(run({"inspect", "--check", "out/seen"}).status, 0);
  run({"convert", seen, seen + "/inside", "--to", "diffusers"})
      .expect_error("is in the checkpoint");
  EXPECT_EQ(run({"watch", "out/seen", "--once"}).status, 0);

  const std::vector<std::string> convert{"convert", checkpoint("seen", 6).string(), "wan", "--to",
                                         "diffusers"};
  const Outcome converted = run(convert);
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_TRUE(fs::exists(folder_ / "wan" / "config.json"));
  EXPECT_TRUE(bytes(folder_ / "wan_2") == bytes(checkpoint("seen", 6) / "transformer_2"));
  fs::remove_all(folder_ / "wan");
  run(convert).expect_error("wan_2 exists already");
  EXPECT_FALSE(fs::exists(folder_ / "wan")) << "nothing is begun";
}

TEST_F(BothExperts, AreSampledWithTheBoundaryThatTheyWereTrainedWith) {
  expect_trains("half", {"boundary_ratio=0.5", "learning_rate=0.05"});
  const std::string own = latents({"both.yml", "run_name=half"});
  EXPECT_TRUE(own == latents({"out/half/config.yml"}));
  EXPECT_FALSE(own == latents({"both.yml", "run_name=half", "boundary_ratio=0.875"}));
}

TEST_F(BothExperts, TrainAnAdapterEach) {
  const std::vector<std::string> lora{"enable_lora=true", "lora_rank=3", "learning_rate=0.05"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), lora.begin(), lora.end());
    return words;
  };
  expect_trains("whole", with({"ema_decay=0.5"}));
  expect_trains("parts", with({"ema_decay=0.5", "max_train_steps=2", "idle_expert=host"}));
  expect_trains("parts", with({"ema_decay=0.5"}));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_TRUE(bytes(checkpoint("parts", 6)) == bytes(checkpoint("whole", 6)));
  EXPECT_FALSE(fs::exists(checkpoint("whole", 6) / "transformer"));
  const std::string low =
      read_text(checkpoint("whole", 6) / "adapter_2" / "pytorch_lora_weights.safetensors");
  EXPECT_TRUE(low.find("\"kinema.expert\":\"low_noise\"") != std::string::npos);
  EXPECT_TRUE(low.find("\"transformer.blocks.") != std::string::npos);

  const std::string made = latents({"out/whole/config.yml", "use_ema=false"});
  // The two adapters as files give the same video.
  const auto pair = [&](const std::string& folder, const std::string& high_file,
                        const std::string& low_file) {
    return latents({"both.yml", "run_name=", "enable_lora=true",
                    "lora_config={lora_model_name_or_path: [" + folder +
                        "], high_noise_weight_name: [" + high_file + "], low_noise_weight_name: [" +
                        low_file + "]}"});
  };
  const Outcome converted =
      run({"convert", checkpoint("whole", 6).string(), "kites.safetensors", "--to", "comfyui"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_THAT(converted.out, HasSubstr("kites_2.safetensors"));
  EXPECT_TRUE(pair(folder_.string(), "kites.safetensors", "kites_2.safetensors") == made);
  EXPECT_FALSE(pair(folder_.string(), "kites.safetensors", "kites.safetensors") == made);

  // Each adapter starts from the file that is for its expert.
  const fs::path saved = checkpoint("whole", 6);
  expect_trains("again",
                {"enable_lora=true", "learning_rate=0", "max_train_steps=1",
                 "lora_config={lora_model_name_or_path: [" + (saved / "adapter_2").string() + ", " +
                     (saved / "adapter").string() + "]}"});
  for (const char* part : {"adapter", "adapter_2"}) {
    EXPECT_TRUE(bytes(checkpoint("again", 1) / part) == bytes(saved / part)) << part;
  }
}

TEST_F(BothExperts, AreNamedWhereAStepIsNotFinite) {
  // Weights of 1e30 and more overflow in products.
  const Outcome outcome = train("bad", {"learning_rate=1e30", "save_final_checkpoint=false"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("is not finite, first in "),
                    testing::ContainsRegex(", of the (high|low)_noise expert; batch")));
}

TEST_F(BothExperts, AreRefusedWhereThereIsOneOrNothingForOne) {
  train("x", {"train_expert=none"})
      .expect_error("set train_expert to high_noise, low_noise, or both");
  train("x", {"pretrained_model_name_or_path=" + golden_ + "/wan21_t2v"})
      .expect_error("has one transformer");
  train("x", {"max_timestep=875"})
      .expect_error("no timestep from 0 to 875 belongs to the high_noise expert");
  train("x", {"min_timestep=900"})
      .expect_error("no timestep from 900 to 1000 belongs to the low_noise expert");
  train("x",
        {"wan_transformer_pretrained_model_name_or_path=" + golden_ + "/wan22_t2v/transformer"})
      .expect_error("is one transformer");
  // A run with steps of only one expert logs it.
  const Outcome few = train("few", {"max_train_steps=1", "learning_rate=0"});
  ASSERT_EQ(few.status, 0) << few.err;
  EXPECT_THAT(few.err, HasSubstr("it does not change"));
}

TEST_F(BothExperts, TakeTheMemoryThatAPlanSays) {
  const auto total = [&](const std::string& word) {
    const Outcome outcome = run({"plan", "both.yml", "target=cpu:1", "--json", word});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::Json::parse(outcome.out, "plan").at("bytes");
  };
  const io::Json one = total("train_expert=high_noise");
  const io::Json device = total("idle_expert=device");
  const io::Json host = total("idle_expert=host");
  // Parameters and two moments, f32, and the count.
  const int64_t state = device.at("idle_expert").as_int();
  EXPECT_GT(state, one.at("arguments").as_int() / 2);
  EXPECT_EQ(host.at("idle_expert_host").as_int(), state);
  EXPECT_EQ(host.at("idle_expert").as_int(), 0);
  EXPECT_EQ(device.at("total").as_int() - state, host.at("total").as_int());
}

}  // namespace
}  // namespace kinema::jobs_test
