// `kinema plan` on the CPU plugin, and on libtpu if it is installed.
#include <gmock/gmock.h>

#include <algorithm>

#include "cli/run_kinema.h"
#include "kinema/io/json.h"

namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny = std::string(KINEMA_SOURCE_DIR) + "/configs/tiny.yml";

class Plan : public KinemaTest {};

TEST_F(Plan, ReportsTheTrainingStepOnCpu) {
  const Outcome outcome = run({"plan", kTiny, "target=cpu:1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::parse(outcome.out, "plan");
  EXPECT_EQ(json.at("devices").as_int(), 1);
  EXPECT_TRUE(json.at("fits").as_bool());
  const io::Json& bytes = json.at("bytes");
  EXPECT_GT(bytes.at("arguments").as_int(), 0);
  EXPECT_GT(bytes.at("temporaries").as_int(), 0);
  EXPECT_GT(bytes.at("donated").as_int(), 0) << "the state is donated";
  EXPECT_GE(json.at("flops").as_number(), json.at("model_flops").as_number())
      << "the formula leaves out embeddings and head";
}

// Some supervisors start programs like this; the exit status of the compiler's process is then
// lost.
TEST_F(Plan, LearnsHowItsCompilerEndedWhereTheParentIgnoresSigchld) {
  const Outcome outcome = run({"plan", kTiny, "target=cpu:1"}, "trap '' CHLD;");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(Plan, SplitsTheStepOverTheMeshOfTheConfiguration) {
  const std::vector<std::string> one = {"plan", kTiny, "target=cpu:1", "per_device_batch_size=8",
                                        "--json"};
  const std::vector<std::string> four = {
      "plan",  kTiny, "target=cpu:4", "ici_data_parallelism=4", "ici_context_parallelism=1",
      "--json"};
  const Outcome whole = run(one);
  const Outcome split = run(four);
  ASSERT_EQ(whole.status, 0) << whole.err;
  ASSERT_EQ(split.status, 0) << split.err;
  const io::Json a = io::Json::parse(whole.out, "one");
  const io::Json b = io::Json::parse(split.out, "four");
  EXPECT_EQ(b.at("devices").as_int(), 4);
  EXPECT_EQ(b.at("mesh").at("data").as_int(), 4);
  // The same eight samples: a quarter of the work per device on four devices.
  EXPECT_DOUBLE_EQ(b.at("model_flops").as_number(), a.at("model_flops").as_number() / 4);
  EXPECT_TRUE(a.at("collectives").members().empty());
  EXPECT_TRUE(b.at("collectives").contains("all-reduce")) << "gradients are summed";

  run({"plan", kTiny, "target=cpu:4", "ici_data_parallelism=8", "ici_context_parallelism=1"})
      .expect_error("number of devices is 4");
}

TEST_F(Plan, WhatItCompiledIsTheRunsStep) {
  const std::vector<std::string> set = {kTiny, "output_dir=out", "run_name=planned",
                                        "max_train_steps=2", "executable_cache=none"};
  const auto with = [&](const char* command, std::vector<std::string> more) {
    std::vector<std::string> words{command};
    words.insert(words.end(), set.begin(), set.end());
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Outcome plan = with("plan", {"target=cpu:1", "save_executable=step.bin"});
  ASSERT_EQ(plan.status, 0) << plan.err;

  const Outcome trained = with("train", {"compiled_step=step.bin"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("(from the cache)"));

  with("train", {"compiled_step=step.bin", "run_name=other", "learning_rate=1e-4", "adam_b1=0.8"})
      .expect_error("step.bin holds another program than the train_step of this run");
  with("train", {"compiled_step=none.bin", "run_name=none"})
      .expect_error("none.bin is not a compiled program");
  std::string bytes = read_text(folder_ / "step.bin");
  bytes[bytes.size() / 2] ^= 1;
  write("step.bin", bytes);
  with("train", {"compiled_step=step.bin", "run_name=none"}).expect_error("or a corrupt one");
}

TEST_F(Plan, EmitsTheTextThatARunEmits) {
  const std::vector<std::string> one = {"ici_data_parallelism=1"};
  const std::vector<std::string> four = {"ici_data_parallelism=4", "ici_context_parallelism=1"};
  for (const auto& [devices, mesh] : {std::pair{"1", one}, std::pair{"4", four}}) {
    SCOPED_TRACE(devices);
    const std::string folder = std::string("text") + devices;
    std::vector<std::string> plan = {"plan", kTiny, std::string("target=cpu:") + devices,
                                     "dump_to=" + folder};
    std::vector<std::string> train = {"train",
                                      kTiny,
                                      "output_dir=out",
                                      "run_name=" + folder,
                                      "max_train_steps=1",
                                      std::string("mock_devices=") + devices,
                                      "dump_to=" + folder};
    plan.insert(plan.end(), mesh.begin(), mesh.end());
    train.insert(train.end(), mesh.begin(), mesh.end());
    const Outcome planned = run(plan);
    ASSERT_EQ(planned.status, 0) << planned.err;
    const Outcome trained = run(train);
    ASSERT_EQ(trained.status, 0) << trained.err;
    const std::string text = read_text(folder_ / folder / "plan.mlir");
    EXPECT_EQ(text, read_text(folder_ / folder / "train_step.mlir"));
    EXPECT_EQ(text.find("kinema.adamw") != std::string::npos, *devices == '1')
        << "one device has kernels, a mesh has none";
  }
}

TEST_F(Plan, SweepsMeshesAndRanksThoseThatFit) {
  const Outcome outcome = run({"plan", kTiny, "target=cpu:2", "--sweep", "--mesh", "data:2",
                               "--mesh", "context:2", "--remat", "FULL", "--batch", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("data=2 fsdp=1 context=1 tensor=1"),
                                 HasSubstr("data=1 fsdp=1 context=2 tensor=1")));
  EXPECT_THAT(outcome.err, HasSubstr("2/2"));
}

TEST_F(Plan, ReportsTheDenoisingStepForPeople) {
  const Outcome outcome = run({"plan", kTiny, "target=cpu:1", "mode=generate"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("denoising step for cpu:1"), HasSubstr("temporaries"),
                                 HasSubstr("fits")));
}

/// A million samples of one token in many layers: terabytes, of which the batch is a thousandth.
std::vector<std::string> plan_of_a_million() {
  return {"plan",    kTiny,          "target=cpu:1",   "height=8",
          "width=8", "num_frames=1", "num_layers=400", "per_device_batch_size=1000000"};
}

TEST_F(Plan, NamesTheLargestValuesAndSmallerPlans) {
  const std::vector<std::string> words = plan_of_a_million();
  const auto with = [&](const std::string& option) {
    std::vector<std::string> all = words;
    all.push_back(option);
    return run(all);
  };
  const Outcome text = with("--no-remedies");
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, AllOf(HasSubstr("mesh           one device"), HasSubstr("does not fit"),
                              HasSubstr("inputs         1000000 of"), HasSubstr("largest"),
                              Not(HasSubstr(" ,")), HasSubstr("not tried      remat_policy=FULL"),
                              HasSubstr("per_device_batch_size=")));
  EXPECT_THAT(text.err, AllOf(HasSubstr("kinema: [plan] the training step does not fit cpu:1"),
                              HasSubstr("not tried, but these take less")));
  const Outcome outcome = with("--json");
  EXPECT_EQ(outcome.status, 1);
  const io::Json json = io::Json::parse(outcome.out, "plan");
  EXPECT_FALSE(json.at("fits").as_bool());
  EXPECT_TRUE(json.at("mesh").members().empty());
  const io::Json& tried = json.at("tried").items().back();
  EXPECT_TRUE(tried.at("fits").as_bool());
  EXPECT_THAT(tried.at("change").as_string(), AllOf(HasSubstr("per_device_batch_size="),
                                                    HasSubstr("gradient_accumulation_steps=")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--no-remedies skips that"),
                                 HasSubstr(tried.at("change").as_string() + " fits")));
}

TEST_F(Plan, NamesNoRemedyThatIsSetAlready) {
  std::vector<std::string> words = plan_of_a_million();
  words.insert(words.end(), {"remat_policy=FULL", "optimizer=adamw8bit", "--no-remedies"});
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("not tried"), Not(HasSubstr("not tried      remat_policy=FULL")),
                    Not(HasSubstr("optimizer=adamw8bit"))));
}

TEST_F(Plan, ReportsAnAgentsStepOfTraining) {
  const std::string file = std::string(KINEMA_SOURCE_DIR) + "/configs/dreamer.yml";
  const std::vector<std::string> words{"plan", file, "preset=debug,atari100k", "batch_size=8"};
  std::vector<std::string> one = words;
  one.insert(one.end(), {"target=cpu:1", "--json"});
  const Outcome outcome = run(one);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::parse(outcome.out, "plan");
  EXPECT_TRUE(json.at("fits").as_bool());
  EXPECT_GT(json.at("bytes").at("temporaries").as_int(), 0);
  // 1.1e5 steps of the environments, each replayed 256 times in batches of 8 x 10.
  EXPECT_EQ(json.at("run").at("updates").as_number(), 1.1e5 * 256 / 80);
  std::vector<std::string> mesh = words;
  mesh.insert(mesh.end(), {"target=cpu:2", "jax.train_mesh=1,2,1"});
  const Outcome text = run(mesh);
  EXPECT_THAT(text.out, AllOf(HasSubstr("fsdp=2"), HasSubstr("image [64,64,3]"), HasSubstr("fits")))
      << text.err;
  mesh.emplace_back("--sweep");
  run(mesh).expect_error("not for agents");
}

TEST_F(Plan, RefusesWrongInputInALineOrTwo) {
  run({"plan", kTiny}).expect_error("target=v6e:4x4");
  run({"plan", kTiny, "target=v9:1"}).expect_error("is not known");
  run({"plan", kTiny, "target=cpu:1", "mode=dance"}).expect_error("train or generate");
  run({"plan", "target=cpu:1"}).expect_error("which configuration");
  run({"plan", kTiny, "target=cpu:1", "--flag", "xla_no_such=true"})
      .expect_error("xla_no_such (command line) is refused");
  run({"plan", kTiny, "target=v6e:1x1"}, "KINEMA_CACHE=/nowhere XLA_FLAGS=")
      .expect_error("kinema doctor --install tpu");
  run({"plan", kTiny, "target=cpu:1", "--sweep", "--batch", "0"}).expect_error("--batch is 0");
  run({"plan", kTiny, "target=cpu:1", "--sweep", "--remat", "FOO"}).expect_error("FOO");
  run({"plan", kTiny, "target=cpu:1", "--batch", "2"}).expect_error("--sweep");
  run({"plan", kTiny, "target=cpu:1", "save_executable=."}).expect_error("a file was expected");
  run({"plan", kTiny, "target=cpu:1", "compile_memory_gib=0.001"})
      .expect_error("compile_memory_gib=N");
  run({"plan", kTiny, "target=cpu:1", "pretrained_model_name_or_path=Some/Model"})
      .expect_error("sizes are unknown");
}

/// Needs libtpu, which `kinema doctor --install tpu` downloads; the tests do not download it.
class PlanTpu : public KinemaTest {
 protected:
  void SetUp() override {
    KinemaTest::SetUp();
    const Outcome doctor = run({"doctor", "--json"});
    if (doctor.out.find("libtpu.so") == std::string::npos) {
      GTEST_SKIP() << "libtpu is not installed";
    }
  }
  /// Without the flags of lightly compiled tests, which are for CPUs.
  Outcome plan(std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", kTiny});
    return run(words, "XLA_FLAGS=");
  }
};

TEST_F(PlanTpu, OptimizationLevelReachesTheCompiler) {
  const auto code = [&](const std::string& level) {
    const Outcome outcome = plan({"target=v6e:1x1", "optimization_level=" + level, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::Json::parse(outcome.out, "plan").at("bytes").at("program").as_int();
  };
  EXPECT_NE(code("0"), code("3"));
}

TEST_F(PlanTpu, CompilesWithTheRealCompiler) {
  const Outcome outcome = plan({"target=v6e:1x1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::parse(outcome.out, "plan");
  EXPECT_GT(json.at("bytes").at("limit").as_int(), int64_t{30} << 30);
  EXPECT_GT(json.at("roofline").at("seconds").as_number(), 0);
}

TEST_F(PlanTpu, SaysWhatDoesNotFitAndWhy) {
  const Outcome outcome = plan(
      {"target=v5e:1x1", "height=2048", "width=2048", "num_frames=16", "attention=dot_product"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("does not fit v5e:1x1"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("largest"), HasSubstr("tried")));
}

TEST_F(PlanTpu, SweepsPassOverWhatTakesMoreThanWhatDoesNotFit) {
  const Outcome outcome =
      plan({"target=v5e:1x1", "height=2048", "width=2048", "num_frames=16", "attention=dot_product",
            "--sweep", "--batch", "1", "--remat", "FULL", "--remat", "NONE"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("does not fit: temporaries of"),
                                 HasSubstr("not tried: less does not fit")));
}

}  // namespace
}  // namespace kinema::cli_test
