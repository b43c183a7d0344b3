// Log lines about given keys that have no effect or are not supported.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/core/error.h"

namespace kinema::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(Notices, AreOneLineForWhatHasNoMeaningAndOneForWhatIsNotBuilt) {
  const Loaded loaded = load_defaults(
      std::vector<std::string>{"run_name=a", "dataset_type=synthetic", "enable_mllog=True",
                               "hf_access_token=x", "scan_diffusion_loop=true"});

  EXPECT_THAT(notices(loaded, "train"), ElementsAre(HasSubstr("enable_mllog, hf_access_token"),
                                                    HasSubstr("scan_diffusion_loop")));
  // The mesh is for training and generating.
  const Loaded split = load_defaults(
      std::vector<std::string>{"ici_fsdp_parallelism=4", "train_data_dir=a", "tfrecords_dir=b"});
  EXPECT_THAT(notices(split, "prepare"), ElementsAre(HasSubstr("ici_fsdp_parallelism")));
}

TEST(Notices, AreSilentForDefaults) {
  EXPECT_THAT(notices(load_defaults(), "generate"), IsEmpty());
}

TEST(Notices, RefuseAScheduleThatFallsBeforeItReachesItsPeak) {
  const auto with = [](std::vector<std::string> words) {
    words.insert(words.end(), {"run_name=a", "dataset_type=synthetic"});
    return notices(load_defaults(words), "train");
  };
  EXPECT_THAT(
      [&] {
        with({"warmup_steps_fraction=0.6", "lr_decay_fraction=0.6"});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("overlap"), HasSubstr("lr_decay_fraction=0.4"),
                                 HasSubstr("warmup_steps_fraction=0.4"))));
  // 0.1 is the fraction of lr_schedule.
  EXPECT_THAT(
      [&] {
        with({"warmup_steps_fraction=0.95", "lr_schedule=wsd"});
      },
      ThrowsMessage<Error>(HasSubstr("overlap")));
  for (const char* meets : {"0.1", "0.3", "0.7", "0.9"}) {
    EXPECT_THAT(with({std::string("warmup_steps_fraction=") + meets,
                      fmt::format("lr_decay_fraction={}", 1 - std::stod(meets))}),
                IsEmpty());
  }
  EXPECT_THAT(with({"warmup_steps_fraction=1", "lr_schedule=cosine"}), IsEmpty());
  EXPECT_THAT(with({"warmup_steps_fraction=1"}), IsEmpty());
}

TEST(Notices, NameKeysWithoutEffect) {
  const auto said = [](std::vector<std::string> words) {
    words.insert(words.end(), {"run_name=a", "dataset_type=synthetic"});
    return notices(load_defaults(words), "train");
  };
  EXPECT_THAT(said({"num_layers=7", "ffn_dim=64", "pretrained_model_name_or_path=folder"}),
              ElementsAre(AllOf(HasSubstr("no effect"),
                                HasSubstr("num_layers (set with pretrained_model_name_or_path)"),
                                HasSubstr("ffn_dim"))));
  EXPECT_THAT(said({"num_layers=7", "pretrained_model_name_or_path="}), IsEmpty());
  EXPECT_THAT(said({"profiler_steps=3"}),
              ElementsAre(HasSubstr("profiler_steps (without enable_profiler)")));
  EXPECT_THAT(said({"profiler_steps=3", "enable_profiler=true"}), IsEmpty());
  EXPECT_THAT(said({"num_inference_steps=3"}),
              ElementsAre(HasSubstr("num_inference_steps (nothing is generated)")));
  EXPECT_THAT(said({"num_inference_steps=3", "enable_ssim=true"}), IsEmpty());
  EXPECT_THAT(said({"height=32"}), IsEmpty()) << "training reads it";
  EXPECT_THAT(said({"logit_mean=1"}),
              ElementsAre(HasSubstr("logit_mean (read by weighting_scheme=logit_normal alone)")));
  EXPECT_THAT(said({"logit_mean=1", "weighting_scheme=logit_normal"}), IsEmpty());
  EXPECT_THAT(said({"first_frame_conditioning_p=1"}),
              ElementsAre(HasSubstr("(read by model_type=TI2V alone)")));
  EXPECT_THAT(said({"first_frame_conditioning_p=1", "model_type=TI2V"}), IsEmpty());
  EXPECT_THAT(said({"enable_lora=true", "lokr_factor=8"}),
              ElementsAre(HasSubstr("lokr_factor (read by adapter_type=lokr alone)")));
  EXPECT_THAT(said({"enable_lora=true", "adapter_type=lokr", "lokr_factor=8"}), IsEmpty());
}

// Data sets in a file or a list may have rules of their own, for which these are the defaults.
TEST(Notices, NameKeysOfDataWithoutEffect) {
  const auto said = [](std::vector<std::string> words) {
    words.insert(words.end(), {"run_name=a", "dataset_type=images"});
    return notices(load_defaults(words), "train");
  };
  for (const auto& [key, other, why] :
       {std::tuple("bucket_area=4096", "buckets=auto", "bucket_area (read by buckets=auto alone)"),
        std::tuple("prior_loss_weight=0.5", "reg_data_dir=reg",
                   "prior_loss_weight (without reg_data_dir)"),
        std::tuple("caption_keep_tags=1", "caption_shuffle_tags=true",
                   "caption_keep_tags (without caption_shuffle_tags")}) {
    EXPECT_THAT(said({"train_data_dir=photos", key}), ElementsAre(HasSubstr(why)));
    EXPECT_THAT(said({"train_data_dir=photos", key, other}), IsEmpty());
    EXPECT_THAT(said({"train_data_dir=photos.toml", key}), IsEmpty());
  }
}

TEST(Notices, NameKeysOfQuantizationThatItsModeDoesNotRead) {
  const auto said = [](std::vector<std::string> words, const char* command) {
    words.insert(words.end(), {"run_name=a", "dataset_type=synthetic"});
    return notices(load_defaults(words), command);
  };
  EXPECT_THAT(said({"quantization=int8"}, "train"),
              ElementsAre(HasSubstr("quantization (without use_qwix_quantization)")));
  const std::string on = "use_qwix_quantization=true";
  EXPECT_THAT(said({on, "quantization=int8"}, "train"), IsEmpty());
  const std::string fixed = "act_quantization_calibration_method=fixed,-224,224";
  EXPECT_THAT(said({on, "quantization=int8", fixed}, "train"),
              ElementsAre(HasSubstr("act_quantization_calibration_method (read by "
                                    "quantization=fp8_full alone)")));
  EXPECT_THAT(said({on, "quantization=fp8_full", fixed}, "train"), IsEmpty());
  const std::string original = "qwix_use_original_residuals=true";
  EXPECT_THAT(said({on, "quantization=fp8", original}, "train"), IsEmpty());
  EXPECT_THAT(said({on, "quantization=fp8_full", original}, "train"),
              ElementsAre(HasSubstr("fp8_full multiplies codes")));
  EXPECT_THAT(said({on, "quantization=fp8", original}, "generate"),
              ElementsAre(HasSubstr("nothing is differentiated")));
}

TEST(Notices, WarnAboutHeldOutSamplesWithoutEvaluation) {
  const auto said = [](std::vector<std::string> words) {
    words.insert(words.end(), {"run_name=a", "train_data_dir=b", "eval_split=0.1"});
    return notices(load_defaults(words), "train");
  };
  EXPECT_THAT(
      said({}),
      ElementsAre(
          AllOf(HasSubstr("eval_split 0.1 (command line) holds out samples, but eval_every is -1"),
                HasSubstr("`kinema evaluate`"))));
  EXPECT_THAT(said({"eval_every=5"}), IsEmpty());
}

TEST(Notices, NameFoldersThatLookLikeBuckets) {
  const auto said = [](const std::string& word) {
    return notices(load_defaults(std::vector<std::string>{word}), "generate");
  };
  EXPECT_THAT(said("output_dir=gs:/bucket/x"),
              ElementsAre(AllOf(HasSubstr("output_dir \"gs:/bucket/x\""), HasSubstr("gs://"))));
  EXPECT_THAT(said("output_dir=gs://bucket/x"), IsEmpty());
}

TEST(Notices, SayWhatGenerateDoesNotReadOfTraining) {
  const Loaded given =
      load_defaults(std::vector<std::string>{"per_device_batch_size=0.5", "enable_profiler=True"});
  EXPECT_THAT(notices(given, "generate"), ElementsAre(HasSubstr("enable_profiler")))
      << "per_device_batch_size is used: it is the number of videos of a prompt";
}

TEST(Notices, NameSizesThatAPretrainedModelHasItself) {
  const Loaded given = load_defaults(std::vector<std::string>{"num_layers=7"});
  EXPECT_THAT(notices(given, "generate"),
              ElementsAre(HasSubstr("num_layers (set with pretrained_model_name_or_path)")));
}

TEST(Notices, RefuseUnsupportedKeysThatChangeTheResult) {
  const Loaded loaded = load_defaults(
      std::vector<std::string>{"run_name=a", "enable_lora=True", "pretrained_model_name_or_path="});
  EXPECT_THAT([&] { notices(loaded, "train"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("enable_lora"), HasSubstr("command line"))));
}

TEST(Notices, RefuseToTrainStoredCodes) {
  const Loaded loaded =
      load_defaults(std::vector<std::string>{"run_name=a", "weights_storage=int8"});
  EXPECT_THAT([&] { notices(loaded, "train"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("weights_storage is `int8` (command line)"),
                                         HasSubstr("set weights_storage=weights_dtype"))));
  EXPECT_THAT(notices(loaded, "generate"), IsEmpty());
}

TEST(Notices, RefuseAWholeTrainingOfWeightsThatWait) {
  const Loaded loaded =
      load_defaults(std::vector<std::string>{"run_name=a", "weights_memory=host"});
  EXPECT_THAT([&] { notices(loaded, "train"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("weights_memory is `host` (command line)"),
                                         HasSubstr("optimizer_memory=host"))));
  EXPECT_THAT(notices(loaded, "generate"), IsEmpty());
}

TEST(Notices, RefuseATrainingWithoutANameOrKnownData) {
  EXPECT_THAT([] { notices(load_defaults(), "train"); },
              ThrowsMessage<Error>(HasSubstr("run_name")));
  EXPECT_THAT(
      [] {
        notices(load_defaults(std::vector<std::string>{"tfrecords_dir=b", "dataset_type=hf",
                                                       "dataset_name="}),
                "prepare");
      },
      ThrowsMessage<Error>(HasSubstr("train_data_dir is empty")));
  EXPECT_THAT(
      [] {
        notices(load_defaults(std::vector<std::string>{"run_name=a", "model_type=ANIMATE"}),
                "train");
      },
      ThrowsMessage<Error>(HasSubstr("is sampled, not trained")));
}

}  // namespace
}  // namespace kinema::config
