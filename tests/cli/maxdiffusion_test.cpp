// The commands for Wan in MaxDiffusion's README (commit 7cfb8801) with their arguments, on tiny
// models over CPU devices. Arguments for the machine and for sizes are appended.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "arrays.h"
#include "cli/run_kinema.h"
#include "kinema/io/safetensors.h"

namespace kinema::cli_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

using Words = std::vector<std::string>;

/// The keys of MaxDiffusion's Wan configurations that these commands use, with its values.
constexpr const char* kBase = R"(
attention: 'flash'
flash_min_seq_length: 4096
attention_sharding_uniform: True
mask_padding_tokens: True
ulysses_shards: -1
ulysses_attention_chunks: 1
flash_block_sizes: {"block_q": 512, "block_kv_compute": 512, "block_kv": 512, "block_q_dkv": 512,
  "block_kv_dkv": 512, "block_kv_dkv_compute": 512, "block_q_dq": 512, "block_kv_dq": 512,
  "use_fused_bwd_kernel": False}
hardware: 'tpu'
skip_jax_distributed_system: False
mesh_axes: ['data', 'fsdp', 'context', 'tensor']
logical_axis_rules: [
  ['batch', ['data', 'fsdp']],
  ['activation_batch', ['data', 'fsdp']],
  ['activation_self_attn_heads', ['context', 'tensor']],
  ['activation_cross_attn_q_length', ['context', 'tensor']],
  ['activation_length', 'context'],
  ['activation_heads', 'tensor'],
  ['mlp', 'tensor'],
  ['embed', ['context', 'fsdp']],
  ['heads', 'tensor'],
  ['norm', 'tensor'],
  ['conv_batch', ['data', 'context', 'fsdp']],
  ['out_channels', 'tensor'],
  ['conv_out', 'context'],
]
data_sharding: [['data', 'fsdp', 'context', 'tensor']]
dcn_data_parallelism: 1
dcn_fsdp_parallelism: 1
dcn_context_parallelism: -1
dcn_tensor_parallelism: 1
ici_data_parallelism: 1
ici_fsdp_parallelism: 1
ici_context_parallelism: -1
ici_tensor_parallelism: 1
allow_split_physical_axes: False
weights_dtype: 'bfloat16'
activations_dtype: 'bfloat16'
text_encoder_dtype: 'float32'
scan_layers: True
dataset_type: 'tfrecord'
cache_latents_text_encoder_outputs: True
remat_policy: "NONE"
checkpoint_every: -1
save_final_checkpoint: False
enable_data_shuffling: True
learning_rate: 1.e-5
per_device_batch_size: 1.0
global_batch_size: 0
do_classifier_free_guidance: True
height: 720
width: 1280
num_frames: 81
guidance_scale: 5.0
flow_shift: 5.0
num_inference_steps: 50
fps: 16
prompt: "A cat and a dog baking a cake together in a kitchen."
)";

/// The common arguments of the README's training commands, in its order.
Words training() {
  return {"attention=flash",
          "weights_dtype=bfloat16",
          "activations_dtype=bfloat16",
          "guidance_scale=5.0",
          "flow_shift=5.0",
          "fps=16",
          "skip_jax_distributed_system=False",
          "run_name=jfacevedo-wan-v5p-8-17263",
          "output_dir=gs://bucket/wan/",
          "train_data_dir=gs://bucket/wan_tfr_dataset_pusa_v1/train/",
          "load_tfrecord_cached=True",
          "height=1280",
          "width=720",
          "num_frames=81",
          "num_inference_steps=50",
          "jax_cache_dir=gs://bucket/wan/jax_cache/",
          "enable_profiler=True",
          "dataset_save_location=gs://bucket/wan_tfr_dataset_pusa_v1/save/",
          "remat_policy=HIDDEN_STATE_WITH_OFFLOAD",
          "flash_min_seq_length=0",
          "seed=23170",
          "skip_first_n_steps_for_profiler=3",
          "profiler_steps=3",
          "per_device_batch_size=0.25"};
}

/// Its command for text to video, in which the key for the number of videos is misspelled.
Words inference(const std::string& per_device) {
  return {"attention=flash",
          "num_inference_steps=50",
          "num_frames=81",
          "width=1280",
          "height=720",
          "jax_cache_dir=gs://jfacevedo-maxdiffusion/jax_cache/",
          "per_device_batch_size=" + per_device,
          "ici_data_parallelism=2",
          "ici_context_parallelism=2",
          "flow_shift=5.0",
          "enable_profiler=True",
          "run_name=wan-inference-testing-720p",
          "output_dir=gs:/jfacevedo-maxdiffusion",
          "fps=16",
          "flash_min_seq_length=0",
          R"(flash_block_sizes={"block_q" : 3024, "block_kv_compute" : 1024, "block_kv" : 2048, )"
          R"("block_q_dkv": 3024, "block_kv_dkv" : 2048, "block_kv_dkv_compute" : 2048, )"
          R"("block_q_dq" : 3024, "block_kv_dq" : 2048 })",
          "seed=118445"};
}

class MaxDiffusion : public KinemaOnCpu {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    write("base_wan_14b.yml",
          std::string(kBase) + "model_name: wan2.1\nmodel_type: 'T2V'\n" + named("wan21_t2v"));
    write("base_wan_i2v_27b.yml",
          std::string(kBase) + "model_name: wan2.2\nmodel_type: 'I2V'\n" +
              "guidance_scale_low: 3.0\nguidance_scale_high: 4.0\nboundary_ratio: 0.900\n" +
              "image_url: " + golden_ + "/images/orientation_5.jpg\n" + named("wan22_i2v"));
  }
  std::string named(const std::string& pipeline) const {
    return "pretrained_model_name_or_path: '" + golden_ + "/" + pipeline + "'\n";
  }

  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome train(const Words& words, const Words& sizes) {
    const Words here = {"hardware=cpu", "output_dir=out", "dataset_save_location=saved",
                        "train_data_dir=" + golden_ + "/dataset/tfrecords/train"};
    return run(joined(joined(joined({"train", "base_wan_14b.yml"}, words), here), sizes));
  }
  Outcome generate(const std::string& configuration, const Words& words, const Words& sizes) {
    const Words here = {
        "hardware=cpu",          "width=32", "height=32", "num_frames=5", "num_inference_steps=2",
        "max_sequence_length=32"};
    return run(joined(joined(joined({"generate", configuration}, words), here), sizes));
  }
  std::vector<double> losses_of_run(const std::string& name) const {
    std::vector<double> out;
    for (const std::string& loss : losses(name)) {
      out.push_back(std::stod(loss));
    }
    return out;
  }

  std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
};

// v5p-8: one sample on four devices, with tokens sharded along fsdp.
TEST_F(MaxDiffusion, TrainingCommandOfItsReadmeTrains) {
  const Words layout = {"ici_data_parallelism=1", "ici_fsdp_parallelism=4",
                        "ici_tensor_parallelism=1"};
  const Words small = {"max_train_steps=6", "cpu_device_count=4"};
  const Outcome theirs = train(joined(joined(training(), {"max_train_steps=1000"}), layout), small);

  ASSERT_EQ(theirs.status, 0) << theirs.err;
  EXPECT_THAT(theirs.out,
              AllOf(HasSubstr("devices: 4, data=1 fsdp=4 context=1 tensor=1"),
                    HasSubstr("global batch: 1 sample (per_device_batch_size 0.25 on 4 devices), "
                              "tokens over fsdp=4, weights over fsdp=4; a batch of 1 does not "
                              "divide over fsdp=4, so fsdp splits its tokens"),
                    HasSubstr("completed step: 5,")));

  // The axis' current name trains the same run, bit for bit: the same shards on the same devices.
  const Outcome today = train(training(), joined(small, {"run_name=today"}));
  ASSERT_EQ(today.status, 0) << today.err;
  EXPECT_THAT(today.out, HasSubstr("data=1 fsdp=1 context=4 tensor=1"));
  EXPECT_EQ(losses("jfacevedo-wan-v5p-8-17263"), losses("today"));

  // Also one device, in the same bfloat16: sums that are rounded in another order.
  const Outcome one = train(training(), {"max_train_steps=6", "cpu_device_count=1",
                                         "per_device_batch_size=1", "run_name=one"});
  ASSERT_EQ(one.status, 0) << one.err;
  const std::vector<double> wanted = losses_of_run("one");
  const std::vector<double> found = losses_of_run("today");
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    // A value has a relative error of 2^-9; the loss is a mean of some thousand squares.
    EXPECT_NEAR(found[i], wanted[i], 0x1p-8 * wanted[i]) << i;
  }
}

// v5p-256, with fewer devices on data: the batch over data, tokens over fsdp.
TEST_F(MaxDiffusion, TrainingCommandOfItsReadmeForAPodTrains) {
  const Outcome pod = train(
      joined(training(), {"ici_data_parallelism=32", "ici_fsdp_parallelism=4",
                          "ici_tensor_parallelism=1", "max_train_steps=5000", "eval_every=100",
                          "eval_data_dir=gs://bucket/wan_tfr_dataset_pusa_v1/eval_timesteps/",
                          "enable_generate_video_for_eval=True"}),
      {"cpu_device_count=8", "ici_data_parallelism=2", "max_train_steps=6", "eval_every=6",
       "eval_data_dir=" + golden_ + "/dataset/tfrecords/eval", "height=32", "width=32",
       "num_frames=5", "num_inference_steps=2", "max_sequence_length=32"});

  ASSERT_EQ(pod.status, 0) << pod.err;
  EXPECT_THAT(pod.out, AllOf(HasSubstr("devices: 8, data=2 fsdp=4 context=1 tensor=1"),
                             HasSubstr("global batch: 2 samples (per_device_batch_size 0.25 on 8 "
                                       "devices) over data=2, tokens over fsdp=4"),
                             HasSubstr("mean eval loss for timestep")));
  EXPECT_TRUE(fs::exists(folder_ / "out/jfacevedo-wan-v5p-8-17263/samples/6"));
}

// With the qwix keys of its files, and the values of its tests.
TEST_F(MaxDiffusion, QuantizationKeysOfItsFilesTrainAndMakeVideos) {
  const Words calibrated = {"use_qwix_quantization=True",
                            "quantization=fp8_full",
                            "qwix_module_path=.*",
                            "weight_quantization_calibration_method=fixed,-224,224",
                            "act_quantization_calibration_method=fixed,-224,224",
                            "bwd_quantization_calibration_method=absmax",
                            "quantization_local_shard_count=-1"};
  const Words two = {"max_train_steps=2", "cpu_device_count=4", "flash_min_seq_length=4096",
                     "enable_profiler=False"};
  const Outcome full = train(joined(training(), calibrated), joined(two, {"run_name=full"}));
  ASSERT_EQ(full.status, 0) << full.err;
  std::map<std::string, std::vector<double>> found{{"fp8_full", losses_of_run("full")}};
  for (const std::string mode : {"int8", "fp8"}) {
    const Outcome outcome =
        train(joined(training(), {"use_qwix_quantization=True", "quantization=" + mode}),
              joined(two, {"run_name=" + mode}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    found[mode] = losses_of_run(mode);
  }
  const Outcome plain = train(training(), joined(two, {"run_name=plain"}));
  ASSERT_EQ(plain.status, 0) << plain.err;
  const std::vector<double> wanted = losses_of_run("plain");
  for (const auto& [mode, losses] : found) {
    SCOPED_TRACE(mode);
    ASSERT_EQ(losses.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      // Quantization changes predictions by 2 to 7 % of their size, independently of their error.
      EXPECT_NEAR(losses[i], wanted[i], 0.1 * wanted[i]) << i;
      EXPECT_NE(losses[i], wanted[i]) << i;
    }
  }
  const Outcome video =
      generate("base_wan_14b.yml", {"use_qwix_quantization=True", "quantization=int8"},
               {"cpu_device_count=2", "output_dir=videos"});
  ASSERT_EQ(video.status, 0) << video.err;
  generate("base_wan_14b.yml", {"use_qwix_quantization=True"}, {"output_dir=videos"})
      .expect_error("set quantization=int8, fp8 or fp8_full");
  generate("base_wan_14b.yml",
           {"use_qwix_quantization=True", "quantization=fp8", "qwix_module_path=blocks/attn/.*"},
           {"output_dir=videos"})
      .expect_error("the nearest is `blocks/attn");
}

TEST_F(MaxDiffusion, InferenceCommandOfItsReadmeMakesAVideo) {
  const Words four = {"cpu_device_count=4"};
  generate("base_wan_14b.yml", inference(".0.25"), four)
      .expect_error("per_device_batch_size is `.0.25`");

  const Outcome made = generate("base_wan_14b.yml", inference("0.25"), four);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("devices: 4, data=2 fsdp=1 context=2 tensor=1"),
                              HasSubstr("videos of each prompt: 1 (per_device_batch_size 0.25 on 4 "
                                        "devices)"),
                              HasSubstr("batch: 2 prompts and negative prompts over data=2, tokens "
                                        "over context=2, weights over context=2"),
                              HasSubstr("000_")));
  // Two videos, as its README says.
  const Outcome two = generate("base_wan_14b.yml", inference("0.5"), four);
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_THAT(two.out, AllOf(HasSubstr("batch: 4 prompts and negative prompts"), HasSubstr("000_"),
                             HasSubstr("001_")));
}

// The layout in its note on fsdp, for a video: equal to the axis' new name bit for bit, and close
// to one device.
TEST_F(MaxDiffusion, InferenceOverFsdpEqualsContextAndOneDevice) {
  const auto latents = [&](const std::string& name, const Words& words) {
    const Outcome outcome = generate(
        "base_wan_14b.yml", joined(words, {"weights_dtype=float32", "activations_dtype=float32"}),
        {"per_device_batch_size=0.25", "save_latents=" + name});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::SafetensorsFile::open(folder_ / name).at("latents").copy();
  };
  const HostArray fsdp =
      latents("fsdp.safetensors", {"cpu_device_count=4", "ici_fsdp_parallelism=4"});
  EXPECT_EQ(fsdp.bytes, latents("context.safetensors", {"cpu_device_count=4"}).bytes);

  const Outcome one = generate(
      "base_wan_14b.yml",
      {"weights_dtype=float32", "activations_dtype=float32", "save_latents=one.safetensors"}, {});
  ASSERT_EQ(one.status, 0) << one.err;
  // Another order of summation, over two steps: some roundings of values near 1.
  EXPECT_LT(largest_difference(
                fsdp, io::SafetensorsFile::open(folder_ / "one.safetensors").at("latents").copy()),
            1e-4);
}

TEST_F(MaxDiffusion, UlyssesCommandsOfItsReadmeMakeVideos) {
  const Words ulysses = {"attention=ulysses", "ici_context_parallelism=4"};
  for (const Words& more : {Words{}, Words{"ulysses_attention_chunks=2"}}) {
    const Outcome made = generate("base_wan_i2v_27b.yml", joined(ulysses, more),
                                  {"cpu_device_count=4", "flash_min_seq_length=0"});
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_THAT(made.out, AllOf(HasSubstr("context=4"), HasSubstr("tokens over context=4")));
  }
}

// No number of devices is valid: its mesh has four, with .125 each, which is half a video.
TEST_F(MaxDiffusion, LoraCommandOfItsReadmeIsAnsweredWithTheBatchThatWorks) {
  const Words words = {"jax_cache_dir=gs://jfacevedo-maxdiffusion/jax_cache/",
                       "per_device_batch_size=.125",
                       "ici_data_parallelism=2",
                       "ici_context_parallelism=2",
                       "run_name=wan-lora-inference-testing-720p",
                       "output_dir=gs:/jfacevedo-maxdiffusion",
                       "seed=118445"};
  const Outcome four = generate("base_wan_i2v_27b.yml", words, {"cpu_device_count=4"});
  EXPECT_EQ(four.status, 1);
  // The last line; notices about keys are before it.
  EXPECT_THAT(four.err, MatchesRegex("(kinema: .*\n)*"
                                     "kinema: .config. per_device_batch_size 0.125 on 4 devices is "
                                     "0.5 samples.*\n  set global_batch_size=1.*\n"));
  EXPECT_THAT(four.err, Not(HasSubstr("does not read")));
  const Outcome eight = generate("base_wan_i2v_27b.yml", words, {"cpu_device_count=8"});
  EXPECT_EQ(eight.status, 1);
  EXPECT_THAT(eight.err, HasSubstr("the number of devices is 8"));
}

}  // namespace
}  // namespace kinema::cli_test
