// Stable Diffusion 1 and 2 in every command, as folders and as single files.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/names.h"
#include "kinema/weights/kl_config.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StableDiffusion : public RunsTest {
 protected:
  static constexpr int64_t kSide = 32;

  static std::string golden(const std::string& name) {
    return io::golden("control/" + name).string();
  }
  Outcome generate(const std::string& model, std::vector<std::string> words) {
    const bool has_prompt = std::ranges::any_of(
        words, [](const std::string& word) { return word.starts_with("prompt="); });
    if (!has_prompt) {
      words.emplace_back("prompt=a ball");
    }
    words.insert(words.begin(),
                 {"generate", model, "num_inference_steps=2", "seed=1", "contact_sheet=false",
                  "weights_dtype=float32", "activations_dtype=float32"});
    return run(words);
  }
  HostArray latents(const std::string& model, std::vector<std::string> words = {}) {
    words.insert(words.end(), {"height=32", "width=32", "save_latents=latents.safetensors"});
    const Outcome outcome = generate(model, words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::SafetensorsFile::open(folder_ / "latents.safetensors").at("latents").copy();
  }
  Outcome train(std::vector<std::string> words) {
    write("train.yml",
          "output_dir: out\nrun_name: run\ndataset_type: images\nresolution: 32\n"
          "max_train_steps: 2\nlearning_rate: 1e-3\nnum_inference_steps: 2\n"
          "weights_dtype: float32\nactivations_dtype: float32\ntrain_data_dir: " +
              io::golden("dataset").string() + "\n");
    words.insert(words.begin(), {"train", "train.yml"});
    return run(words);
  }
  void write_pictures() {
    HostArray picture(Shape{DType::U8, {kSide, kSide, 3}});
    HostArray mask = picture;  // the lower half is made
    for (int64_t i = 0; i < kSide * kSide * 3; ++i) {
      picture.as<uint8_t>()[i] = static_cast<uint8_t>(5 * (i / 3 / kSide) + 20 * (i % 3));
      mask.as<uint8_t>()[i] = i / 3 / kSide < kSide / 2 ? 0 : 255;
    }
    media::write_png(folder_ / "cat.png", picture);
    media::write_png(folder_ / "mask.png", mask);
  }

  using Arrays = std::map<std::string, HostArray>;
  /// The tensors of a part of the pipeline under the original names, with a prefix.
  static void add(const fs::path& folder, const model_files::NameTable& table,
                  const std::string& prefix, Arrays& to) {
    const io::ModelFolder files = io::ModelFolder::open(folder);
    std::vector<std::string_view> keys;
    for (const io::TensorView* tensor : files.tensors()) {
      keys.push_back(tensor->name);
    }
    const model_files::Layout layout = model_files::layout_of(table, keys);
    std::map<std::string, std::map<int64_t, HostArray>> parts;
    for (const io::TensorView* tensor : files.tensors()) {
      const auto piece = model_files::original_key(table, tensor->name, layout);
      ASSERT_TRUE(piece) << tensor->name;
      HostArray values = tensor->copy();
      if (piece->cut == model_files::Cut::LINEAR && values.shape.rank() == 2) {
        values.shape.dims.insert(values.shape.dims.end(), {1, 1});
      }
      parts[prefix + piece->name][piece->part] = std::move(values);
    }
    for (auto& [name, own] : parts) {
      HostArray whole = own.begin()->second;
      for (auto next = std::next(own.begin()); next != own.end(); ++next) {
        whole.shape.dims[0] += next->second.shape.dims[0];
        whole.bytes.insert(whole.bytes.end(), next->second.bytes.begin(), next->second.bytes.end());
      }
      to.emplace(name, std::move(whole));
    }
  }
  /// A whole checkpoint as `NAME.safetensors`, with the configurations of its parts and the
  /// tokenizer beside it: the sizes of a tiny model are not the released ones.
  void write_checkpoint(const std::string& name, const std::string& without = "none") {
    Arrays arrays;
    const fs::path folder = io::golden("control/" + name);
    add(folder / "unet", model_files::kStableDiffusionNames, "model.diffusion_model.", arrays);
    add(folder / "vae", model_files::kAutoencoderNames, "first_stage_model.", arrays);
    if (name == "sd15") {
      add(folder / "text_encoder", model_files::kClipNames, "cond_stage_model.transformer.",
          arrays);
    } else {
      add(folder / "text_encoder", model_files::kOpenClipNames, "cond_stage_model.model.", arrays);
      // The release has one layer more than the folder, which is not read.
      const std::string first = "cond_stage_model.model.transformer.resblocks.0.";
      const int64_t layers =
          io::Json::read(folder / "text_encoder/config.json").at("num_hidden_layers").as_int();
      Arrays last;
      for (const auto& [key, array] : arrays) {
        if (key.starts_with(first)) {
          last.emplace(fmt::format("cond_stage_model.model.transformer.resblocks.{}.{}", layers,
                                   key.substr(first.size())),
                       array);
        }
      }
      ASSERT_FALSE(last.empty());
      arrays.merge(last);
      arrays.emplace("cond_stage_model.model.text_projection",
                     HostArray(Shape{DType::F32, {20, 20}}));
      arrays.emplace("cond_stage_model.model.logit_scale", HostArray(Shape{DType::F32, {}}));
    }
    arrays.emplace("alphas_cumprod", HostArray(Shape{DType::F32, {1000}}));
    std::vector<io::TensorEntry> entries;
    for (const auto& [key, array] : arrays) {
      if (!key.starts_with(without)) {
        entries.push_back(io::TensorEntry::of(key, array));
      }
    }
    io::write_safetensors(folder_ / (name + ".safetensors"), entries);
    for (const std::string part : {"unet", "vae", "text_encoder", "scheduler"}) {
      fs::create_directory(folder_ / part);
      const std::string config =
          part == "scheduler" ? "scheduler_config.json" : std::string("config.json");
      fs::copy_file(folder / part / config, folder_ / part / config,
                    fs::copy_options::overwrite_existing);
    }
    if (!fs::exists(folder_ / "tokenizer")) {
      fs::copy(folder / "tokenizer", folder_ / "tokenizer");
    }
  }
};

TEST_F(StableDiffusion, MakesPicturesOfTheSizeOfTheUNet) {
  for (const std::string name : {"sd15", "sd21"}) {
    const Outcome outcome = generate(golden(name), {"output_dir=" + name});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const int64_t side = 8 * io::Json::read(io::golden("control/" + name + "/unet/config.json"))
                                 .at("sample_size")
                                 .as_int();
    const fs::path picture = folder_ / name / "samples" / name / "000_a_ball.png";
    ASSERT_TRUE(fs::exists(picture)) << outcome.out;
    EXPECT_EQ(media::read_image(picture).shape.dims, (Dims{side, side, 3}));
  }
  EXPECT_EQ(run({"inspect", "--check", golden("sd15")}).status, 0);
}

TEST_F(StableDiffusion, SkipsLayersOfPromptsAndReadsTheirSyntax) {
  const HostArray plain = latents(golden("sd15"));
  EXPECT_NE(latents(golden("sd15"), {"clip_skip=1"}).bytes, plain.bytes);
  generate(golden("sd15"), {"clip_skip=9"}).expect_error("clip_skip can be at most");
  for (const std::string syntax : {"a1111", "compel"}) {
    const std::string key = "prompt_syntax=" + syntax;
    const std::string strong = syntax == "a1111" ? "prompt=a (ball:1.5)" : "prompt=a ball++";
    EXPECT_NE(latents(golden("sd15"), {key, strong}).bytes, latents(golden("sd15"), {key}).bytes)
        << syntax;
  }
  generate(golden("sd15"), {"prompt_2=a cube"}).expect_error("prompt_2");
}

TEST_F(StableDiffusion, StartsFromPicturesAndKeepsWhatAMaskLeavesOut) {
  write_pictures();
  for (const std::string name : {"sd15", "sd21"}) {
    const Outcome changed =
        generate(golden(name), {"image=cat.png", "strength=0.5", "output_dir=" + name});
    ASSERT_EQ(changed.status, 0) << changed.err;
    const Outcome filled = generate(
        golden(name), {"image=cat.png", "mask=mask.png", "output_dir=" + name + "_filled"});
    ASSERT_EQ(filled.status, 0) << filled.err;
    const HostArray picture =
        media::read_image(folder_ / (name + "_filled/samples/" + name + "/000_a_ball.png"));
    const HostArray given = media::read_image(folder_ / "cat.png");
    const auto half = static_cast<std::ptrdiff_t>(given.bytes.size() / 2);
    ASSERT_EQ(picture.shape, given.shape);
    EXPECT_TRUE(std::equal(given.bytes.begin(), given.bytes.begin() + half, picture.bytes.begin()));
    EXPECT_FALSE(
        std::equal(given.bytes.begin() + half, given.bytes.end(), picture.bytes.begin() + half));
  }
}

TEST_F(StableDiffusion, IsTrainedWholeAndContinues) {
  const std::string model = "pretrained_model_name_or_path=" + golden("sd21");
  const Outcome whole = train({model, "eval_every=2", "num_eval_samples=2",
                               "eval_data_dir=" + io::golden("dataset").string()});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const fs::path checkpoint = folder_ / "out/run/checkpoints/2";
  const io::Json scheduler = io::Json::read(checkpoint / "scheduler/scheduler_config.json");
  EXPECT_EQ(scheduler.at("prediction_type").as_string(), "v_prediction");
  EXPECT_TRUE(fs::exists(checkpoint / "unet/config.json"));
  ASSERT_EQ(train({model, "run_name=parts", "max_train_steps=1"}).status, 0);
  ASSERT_EQ(train({model, "run_name=parts"}).status, 0);
  std::vector<std::string> wanted = losses("run");
  ASSERT_EQ(wanted.size(), 3U);  // of two steps and of the evaluation
  wanted.pop_back();
  EXPECT_EQ(losses("parts"), wanted);
  const Outcome prepared = run({"prepare", "train.yml", model, "tfrecords_dir=records"});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  ASSERT_EQ(
      train({model, "run_name=records", "dataset_type=tfrecord", "train_data_dir=records"}).status,
      0);
  EXPECT_EQ(losses("records"), wanted);
  const Outcome sampled = run({"generate", "out/run/config.yml", "prompt=a ball"});
  EXPECT_EQ(sampled.status, 0) << sampled.err;
}

TEST_F(StableDiffusion, TrainsAdaptersThatItReadsInAllNames) {
  const std::string model = "pretrained_model_name_or_path=" + golden("sd15");
  const Outcome trained = train({model, "enable_lora=true", "lora_rank=2", "learning_rate=0.1"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string adapter = "out/run/checkpoints/2/adapter";
  const HostArray plain = latents(golden("sd15"));
  const HostArray with = latents(golden("sd15"), {"lora=" + adapter});
  EXPECT_NE(with.bytes, plain.bytes);
  for (const std::string names : {"kohya", "diffusers", "comfyui"}) {
    const std::string file = names + ".safetensors";
    ASSERT_EQ(run({"convert", adapter, file, "--to", names}).status, 0);
    EXPECT_EQ(latents(golden("sd15"), {"lora=" + file}).bytes, with.bytes) << names;
  }
  EXPECT_THAT(run({"inspect", "--check", "kohya.safetensors"}).out,
              HasSubstr("Stable Diffusion 1 and 2"));
  // XL's UNet has no attention in its first level.
  run({"generate", io::golden("sdxl").string(), "prompt=a ball", "lora=kohya.safetensors"})
      .expect_error("is for Stable Diffusion 1 and 2, but the model is Stable Diffusion XL");
  generate(golden("sd15"), {"lora=" + io::golden("lora/sdxl_kohya.safetensors").string()})
      .expect_error("[lora]");
}

TEST_F(StableDiffusion, ReadsAdaptersOfItsTextEncoder) {
  const std::string module = "text_model_encoder_layers_0_self_attn_q_proj";
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 7) - 3.0F;
  }
  const HostArray down = HostArray::f32({2, 16}, values);
  const HostArray up = HostArray::f32({16, 2}, values);
  const std::vector<io::TensorEntry> entries{
      io::TensorEntry::of("lora_te_" + module + ".lora_down.weight", down),
      io::TensorEntry::of("lora_te_" + module + ".lora_up.weight", up)};
  io::write_safetensors(folder_ / "text.safetensors", entries);
  EXPECT_NE(latents(golden("sd15"), {"lora=text.safetensors"}).bytes,
            latents(golden("sd15")).bytes);
}

TEST_F(StableDiffusion, IsReadFromASingleFile) {
  for (const std::string name : {"sd15", "sd21"}) {
    write_checkpoint(name);
    const std::string file = name + ".safetensors";
    // The heads of SD 2 are read off its widths, 64 channels each, which this small one has not.
    const HostArray wanted = latents(name == "sd15" ? golden(name) : file);
    EXPECT_EQ(latents(file).bytes, wanted.bytes) << name;
    const Outcome converted = run({"convert", file, name + "_folder", "--to", "diffusers"});
    ASSERT_EQ(converted.status, 0) << converted.err;
    EXPECT_EQ(latents(name + "_folder").bytes, wanted.bytes) << name;
    EXPECT_EQ(
        io::Json::read(folder_ / (name + "_folder/model_index.json")).at("_class_name").as_string(),
        "StableDiffusionPipeline");
    const Outcome inspected = run({"inspect", "--check", file});
    EXPECT_EQ(inspected.status, 0) << inspected.err;
    EXPECT_THAT(inspected.out, HasSubstr("SD checkpoint")) << name;
    const Outcome back =
        run({"convert", name + "_folder", name + "_unet.safetensors", "--to", "comfyui"});
    ASSERT_EQ(back.status, 0) << back.err;
    EXPECT_EQ(latents(name + "_folder", {"wan_transformer_pretrained_model_name_or_path=" + name +
                                         "_unet.safetensors"})
                  .bytes,
              wanted.bytes);
  }
}

TEST_F(StableDiffusion, SaysWhatAnUnsuitableFileIs) {
  write_checkpoint("sd15", "first_stage_model.");
  generate("sd15.safetensors", {}).expect_error("vae_file=FILE");
  fs::remove(folder_ / "sd15.safetensors");
  write_checkpoint("sd15", "cond_stage_model.");
  generate("sd15.safetensors", {"height=32", "width=32"}).expect_error("text_encoder_file=FILE");
  const std::string sdxl = io::golden("single/sdxl.safetensors").string();
  generate(golden("sd15"), {"wan_transformer_pretrained_model_name_or_path=" + sdxl})
      .expect_error("[");
  const HostArray hint(Shape{DType::F32, {16, 3, 3, 3}});
  const std::vector<io::TensorEntry> entries{
      io::TensorEntry::of("controlnet_cond_embedding.conv_in.weight", hint)};
  io::write_safetensors(folder_ / "control.safetensors", entries);
  generate(golden("sd15"), {"wan_transformer_pretrained_model_name_or_path=control.safetensors"})
      .expect_error("ControlNet");
  const fs::path broken = folder_ / "broken";
  fs::copy(io::golden("control/sd15"), broken, fs::copy_options::recursive);
  fs::remove_all(broken / "unet");
  fs::copy(io::golden("sdxl/unet"), broken / "unet", fs::copy_options::recursive);
  generate("broken", {}).expect_error("both must be of one family");
  fs::remove_all(broken / "text_encoder");
  generate("broken", {}).expect_error("text_encoder");
}

}  // namespace
}  // namespace kinema::jobs_test
