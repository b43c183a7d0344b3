// Kinds of trained adapters (adapter_type), LoRA+, convolutions, and training_lora.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kAdapterFile = "pytorch_lora_weights.safetensors";

class AdapterTraining : public RunsTest {
 protected:
  Outcome train(const std::string& name, const std::vector<std::string>& more) {
    const fs::path source(KINEMA_SOURCE_DIR);
    std::vector<std::string> words = {
        "train",
        (source / "configs/finetune_lora.yml").string(),
        "run_name=" + name,
        "train_data_dir=" + (source / "tests/golden/dataset").string(),
        "pretrained_model_name_or_path=" + (source / "tests/golden/wan21_t2v").string(),
        "height=64",
        "width=64",
        "num_frames=17",
        "max_sequence_length=32",
        "weights_dtype=float32",
        "activations_dtype=float32",
        "num_inference_steps=2",
        "eval_every=-1",
        "enable_generate_video_for_eval=false",
        "lora_rank=3",
        "learning_rate=0.01",
        "checkpoint_every=-1",
        "learning_rate_schedule_steps=4"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  fs::path adapter(const std::string& name, int step) const {
    return folder_ / "outputs" / name / "checkpoints" / std::to_string(step) / "adapter";
  }
  std::vector<std::string> losses(const std::string& name) const {
    return losses_of(read_text(folder_ / "outputs" / name / "metrics.jsonl"));
  }
  std::string latents(std::vector<std::string> generate) {
    generate.insert(generate.end(), {"prompt=a red circle", "contact_sheet=false",
                                     "save_latents=latents.safetensors"});
    const Outcome made = run(generate);
    EXPECT_EQ(made.status, 0) << made.err;
    return read_text(folder_ / "latents.safetensors");
  }
};

class EveryKind : public AdapterTraining,
                  public testing::WithParamInterface<std::pair<std::string, std::string>> {};

TEST_P(EveryKind, TrainsResumesAndIsUsedByGenerate) {
  const auto& [type, ending] = GetParam();
  const std::vector<std::string> kind{"adapter_type=" + type, "lora_target_modules=attention+ffn"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), kind.begin(), kind.end());
    return more;
  };
  const Outcome whole = train("whole", with({"max_train_steps=4"}));
  ASSERT_EQ(whole.status, 0) << whole.err;
  ASSERT_EQ(train("lora", {"max_train_steps=1", "lora_target_modules=attention+ffn"}).status, 0);
  // The network is unchanged at the first step: DoRA's norms are computed in another order.
  EXPECT_NEAR(std::stod(losses("whole")[0]), std::stod(losses("lora")[0]), 1e-6);

  ASSERT_EQ(train("parts", with({"max_train_steps=2"})).status, 0);
  const Outcome rest = train("parts", with({"max_train_steps=4"}));
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(read_text(adapter("parts", 4) / kAdapterFile),
            read_text(adapter("whole", 4) / kAdapterFile));
  const auto file = io::SafetensorsFile::open(adapter("whole", 4) / kAdapterFile);
  EXPECT_NE(file.find("transformer.blocks.0.attn1.to_q." + ending), nullptr);

  const std::string of_run = latents({"generate", "outputs/whole/config.yml"});
  const fs::path model = fs::path(KINEMA_SOURCE_DIR) / "tests/golden/wan21_t2v";
  const std::string of_file =
      latents({"generate", "outputs/whole/config.yml", "run_name=", "enable_lora=true",
               "pretrained_model_name_or_path=" + model.string(),
               "lora=" + (adapter("whole", 4) / kAdapterFile).string()});
  EXPECT_EQ(of_run, of_file);
  fs::remove(folder_ / "kohya.safetensors");
  const Outcome converted =
      run({"convert", "outputs/whole/checkpoints/4", "kohya.safetensors", "--to", "kohya"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(of_run,
            latents({"generate", "outputs/whole/config.yml", "run_name=", "enable_lora=true",
                     "pretrained_model_name_or_path=" + model.string(), "lora=kohya.safetensors"}));

  // A run goes on from the file.
  const Outcome more = train("more", with({"max_train_steps=1", "lora=kohya.safetensors"}));
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.err + more.out, HasSubstr("resumed from"));
  const Outcome other = train(
      "other", {"max_train_steps=1", "lora=kohya.safetensors", "lora_target_modules=attention+ffn",
                type == "loha" ? "adapter_type=lokr" : "adapter_type=loha"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("adapter_type=" + type));
}

INSTANTIATE_TEST_SUITE_P(Types, EveryKind,
                         testing::Values(std::pair("dora", "lora_magnitude_vector"),
                                         std::pair("loha", "hada_w2_a"),
                                         std::pair("lokr", "lokr_w1")),
                         [](const auto& info) { return info.param.first; });

TEST_F(AdapterTraining, OfLoraPlusMovesTheSecondFactorFaster) {
  ASSERT_EQ(train("plain", {"max_train_steps=1", "adam_weight_decay=0"}).status, 0);
  const Outcome plus =
      train("plus", {"max_train_steps=1", "adam_weight_decay=0", "lora_plus_ratio=4"});
  ASSERT_EQ(plus.status, 0) << plus.err;
  const auto a = io::SafetensorsFile::open(adapter("plain", 1) / kAdapterFile);
  const auto b = io::SafetensorsFile::open(adapter("plus", 1) / kAdapterFile);
  const std::string module = "transformer.blocks.0.attn1.to_q.";
  EXPECT_EQ(a.at(module + "lora_A.weight").copy().bytes,
            b.at(module + "lora_A.weight").copy().bytes);
  const HostArray one = a.at(module + "lora_B.weight").copy();
  const HostArray four = b.at(module + "lora_B.weight").copy();
  for (size_t i = 0; i < one.as<float>().size(); ++i) {
    // B starts at 0, and one step is proportional to the rate.
    EXPECT_NEAR(four.as<float>()[i], 4 * one.as<float>()[i], 1e-6F);
  }
  EXPECT_THAT(train("loha", {"max_train_steps=1", "adapter_type=loha", "lora_plus_ratio=4"}).err,
              HasSubstr("has no lora_B"));
}

TEST_F(AdapterTraining, WithATrainingLoraLeavesItOutOfWhatIsSaved) {
  ASSERT_EQ(train("first", {"max_train_steps=2"}).status, 0);
  const std::string file = (adapter("first", 2) / kAdapterFile).string();
  const Outcome with = train("with", {"max_train_steps=2", "training_lora=" + file + ":2"});
  ASSERT_EQ(with.status, 0) << with.err;
  EXPECT_THAT(with.err + with.out, HasSubstr("merged while training"));
  ASSERT_EQ(train("without", {"max_train_steps=2"}).status, 0);
  EXPECT_NE(losses("with")[0], losses("without")[0]);
  // The same as if it were merged by lora_config, which needs a first file to go on from.
  const fs::path model = fs::path(KINEMA_SOURCE_DIR) / "tests/golden/wan21_t2v";
  const std::string of_run = latents({"generate", "outputs/with/config.yml"});
  EXPECT_EQ(of_run, latents({"generate", "outputs/with/config.yml", "run_name=", "enable_lora=true",
                             "training_lora=", "pretrained_model_name_or_path=" + model.string(),
                             "lora=" + (adapter("with", 2) / kAdapterFile).string()}));
  const Outcome rest = train("with", {"max_train_steps=4", "training_lora=" + file + ":2"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  ASSERT_EQ(train("at_once", {"max_train_steps=4", "training_lora=" + file + ":2"}).status, 0);
  EXPECT_EQ(read_text(adapter("with", 4) / kAdapterFile),
            read_text(adapter("at_once", 4) / kAdapterFile));
  const Outcome whole =
      train("whole", {"max_train_steps=1", "enable_lora=false", "training_lora=" + file});
  EXPECT_EQ(whole.status, 1);
  EXPECT_THAT(whole.err, AllOf(HasSubstr("training_lora is given"), HasSubstr("enable_lora=true")));
}

}  // namespace
}  // namespace kinema::jobs_test
