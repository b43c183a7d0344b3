// Files that are different from what they seem, in every command: with markers of their training,
// variants of a known network, other adapters, schedulers of other models.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "arrays.h"
#include "io/scratch.h"
#include "jobs/one_pipeline_file.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Arrays = std::map<std::string, HostArray>;

class ModelFiles : public OnePipelineFile {
 protected:
  void SetUp() override {
    OnePipelineFile::SetUp();
    if (!IsSkipped()) {
      bring_tokenizers(folder_);
    }
  }

  /// The tiny SDXL's file with other tensors in it.
  void write_model(const std::string& name, Arrays more,
                   const std::map<std::string, std::string>& metadata = {},
                   const std::string& without = "") {
    const io::SafetensorsFile file =
        io::SafetensorsFile::open(io::golden("single/sdxl.safetensors"));
    std::vector<io::TensorEntry> entries;
    for (const io::TensorView& tensor : file.tensors()) {
      if (!more.contains(tensor.name) && (without.empty() || !tensor.name.starts_with(without))) {
        entries.push_back(io::TensorEntry::of(tensor.name, tensor));
      }
    }
    for (const auto& [key, array] : more) {
      entries.push_back(io::TensorEntry::of(key, array));
    }
    io::write_safetensors(folder_ / name, entries, metadata);
  }
  void write_tensors(const std::string& name, const Arrays& arrays) {
    std::vector<io::TensorEntry> entries;
    for (const auto& [key, array] : arrays) {
      entries.push_back(io::TensorEntry::of(key, array));
    }
    io::write_safetensors(folder_ / name, entries);
  }
  static HostArray zeros(Dims dims) { return HostArray(Shape{DType::F32, std::move(dims)}); }

  /// The reference's folder of SDXL, with another scheduler.
  void bring_folder(const std::string& name, const std::string& scheduler) {
    fs::copy(io::golden("sdxl"), folder_ / name, fs::copy_options::recursive);
    io::Json index = io::Json::read(folder_ / name / "model_index.json");
    const std::string class_name =
        io::Json::parse(scheduler, "scheduler").at("_class_name").as_string();
    index.set("scheduler", io::Json::array({io::Json("diffusers"), io::Json(class_name)}));
    write(name + "/model_index.json", index.dump());
    write(name + "/scheduler/scheduler_config.json", scheduler);
  }
  Outcome train(const std::string& model, const std::string& name,
                std::vector<std::string> more = {}) {
    write("train.yml",
          "output_dir: out\ndataset_type: images\nresolution: 32\nmax_train_steps: 1\n"
          "weights_dtype: float32\nactivations_dtype: float32\ntrain_data_dir: " +
              io::golden("dataset").string() + "\n");
    more.insert(more.begin(), {"train", "train.yml", "pretrained_model_name_or_path=" + model,
                               "run_name=" + name});
    return run(more);
  }
  /// In every command that could use it.
  void expect_refused(const std::string& model, const std::string& kind) {
    const auto refuses = [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.status, 1) << outcome.out;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(kind), Not(HasSubstr("scheduler="))));
    };
    refuses(generate({}, model));
    refuses(generate({"scheduler=euler"}, model));
    refuses(generate({"image_url=" + io::golden("images/orientation_5.jpg").string()}, model));
    refuses(train(model, "refused"));
    refuses(run({"inspect", model, "--check"}));
    for (const std::string to : {"diffusers", "comfyui"}) {
      refuses(run({"convert", model, "made.safetensors", "--to", to, "--dtype", "bfloat16"}));
    }
    EXPECT_FALSE(fs::exists(folder_ / "made.safetensors"));
    EXPECT_FALSE(fs::exists(folder_ / "out/samples"));
  }
  io::Json scheduler_of(const std::string& folder) const {
    return io::Json::read(folder_ / folder / "scheduler/scheduler_config.json");
  }
};

constexpr const char* kZeroSnr =
    "diffusion_scheduler_config={_class_name: EulerDiscreteScheduler, prediction_type: "
    "v_prediction, rescale_zero_terminal_snr: true, timestep_spacing: trailing}";

TEST_F(ModelFiles, WithObjectiveMarksAreSampledByThem) {
  write_model("noob.safetensors", {{"v_pred", zeros({0})}, {"ztsnr", zeros({0})}});
  write_model("spec.safetensors", {}, {{"modelspec.prediction_type", "v"}});
  const HostArray plain = latents({}, "sdxl.safetensors");
  const HostArray zero_snr = latents({kZeroSnr}, "sdxl.safetensors");
  const HostArray velocity =
      latents({"diffusion_scheduler_config={prediction_type: v_prediction}"}, "sdxl.safetensors");
  ASSERT_NE(plain.bytes, velocity.bytes);
  ASSERT_NE(velocity.bytes, zero_snr.bytes);
  EXPECT_EQ(latents({}, "noob.safetensors").bytes, zero_snr.bytes);
  EXPECT_EQ(latents({}, "spec.safetensors").bytes, velocity.bytes);
  EXPECT_THAT(generate({}, "noob.safetensors").err,
              HasSubstr("v-prediction, zero terminal SNR (by `v_pred`, `ztsnr`)"));
  EXPECT_THAT(generate({}, "spec.safetensors").err,
              HasSubstr("v-prediction (by modelspec.prediction_type `v`)"));
  EXPECT_THAT(run({"inspect", "noob.safetensors", "--check"}).out,
              HasSubstr("; it learned v-prediction, zero terminal SNR"));
  // Keys override the file, with a log line.
  EXPECT_EQ(latents({"prediction_type=epsilon"}, "spec.safetensors").bytes, plain.bytes);
  EXPECT_EQ(latents({"prediction_type=v_prediction"}, "sdxl.safetensors").bytes, velocity.bytes);
  EXPECT_THAT(
      generate({"prediction_type=epsilon"}, "spec.safetensors").err,
      HasSubstr(
          "used with prediction_type epsilon, as requested, but its own files say v_prediction"));
  EXPECT_EQ(
      latents({"diffusion_scheduler_config={prediction_type: epsilon}"}, "spec.safetensors").bytes,
      plain.bytes);
  // The marker of a network's file also applies next to a pipeline's folder.
  fs::copy(io::golden("sdxl"), folder_ / "whole", fs::copy_options::recursive);
  EXPECT_EQ(scheduler_of("whole").at("prediction_type").as_string(), "epsilon");
  EXPECT_EQ(
      latents({"wan_transformer_pretrained_model_name_or_path=spec.safetensors"}, "whole").bytes,
      latents({"wan_transformer_pretrained_model_name_or_path=sdxl.safetensors",
               "diffusion_scheduler_config={prediction_type: v_prediction}"},
              "whole")
          .bytes);
}

TEST_F(ModelFiles, WithObjectiveMarksAreConvertedAndTrainedByThem) {
  write_model("noob.safetensors", {{"v_pred", zeros({0})}, {"ztsnr", zeros({0})}});
  ASSERT_EQ(run({"convert", "noob.safetensors", "noob", "--to", "diffusers"}).status, 0);
  const io::Json converted = scheduler_of("noob");
  EXPECT_EQ(converted.at("prediction_type").as_string(), "v_prediction");
  EXPECT_TRUE(converted.at("rescale_betas_zero_snr").as_bool());
  EXPECT_EQ(converted.at("timestep_spacing").as_string(), "trailing");
  EXPECT_EQ(latents({}, "noob").bytes, latents({}, "noob.safetensors").bytes);

  for (const char* model : {"noob.safetensors", "noob"}) {
    const Outcome outcome = train(model, model);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  // Keys override the file, with the same log line as in `generate`.
  constexpr const char* kOther =
      "used with prediction_type epsilon, as requested, but its own files say v_prediction";
  const std::vector<std::string> epsilon{"prediction_type=epsilon"};
  EXPECT_THAT(train("noob", "asked", epsilon).err, HasSubstr(kOther));
  EXPECT_THAT(train("sdxl.safetensors", "sdxl.safetensors", epsilon).err, Not(HasSubstr(kOther)));
  EXPECT_EQ(losses("noob.safetensors"), losses("noob"));
  EXPECT_NE(losses("noob.safetensors"), losses("sdxl.safetensors"));
  const io::Json kept = scheduler_of("out/noob.safetensors/checkpoints/1");
  EXPECT_EQ(kept.at("prediction_type").as_string(), "v_prediction");
  EXPECT_TRUE(kept.at("rescale_betas_zero_snr").as_bool());
  // A scheduler next to the file applies to training as to sampling.
  write("scheduler/scheduler_config.json",
        R"({"_class_name": "EulerDiscreteScheduler", "prediction_type": "v_prediction",
            "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
            "rescale_betas_zero_snr": true})");
  ASSERT_EQ(train("sdxl.safetensors", "beside").status, 0);
  EXPECT_EQ(losses("beside"), losses("noob"));
}

TEST_F(ModelFiles, WithUnusedTensorsAreAccepted) {
  write_model("left.safetensors", {{"alphas_cumprod", zeros({1000})},
                                   {"loss.logvar", zeros({1})},
                                   {"model_ema.decay", zeros({1})}});
  EXPECT_EQ(latents({}, "left.safetensors").bytes, latents({}, "sdxl.safetensors").bytes);
  const std::string line =
      "3 tensors of its training that no model reads: alphas_cumprod, "
      "loss.logvar, model_ema.decay";
  EXPECT_THAT(generate({}, "left.safetensors").err, HasSubstr(line));
  const Outcome made = run({"convert", "left.safetensors", "left", "--to", "diffusers"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr(line));
  EXPECT_THAT(run({"inspect", "left.safetensors", "--check"}).out,
              HasSubstr("3 left-over tensors are not read: alphas_cumprod"));
  write_model("unknown.safetensors", {{"no_such_tensor", zeros({1})}});
  EXPECT_THAT(generate({}, "unknown.safetensors").err, HasSubstr("`no_such_tensor`"));
}

TEST_F(ModelFiles, OfUNetsThatTakeMoreThanLatentsAreRefused) {
  const std::string first = "model.diffusion_model.input_blocks.0.0.weight";
  write_model("pix2pix.safetensors", {{first, zeros({4, 8, 3, 3})}});
  expect_refused("pix2pix.safetensors", "SDXL InstructPix2Pix UNet");
}

TEST_F(ModelFiles, ThatFillMasksNeedAMask) {
  const std::string model = io::golden("control/sdxl_inpaint9").string();
  const std::string picture = io::golden("images/orientation_5.jpg").string();
  EXPECT_THAT(generate({}, model).err, HasSubstr("set image=FILE and mask=FILE"));
  const Outcome made = generate({"image=" + picture, "mask=" + picture}, model);
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(run({"inspect", model, "--check"}).out,
              AllOf(HasSubstr("generate"), HasSubstr("train")));
}

TEST_F(ModelFiles, OfEdmAreSampledButNotTrained) {
  const auto scalar = [](float value) {
    HostArray out(Shape{DType::F32, {}});
    out.as<float>()[0] = value;
    return out;
  };
  write_model("cosxl.safetensors",
              {{"edm_vpred.sigma_max", scalar(64.0F)}, {"edm_vpred.sigma_min", scalar(0.125F)}});
  write_model("playground.safetensors", {{"edm_mean", zeros({4})}, {"edm_std", zeros({4})}});
  const HostArray cosxl = latents({}, "cosxl.safetensors");
  const HostArray playground = latents({}, "playground.safetensors");
  for (const char* file : {"cosxl.safetensors", "playground.safetensors"}) {
    for (const Outcome& outcome :
         {train(file, "refused"), run({"convert", file, "made", "--to", "diffusers"})}) {
      EXPECT_EQ(outcome.status, 1);
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(file), HasSubstr("scaled as in EDM")));
    }
    EXPECT_FALSE(fs::exists(folder_ / "made"));
    EXPECT_THAT(run({"inspect", file, "--check"}).out,
                AllOf(HasSubstr("; it learned EDM"), HasSubstr("; taken by generate alone"),
                      Not(HasSubstr("train "))));
  }
  // diffusers' configurations of these models, next to the file without marks.
  write("scheduler/scheduler_config.json",
        R"({"_class_name": "EDMEulerScheduler", "prediction_type": "v_prediction",
            "sigma_data": 1.0, "sigma_max": 64.0, "sigma_min": 0.125})");
  EXPECT_EQ(latents({}, "sdxl.safetensors").bytes, cosxl.bytes);
  write("scheduler/scheduler_config.json", R"({"_class_name": "EDMDPMSolverMultistepScheduler"})");
  EXPECT_EQ(latents({}, "sdxl.safetensors").bytes, playground.bytes);
}

TEST_F(ModelFiles, OfSchedulersOfOtherModelsAreRefused) {
  for (const std::string name : {"CosineDPMSolverMultistepScheduler", "SCMScheduler"}) {
    bring_folder(name, R"({"_class_name": ")" + name + R"(", "sigma_data": 0.5})");
    expect_refused(name, name);
  }
  bring_folder("other", R"({"_class_name": "NoSuchScheduler", "beta_start": 0.001})");
  expect_refused("other", "NoSuchScheduler");
  // Also next to a single file.
  write("scheduler/scheduler_config.json", R"({"_class_name": "SCMScheduler"})");
  const auto refused = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("SCMScheduler"));
  };
  refused(generate({"scheduler=euler"}));
  refused(train("sdxl.safetensors", "refused"));
  refused(run({"convert", "sdxl.safetensors", "made", "--to", "diffusers"}));
  EXPECT_FALSE(fs::exists(folder_ / "made"));
}

TEST_F(ModelFiles, WithSigmasOfTheirOwnAreTrainedAndSampled) {
  io::Json scheduler = io::Json::read(io::golden("sdxl/scheduler/scheduler_config.json"));
  scheduler.set("use_karras_sigmas", true);
  bring_folder("karras", scheduler.dump());
  const std::string plain = io::golden("sdxl").string();
  const std::string steps = "num_inference_steps=3";  // one step has the largest sigma alone
  EXPECT_EQ(latents({steps}, "karras").bytes, latents({steps, "noise_levels=karras"}, plain).bytes);
  EXPECT_NE(latents({steps}, "karras").bytes, latents({steps}, plain).bytes);
  EXPECT_EQ(latents({steps, "scheduler=euler"}, "karras").bytes, latents({steps}, plain).bytes);
  EXPECT_EQ(train("karras", "karras").status, 0);
  // Settings that contradict each other are named, with a sampler that does not need them.
  scheduler.set("use_beta_sigmas", true);
  bring_folder("both", scheduler.dump());
  generate({}, "both").expect_error("use_beta_sigmas");
  const Outcome check = run({"inspect", "both", "--check"});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_THAT(check.out,
              AllOf(HasSubstr("use_beta_sigmas"), HasSubstr("generate needs scheduler=euler;")));
}

TEST_F(ModelFiles, AreSampledByTheSchedulerOfTheirIndex) {
  io::Json scheduler = io::Json::read(io::golden("sdxl/scheduler/scheduler_config.json"));
  scheduler.set("_class_name", "DDIMScheduler").set("clip_sample", false);
  bring_folder("m", scheduler.dump());
  const HostArray ddim = latents({}, "m");
  scheduler.set("_class_name", "EulerDiscreteScheduler");
  write("m/scheduler/scheduler_config.json", scheduler.dump());
  EXPECT_EQ(latents({}, "m").bytes, ddim.bytes);
  EXPECT_THAT(generate({}, "m").err,
              HasSubstr("is DDIMScheduler, as in its model_index.json; its scheduler_config.json "
                        "has EulerDiscreteScheduler"));
  ASSERT_EQ(train("m", "run").status, 0);
  EXPECT_EQ(scheduler_of("out/run/checkpoints/1").at("_class_name").as_string(), "DDIMScheduler");
}

TEST_F(ModelFiles, OfEveryMethodChangeThePicture) {
  const std::string module = "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q.";
  const std::map<std::string, Arrays> adapters{
      {"LoHa",
       {{"hada_w1_a", normal({8, 2}, 1)},
        {"hada_w1_b", normal({2, 8}, 2)},
        {"hada_w2_a", normal({8, 2}, 3)},
        {"hada_w2_b", normal({2, 8}, 4)}}},
      {"LoKr", {{"lokr_w1", normal({2, 2}, 1)}, {"lokr_w2", normal({4, 4}, 2)}}},
      {"DoRA",
       {{"lora_down.weight", normal({2, 8}, 1)},
        {"lora_up.weight", normal({8, 2}, 2)},
        {"dora_scale", normal({8, 1}, 3)}}},
      {"OFT", {{"oft_blocks", normal({2, 4, 4}, 1)}}},
      {"OFT of PEFT", {{"oft_R.weight", normal({2, 6}, 1)}}},
      {"BOFT", {{"oft_blocks", normal({2, 2, 4, 4}, 1)}}},
      {"GLoRA",
       {{"a1.weight", normal({8, 2}, 1)},
        {"a2.weight", normal({2, 8}, 2)},
        {"b1.weight", normal({8, 2}, 3)},
        {"b2.weight", normal({2, 8}, 4)}}},
      {"IA3", {{"weight", normal({8}, 1)}, {"on_input", normal({1}, 2)}}}};
  const HostArray without = latents({}, "sdxl.safetensors");
  for (const auto& [kind, parts] : adapters) {
    Arrays arrays;
    for (const auto& [ending, array] : parts) {
      arrays.emplace(module + ending, array);
    }
    write_tensors("x.safetensors", arrays);
    const HostArray with = latents({"lora=x.safetensors"}, "sdxl.safetensors");
    EXPECT_GT(largest_difference(with, without), 1e-3) << kind;
    const Outcome inspected = run({"inspect", "x.safetensors", "--check"});
    EXPECT_EQ(inspected.status, 0) << inspected.err;
    EXPECT_THAT(run({"inspect", "x.safetensors"}).out, HasSubstr(" " + kind));
    fs::remove(folder_ / "y.safetensors");
    ASSERT_EQ(run({"convert", "x.safetensors", "y.safetensors", "--to", "comfyui"}).status, 0);
    EXPECT_EQ(latents({"lora=y.safetensors"}, "sdxl.safetensors").bytes, with.bytes) << kind;
  }
}

TEST_F(ModelFiles, ThatNoCommandAcceptsAreNamed) {
  const std::map<std::string, Arrays> files{
      {"textual inversion embedding", {{"clip_l", zeros({2, 16})}, {"clip_g", zeros({2, 20})}}},
      {"no model, LoRA or latents", {{"a", zeros({2})}}}};
  for (const auto& [kind, arrays] : files) {
    write_tensors("x.safetensors", arrays);
    run({"inspect", "x.safetensors", "--check"}).expect_error(kind);
    EXPECT_EQ(run({"inspect", "x.safetensors"}).status, 0);
    const Outcome sampled = generate({}, "x.safetensors");
    EXPECT_EQ(sampled.status, 1);
    const Outcome named = generate({"wan_vae_pretrained_model_name_or_path=x.safetensors"});
    EXPECT_EQ(named.status, 1);
    if (kind != "no model, LoRA or latents") {
      EXPECT_THAT(sampled.err, HasSubstr(kind));
      EXPECT_THAT(named.err, HasSubstr(kind));
    }
  }
}

TEST_F(ModelFiles, AreDescribedWithTheCommandsThatAcceptThem) {
  const auto said = [&](const std::string& path) {
    const Outcome outcome = run({"inspect", path, "--check"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(said("sdxl.safetensors"),
              AllOf(HasSubstr("accepted: SDXL checkpoint: "),
                    HasSubstr("; taken by generate sdxl.safetensors, train pretrained")));
  write_model("no_vae.safetensors", {}, {}, "first_stage_model.");
  EXPECT_THAT(said("no_vae.safetensors"),
              AllOf(HasSubstr("it holds no autoencoder: vae_file=FILE"),
                    Not(HasSubstr("; wan_vae_pretrained_model_name_or_path=no_vae"))));
  const std::string lora = io::golden("lora/sdxl_kohya.safetensors").string();
  EXPECT_THAT(said(lora), AllOf(HasSubstr("accepted: LoRA: kohya"), HasSubstr("lora=" + lora)));
  // With its config.json: groups of a norm (2, in published models 32) are not in any shape.
  fs::create_directory(folder_ / "flux");
  fs::copy_file(io::golden("single/flux_ae.safetensors"), folder_ / "flux/ae.safetensors");
  fs::copy_file(io::golden("flux_dev/vae/config.json"), folder_ / "flux/config.json");
  EXPECT_THAT(said("flux/ae.safetensors"),
              HasSubstr("wan_vae_pretrained_model_name_or_path=flux/ae.safetensors"));
  ASSERT_EQ(generate({"save_latents=l.safetensors"}).status, 0);
  EXPECT_THAT(said("l.safetensors"), HasSubstr("initial_latents=l.safetensors"));
}

TEST_F(ModelFiles, OfAdaptersHaveAShortForm) {
  const std::string lora = io::golden("lora/sdxl_kohya.safetensors").string();
  const HostArray plain = latents({}, "sdxl.safetensors");
  const HostArray half = latents({"lora=" + lora + ":0.5"}, "sdxl.safetensors");
  EXPECT_NE(half.bytes, plain.bytes);
  EXPECT_EQ(half.bytes, latents({"enable_lora=true", "lora_config={lora_model_name_or_path: [" +
                                                         lora + "], scale: [0.5]}"},
                                "sdxl.safetensors")
                            .bytes);
}

// As in ComfyUI's files of Flux.
TEST_F(ModelFiles, OfFluxWithBothTextEncodersBecomeThem) {
  std::vector<io::SafetensorsFile> files;
  std::vector<io::TensorEntry> entries;
  fs::create_directory(folder_ / "flux");
  for (const auto& [file, prefix, part] :
       {std::tuple{"single/flux_schnell.safetensors", "model.diffusion_model.", "transformer"},
        std::tuple{"single/flux_ae.safetensors", "vae.", "vae"},
        std::tuple{"flux_schnell/text_encoder/model.safetensors",
                   "text_encoders.clip_l.transformer.", "text_encoder"},
        std::tuple{"flux_schnell/text_encoder_2/model.safetensors",
                   "text_encoders.t5xxl.transformer.", "text_encoder_2"}}) {
    files.push_back(io::SafetensorsFile::open(io::golden(file)));
    for (const io::TensorView& tensor : files.back().tensors()) {
      entries.push_back(io::TensorEntry::of(prefix + tensor.name, tensor));
    }
    fs::create_directory(folder_ / "flux" / part);
    if (part != std::string("text_encoder_2")) {  // their sizes are in the shapes
      fs::copy_file(io::golden(std::string("flux_schnell/") + part + "/config.json"),
                    folder_ / "flux" / part / "config.json");
    }
  }
  io::write_safetensors(folder_ / "flux/aio.safetensors", entries);
  const Outcome whole = generate({}, "flux/aio.safetensors");
  EXPECT_EQ(whole.status, 1);
  EXPECT_THAT(whole.err, HasSubstr("there is no tokenizer/ for flux/aio.safetensors in flux"));

  const Outcome made = run({"convert", "flux/aio.safetensors", "whole", "--to", "diffusers"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("whole lacks tokenizer/, tokenizer_2/, which"));
  for (const char* part : {"tokenizer", "tokenizer_2"}) {
    fs::copy(io::golden(std::string("flux_schnell/") + part), folder_ / "whole" / part,
             fs::copy_options::recursive);
  }
  EXPECT_EQ(run({"inspect", "whole", "--check"}).status, 0);
  const HostArray with_own = latents({"max_sequence_length=16"}, "whole");
  const HostArray with_released =
      latents({"max_sequence_length=16", "wan_text_encoder_pretrained_model_name_or_path=" +
                                             io::golden("flux_schnell").string()},
              "whole");
  EXPECT_EQ(with_own.bytes, with_released.bytes);
}

}  // namespace
}  // namespace kinema::jobs_test
