#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/safetensors.h"
#include "kinema/networks/open.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/training_step.h"
#include "kinema/stores/local_copies.h"

namespace kinema::resolve {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(AttentionOptions, FollowTheConfiguration) {
  config::Config config;
  config.model.attention = "ulysses_ring_custom";
  config.model.flash_min_seq_length = 77;
  config.model.mask_padding_tokens = false;
  config.model.split_head_dim = false;
  config.model.ulysses_shards = 4;
  config.model.ulysses_attention_chunks = 3;
  config.model.flash_block_sizes.value.json =
      R"({"block_q": 1024, "block_kv_dkv": 256, "block_q_dq": null, "heads_per_tile": 1,
          "use_fused_bwd_kernel": true})";

  config.model.riflex_frequency = 6;
  EXPECT_EQ(model_source::model_options(config).riflex_frequency, 6);

  const nn::AttentionOptions options = model_source::model_options(config).attention;

  EXPECT_EQ(options.kind, nn::AttentionKind::ULYSSES_RING);
  EXPECT_EQ(options.min_length, 77);
  EXPECT_FALSE(options.mask_padding);
  EXPECT_FALSE(options.split_heads);
  EXPECT_EQ(options.ulysses_shards, 4);
  EXPECT_EQ(options.ulysses_chunks, 3);
  EXPECT_EQ(options.blocks,
            (kernels::FlashBlockSizes{
                .block_q = 1024, .block_kv_dkv = 256, .use_fused_bwd_kernel = true}));
}

TEST(AttentionKernel, OfGpusReachesProgramsUnderItsName) {
  config::Config config;
  EXPECT_EQ(program_options(config).gpu_attention, kernels::GpuAttention{});
  for (const auto asked :
       {config::GpuAttentionKernel::AUTO, config::GpuAttentionKernel::CUDNN,
        config::GpuAttentionKernel::CUDNN_FP8, config::GpuAttentionKernel::TRITON,
        config::GpuAttentionKernel::BLOCKWISE}) {
    config.model.attention_gpu_kernel = asked;
    const kernels::GpuAttention given = program_options(config).gpu_attention;
    EXPECT_EQ(kernels::word_of(given.kernel), config::word_of(asked));
    EXPECT_TRUE(given.must);
  }
}

TEST(QuantizationOptions, FollowTheConfiguration) {
  config::Config config;
  EXPECT_EQ(model_source::model_options(config).quantization, nn::Quantization{});
  config.model.quantization = "fp8";
  EXPECT_EQ(model_source::model_options(config).quantization, nn::Quantization{})
      << "it is not switched on";
  config.model.use_qwix_quantization = true;
  config.model.qwix_module_path = "blocks/.*";
  config.model.weight_quantization_calibration_method = "fixed,-224,224";
  config.model.act_quantization_calibration_method = "rms,3";
  EXPECT_EQ(model_source::model_options(config).quantization,
            (nn::Quantization{.mode = nn::Quantization::Mode::FP8, .module_path = "blocks/.*"}))
      << "int8 and fp8 do not read the calibrations";
  config.model.quantization = "fp8_full";
  config.model.qwix_use_original_residuals = true;
  const nn::Quantization full = model_source::model_options(config).quantization;
  EXPECT_EQ(full.mode, nn::Quantization::Mode::FP8_FULL);
  EXPECT_EQ(full.weight, nn::calibration("fixed,224"));
  EXPECT_EQ(full.activation, nn::calibration("rms,3"));
  EXPECT_EQ(full.gradient, nn::calibration("absmax"));
  EXPECT_TRUE(full.original_residuals);
}

TEST(WeightsStorage, IsWhatItsWordSays) {
  config::Config config;
  EXPECT_EQ(model_source::model_options(config).weights_storage, std::nullopt);
  config.model.weights_storage = config::WeightsStorage::INT8;
  EXPECT_EQ(model_source::model_options(config).weights_storage, DType::S8);
  config.model.weights_storage = config::WeightsStorage::FLOAT8_E4M3FN;
  EXPECT_EQ(model_source::model_options(config).weights_storage, DType::F8E4M3FN);
}

TEST(WeightsMemory, IsWhatItsWordSaysWhereALoopFetchesLayers) {
  config::Config config;
  EXPECT_EQ(model_source::model_options(config).weights_memory, Memory::DEVICE);
  config.model.weights_memory = config::WeightsMemory::HOST;
  EXPECT_EQ(model_source::model_options(config).weights_memory, Memory::HOST);
  config.model.weights_memory = config::WeightsMemory::STREAMED;
  EXPECT_EQ(model_source::model_options(config).weights_memory, Memory::STREAMED);

  config.runtime.jit = false;
  EXPECT_THAT([&] { model_source::model_options(config); },
              ThrowsMessage<Error>(AllOf(HasSubstr("weights_memory is `streamed`"),
                                         HasSubstr("jit is false"), HasSubstr("jit=true"))));
  config.model.scan_layers = false;
  EXPECT_THAT([&] { model_source::model_options(config); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("scan_layers is false"), HasSubstr("weights_memory=device"))));
}

TEST(OptimizerMemory, IsThatOfTheStep) {
  const networks::Network network = networks::from_config(networks::default_config());
  config::Config config;
  EXPECT_EQ(step_options(config, network, {}).optimizer_memory, Memory::DEVICE);
  config.optimizer.optimizer_memory = config::OptimizerMemory::HOST;
  EXPECT_EQ(step_options(config, network, {}).optimizer_memory, Memory::HOST);
  EXPECT_EQ(training::make_optimizer(step_options(config, network, {}))->memory(), Memory::HOST);
  config.runtime.jit = false;
  EXPECT_THAT([&] { step_options(config, network, {}); },
              ThrowsMessage<Error>(HasSubstr("optimizer_memory=device")));
}

TEST(QuantizationOptions, NameTheKeyThatCannotBeUsed) {
  config::Loaded loaded;
  config::ModelConfig& keys = loaded.config.model;
  keys.use_qwix_quantization = true;
  EXPECT_THAT([&] { check_values(loaded); }, ThrowsMessage<Error>(HasSubstr("quantization=int8")));
  keys.quantization = "fp8_full";
  keys.bwd_quantization_calibration_method = "minmax";
  EXPECT_THAT([&] { check_values(loaded); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("bwd_quantization_calibration_method"),
                                                  HasSubstr("zero points"))));
  keys.bwd_quantization_calibration_method = "absmax";
  keys.qwix_module_path = "blocks/(";
  EXPECT_THAT([&] { check_values(loaded); },
              ThrowsMessage<Error>(HasSubstr("qwix_module_path: [pattern] `blocks/(`")));
}

TEST(AttentionOptions, DefaultsAreTheOnesOfTheFields) {
  EXPECT_EQ(model_source::model_options({}).attention.blocks, kernels::FlashBlockSizes{});
}

TEST(AttentionOptions, RefuseUnknownBlockSizes) {
  config::Config config;
  config.model.flash_block_sizes.value.json = R"({"block_k": 512})";
  EXPECT_THAT([&] { model_source::model_options(config); },
              ThrowsMessage<Error>(HasSubstr("flash_block_sizes has no `block_k`")));
  config.model.flash_block_sizes.value.json = R"({"block_q": "512"})";
  EXPECT_THAT([&] { model_source::model_options(config); },
              ThrowsMessage<Error>(HasSubstr("must be an integer")));
}

TEST(Values, ThatAreTreesAreReadByTheConfigCommandToo) {
  for (const auto& [word, said] :
       {std::pair{"flash_block_sizes=3", "flash_block_sizes is the integer 3"},
        std::pair{"flash_block_sizes={block_q: -1}", "block_q is -1"},
        std::pair{"logical_axis_rules=5", "logical_axis_rules is the integer 5"},
        std::pair{"vae_logical_axis_rules=[[a]]", "vae_logical_axis_rules"},
        std::pair{"data_sharding=5", "data_sharding is 5"}, std::pair{"xla_flags=5", "xla_flags"},
        std::pair{"allow_flags=[x]", "no rule `x`"}}) {
    SCOPED_TRACE(word);
    const config::Loaded loaded = config::load_defaults(std::vector<std::string>{word});
    EXPECT_THAT([&] { check_values(loaded); }, ThrowsMessage<Error>(HasSubstr(said)));
  }
  const std::vector<std::string> lora{"enable_lora=true", "lora_config=3"};
  EXPECT_THAT([&] { check_values(config::load_defaults(lora)); },
              ThrowsMessage<Error>(HasSubstr("lora_config is the integer 3")));
  EXPECT_NO_THROW(check_values(config::load_defaults({})));
}

class NamedModel : public testing::Test {
 protected:
  /// The error for a folder that is named as the model.
  std::string said(const std::string& folder) {
    config::Config config;
    config.model.pretrained_model_name_or_path = (scratch_ / folder).string();
    try {
      model_source::pretrained_transformer(config);
      model_source::vae_folder(config);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void write(const std::string& file) {
    std::filesystem::create_directories((scratch_ / file).parent_path());
    io::write_file(scratch_ / file, "{}");
  }
  io::Scratch scratch_;
};

TEST_F(NamedModel, ThatIsInvalidIsDescribed) {
  write("clips/a.MP4");
  write("run/config.yml");
  write("run/checkpoints/5/train_state.json");
  write("run/checkpoints/5/transformer/config.json");
  write("papers/a.pdf");
  write("alone/model.safetensors");

  EXPECT_THAT(said("clips"), HasSubstr("a folder of clips, not a model"));
  EXPECT_THAT(said("clips"), HasSubstr("train_data_dir="));
  EXPECT_THAT(said("run"), HasSubstr("the folder of a training run"));
  EXPECT_THAT(said("run/checkpoints/5"), HasSubstr("a run's checkpoint"));
  EXPECT_THAT(said("run/checkpoints/5"),
              HasSubstr("run/config.yml generate_checkpoint_step=5 samples it"));
  write("moved/train_state.json");
  write("moved/transformer/config.json");
  EXPECT_THAT(said("moved"), AllOf(HasSubstr("wan_transformer_pretrained_model_name_or_path="),
                                   HasSubstr("for a run from scratch")));
  EXPECT_THAT(said("papers"), HasSubstr("is not a model"));
  EXPECT_THAT(
      said("alone"),
      AllOf(HasSubstr("there is no VAE"),
            HasSubstr(
                "\n  wan_vae_pretrained_model_name_or_path=FOLDER or vae_file=FILE uses another")));
  EXPECT_THAT(said("alone/model.safetensors"), HasSubstr("too short for a safetensors file"));
  const HostArray a(Shape{DType::F32, {2}});
  const std::vector<io::TensorEntry> one{io::TensorEntry::of("a", a)};
  io::write_safetensors(scratch_ / "alone/model.safetensors", one);
  EXPECT_THAT(said("alone/model.safetensors"), HasSubstr("is not a known pipeline"));
}

// `adapters/mine` could also be an id of the hub.
TEST_F(NamedModel, InALocalFolderIsNotRequestedFromTheHub) {
  write("adapters/style/adapter_config.json");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch_.path());
  EXPECT_EQ(stores::local_model("adapters/stile", "", {}), "adapters/stile");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace kinema::resolve
