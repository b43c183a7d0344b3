// The settings of sampling that follow from a configuration and a run's folders, before anything is
// loaded.
#include "kinema/resolve/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.h"
#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/networks/open.h"
#include "kinema/resolve/prompts.h"
#include "kinema/sample/pipeline_folder.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;
using schedulers::Sampler;
using schedulers::ScheduleConfig;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr const char* kUniPc3 = R"({"_class_name": "UniPCMultistepScheduler", "flow_shift": 3.0})";
constexpr const char* kUniPc12 = R"({"_class_name": "UniPCMultistepScheduler", "flow_shift": 12})";
constexpr const char* kEuler4 = R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 4})";

class RunOfAPipeline : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((scratch_ / file).parent_path());
    io::write_file(scratch_ / file, text);
  }
  /// A pipeline with empty transformer folders.
  void pipeline(const std::string& scheduler, bool experts = false) {
    const std::string part = R"(["diffusers", "WanTransformer3DModel"])";
    write("wan/model_index.json",
          R"({"_class_name": "WanPipeline", "transformer": )" + part +
              (experts ? R"(, "boundary_ratio": 0.875, "transformer_2": )" + part : "") +
              R"(, "scheduler": ["diffusers", ")" +
              io::Json::parse(scheduler, "scheduler").at("_class_name").as_string() + "\"]}");
    write("wan/scheduler/scheduler_config.json", scheduler);
    fs::create_directories(scratch_ / "wan/transformer");
    fs::create_directories(scratch_ / "wan/transformer_2");
  }
  /// A minimal checkpoint: only its metadata.
  void checkpoint(const std::string& run, const std::string& scheduler = "",
                  const std::string& expert = "none") {
    checkpoints::CheckpointFolder(scratch_ / "out" / run / "checkpoints")
        .write(3, [&](const fs::path& at) {
          io::write_file(at / "train_state.json",
                         R"({"format": 1, "step": 3, "updates": 3, "data_position": 0, "seed": 0,
                         "identity": {"model_type": "T2V", "train_expert": ")" +
                             expert + "\"}}");
          if (!scheduler.empty()) {
            fs::create_directories((at / sample::kSchedulerConfig).parent_path());
            io::write_file(at / sample::kSchedulerConfig, scheduler);
          }
        });
  }
  config::Loaded load(std::vector<std::string> more) const {
    more.insert(more.begin(), {"output_dir=" + (scratch_ / "out").string(),
                               "pretrained_model_name_or_path=" + (scratch_ / "wan").string()});
    return config::load_defaults(more);
  }
  static networks::Network wan() { return networks::from_config(networks::default_config()); }
  static ScheduleConfig schedule(const config::Loaded& loaded) {
    return *make_request(loaded, model_source::find_model(loaded, {}), wan()).schedule;
  }

  io::Scratch scratch_;
};

TEST_F(RunOfAPipeline, IsSampledAsThePipelineSays) {
  for (const auto& [scheduler, sampler, shift] :
       {std::tuple{kUniPc3, Sampler::UNIPC, 3.0}, {kEuler4, Sampler::FLOW_MATCH_EULER, 4.0}}) {
    pipeline(scheduler);
    const std::string run = sampler == Sampler::UNIPC ? "unipc" : "euler";
    checkpoint(run);
    const config::Loaded loaded = load({"run_name=" + run});

    EXPECT_EQ(schedule(loaded), (ScheduleConfig{.sampler = sampler, .shift = shift}));

    // Also from the resolved configuration, and for videos during training.
    write("config.yml", config::to_yaml(loaded));
    const config::Loaded again = config::load(scratch_ / "config.yml");
    EXPECT_EQ(again.config, loaded.config);
    EXPECT_EQ(schedule(again), schedule(loaded));
    const model_source::SelectedModel trained = model_source::model_of_checkpoint(
        again.config, scratch_ / "out" / run,
        {.folder = scratch_ / "out" / run / "checkpoints/4", .model_type = config::ModelType::T2V});
    EXPECT_EQ(*make_request(again, trained, wan()).schedule, schedule(loaded));
  }
}

TEST_F(RunOfAPipeline, OfTwoExpertsIsSampledAsThePipelineSays) {
  pipeline(kUniPc12, true);
  checkpoint("low", "", "low_noise");

  EXPECT_EQ(schedule(load({"run_name=low"})).shift, 12);
}

TEST_F(RunOfAPipeline, IsSampledAsItsCheckpointSaysWithoutThePipeline) {
  checkpoint("tuned", kEuler4);

  EXPECT_EQ(schedule(load({"run_name=tuned"})),
            (ScheduleConfig{.sampler = Sampler::FLOW_MATCH_EULER, .shift = 4}));
}

TEST_F(RunOfAPipeline, IsSampledAsTheConfigurationSaysWhereThatWasGiven) {
  pipeline(kEuler4);
  checkpoint("tuned", kEuler4);
  const config::Loaded loaded = load({"run_name=tuned", "flow_shift=5", "scheduler=unipc"});

  EXPECT_EQ(schedule(loaded), (ScheduleConfig{.sampler = Sampler::UNIPC, .shift = 5}));
  write("config.yml", config::to_yaml(loaded));
  EXPECT_EQ(schedule(config::load(scratch_ / "config.yml")), schedule(loaded));
}

TEST_F(RunOfAPipeline, OfAnUnknownSchedulerIsSampledByTheOneThatIsNamed) {
  pipeline(R"({"_class_name": "FlowMatchLCMScheduler", "shift": 6})");

  EXPECT_THAT([&] { schedule(load({})); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`FlowMatchLCMScheduler`"),
                                         HasSubstr("scheduler=euler or unipc"))));
  EXPECT_EQ(schedule(load({"scheduler=euler"})),
            (ScheduleConfig{.sampler = Sampler::FLOW_MATCH_EULER, .shift = 6}));
}

// As in generate and train: the network is sampled as it was trained.
TEST_F(RunOfAPipeline, IsSampledAsTheCheckpointThatIsNamedAsItsNetworkSays) {
  pipeline(kUniPc3);
  checkpoint("tuned", kEuler4);
  const fs::path at = scratch_ / "out/tuned/checkpoints/3";
  fs::create_directories(at / "transformer");
  write("out/tuned/checkpoints/3/transformer/config.json", networks::default_config().dump());

  EXPECT_EQ(schedule(load({"wan_transformer_pretrained_model_name_or_path=" + at.string()})),
            (ScheduleConfig{.sampler = Sampler::FLOW_MATCH_EULER, .shift = 4}));
}

TEST_F(RunOfAPipeline, PutsSamplesOfAPretrainedModelWhereItsNameIs) {
  pipeline(kUniPc3);
  write("other/transformer/config.json", networks::default_config().dump());
  write("hub/models--Wan-AI--Wan2.1/snapshots/0a/transformer/config.json",
        networks::default_config().dump());
  const auto output = [&](const std::string& key, const std::string& model) {
    return model_source::find_model(load({key + "=" + (scratch_ / model).string()}), {})
        .output.lexically_relative(scratch_.path())
        .string();
  };
  const std::string whole = "pretrained_model_name_or_path";
  const std::string network = "wan_transformer_pretrained_model_name_or_path";
  EXPECT_EQ(output(whole, "wan"), "out/samples/wan");
  EXPECT_EQ(output(whole, "wan/"), "out/samples/wan");
  // The folder is not named after the pipeline, whose network is not sampled.
  EXPECT_EQ(output(network, "other"), "out/samples/other");
  EXPECT_EQ(output(network, "hub/models--Wan-AI--Wan2.1/snapshots/0a"), "out/samples/Wan2.1");
  checkpoint("tuned", kEuler4);
  write("out/tuned/checkpoints/3/transformer/config.json", networks::default_config().dump());
  EXPECT_EQ(output(network, "out/tuned/checkpoints/3"), "out/samples/tuned_3");
}

TEST_F(RunOfAPipeline, SaysThatSyntaxOfPromptsIsTakenAsLetters) {
  EXPECT_THAT(prompt_notices(load({"prompt=a red (ball)"})), IsEmpty());
  const std::vector<std::string> words{"prompt=(a ball:1.3) BREAK",
                                       "negative_prompt=embedding:bad.pt"};
  EXPECT_THAT(prompt_notices(load(words)),
              testing::ElementsAre(
                  AllOf(HasSubstr("`embedding:bad.pt`"), HasSubstr("embeddings_folder=FOLDER")),
                  AllOf(HasSubstr("`(a ball:1.3)`, `BREAK` in prompts are used as plain text"),
                        HasSubstr("prompt_syntax=a1111"))));
  const auto with_folder = [&](const std::string& syntax) {
    std::vector<std::string> all = words;
    all.insert(all.end(),
               {"embeddings_folder=" + (scratch_ / "words").string(), "prompt_syntax=" + syntax});
    return prompt_notices(load(all));
  };
  write("words/other.pt", "");
  EXPECT_THAT(with_folder("a1111"), testing::ElementsAre(HasSubstr("words has no such file")));
  write("words/deep/BAD.pt", "");
  EXPECT_THAT(with_folder("a1111"), IsEmpty());
  EXPECT_THAT(prompt_notices(load({"prompt=a AND b", "prompt_syntax=a1111"})),
              testing::ElementsAre(HasSubstr("`AND`")));
}

TEST_F(RunOfAPipeline, BeginsWithAPictureAndNoVideo) {
  pipeline(kUniPc3);
  for (const std::string key : {"image_url", "last_image_url"}) {
    const config::Loaded loaded = load({key + "=my clips/a.mp4"});
    EXPECT_THAT(
        [&] { schedule(loaded); },
        ThrowsMessage<Error>(HasSubstr(key + " is the video my clips/a.mp4, expected a picture")));
  }
}

TEST_F(RunOfAPipeline, FromScratchIsSampledAsTheConfigurationSays) {
  checkpoint("own");

  EXPECT_EQ(schedule(load({"run_name=own", "pretrained_model_name_or_path="})),
            (ScheduleConfig{.sampler = Sampler::UNIPC, .shift = 5}));
}

TEST_F(RunOfAPipeline, ThatIsNotThereIsNoOtherModel) {
  pipeline(kUniPc3);
  checkpoint("kites");
  checkpoint("team/boats");
  const auto said = [&](const std::string& run) {
    return model_source::check_run(load({"run_name=" + run}).config);
  };

  EXPECT_THAT(said("kites"), IsEmpty());
  EXPECT_THAT(said("team/boats"), IsEmpty());
  EXPECT_THAT(said(""), IsEmpty());
  EXPECT_THAT([&] { said("kitse"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no run `kitse`"), HasSubstr("`kites`"))));
  EXPECT_THAT([&] { said("team/boat"); }, ThrowsMessage<Error>(HasSubstr("`team/boats`")));
  EXPECT_THAT([&] { said("team/boat"); },
              ThrowsMessage<Error>(HasSubstr("`run_name=` without a name takes")));
  const std::string run = (scratch_ / "out/kites").string();
  EXPECT_THAT(
      [&] {
        model_source::check_run(
            load({"run_name=kitse", "pretrained_model_name_or_path=" + run}).config);
      },
      ThrowsMessage<Error>(HasSubstr(run + "/config.yml as the configuration takes that run")));
  write("out/begun/config.yml", "seed: 0\n");
  EXPECT_THAT([&] { said("begun"); }, ThrowsMessage<Error>(HasSubstr("contains no checkpoint")));
}

// As in MaxDiffusion, where run_name names the folder of the videos.
TEST_F(RunOfAPipeline, MayBeANameForVideosWhereThereAreNoRuns) {
  pipeline(kUniPc3);
  const config::Loaded loaded = load({"run_name=wan-inference"});

  const std::vector<std::string> said = model_source::check_run(loaded.config);

  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], HasSubstr("there are no runs in"));
  EXPECT_EQ(model_source::find_model(loaded, {}).output,
            scratch_ / "out/wan-inference/samples/pretrained");
  EXPECT_THAT(
      [&] {
        model_source::check_run(load({"run_name=x", "pretrained_model_name_or_path="}).config);
      },
      ThrowsMessage<Error>(HasSubstr("train first")));
}

}  // namespace
}  // namespace kinema::resolve
