// `enable_lora` in train: adapters of tiny models, their use, and errors.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFile = "pytorch_lora_weights.safetensors";

class LoraTraining : public RunsTest {
 protected:
  /// The README's command, on a tiny model.
  std::vector<std::string> words(const std::string& name, const std::vector<std::string>& more,
                                 const std::string& model = "wan21_t2v") const {
    const fs::path source(KINEMA_SOURCE_DIR);
    std::vector<std::string> out = {
        "train",
        (source / "configs/finetune_lora.yml").string(),
        "run_name=" + name,
        "train_data_dir=" + (source / "tests/golden/dataset").string(),
        "pretrained_model_name_or_path=" + (source / "tests/golden" / model).string(),
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
        "checkpoint_every=-1",
        "learning_rate_schedule_steps=4"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  Outcome train(const std::string& name, const std::vector<std::string>& more,
                const std::string& model = "wan21_t2v") {
    return run(words(name, more, model));
  }
  fs::path checkpoint(const std::string& name, int step) const {
    return folder_ / "outputs" / name / "checkpoints" / std::to_string(step);
  }
  std::string adapter_bytes(const std::string& name, int step,
                            const std::string& folder = "adapter") const {
    return read_text(checkpoint(name, step) / folder / kFile);
  }
  std::vector<std::string> losses(const std::string& name) const {
    return losses_of(read_text(folder_ / "outputs" / name / "metrics.jsonl"));
  }
  /// Latents of a video that a command makes.
  std::string latents(std::vector<std::string> generate) {
    generate.insert(generate.end(), {"contact_sheet=false", "save_latents=latents.safetensors"});
    const Outcome made = run(generate);
    EXPECT_EQ(made.status, 0) << made.err;
    return read_text(folder_ / "latents.safetensors");
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& why,
                      const std::string& model = "wan21_t2v") {
    const Outcome refused = train("refused", more, model);
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
};

std::vector<std::string> names(const fs::path& file) {
  const io::SafetensorsFile opened = io::SafetensorsFile::open(file);
  std::vector<std::string> out;
  for (const io::TensorView& tensor : opened.tensors()) {
    out.push_back(tensor.name);
  }
  return out;
}

TEST_F(LoraTraining, SavesOnlyTheAdapterAndResumesBitForBit) {
  const Outcome whole = train("whole", {"max_train_steps=4"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const fs::path saved = checkpoint("whole", 4);
  EXPECT_FALSE(fs::exists(saved / "transformer"));
  EXPECT_TRUE(fs::exists(saved / "adapter/adapter_config.json"));
  for (const std::string& name : names(saved / "adapter" / kFile)) {
    EXPECT_THAT(name, AllOf(HasSubstr("transformer.blocks."), HasSubstr(".lora_")));
  }
  for (const std::string& name : names(saved / "optimizer/mu.safetensors")) {
    EXPECT_THAT(name, HasSubstr(".lora_"));
  }

  ASSERT_EQ(train("parts", {"max_train_steps=2"}).status, 0);
  const Outcome rest = train("parts", {"max_train_steps=4"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("resumed after step 2"));
  EXPECT_EQ(adapter_bytes("parts", 4), adapter_bytes("whole", 4));
  EXPECT_EQ(read_text(checkpoint("parts", 4) / "optimizer/nu.safetensors"),
            read_text(saved / "optimizer/nu.safetensors"));
}

TEST_F(LoraTraining, WorksWithEveryOptionOfAStep) {
  const Outcome trained = train(
      "all", {"max_train_steps=2", "ema_decay=0.9", "lora_dropout=0.2", "dropout=0.1",
              "gradient_accumulation_steps=2", "lora_target_modules=all", "use_rslora=true",
              "lora_alpha=6", "lora_init=gaussian", "remat_policy=HIDDEN_STATE_WITH_OFFLOAD"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(adapter_bytes("all", 2, "adapter_ema"), adapter_bytes("all", 2));
  const io::Json config = io::Json::read(checkpoint("all", 2) / "adapter/adapter_config.json");
  EXPECT_EQ(config.at("r").as_int(), 3);
  EXPECT_EQ(config.at("lora_alpha").as_number(), 6);
  EXPECT_TRUE(config.at("use_rslora").as_bool());
  // Dropout is equal for stacked layers and unrolled ones.
  const std::vector<std::string> both{"max_train_steps=2", "lora_dropout=0.2",
                                      "lora_init=gaussian"};
  std::vector<std::string> unrolled = both;
  unrolled.emplace_back("scan_layers=false");
  const Outcome one = train("stacked", both);
  const Outcome other = train("unrolled", unrolled);
  ASSERT_EQ(one.status, 0) << one.err;
  ASSERT_EQ(other.status, 0) << other.err;
  const auto a = losses("stacked");
  const auto b = losses("unrolled");
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a[0], b[0]);  // B is 0: the first prediction is the network's
}

TEST_F(LoraTraining, MakesVideosWhileItTrainsAndAfter) {
  const Outcome trained =
      train("kites", {"max_train_steps=2", "eval_every=2", "prompt=a red circle",
                      "enable_generate_video_for_eval=true", "learning_rate=0.05"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(fs::exists(folder_ / "outputs/kites/samples/2/000_a_red_circle.mp4"));

  const std::vector<std::string> of_run{"generate", "outputs/kites/config.yml",
                                        "prompt=a blue square"};
  const std::string made = latents(of_run);
  const fs::path model = fs::path(KINEMA_SOURCE_DIR) / "tests/golden/wan21_t2v";
  std::vector<std::string> of_base{"generate",  "outputs/kites/config.yml", "prompt=a blue square",
                                   "run_name=", "video_folder=elsewhere",   "enable_lora=false"};
  EXPECT_NE(latents(of_base), made);
  of_base.back() = "enable_lora=true";
  of_base.push_back("lora_config={lora_model_name_or_path: [" +
                    (checkpoint("kites", 2) / "adapter").string() + "]}");
  EXPECT_EQ(latents(of_base), made);

  fs::create_directory(folder_ / "held_out");
  write("held_out/a.txt", "a red circle");
  fs::copy(fs::path(KINEMA_SOURCE_DIR) / "tests/golden/dataset/videos/clip_00.mp4",
           folder_ / "held_out/a.mp4");
  const std::string data = "eval_data_dir=held_out";
  const Outcome evaluated = run({"evaluate", "outputs/kites/config.yml", data});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_THAT(evaluated.err, Not(HasSubstr("contains a complete network")));
  EXPECT_THAT(evaluated.out, HasSubstr("adapter: outputs/kites/checkpoints/2/adapter"));
  // The keys for new adapters do not change the layers of an existing one.
  const Outcome otherwise =
      run({"evaluate", "outputs/kites/config.yml", data, "lora_target_modules=attn2.to_v"});
  const auto losses_in = [](const std::string& text) {
    return text.substr(0, text.find(" sample"));
  };
  EXPECT_EQ(losses_in(otherwise.out), losses_in(evaluated.out)) << otherwise.err;
  run({"evaluate", "outputs/kites/config.yml", data, "run_name=kitse"})
      .expect_error("there is no run `kitse`");
  EXPECT_THAT(run({"evaluate", "outputs/kites/config.yml", data, "run_name=balloon"}).err,
              AllOf(HasSubstr("the runs there are "), Not(HasSubstr("nearest"))));
  for (const char* to : {"comfyui", "kohya", "original", "diffusers"}) {
    const std::string file = std::string(to) + ".safetensors";
    const Outcome converted = run({"convert", checkpoint("kites", 2).string(), file, "--to", to});
    ASSERT_EQ(converted.status, 0) << converted.err;
    std::vector<std::string> converted_words = of_base;
    converted_words.back() = "lora_config={lora_model_name_or_path: [" + file + "]}";
    EXPECT_EQ(latents(converted_words), made) << to;  // alpha 3 is rank 3: a factor of 1
  }
}

TEST_F(LoraTraining, LayersMissingInTheFileAreInitialized) {
  ASSERT_EQ(train("first", {"max_train_steps=1", "learning_rate=0.05"}).status, 0);
  const std::string adapter = (checkpoint("first", 1) / "adapter").string();
  const Outcome wider = train(
      "wider", {"max_train_steps=2", "learning_rate=0.05", "lora_target_modules=attention+ffn",
                "lora_config={lora_model_name_or_path: [" + adapter + "]}"});
  ASSERT_EQ(wider.status, 0) << wider.err;
  EXPECT_THAT(wider.out, HasSubstr("trained layers are not in"));
  const auto file = io::SafetensorsFile::open(checkpoint("wider", 2) / "adapter" / kFile);
  for (const io::TensorView& tensor : file.tensors()) {
    const HostArray values = convert(tensor.copy(), DType::F32);
    EXPECT_TRUE(std::ranges::any_of(values.as<float>(), [](float x) { return x != 0; }))
        << tensor.name;
  }
}

TEST_F(LoraTraining, WhatCannotBeTrainedOfAFileIsNotDropped) {
  ASSERT_EQ(train("first", {"max_train_steps=1"}).status, 0);
  const auto file = io::SafetensorsFile::open(checkpoint("first", 1) / "adapter" / kFile);
  std::vector<io::TensorEntry> entries;
  int64_t dim = 0;
  for (const io::TensorView& tensor : file.tensors()) {
    entries.push_back(io::TensorEntry::of(tensor.name, tensor));
    dim = tensor.name.ends_with("0.attn1.to_q.lora_B.weight") ? tensor.shape.dims[0] : dim;
  }
  const HostArray down(Shape{DType::F32, {3, 16, 1, 2, 2}});
  const HostArray up(Shape{DType::F32, {dim, 3, 1, 1, 1}});
  entries.push_back(io::TensorEntry::of("transformer.patch_embedding.lora_A.weight", down));
  entries.push_back(io::TensorEntry::of("transformer.patch_embedding.lora_B.weight", up));
  io::write_safetensors(folder_ / "wide.safetensors", entries, {});
  expect_refused({"max_train_steps=1", "lora_config={lora_model_name_or_path: [wide.safetensors]}"},
                 "changes patch_embedding, which is not a linear layer");
}

TEST_F(LoraTraining, GoesOnFromTheFirstFileAndMergesTheOthers) {
  ASSERT_EQ(train("first", {"max_train_steps=2", "learning_rate=0.05"}).status, 0);
  const std::string adapter = (checkpoint("first", 2) / "adapter").string();
  // At a rate of 0 the adapter does not change.
  const std::string from = "lora_config={lora_model_name_or_path: [" + adapter + "]}";
  const Outcome again = train("again", {"max_train_steps=1", "learning_rate=0", from});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("resumed from: "));
  EXPECT_EQ(adapter_bytes("again", 1), adapter_bytes("first", 2));
  const Outcome merged = train(
      "merged", {"max_train_steps=1", "learning_rate=0",
                 "lora_config={lora_model_name_or_path: [" + adapter + ", " + adapter + "]}"});
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_THAT(merged.out, HasSubstr("merged: "));
  EXPECT_NE(losses("merged")[0], losses("again")[0]);

  expect_refused({"max_train_steps=1", from, "lora_rank=4"}, "has rank 3, but lora_rank is 4");
  expect_refused({"max_train_steps=1", from, "lora_alpha=9"}, "do not set lora_alpha");
  expect_refused({"max_train_steps=1", from, "lora_target_modules=to_q"},
                 "not a linear layer of lora_target_modules");
  const fs::path other =
      fs::path(KINEMA_SOURCE_DIR) / "tests/golden/lora/adapter_rslora.safetensors";
  expect_refused({"max_train_steps=1", "lora_config={lora_model_name_or_path: [" + adapter + ", " +
                                           other.string() + "]}"},
                 "made for another model");
}

TEST_F(LoraTraining, TrainsImageModelsAndExperts) {
  const Outcome low = train("low", {"max_train_steps=1", "train_expert=low_noise"}, "wan22_t2v");
  ASSERT_EQ(low.status, 0) << low.err;
  // diffusers' load_lora_weights loads these keys into the requested expert.
  EXPECT_THAT(names(checkpoint("low", 1) / "adapter" / kFile).front(),
              testing::StartsWith("transformer.blocks."));
  const Outcome sampled =
      run({"generate", "outputs/low/config.yml", "prompt=a", "contact_sheet=false"});
  EXPECT_EQ(sampled.status, 0) << sampled.err;
  // The file is loaded into the expert that it was trained for, and not into the other one.
  const Outcome plain =
      run({"generate", "outputs/low/config.yml", "prompt=a", "contact_sheet=false",
           "run_name=", "video_folder=elsewhere", "enable_lora=true",
           "lora_config={lora_model_name_or_path: [" + (checkpoint("low", 1) / "adapter").string() +
               "]}"});
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_THAT(plain.err,
              AllOf(HasSubstr("lora: transformer_2: "), Not(HasSubstr("lora: transformer: "))));
  const Outcome image = train(
      "image", {"max_train_steps=1", "model_type=I2V", "max_sequence_length=512"}, "wan21_i2v");
  ASSERT_EQ(image.status, 0) << image.err;
  const auto found = names(checkpoint("image", 1) / "adapter" / kFile);
  EXPECT_TRUE(std::ranges::any_of(
      found, [](const std::string& name) { return name.find("add_k_proj") != std::string::npos; }));
}

TEST_F(LoraTraining, TrainsOnANetworkThatIsStoredAsCodes) {
  for (const char* storage : {"int8", "float8_e4m3fn"}) {
    SCOPED_TRACE(storage);
    const Outcome trained = train(storage, {"max_train_steps=2", "learning_rate=0.01",
                                            std::string("weights_storage=") + storage});
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_TRUE(fs::exists(checkpoint(storage, 2) / "adapter" / kFile));
    const auto now = losses(storage);
    EXPECT_NE(now[0], now[1]);
  }
  expect_refused({"max_train_steps=1", "enable_lora=false", "weights_storage=int8"},
                 "training changes the weights");
}

TEST_F(LoraTraining, IsTheSameWithOffloadedWeights) {
  const std::vector<std::string> both{"max_train_steps=2", "learning_rate=0.05", "eval_every=2",
                                      "enable_generate_video_for_eval=true", "prompt=a"};
  const auto with = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = both;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome trained = train(name, words);
    EXPECT_EQ(trained.status, 0) << trained.err;
  };
  with("device", {});
  const std::vector<std::string> base{"generate", "outputs/device/config.yml", "prompt=a red kite"};
  const std::string video = latents(base);
  for (const std::string memory : {"host", "streamed"}) {
    SCOPED_TRACE(memory);
    with(memory, {"weights_memory=" + memory, "optimizer_memory=host"});
    EXPECT_EQ(losses(memory), losses("device"));
    EXPECT_EQ(adapter_bytes(memory, 2), adapter_bytes("device", 2));
    std::vector<std::string> words = base;
    words.push_back("weights_memory=" + memory);
    EXPECT_EQ(latents(words), video);
  }
  expect_refused({"max_train_steps=1", "enable_lora=false", "weights_memory=host"},
                 "training changes all weights");
  expect_refused({"max_train_steps=1", "scan_layers=false", "weights_memory=host"},
                 "scan_layers is false");
}

TEST_F(LoraTraining, BeginsFromTheAdapterOfAnotherRun) {
  ASSERT_EQ(train("first", {"max_train_steps=2", "learning_rate=0.05"}).status, 0);
  const Outcome next = train("next", {"max_train_steps=1", "learning_rate=0", "init_from=first"});
  ASSERT_EQ(next.status, 0) << next.err;
  EXPECT_EQ(adapter_bytes("next", 1), adapter_bytes("first", 2));
  expect_refused({"max_train_steps=1", "init_from=first", "lora_rank=4"}, "must be the same");
  expect_refused({"max_train_steps=1", "init_from=first", "enable_lora=false"},
                 "contains an adapter");
}

TEST_F(LoraTraining, RefusesWhatCannotBe) {
  expect_refused({"max_train_steps=1", "lora_target_modules=[to_query]"}, "an existing one is");
  expect_refused({"max_train_steps=1", "lora_target_modules=(("}, "not a regular expression");
  expect_refused({"max_train_steps=1", "lora_config={ranks: [3]}"}, "no key `ranks`");
  expect_refused(
      {"max_train_steps=1", "lora_config={lora_model_name_or_path: [nowhere.safetensors]}"},
      "nowhere.safetensors");
  expect_refused({"max_train_steps=1", "pretrained_model_name_or_path="},
                 "trains an adapter of a model");
  ASSERT_EQ(train("run", {"max_train_steps=1"}).status, 0);
  const Outcome other = train("run", {"max_train_steps=2", "lora_rank=4"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("lora_rank"));
  const Outcome whole = train("run", {"max_train_steps=2", "enable_lora=false"});
  EXPECT_EQ(whole.status, 1);
  EXPECT_THAT(whole.err, HasSubstr("enable_lora"));
  expect_refused({"max_train_steps=1", "enable_lora=false",
                  "pretrained_model_name_or_path=" + (folder_ / "outputs/run").string()},
                 "contains an adapter");
}

TEST_F(LoraTraining, ReadsRankAndAlphaInLoraConfig) {
  std::vector<std::string> given = words("inside", {"max_train_steps=1"});
  std::erase(given, "lora_rank=3");
  given.emplace_back("lora_config={rank: [2], lora_alpha: 5, lora_target_modules: [to_q]}");
  const Outcome trained = run(given);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(io::Json::read(checkpoint("inside", 1) / "adapter/adapter_config.json")
                .at("lora_alpha")
                .as_number(),
            5);
  for (const std::string& name : names(checkpoint("inside", 1) / "adapter" / kFile)) {
    EXPECT_THAT(name, HasSubstr(".to_q."));
  }
}

}  // namespace
}  // namespace kinema::jobs_test
