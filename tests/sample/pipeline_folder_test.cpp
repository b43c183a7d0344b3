#include "kinema/sample/pipeline_folder.h"
#include "kinema/sample/scheduler_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "sample/temporary_folder.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kTwoExperts = R"({
  "_class_name": "WanPipeline", "boundary_ratio": 0.875, "expand_timesteps": false,
  "scheduler": ["diffusers", "UniPCMultistepScheduler"],
  "transformer": ["diffusers", "WanTransformer3DModel"],
  "transformer_2": ["diffusers", "WanTransformer3DModel"]
})";
constexpr const char* kUniPc = R"({
  "_class_name": "UniPCMultistepScheduler", "flow_shift": 12.0, "num_train_timesteps": 1000,
  "prediction_type": "flow_prediction", "solver_order": 2, "solver_type": "bh2",
  "use_flow_sigmas": true, "disable_corrector": [], "final_sigmas_type": "zero"
})";

TEST(PipelineFolder, ReadsTwoExpertsAndTheirBoundary) {
  const TemporaryFolder folder;
  folder.write("model_index.json", kTwoExperts);
  folder.write("scheduler/scheduler_config.json", kUniPc);
  fs::create_directories(folder.path() / "transformer");
  fs::create_directories(folder.path() / "transformer_2");

  const PipelineFolder pipeline = read_pipeline_folder(folder.path());

  EXPECT_TRUE(pipeline.has_two_experts());
  EXPECT_EQ(pipeline.boundary_ratio, 0.875);
  EXPECT_FALSE(pipeline.expand_timesteps);
  ASSERT_TRUE(pipeline.schedule);
  EXPECT_EQ(pipeline.schedule->sampler, schedulers::Sampler::UNIPC);
  EXPECT_EQ(pipeline.schedule->shift, 12.0);
}

// As StableDiffusionPipeline of diffusers, whose ControlNet pipelines leave the file as it is.
TEST(PipelineFolder, CorrectsTheSchedulersOfEarlyReleases) {
  for (const auto& [name, corrects] : {std::pair("StableDiffusionPipeline", true),
                                       {"StableDiffusionInpaintPipeline", true},
                                       {"StableDiffusionControlNetPipeline", false},
                                       {"StableDiffusionXLPipeline", false}}) {
    const TemporaryFolder folder;
    folder.write("model_index.json",
                 fmt::format(R"({{"_class_name": "{}", "scheduler": ["diffusers", "DDIMScheduler"],
                                  "unet": ["diffusers", "UNet2DConditionModel"]}})",
                             name));
    folder.write("scheduler/scheduler_config.json",
                 R"({"_class_name": "DDIMScheduler", "beta_schedule": "scaled_linear",
                     "beta_start": 0.00085, "beta_end": 0.012, "steps_offset": 0})");
    fs::create_directories(folder.path() / "unet");
    const schedulers::ScheduleConfig read = *read_pipeline_folder(folder.path()).schedule;
    EXPECT_EQ(read.diffusion.steps_offset, corrects ? 1 : 0) << name;
    EXPECT_EQ(clips_sample(read), !corrects) << name;
  }
}

TEST(PipelineFolder, NamesThePartThatIsMissing) {
  const TemporaryFolder folder;
  folder.write("model_index.json", kTwoExperts);
  folder.write("scheduler/scheduler_config.json", kUniPc);
  fs::create_directories(folder.path() / "transformer");

  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(HasSubstr("no `transformer_2` folder")));
}

TEST(PipelineFolder, TwoExpertsNeedABoundary) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "WanPipeline",
    "transformer": ["diffusers", "WanTransformer3DModel"],
    "transformer_2": ["diffusers", "WanTransformer3DModel"]})");
  fs::create_directories(folder.path() / "transformer");
  fs::create_directories(folder.path() / "transformer_2");

  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(HasSubstr("no `boundary_ratio`")));
}

TEST(PipelineFolder, ACheckpointWithoutIndexIsOneTransformer) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "transformer");

  const PipelineFolder pipeline = read_pipeline_folder(folder.path());

  EXPECT_FALSE(pipeline.has_two_experts());
  EXPECT_EQ(pipeline.transformer, folder.path() / "transformer");
}

TEST(PipelineFolder, RefusesAFolderOfNothing) {
  const TemporaryFolder folder;

  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(HasSubstr("neither model_index.json nor")));
  EXPECT_THAT([&] { read_pipeline_folder(folder.path() / "absent"); },
              ThrowsMessage<Error>(HasSubstr("absent does not exist")));
}

TEST(PipelineFolder, RefusesOtherPipelines) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "HunyuanPipeline"})");

  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(HasSubstr("is a HunyuanPipeline")));
}

TEST(PipelineFolder, ListsThePartsOfAnImageToVideoPipeline) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "WanImageToVideoPipeline",
    "boundary_ratio": null,
    "image_encoder": ["transformers", "CLIPVisionModel"],
    "image_processor": ["transformers", "CLIPImageProcessor"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
    "tokenizer": ["transformers", "T5TokenizerFast"],
    "transformer": ["diffusers", "WanTransformer3DModel"],
    "transformer_2": [null, null], "vae": ["diffusers", "AutoencoderKLWan"]})");
  for (const char* part :
       {"image_encoder", "image_processor", "text_encoder", "tokenizer", "transformer", "vae"}) {
    fs::create_directories(folder.path() / part);
  }

  const PipelineFolder pipeline = read_pipeline_folder(folder.path());

  EXPECT_EQ(pipeline.class_name, "WanImageToVideoPipeline");
  EXPECT_EQ(pipeline.image_encoder, folder.path() / "image_encoder");
  EXPECT_EQ(pipeline.vae, folder.path() / "vae");
  EXPECT_FALSE(pipeline.has_two_experts());
}

TEST(PipelineFolder, RefusesAPartOfAnotherClass) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "WanPipeline",
    "transformer": ["diffusers", "WanTransformer3DModel"],
    "vae": ["diffusers", "AutoencoderKL"]})");
  fs::create_directories(folder.path() / "transformer");
  fs::create_directories(folder.path() / "vae");

  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("`AutoencoderKL`"), HasSubstr("expected AutoencoderKLWan"))));
}

TEST(PipelineFolder, RefusesAPartWhoseOwnConfigIsOfAnotherFamily) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "StableDiffusionXLPipeline",
    "unet": ["diffusers", "UNet2DConditionModel"],
    "text_encoder": ["transformers", "CLIPTextModel"]})");
  fs::create_directories(folder.path() / "text_encoder");
  folder.write("unet/config.json", R"({"_class_name": "FluxTransformer2DModel"})");
  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`FluxTransformer2DModel`"),
                                         HasSubstr("needs a UNet2DConditionModel"))));
  folder.write("unet/config.json", R"({"_class_name": "UNet2DConditionModel"})");
  EXPECT_NO_THROW(read_pipeline_folder(folder.path()));
  folder.write("text_encoder/config.json", R"({"architectures": ["T5EncoderModel"]})");
  EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("`T5EncoderModel`"), HasSubstr("needs a CLIPTextModel"))));
}

/// Two experts whose folders are links to folders with these names.
PipelineFolder linked_experts(const TemporaryFolder& folder, const char* first,
                              const char* second) {
  for (const auto& [link, name] : {std::pair{"transformer", first}, {"transformer_2", second}}) {
    fs::create_directories(folder.path() / name);
    fs::create_directory_symlink(folder.path() / name, folder.path() / link);
  }
  return {.folder = folder.path(),
          .transformer = folder.path() / "transformer",
          .transformer_2 = folder.path() / "transformer_2",
          .boundary_ratio = 0.9};
}

TEST(PipelineFolder, DoubtsExpertsThatSeemToHaveChangedPlaces) {
  const TemporaryFolder folder;
  const auto swapped =
      linked_experts(folder, "wan2.2_i2v_low_noise_14B", "wan2.2_i2v_high_noise_14B");
  EXPECT_THAT(warnings(swapped), testing::ElementsAre(HasSubstr("seem to be exchanged")));
}

TEST(PipelineFolder, DoubtsNothingWhereNamesFitOrSayNothing) {
  const TemporaryFolder named;
  EXPECT_THAT(warnings(linked_experts(named, "high_noise_model", "low_noise_model")),
              testing::IsEmpty());
  fs::remove(named.path() / "transformer");
  fs::remove(named.path() / "transformer_2");
  EXPECT_THAT(warnings(linked_experts(named, "a", "b")), testing::IsEmpty());
}

TEST(PipelineFolder, DoubtsOneFolderForBothExperts) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "transformer");
  fs::create_directory_symlink(folder.path() / "transformer", folder.path() / "transformer_2");
  EXPECT_THAT(warnings({.folder = folder.path(),
                        .transformer = folder.path() / "transformer",
                        .transformer_2 = folder.path() / "transformer_2"}),
              testing::ElementsAre(HasSubstr("the same folder")));
}

TEST(SchedulerConfig, ReadsEulersShift) {
  const TemporaryFolder folder;
  folder.write("c.json", R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 5.0})");

  const auto config = read_scheduler_config(folder.path() / "c.json");

  EXPECT_EQ(config.sampler, schedulers::Sampler::FLOW_MATCH_EULER);
  EXPECT_EQ(config.shift, 5.0);
}

TEST(SchedulerConfig, KeepsWhatWasLearnedOfAnUnknownClass) {
  const TemporaryFolder folder;
  folder.write("c.json",
               R"({"_class_name": "SASolverScheduler", "use_karras_sigmas": true,
                   "lambda_min_clipped": -Infinity, "solver_order": 2,
                   "beta_start": 0.001, "beta_end": 0.03, "beta_schedule": "linear",
                   "prediction_type": "v_prediction", "timestep_spacing": "trailing",
                   "clip_sample": false})");
  const schedulers::ScheduleConfig diffusion = read_scheduler_config(folder.path() / "c.json");
  EXPECT_FALSE(schedulers::is_flow(diffusion));
  EXPECT_THAT([&] { schedulers::make_schedule(diffusion, 4); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("`SASolverScheduler`"), HasSubstr("scheduler=euler or ddim"))));
  const schedulers::ScheduleConfig named = with_sampler(diffusion, schedulers::Sampler::DDIM);
  EXPECT_EQ(schedulers::make_schedule(named, 4).size(), 4);
  EXPECT_EQ(named.diffusion.beta_end, 0.03);
  EXPECT_EQ(named.diffusion.prediction_type, schedulers::Prediction::V_PREDICTION);
  EXPECT_EQ(named.diffusion.timestep_spacing, schedulers::Spacing::TRAILING);

  folder.write("c.json", R"({"_class_name": "FlowMatchLCMScheduler", "shift": 4.0})");
  const schedulers::ScheduleConfig flow = read_scheduler_config(folder.path() / "c.json");
  EXPECT_EQ(flow.shift, 4.0);
  EXPECT_THAT([&] { schedulers::make_schedule(flow, 4); },
              ThrowsMessage<Error>(HasSubstr("scheduler=euler or unipc")));
  folder.write("c.json", R"({"_class_name": "DPMSolverMultistepScheduler", "flow_shift": 7.0,
                             "prediction_type": "flow_prediction", "beta_start": 0.001})");
  EXPECT_EQ(read_scheduler_config(folder.path() / "c.json").shift, 7.0);
  folder.write("c.json", R"({"_class_name": "UniPCMultistepScheduler", "beta_end": 0.02,
                             "beta_start": 0.001, "prediction_type": "epsilon"})");
  const schedulers::ScheduleConfig unipc = read_scheduler_config(folder.path() / "c.json");
  EXPECT_FALSE(schedulers::is_flow(unipc));
  EXPECT_EQ(with_sampler(unipc, schedulers::Sampler::EULER).diffusion.beta_start, 0.001);
  // diffusers' UniPC then assumes that the network predicts noise.
  folder.write("c.json", R"({"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true,
                             "prediction_type": "epsilon"})");
  const schedulers::ScheduleConfig noise = read_scheduler_config(folder.path() / "c.json");
  EXPECT_TRUE(schedulers::is_flow(noise));
  EXPECT_EQ(noise.flow_predicts, schedulers::Prediction::EPSILON);
}

TEST(SchedulerConfig, NeedsABetaForEachTimestep) {
  const TemporaryFolder folder;
  folder.write("c.json", R"({"_class_name": "PNDMScheduler", "trained_betas": [0.1]})");
  const schedulers::ScheduleConfig read = read_scheduler_config(folder.path() / "c.json");
  EXPECT_THAT([&] { schedulers::make_schedule(read, 4); },
              ThrowsMessage<Error>(HasSubstr("there are 1 trained_betas")));
}

// The default of diffusers' class is to clip.
TEST(SchedulerConfig, ClipsAsDdimDoes) {
  const TemporaryFolder folder;
  const auto limit_of = [&](const char* clips) {
    folder.write("c.json", fmt::format(R"({{"_class_name": "DDIMScheduler"{}}})", clips));
    return schedulers::make_schedule(read_scheduler_config(folder.path() / "c.json"), 4).form.limit;
  };
  using Limit = schedulers::StepForm::Limit;
  EXPECT_EQ(limit_of(""), Limit::CLIP);
  EXPECT_EQ(limit_of(R"(, "clip_sample": true)"), Limit::CLIP);
  EXPECT_EQ(limit_of(R"(, "clip_sample": false)"), Limit::NONE);
  EXPECT_EQ(limit_of(R"(, "clip_sample": false, "thresholding": true, "sample_max_value": 2.0)"),
            Limit::THRESHOLD);
}

// As in DDIMScheduler.from_config(other.config): missing settings are DDIM's own defaults.
TEST(SchedulerConfig, WhatAnotherClassDoesNotSayIsTheNewSamplersOwn) {
  const TemporaryFolder folder;
  const auto sampled_by = [&](const std::string& config, schedulers::Sampler sampler) {
    folder.write("c.json", config);
    return with_sampler(read_scheduler_config(folder.path() / "c.json"), sampler);
  };
  const std::string euler = R"({"_class_name": "EulerDiscreteScheduler")";
  const auto bare = sampled_by(euler + "}", schedulers::Sampler::DDIM);
  EXPECT_EQ(schedulers::spacing_of(bare), schedulers::Spacing::LEADING);
  EXPECT_THAT([&] { schedulers::make_schedule(bare, 4); },
              ThrowsMessage<Error>(AllOf(HasSubstr("clip_sample"), HasSubstr("scheduler=euler"))));
  const auto unclipped =
      sampled_by(euler + R"(, "clip_sample": false})", schedulers::Sampler::DDIM);
  EXPECT_EQ(schedulers::make_schedule(unclipped, 4).size(), 4);
  EXPECT_EQ(scheduler_json(unclipped).at("clip_sample").as_bool(), false);

  const auto ddim = sampled_by(R"({"_class_name": "DDIMScheduler", "clip_sample": false})",
                               schedulers::Sampler::EULER);
  EXPECT_EQ(schedulers::spacing_of(ddim), schedulers::Spacing::LINSPACE);
}

TEST(SchedulerConfig, RefusesASettingThatWouldChangeTheResult) {
  const TemporaryFolder folder;
  for (const auto& [name, settings, why] :
       {std::tuple{"UniPCMultistepScheduler", R"("solver_order": 4)", "solver_order is 4"},
        {"UniPCMultistepScheduler", R"("lower_order_final": false)", "divide by zero"},
        {"UniPCMultistepScheduler", R"("solver_p": {"a": 1})", "solver_p"},
        {"UniPCMultistepScheduler", R"("solver_type": "bh3")", "solver_type"},
        {"DPMSolverMultistepScheduler", R"("algorithm_type": "dpmsolver")", "final_sigmas_type"},
        {"DPMSolverSinglestepScheduler", R"("algorithm_type": "sde-dpmsolver")",
         "final_sigmas_type"},
        {"DPMSolverSinglestepScheduler",
         R"("algorithm_type": "sde-dpmsolver", "final_sigmas_type": "sigma_min")", "single steps"},
        {"DEISMultistepScheduler", R"("thresholding": true)", "DEIS"},
        {"DDIMScheduler", R"("timestep_spacing": "ays", "clip_sample": false)", "noise_levels"},
        {"EulerDiscreteScheduler", R"("use_karras_sigmas": true, "use_beta_sigmas": true)",
         "`karras` is set already"},
        {"DDPMScheduler", R"("variance_type": "learned_range")", "variance_type"},
        {"FlowMatchEulerDiscreteScheduler", R"("shift_terminal": 1.5)", "shift_terminal"}}) {
    folder.write("c.json", fmt::format(R"({{"_class_name": "{}", {}}})", name, settings));
    const schedulers::ScheduleConfig read = read_scheduler_config(folder.path() / "c.json");
    EXPECT_THAT([&] { schedulers::make_schedule(read, 4); }, ThrowsMessage<Error>(HasSubstr(why)));
    const auto plain =
        with_sampler(read, schedulers::is_flow(read) ? schedulers::Sampler::FLOW_MATCH_EULER
                                                     : schedulers::Sampler::EULER);
    EXPECT_EQ(schedulers::make_schedule(plain, 4).size(), 4) << why;
  }
}

TEST(SchedulerConfig, WritesWhatItReads) {
  const TemporaryFolder folder;
  for (const char* text :
       {R"({"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true, "solver_order": 3,
            "prediction_type": "flow_prediction", "disable_corrector": [0], "flow_shift": 4.0,
            "solver_type": "bh1", "shift_terminal": 0.1})",
        R"({"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++",
            "use_karras_sigmas": true, "final_sigmas_type": "sigma_min", "beta_start": 0.001})",
        R"({"_class_name": "EDMEulerScheduler", "sigma_data": 1.0, "sigma_max": 120.0})",
        R"({"_class_name": "DEISMultistepScheduler", "solver_order": 3, "beta_start": 0.001})",
        R"({"_class_name": "DPMSolverSinglestepScheduler", "lower_order_final": true,
            "solver_type": "heun", "beta_start": 0.001})",
        R"({"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "ays"})",
        R"({"_class_name": "EulerDiscreteScheduler", "sigma_min": 0.1, "timestep_type":
            "continuous", "prediction_type": "v_prediction"})"}) {
    folder.write("c.json", text);
    const schedulers::ScheduleConfig read = read_scheduler_config(folder.path() / "c.json");
    folder.write("again.json", scheduler_json(read).dump(-1));
    schedulers::ScheduleConfig again = read_scheduler_config(folder.path() / "again.json");
    again.diffusion.timestep_spacing = read.diffusion.timestep_spacing;  // written as in effect
    EXPECT_EQ(again, read) << text;
  }
}

TEST(SchedulerConfig, RefusesWhatSaysThatAModelWasTrainedOtherwise) {
  const TemporaryFolder folder;
  for (const auto& [config, why] :
       {std::pair{R"({"_class_name": "CosineDPMSolverMultistepScheduler"})", "EDM"},
        std::pair{R"({"_class_name": "CMStochasticIterativeScheduler"})", "consistency"},
        std::pair{R"({"_class_name": "NoSuchScheduler", "beta_start": 0.1})", "is not known"}}) {
    folder.write("c.json", config);
    EXPECT_THAT([&] { read_scheduler_config(folder.path() / "c.json"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("c.json"), HasSubstr(why),
                                           testing::Not(HasSubstr("scheduler=")))));
  }
}

// As in diffusers, where pipelines make the index's class with the file's values.
TEST(PipelineFolder, TakesTheSchedulerOfItsIndex) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& named, const std::string& config) {
    folder.write("model_index.json", fmt::format(R"({{"_class_name": "StableDiffusionXLPipeline",
        "unet": ["diffusers", "UNet2DConditionModel"], "scheduler": ["diffusers", "{}"]}})",
                                                 named));
    folder.write("scheduler/scheduler_config.json", config);
    fs::create_directories(folder.path() / "unet");
    return read_pipeline_folder(folder.path());
  };
  const std::string euler =
      R"({"_class_name": "EulerDiscreteScheduler", "clip_sample": false, "beta_end": 0.03})";
  const PipelineFolder ddim = read("DDIMScheduler", euler);
  EXPECT_EQ(ddim.schedule->sampler, schedulers::Sampler::DDIM);
  EXPECT_EQ(ddim.schedule->diffusion.beta_end, 0.03);
  EXPECT_EQ(schedulers::spacing_of(*ddim.schedule), schedulers::Spacing::LEADING);
  EXPECT_THAT(warnings(ddim), testing::ElementsAre(AllOf(HasSubstr("is DDIMScheduler"),
                                                         HasSubstr("EulerDiscreteScheduler"))));
  EXPECT_EQ(read("EulerAncestralDiscreteScheduler", euler).schedule->sampler,
            schedulers::Sampler::EULER_ANCESTRAL);
  EXPECT_EQ(schedulers::noise_of(*read("EDMEulerScheduler", euler).schedule),
            schedulers::Noise::EDM);
  EXPECT_THAT(warnings(read("EulerDiscreteScheduler", euler)), testing::IsEmpty());
  EXPECT_THAT(warnings(read("FlaxEulerDiscreteScheduler", euler)), testing::IsEmpty());
}

TEST(PipelineFolder, NamesAKindThatIsNotSupported) {
  const TemporaryFolder folder;
  for (const auto& [name, kind] :
       {std::pair{"FluxKontextInpaintPipeline", "Flux Kontext with a mask"},
        {"StableDiffusionXLInstructPix2PixPipeline", "SDXL InstructPix2Pix UNet"},
        {"WanSpeechToVideoPipeline", "Wan 2.2 S2V"}}) {
    folder.write("model_index.json", fmt::format(R"({{"_class_name": "{}"}})", name));
    EXPECT_THAT([&] { read_pipeline_folder(folder.path()); },
                ThrowsMessage<Error>(AllOf(HasSubstr("is not supported"), HasSubstr(kind))));
  }
}

}  // namespace
}  // namespace kinema::sample
