#include "kinema/config/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("kinema_config_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  Loaded load_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
    return load(write("run.yml", text), overrides);
  }

  fs::path folder_;
};

TEST_F(LoadTest, ReadsEveryTypeFromAFile) {
  const Config config = load_text(R"(
run_name: first
scan_layers: off
learning_rate: 1e-5
max_train_steps: 1_000
patch_size: [1, 1, 1]
names_which_can_be_saved: ['attn_output', ffn_activation]
mag_ratios_base: [1.0, 0.5]
data_sharding: [['data', null], {a: 010}]
)")
                            .config;

  EXPECT_EQ(config.run.run_name, "first");
  EXPECT_FALSE(config.model.scan_layers);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-5);
  EXPECT_EQ(config.optimizer.max_train_steps, 1000);
  EXPECT_THAT(config.model.patch_size.value, ElementsAre(1, 1, 1));
  EXPECT_THAT(config.model.names_which_can_be_saved, ElementsAre("attn_output", "ffn_activation"));
  EXPECT_THAT(config.generate.mag_ratios_base, ElementsAre(1.0, 0.5));
  EXPECT_EQ(config.parallel.data_sharding.json, R"([["data", null], {"a": "010"}])");
}

TEST_F(LoadTest, KeepsWordsThatYaml11WouldConvert) {
  const Config config = load_text("run_name: no\nprompt: 010\nnegative_prompt: ~\n").config;

  EXPECT_EQ(config.run.run_name, "no");
  EXPECT_EQ(config.generate.prompt, "010");
  EXPECT_EQ(config.generate.negative_prompt, "");
}

TEST_F(LoadTest, TakesKeysFromVariablesBetweenFileAndCommandLine) {
  const fs::path file = write("run.yml", "run_name: file\nmax_train_steps: 1\nmagcache_K: 1\n");
  const std::vector<std::string> overrides = {"run_name=word"};
  const std::vector<std::string> environment = {
      "HOME=/home/me", "KINEMA_CACHE=/tmp", "KINEMA_KEY_RUN_NAME=variable",
      "KINEMA_KEY_MAGCACHE_K=3", "KINEMA_KEY_MAX_TRAIN_STEPS=7"};

  const Loaded loaded = load(file, overrides, environment);

  EXPECT_EQ(loaded.config.run.run_name, "word");
  EXPECT_EQ(loaded.config.generate.magcache_K, 3);
  EXPECT_EQ(loaded.config.optimizer.max_train_steps, 7);
  EXPECT_EQ(loaded.origin.at("max_train_steps"), "KINEMA_KEY_MAX_TRAIN_STEPS");
}

TEST_F(LoadTest, TakesAResolutionWhereNoSizeIsGiven) {
  const Loaded square = load_text("resolution: 512\n");
  EXPECT_EQ(square.config.generate.height, 512);
  EXPECT_EQ(square.config.generate.width, 512);
  EXPECT_EQ(square.origin.at("height"), "resolution");

  const Config both = load_text("resolution: 512\nwidth: 832\n").config;
  EXPECT_EQ(both.generate.height, Config{}.generate.height);
  EXPECT_EQ(both.generate.width, 832);
}

TEST_F(LoadTest, RefusesAVariableThatSetsNoKey) {
  const std::vector<std::string> unknown = {"KINEMA_KEY_MAX_TRAIN_STEP=7"};
  EXPECT_THAT([&] { load_defaults({}, unknown); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`max_train_step` (KINEMA_KEY_MAX_TRAIN_STEP)"),
                                         HasSubstr("`max_train_steps`"))));
  const std::vector<std::string> wrong = {"KINEMA_KEY_MAX_TRAIN_STEPS=many"};
  EXPECT_THAT([&] { load_defaults({}, wrong); },
              ThrowsMessage<Error>(HasSubstr("KINEMA_KEY_MAX_TRAIN_STEPS")));
}

TEST_F(LoadTest, TakesOverridesLastAndLiterally) {
  const Loaded loaded =
      load_text("seed: 1\nheight: 480\n", {"seed=7", "prompt=a: b # [c", "patch_size=[1,2,2]",
                                           "scan_layers=False", "run_name=a=b", "seed=8"});

  EXPECT_EQ(loaded.config.run.seed, 8);
  EXPECT_EQ(loaded.config.generate.prompt, "a: b # [c");
  EXPECT_EQ(loaded.config.run.run_name, "a=b");
  EXPECT_FALSE(loaded.config.model.scan_layers);
  EXPECT_EQ(loaded.origin.at("seed"), "command line");
  EXPECT_THAT(loaded.origin.at("height"), HasSubstr("run.yml:2"));
  EXPECT_FALSE(loaded.origin.contains("width"));
}

TEST_F(LoadTest, AddsCompilerFlagsOfTheCommandLineToThoseOfTheFile) {
  const Loaded loaded = load_text("xla_flags: {xla_a: 1, xla_b: true}\n",
                                  {"xla_flags.xla_b=false", "xla_flags.xla_c=x=y"});

  EXPECT_EQ(loaded.config.run.xla_flags.json, R"({"xla_a": 1, "xla_b": "false", "xla_c": "x=y"})");
  EXPECT_THAT(loaded.origin.at("xla_flags"), HasSubstr("run.yml:1"));
  EXPECT_EQ(loaded.origin.at("xla_flags.xla_b"), "command line");
  EXPECT_FALSE(loaded.origin.contains("xla_flags.xla_a"));
  EXPECT_EQ(load_text("", {"xla_flags.xla_a=1"}).origin.at("xla_flags"), "command line");
}

TEST_F(LoadTest, OverridesItsBase) {
  write("base.yml", "height: 24\nwidth: 24\n");
  write("middle.yml", "base: base.yml\nwidth: 32\n");

  const Config config = load_text("base: middle.yml\nnum_frames: 9\n").config;

  EXPECT_EQ(config.generate.height, 24);
  EXPECT_EQ(config.generate.width, 32);
  EXPECT_EQ(config.generate.num_frames, 9);
}

TEST_F(LoadTest, RefusesCyclesOfBaseFiles) {
  write("a.yml", "base: run.yml\n");
  EXPECT_THAT([&] { load_text("base: a.yml\n"); }, ThrowsMessage<Error>(HasSubstr("a cycle")));
  EXPECT_THAT([&] { load_text("base: absent.yml\n"); },
              ThrowsMessage<Error>(HasSubstr("absent.yml, which does not exist")));
}

TEST_F(LoadTest, NamesTheNearestKeyWhenOneIsUnknown) {
  EXPECT_THAT([&] { load_text("seed: 1\nlerning_rate: 1e-4\n"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no key `lerning_rate`"), HasSubstr("run.yml:2"),
                                         HasSubstr("`learning_rate`"))));
  EXPECT_THAT(
      [&] { load_text("", {"max_train_step=3"}); },
      ThrowsMessage<Error>(AllOf(HasSubstr("command line"), HasSubstr("`max_train_steps`"))));
}

TEST_F(LoadTest, KnowsTheAliasesOfKeys) {
  EXPECT_THAT([&] { load_text("", {"last_image=cat.png"}); },
              ThrowsMessage<Error>(HasSubstr("the nearest is `last_image_url`")));
  EXPECT_THAT([&] { load_text("", {"steps=20"}); },
              ThrowsMessage<Error>(HasSubstr("the nearest is `num_inference_steps`")));
  EXPECT_THAT([&] { load_defaults(std::vector<std::string>{"true_cfg=3"}); },
              ThrowsMessage<Error>(HasSubstr("it is the beginning of `true_cfg_scale`")));
}

// Following the hint must not lead to the same error.
TEST(NearestKey, IsAlwaysAKeyThatCanBeGiven) {
  const Config config;
  for (const char* other : {"batch_size", "cfg_scale", "image", "model", "prompts", "lr",
                            "train_steps", "sample_shift", "output", "zzz"}) {
    const std::string key = nearest_key(other);
    bool known = key == "base";
    Config::fields(config, [&](std::string_view each, const auto&, OnResume, const Field&) {
      known = known || each == key;
    });
    EXPECT_TRUE(known || is_ignored(key)) << other << " -> " << key;
  }
}

// Comparing a whole megabyte would take a minute and a table of numbers for each key.
TEST(NearestKey, OfAVeryLongTextIsThatOfItsBeginning) {
  EXPECT_EQ(nearest_key("learning_rte"), "learning_rate");
  const std::string start(80, 'q');
  EXPECT_EQ(nearest_key(start + std::string(size_t{1} << 20, 'z')), nearest_key(start));
}

TEST_F(LoadTest, NamesKeyValuePlaceAndExpectationOfAWrongValue) {
  EXPECT_THAT([&] { load_text("max_train_steps: many\n"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("max_train_steps is `many`"),
                                         HasSubstr("run.yml:1"), HasSubstr("an integer"))));
  EXPECT_THAT([&] { load_text("", {"learning_rate=fast"}); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("`fast`"), HasSubstr("command line"), HasSubstr("a number"))));
  EXPECT_THAT([&] { load_text("scan_layers: 3\n"); },
              ThrowsMessage<Error>(HasSubstr("true or false")));
  EXPECT_THAT([&] { load_text("seed: [1]\n"); }, ThrowsMessage<Error>(HasSubstr("a list")));
  EXPECT_THAT([&] { load_text("run_name: {a: 1}\n"); },
              ThrowsMessage<Error>(HasSubstr("a mapping")));
  EXPECT_THAT([&] { load_text("patch_size: 2\n"); },
              ThrowsMessage<Error>(HasSubstr("a list of 3 integers")));
  EXPECT_THAT([&] { load_text("learning_rate:\n"); }, ThrowsMessage<Error>(HasSubstr("nothing")));
  EXPECT_THAT([&] { load_text("seed: 010\n"); }, ThrowsMessage<Error>(HasSubstr("0o10")));
}

TEST_F(LoadTest, RefusesValuesOutOfRange) {
  for (const char* text : {"max_train_steps=0",
                           "learning_rate=-1",
                           "learning_rate=.inf",
                           "learning_rate=nan",
                           "per_device_batch_size=0",
                           "dropout=1",
                           "adam_b1=1.5",
                           "patch_size=[0,1,1]",
                           "weights_dtype=float8",
                           "remat_policy=SOME",
                           "height=0",
                           "seed=-1",
                           "patch_size=[1,2,3,4]",
                           "patch_size=[1,2]",
                           "patch_size=[]",
                           "timesteps_list=[]",
                           "mesh_axes=[]",
                           "mag_ratios_base=[1, -0.5]",
                           "attention_head_dim=7",
                           "vae_encode_chunk=6",
                           "vae_decode_chunk=0",
                           "ici_data_parallelism=0",
                           "output_dir=  "}) {
    SCOPED_TRACE(text);
    const std::string key = std::string(text).substr(0, std::string(text).find('='));
    EXPECT_THAT([&] { load_defaults(std::vector<std::string>{text}); },
                ThrowsMessage<Error>(AllOf(HasSubstr(key), HasSubstr("expected"))));
  }
}

TEST_F(LoadTest, SuggestsACorrectList) {
  EXPECT_THAT([] { load_defaults(std::vector<std::string>{"patch_size=[1,2]"}); },
              ThrowsMessage<Error>(HasSubstr("patch_size has 2 items (command line), expected a "
                                             "list of 3 integers from 1 to 64")));
  EXPECT_THAT([] { load_defaults(std::vector<std::string>{"mesh_axes=[data, fsdp, data]"}); },
              ThrowsMessage<Error>(HasSubstr("mesh_axes has `data` twice (command line)")));
}

TEST_F(LoadTest, TakesAPromptOfBlanksAndChunksOfAll) {
  const Config config =
      load_defaults(std::vector<std::string>{"negative_prompt= ", "vae_encode_chunk=-1"}).config;
  EXPECT_EQ(config.generate.negative_prompt, " ");
  EXPECT_EQ(config.model.vae_encode_chunk, -1);
}

TEST_F(LoadTest, TakesLineBreaksInPromptsAlone) {
  EXPECT_EQ(load_text("", {"prompt=a\nb"}).config.generate.prompt, "a\nb");
  for (const char* word : {"dump_to=a\nb", "compiled_step=\x1b[2J", "flags_profile=a\x7f"}) {
    EXPECT_THAT([&] { load_text("", {word}); }, ThrowsMessage<Error>(HasSubstr("line break")));
  }
}

TEST_F(LoadTest, RefusesBinaryFiles) {
  EXPECT_THAT([&] { load_text("", {"prompt=\xff"}); }, ThrowsMessage<Error>(HasSubstr("UTF-8")));
}

TEST_F(LoadTest, RefusesAnOverrideWithoutAValue) {
  EXPECT_THAT([&] { load_text("", {"seed"}); }, ThrowsMessage<Error>(HasSubstr("key=value")));
  EXPECT_THAT([&] { load_text("", {"=3"}); }, ThrowsMessage<Error>(HasSubstr("key=value")));
}

TEST_F(LoadTest, RefusesAFileThatIsMissingOrNoMapping) {
  EXPECT_THAT([&] { load(folder_ / "absent.yml"); }, ThrowsMessage<Error>(HasSubstr("absent.yml")));
  EXPECT_THAT([&] { load_text("- a\n- b\n"); }, ThrowsMessage<Error>(HasSubstr("key: value")));
  EXPECT_THROW(load_text("a: [1\n"), Error);
}

TEST_F(LoadTest, ReadsWordsWithoutRegardToCaseWhereTheKeySaysSo) {
  EXPECT_EQ(load_text("remat_policy: full\n").config.model.remat_policy, "FULL");
}

TEST_F(LoadTest, ReadsBackWhatItWrites) {
  const Loaded loaded = load_defaults(std::vector<std::string>{
      "prompt=quotes \" and \\ and \n a line, ein Bär", "learning_rate=0.1", "run_name=on",
      "names_which_can_be_saved=[attn_output]", "mag_ratios_base=[1.0, 0.99977]", "adam_eps=1e-8"});

  const Loaded again = load_text(to_yaml(loaded));

  EXPECT_EQ(again.config, loaded.config);
  EXPECT_EQ(load_text(to_yaml({})).config, Config{});
}

TEST_F(LoadTest, KeysOfOneStartAreNotSaved) {
  const Loaded loaded = load_defaults(std::vector<std::string>{
      "seed=3", "num_processes=2", "process_id=1", "coordinator_address=a:1"});

  const Loaded kept = of_run(loaded);

  EXPECT_EQ(kept.config.runtime, RuntimeConfig());
  EXPECT_FALSE(kept.config.runtime.num_processes.given);
  EXPECT_EQ(kept.config.run.seed, 3);
  EXPECT_EQ(kept.origin.size(), 1U);
}

// A saved default must not count as given: the model's folder overrides a key that was not given.
TEST_F(LoadTest, DefaultsAreNotSetAfterReadingBack) {
  const Loaded first = load_text("seed: 3\nflow_shift: 5.0\n");

  const Loaded again = load_text(to_yaml(first));

  std::vector<std::string> given;
  for (const auto& [key, where] : again.origin) {
    given.push_back(key);
  }
  EXPECT_THAT(given, ElementsAre("flow_shift", "seed"));
  EXPECT_EQ(again.config, first.config);
}

TEST_F(LoadTest, DefaultsOfAFileLoseToItsBase) {
  write("base.yml", "seed: 3\n");
  const Loaded loaded = load_text("base: base.yml\ndefaults:\n  seed: 4\n  fps: 8\nwidth: 32\n");

  EXPECT_EQ(loaded.config.run.seed, 3);
  EXPECT_EQ(loaded.config.generate.fps, 8);
  EXPECT_FALSE(loaded.origin.contains("fps"));
  EXPECT_TRUE(loaded.origin.contains("width"));
  EXPECT_THAT([&] { load_text("defaults:\n  seeed: 4\n"); },
              ThrowsMessage<Error>(HasSubstr("no key `seeed`")));
  EXPECT_THAT([&] { load_text("defaults: 4\n"); }, ThrowsMessage<Error>(HasSubstr("key: value")));
}

TEST(Configs, OfTheRepositoryAreReadable) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(KINEMA_SOURCE_DIR) / "configs")) {
    // An agent's has keys of its own (tests/agents).
    if (entry.path().extension() == ".yml" && entry.path().stem() != "dreamer") {
      ++files;
      EXPECT_NO_THROW(load(entry.path())) << entry.path();
    }
  }
  EXPECT_GT(files, 3);
}

TEST(Keys, AreDeclaredOnceWithHelp) {
  std::set<std::string_view> seen;
  for (const KeyValue& each : describe(Config{})) {
    SCOPED_TRACE(each.key);
    EXPECT_TRUE(seen.insert(each.key).second) << "declared twice";
    EXPECT_FALSE(is_ignored(each.key)) << "declared and ignored";
    EXPECT_FALSE(each.field.help.empty());
  }
  for (const KeyValue& each : describe(Config{})) {
    SCOPED_TRACE(each.key);
    const std::string_view with = each.field.with.substr(0, each.field.with.find('='));
    EXPECT_TRUE(with.empty() || seen.contains(with));
  }
}

TEST(Keys, HaveDefaultsThatTheyWouldAccept) {
  for (const KeyValue& each : describe(Config{})) {
    SCOPED_TRACE(each.key);
    // Text is quoted in YAML; the command line has it without quotes.
    const std::string text =
        each.type == "text" ? io::Json::parse(each.value, "default").as_string() : each.value;
    const std::vector<std::string> given = {std::string(each.key) + "=" + text};
    EXPECT_EQ(load_defaults(given).config, Config{});
  }
}

TEST(RunFolder, StaysInsideOutputDir) {
  Config config;
  config.run.output_dir = "out";
  config.run.run_name = "team/first";
  EXPECT_EQ(run_folder(config), fs::path("out/team/first"));
  for (const char* name : {"", "../x", "a/../../b", "/tmp/x"}) {
    SCOPED_TRACE(name);
    config.run.run_name = name;
    EXPECT_THROW(run_folder(config), Error);
  }
}

TEST(BatchSizes, FollowDevicesFractionsAndTheGlobalOverride) {
  Config config;
  config.optimizer.per_device_batch_size = 2;
  EXPECT_EQ(batch_sizes(config, 4).train, 8);
  EXPECT_EQ(batch_sizes(config, 4).load, 8);

  config.optimizer.per_device_batch_size = 0.25;
  EXPECT_EQ(batch_sizes(config, 8).train, 2);
  EXPECT_EQ(batch_sizes(config, 8).load, 8);
  EXPECT_THAT([&] { batch_sizes(config, 2); }, ThrowsMessage<Error>(HasSubstr("is 0.5 samples")));
  config.optimizer.per_device_batch_size = 1.5;
  EXPECT_EQ(batch_sizes(config, 2).train, 3);
  EXPECT_THAT([&] { batch_sizes(config, 3); },
              ThrowsMessage<Error>(HasSubstr("set global_batch_size=5")));
  config.optimizer.per_device_batch_size = 0.3333333;  // a third
  EXPECT_EQ(batch_sizes(config, 3).train, 1);

  config.optimizer.global_batch_size = 6;
  EXPECT_EQ(batch_sizes(config, 4).train, 6);
}

TEST(Configurations, OfAdaptersMakeSamplesWhileTheyTrain) {
  int adapters = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(KINEMA_SOURCE_DIR) / "configs")) {
    if (entry.path().stem().string().ends_with("_lora")) {
      const Config config = load(entry.path()).config;
      EXPECT_TRUE(config.run.enable_generate_video_for_eval) << entry.path();
      EXPECT_GT(config.run.eval_every, 0) << entry.path();
      ++adapters;
    }
  }
  EXPECT_GE(adapters, 3);
}

TEST(Configurations, NameTheModelOfNoOtherFamily) {
  const auto name_in = [](const std::string& file) {
    return load(fs::path(KINEMA_SOURCE_DIR) / "configs" / file).config.model.model_name;
  };
  EXPECT_EQ(name_in("flux_dev.yml"), "");
  EXPECT_EQ(name_in("sdxl.yml"), "");
  EXPECT_EQ(name_in("wan22_ti2v_5b.yml"), "wan2.2");
}

TEST(ScheduleSteps, AreTheTrainingStepsUnlessGiven) {
  Config config;
  config.optimizer.max_train_steps = 30;
  EXPECT_EQ(schedule_steps(config), 30);
  config.optimizer.learning_rate_schedule_steps = 100;
  EXPECT_EQ(schedule_steps(config), 100);
}

}  // namespace
}  // namespace kinema::config
