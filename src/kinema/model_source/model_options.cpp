#include "kinema/model_source/model_options.h"

#include <map>

#include "kinema/config/buckets.h"
#include "kinema/config/lora.h"
#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/io/json.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/mesh/batch.h"
#include "kinema/mesh/rules.h"
#include "kinema/model_source/quantization.h"

namespace kinema::model_source {
namespace {

kernels::FlashBlockSizes block_sizes(const config::Given<config::Tree>& given) {
  const io::Json tree = io::Json::parse(given.value.json, "flash_block_sizes");
  kernels::FlashBlockSizes sizes;
  if (tree.is_null()) {
    return sizes;
  }
  sizes.asked = given.given;
  check(tree.is_object(), "[config] flash_block_sizes is {}, expected {{block_q: 512, ...}}",
        tree.describe());
  const std::map<std::string, int64_t*> numbers{
      {"block_q", &sizes.block_q},
      {"block_kv", &sizes.block_kv},
      {"block_kv_compute", &sizes.block_kv_compute},
      {"block_q_dkv", &sizes.block_q_dkv},
      {"block_kv_dkv", &sizes.block_kv_dkv},
      {"block_kv_dkv_compute", &sizes.block_kv_dkv_compute},
      {"block_q_dq", &sizes.block_q_dq},
      {"block_kv_dq", &sizes.block_kv_dq},
      {"heads_per_tile", &sizes.heads_per_tile},
      {"vmem_limit_bytes", &sizes.vmem_limit_bytes}};
  for (const auto& [key, value] : tree.members()) {
    const auto found = numbers.find(key);
    if (key == "use_fused_bwd_kernel") {
      sizes.use_fused_bwd_kernel = value.as_bool();
    } else if (found != numbers.end()) {
      if (!value.is_null()) {  // null: there is no dq pass
        *found->second = value.as_int();
        const int64_t most = key == "vmem_limit_bytes" ? int64_t{1} << 40 : int64_t{1} << 20;
        check(*found->second > 0 && *found->second <= most,
              "[config] flash_block_sizes: {} is {}, expected 1 to {}", key, *found->second, most);
      }
    } else {
      // A size of kernels with another tuning level, which does not affect the other sizes.
      check(key == "block_kv_compute_in", "[config] flash_block_sizes has no `{}`: it has {}", key,
            kernels::to_string(kernels::FlashBlockSizes{}));
    }
  }
  return sizes;
}

nn::AttentionOptions attention_options(const config::Config& config) {
  const config::ModelConfig& m = config.model;
  nn::AttentionOptions options;
  options.kind = nn::attention_kind(m.attention);
  options.blocks = block_sizes(m.flash_block_sizes);
  options.min_length = m.flash_min_seq_length;
  options.base2 = m.use_base2_exp;
  options.mask_padding = m.mask_padding_tokens;
  options.split_heads = m.split_head_dim;
  options.ulysses_shards = m.ulysses_shards;
  options.ulysses_chunks = m.ulysses_attention_chunks;
  return options;
}

Memory weights_memory(const config::Config& config) {
  const config::WeightsMemory given = config.model.weights_memory;
  if (given == config::WeightsMemory::DEVICE) {
    return Memory::DEVICE;
  }
  check(config.model.scan_layers,
        "[config] weights_memory is `{}`, but scan_layers is false, and only the loop over layers "
        "can fetch them\n"
        "  scan_layers=true, or weights_memory=device",
        config::word_of(given));
  check(config.runtime.jit,
        "[config] weights_memory is `{}`, but jit is false, which runs every block separately\n"
        "  jit=true, or weights_memory=device",
        config::word_of(given));
  return given == config::WeightsMemory::HOST ? Memory::HOST : Memory::STREAMED;
}

}  // namespace

Precision precision(config::MatmulPrecision given) {
  switch (given) {
    case config::MatmulPrecision::DEFAULT:
      return Precision::DEFAULT;
    case config::MatmulPrecision::HIGH:
      return Precision::HIGH;
    case config::MatmulPrecision::HIGHEST:
      return Precision::HIGHEST;
  }
  fail("[config] unknown precision {}", static_cast<int>(given));
}

DType dtype(config::Dtype given) {
  return given == config::Dtype::BFLOAT16 ? DType::BF16 : DType::F32;
}

void check_model_values(const config::Config& config) {
  attention_options(config);
  quantization_options(config.model);
  weights_memory(config);
  config::lora_choices(config.model);
}

nn::ModelOptions model_options(const config::Config& config) {
  const config::ModelConfig& m = config.model;
  nn::ModelOptions options;
  options.weights_dtype = dtype(m.weights_dtype);
  options.activations_dtype = dtype(m.activations_dtype);
  options.precision = precision(m.precision);
  options.scan_layers = m.scan_layers;
  options.remat =
      remat_policy(m.remat_policy, m.names_which_can_be_saved, m.names_which_can_be_offloaded);
  options.dropout = m.dropout;
  options.riflex_frequency = m.riflex_frequency;
  options.attention = attention_options(config);
  options.weights_storage = weights_storage(m.weights_storage);
  options.weights_memory = weights_memory(config);
  options.quantization = quantization_options(config.model);
  return options;
}

bool runs_blocks_as_loop(const config::Config& config) {
  return config.model.scan_layers && config.runtime.jit;
}

nn::InitOptions init_options(const config::Config& config) {
  nn::InitOptions init;
  init.gate_bias = config.model.init_gate;
  init.text = config.model.init_text == config::TextInit::XAVIER ? nn::InitOptions::Text::XAVIER
                                                                 : nn::InitOptions::Text::NORMAL;
  return init;
}

data::SpaceToDepth space_to_depth(const config::Config& config) {
  data::SpaceToDepth out;
  out.block = config.model.space_to_depth_block;
  out.temporal = config.model.space_to_depth_temporal;
  out.regions = config.model.space_to_depth_regions;
  out.temporal_regions = config.model.space_to_depth_temporal_regions;
  out.shift = config.model.space_to_depth_mean;
  out.scale = 1.0 / config.model.space_to_depth_std;
  return out;
}

}  // namespace kinema::model_source
