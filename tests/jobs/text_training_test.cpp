// Training CLIP text encoders with their networks, and words of textual inversion.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/model_files/checkpoint.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kTextAdapter = "adapter/pytorch_lora_weights.safetensors";

struct Model {
  const char* name;
  const char* folder;
  std::vector<std::string> parts;
};

class TextTraining : public RunsTest {
 protected:
  void SetUp() override {
    RunsTest::SetUp();
    fs::create_directory(folder_ / "pictures");
    for (int i = 0; i < 4; ++i) {
      HostArray picture(Shape{DType::U8, {32, 32, 3}});
      for (size_t at = 0; at < picture.as<uint8_t>().size(); ++at) {
        picture.as<uint8_t>()[at] =
            static_cast<uint8_t>((7 * at + 60 * static_cast<size_t>(i)) % 256);
      }
      media::write_png(folder_ / "pictures" / (std::to_string(i) + ".png"), picture);
      write("pictures/" + std::to_string(i) + ".txt", i % 2 == 0 ? "a red ball" : "a blue cat");
    }
    write("train.yml",
          "output_dir: out\nrun_name: run\ndataset_type: images\nresolution: 32\n"
          "max_train_steps: 4\nlearning_rate: 0.01\nnum_inference_steps: 2\n"
          "per_device_batch_size: 2\nlearning_rate_schedule_steps: 4\nmax_sequence_length: 40\n"
          "weights_dtype: float32\nactivations_dtype: float32\ntrain_data_dir: pictures\n"
          "train_text_encoder: true\nexecutable_cache: ../kinema_cli_programs\n");
  }
  Outcome train(const std::string& model, std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "train.yml", "pretrained_model_name_or_path=" + model});
    return run(words);
  }
  fs::path checkpoint(const std::string& name, int step = 4) const {
    return folder_ / "out" / name / "checkpoints" / std::to_string(step);
  }
  std::vector<std::string> losses(const std::string& name) const {
    return losses_of(read_text(folder_ / "out" / name / "metrics.jsonl"));
  }
  HostArray latents(std::vector<std::string> words) {
    words.insert(words.end(), {"prompt=a red ball", "contact_sheet=false", "height=32", "width=32",
                               "save_latents=latents.safetensors"});
    const Outcome made = run(words);
    EXPECT_EQ(made.status, 0) << made.err;
    return io::SafetensorsFile::open(folder_ / "latents.safetensors").at("latents").copy();
  }
  static double distance(const HostArray& a, const HostArray& b) {
    double most = 0;
    for (size_t i = 0; i < a.as<float>().size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(a.as<float>()[i] - b.as<float>()[i])));
    }
    return most;
  }
  /// The largest difference of a tensor in two model folders.
  static double moved(const fs::path& a, const fs::path& b, const std::string& key) {
    const auto tensor = [&](const fs::path& folder) {
      return convert(model_files::Checkpoint::open(folder).at(key).copy(), DType::F32);
    };
    return distance(tensor(a), tensor(b));
  }
  /// The evaluation's loss of a checkpoint in another process of the text: encoders are opened
  /// from the checkpoint's files, and the network takes their states. Of the parameters, as during
  /// training: not of their averages.
  double evaluated(const std::string& name) {
    const Outcome made = run({"evaluate", "out/" + name + "/config.yml", "eval_data_dir=pictures",
                              "num_eval_samples=4", "use_ema=false", "--json"});
    EXPECT_EQ(made.status, 0) << made.err;
    return made.status == 0 ? io::Json::parse(made.out, "stdout").at("loss").as_number() : 0;
  }
};

class OfEachModel : public TextTraining, public testing::WithParamInterface<Model> {
 protected:
  std::string model() const { return io::golden(GetParam().folder).string(); }
};

TEST_P(OfEachModel, AdaptersAreTrainedResumedAndRead) {
  const std::vector<std::string> lora{"enable_lora=true", "lora_rank=2",
                                      "text_encoder_learning_rate=0.05"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), lora.begin(), lora.end());
    return more;
  };
  const Outcome whole = train(model(), with({"run_name=whole", "eval_every=4",
                                             "eval_data_dir=pictures", "num_eval_samples=4"}));
  ASSERT_EQ(whole.status, 0) << whole.err;
  const auto file = io::SafetensorsFile::open(checkpoint("whole") / kTextAdapter);
  for (const std::string& part : GetParam().parts) {
    const std::string module = part + ".text_model.encoder.layers.0.self_attn.v_proj.lora_B.weight";
    ASSERT_NE(file.find(module), nullptr) << module;
    const HostArray up = file.at(module).copy();
    EXPECT_GT(distance(up, HostArray(up.shape)), 1e-3) << "B starts as zeros";
    const std::string about = file.metadata().at("lora_adapter_metadata");
    EXPECT_THAT(about, HasSubstr("\"" + part + ".r\": 2"));
  }

  ASSERT_EQ(train(model(), with({"run_name=parts", "max_train_steps=2"})).status, 0);
  const Outcome rest = train(model(), with({"run_name=parts"}));
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(read_text(checkpoint("parts") / kTextAdapter),
            read_text(checkpoint("whole") / kTextAdapter));

  // The loss with states that text encoders from the file make is that of the training.
  const std::vector<std::string> all = losses("whole");
  ASSERT_EQ(all.size(), 5U);
  EXPECT_NEAR(evaluated("whole"), std::stod(all.back()), 1e-5);

  const HostArray of_run = latents({"generate", "out/whole/config.yml"});
  const std::vector<std::string> plain{
      "generate",         "out/whole/config.yml",     "run_name=",
      "enable_lora=true", "train_text_encoder=false", "pretrained_model_name_or_path=" + model()};
  const auto of = [&](const std::string& lora_file) {
    std::vector<std::string> words = plain;
    words.push_back("lora=" + lora_file);
    return latents(words);
  };
  EXPECT_EQ(of_run.bytes, of((checkpoint("whole") / kTextAdapter).string()).bytes);
  const Outcome converted =
      run({"convert", "out/whole/checkpoints/4", "kohya.safetensors", "--to", "kohya"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(of_run.bytes, of("kohya.safetensors").bytes);
  const auto kohya = io::SafetensorsFile::open(folder_ / "kohya.safetensors");
  const std::string begin = GetParam().name == std::string("sd15") ? "lora_te_" : "lora_te1_";
  EXPECT_NE(kohya.find(begin + "text_model_encoder_layers_0_self_attn_v_proj.lora_up.weight"),
            nullptr);

  // A run goes on from the file; not from kohya's of Flux, whose fused projections have other
  // ranks.
  const bool is_flux = GetParam().name == std::string("flux");
  const std::string begun =
      is_flux ? (checkpoint("whole") / kTextAdapter).string() : "kohya.safetensors";
  const Outcome more =
      train(model(), with({"run_name=more", "max_train_steps=1", "lora=" + begun}));
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.err + more.out, HasSubstr("resumed from in text_encoder"));
}

TEST_P(OfEachModel, EncodersAreTrainedWholeResumedAndRead) {
  const Outcome whole =
      train(model(), {"run_name=whole", "eval_every=4", "eval_data_dir=pictures",
                      "num_eval_samples=4", "ema_decay=0.5", "learning_rate=0.001",
                      "dataset_save_location=kept", "caption_dropout=0.3"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  for (const std::string& part : GetParam().parts) {
    const std::string key = "text_model.encoder.layers.0.mlp.fc1.weight";
    EXPECT_GT(moved(checkpoint("whole") / part, fs::path(model()) / part, key), 1e-4) << part;
    EXPECT_GT(moved(checkpoint("whole") / part, checkpoint("whole") / (part + "_ema"), key), 1e-6);
    EXPECT_GT(moved(checkpoint("whole") / part, fs::path(model()) / part,
                    "text_model.embeddings.token_embedding.weight"),
              1e-4);
  }
  const auto again = [&](std::vector<std::string> more) {
    more.insert(more.end(),
                {"run_name=parts", "ema_decay=0.5", "learning_rate=0.001", "caption_dropout=0.3"});
    return train(model(), more);
  };
  ASSERT_EQ(again({"max_train_steps=2"}).status, 0);
  const Outcome rest = again({});
  ASSERT_EQ(rest.status, 0) << rest.err;
  std::vector<std::string> wanted = losses("whole");
  ASSERT_EQ(wanted.size(), 5U);
  EXPECT_NEAR(evaluated("whole"), std::stod(wanted.back()), 1e-5);
  wanted.pop_back();
  EXPECT_EQ(losses("parts"), wanted);
  const std::string file = GetParam().parts.back() + "/model.safetensors";
  EXPECT_EQ(read_text(checkpoint("parts") / file), read_text(checkpoint("whole") / file));

  const HostArray of_run = latents({"generate", "out/whole/config.yml"});
  const HostArray with_text =
      latents({"generate", "out/whole/config.yml", "run_name=", "train_text_encoder=false",
               "pretrained_model_name_or_path=" + model(),
               "wan_transformer_pretrained_model_name_or_path=" + checkpoint("whole").string()});
  EXPECT_GT(distance(of_run, with_text), 0) << "averages, and the parameters";
  EXPECT_EQ(latents({"generate", "out/whole/config.yml", "use_ema=false"}).bytes, with_text.bytes);
}

INSTANTIATE_TEST_SUITE_P(Models, OfEachModel,
                         testing::Values(Model{"sd15", "control/sd15", {"text_encoder"}},
                                         Model{"sdxl", "sdxl", {"text_encoder", "text_encoder_2"}},
                                         Model{"flux", "flux_dev", {"text_encoder"}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(TextTraining, RefusesWhatHasNoEncoderToTrain) {
  const auto error = [&](const std::string& model, std::vector<std::string> words) {
    const Outcome outcome = train(io::golden(model).string(), std::move(words));
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  };
  EXPECT_THAT(error("wan21_t2v", {"dataset_type=videos", "num_frames=1"}),
              AllOf(HasSubstr("this model's text encoder is UMT5"), HasSubstr("alone")));
  EXPECT_THAT(error("zimage/zimage", {}), HasSubstr("this model's text encoder is Qwen3"));
  EXPECT_THAT(error("sdxl", {"dataset_type=tfrecord"}),
              AllOf(HasSubstr("needs captions"), HasSubstr("dataset_type=images")));
  EXPECT_THAT(error("sdxl", {"text_encoder=hashed"}), HasSubstr("nothing to train"));
}

TEST_F(TextTraining, SamplesOfARunAreThoseOfItsCheckpoints) {
  const Outcome outcome = train(
      io::golden("control/sd15").string(),
      {"enable_lora=true", "lora_rank=2", "eval_every=4", "enable_generate_video_for_eval=true",
       "eval_data_dir=pictures", "num_eval_samples=2", "prompt=a red ball", "height=32", "width=32",
       "save_frames=true", "learning_rate=0.05"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome made = run({"generate", "out/run/config.yml", "video_folder=made"});
  ASSERT_EQ(made.status, 0) << made.err;
  const HostArray a = media::read_image(folder_ / "out/run/samples/4/000_a_red_ball.png");
  const HostArray b = media::read_image(folder_ / "made/000_a_red_ball.png");
  ASSERT_EQ(a.shape, b.shape);
  int most = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) {
    most = std::max(most, std::abs(static_cast<int>(a.bytes[i]) - static_cast<int>(b.bytes[i])));
  }
  EXPECT_LE(most, 1) << "adapters beside the weights, and merged into them";
}

TEST_F(TextTraining, WordsAreTrainedResumedAndRead) {
  for (const std::string model : {"control/sd15", "sdxl"}) {
    const std::string name = model == "sdxl" ? "xl" : "sd";
    const std::string path = io::golden(model).string();
    const std::vector<std::string> words{
        "train_text_encoder=false", "textual_inversion=[ball, <blue>]",
        "textual_inversion_start=[cat, a]", "textual_inversion_vectors=2", "learning_rate=0.05"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), words.begin(), words.end());
      return more;
    };
    const Outcome whole = train(path, with({"run_name=" + name, "eval_every=4",
                                            "eval_data_dir=pictures", "num_eval_samples=4"}));
    ASSERT_EQ(whole.status, 0) << whole.err;
    const fs::path file = checkpoint(name) / "textual_inversion/ball.safetensors";
    const auto rows = io::SafetensorsFile::open(file);
    const std::string key = model == "sdxl" ? "clip_g" : "emb_params";
    ASSERT_NE(rows.find(key), nullptr);
    EXPECT_EQ(rows.at(key).shape.dims[0], 2);
    EXPECT_TRUE(fs::exists(checkpoint(name) / "textual_inversion/<blue>.safetensors"));
    EXPECT_FALSE(fs::exists(checkpoint(name) / "unet"));

    ASSERT_EQ(train(path, with({"run_name=parts" + name, "max_train_steps=2"})).status, 0);
    const Outcome rest = train(path, with({"run_name=parts" + name}));
    ASSERT_EQ(rest.status, 0) << rest.err;
    EXPECT_EQ(read_text(checkpoint("parts" + name) / "textual_inversion/ball.safetensors"),
              read_text(file));
    const std::vector<std::string> all = losses(name);
    EXPECT_NEAR(evaluated(name), std::stod(all.back()), 1e-5);

    const std::string config = "out/" + name + "/config.yml";
    const HostArray of_run = latents({"generate", config});
    const std::vector<std::string> plain{"generate",
                                         config,
                                         "run_name=",
                                         "textual_inversion=[]",
                                         "textual_inversion_start=[]",
                                         "pretrained_model_name_or_path=" + path};
    std::vector<std::string> embedded = plain;
    embedded.push_back("embeddings_folder=" + file.parent_path().string());
    EXPECT_EQ(of_run.bytes, latents(embedded).bytes);
    EXPECT_GT(distance(of_run, latents(plain)), 1e-4) << "without the words";
  }
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"run_name=refused", "train_text_encoder=false"});
    return train(io::golden("control/sd15").string(), words).err;
  };
  EXPECT_THAT(error({"textual_inversion=[ball]", "enable_lora=true"}),
              AllOf(HasSubstr("trains words alone"), HasSubstr("embeddings_folder")));
  EXPECT_THAT(error({"textual_inversion=[../ball]"}), HasSubstr("cannot be the name of a file"));
  EXPECT_THAT(error({"textual_inversion=[ball]", "textual_inversion_start=[a, b]"}),
              HasSubstr("2 texts for 1 words"));
}

}  // namespace
}  // namespace kinema::jobs_test
