#include "kinema/resolve/attention_notices.h"

#include <fmt/format.h>

#include "kinema/kernels/block_sizes.h"
#include "kinema/kernels/tpu/tiles.h"
#include "kinema/model_source/model_options.h"
#include "kinema/nn/attention.h"

namespace kinema::resolve {

std::vector<std::string> attention_notices(const config::Config& config, std::string_view chip) {
  std::vector<std::string> out;
  const config::ModelConfig& model = config.model;
  const nn::ModelOptions options = model_source::model_options(config);
  const std::string_view kind = nn::name_of(options.attention.kind);
  if (kind != model.attention) {
    out.push_back(
        fmt::format("attention: {} is computed by the kernel of {}", model.attention, kind));
  }
  if (chip.empty() || !model.attention_kernels ||
      options.attention.kind == nn::AttentionKind::DOT_PRODUCT) {
    return out;
  }
  const int64_t width = model.attention_head_dim.value;
  const DType dtype = options.activations_dtype;
  if (const std::string refused = kernels::flash_refusal(width, dtype); !refused.empty()) {
    out.push_back(
        fmt::format("attention on {} has no kernel and is computed blockwise: {}", chip, refused));
    return out;
  }
  const kernels::FlashBlockSizes& asked = options.attention.blocks;
  if (!asked.asked) {
    return out;
  }
  const kernels::FlashBlockSizes taken =
      kernels::supported_block_sizes(asked, model.num_attention_heads.value, width, dtype, chip);
  std::vector<kernels::NamedBlockSize> sizes{
      {"heads_per_tile", &kernels::FlashBlockSizes::heads_per_tile},
      {"vmem_limit_bytes", &kernels::FlashBlockSizes::vmem_limit_bytes}};
  const auto blocks = kernels::block_size_names();
  sizes.insert(sizes.begin(), blocks.begin(), blocks.end());
  std::string changes;
  for (const kernels::NamedBlockSize& each : sizes) {
    if (asked.*each.size != taken.*each.size) {
      changes += fmt::format("{}{} {} is {}", changes.empty() ? "" : ", ", each.name,
                             asked.*each.size, taken.*each.size);
    }
  }
  if (!changes.empty()) {
    out.push_back(fmt::format(
        "flash_block_sizes: {}: the nearest that {} supports (multiples of 128, within {} MiB of "
        "VMEM; heads_per_tile divides the {} heads)",
        changes, chip, kernels::vmem_limits(chip).at_most >> 20, model.num_attention_heads.value));
  }
  return out;
}

}  // namespace kinema::resolve
