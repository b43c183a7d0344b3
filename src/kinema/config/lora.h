#pragma once

#include <string>
#include <vector>

#include "kinema/config/model_config.h"

namespace kinema::config {

/// One entry of `lora_config`: a LoRA file for the transformer, or one for each of two experts.
struct LoraChoice {
  std::string name;        ///< adapter_name, or the name of its source
  std::string source;      ///< lora_model_name_or_path: a file, a folder or a hub id
  std::string file;        ///< weight_name, or high_noise_weight_name; empty: `source` itself
  std::string file_2;      ///< low_noise_weight_name, or weight_name
  bool for_first = true;   ///< it has a file for the only or high-noise transformer
  bool for_second = true;  ///< it has a file for the low-noise transformer
  double scale = 1.0;

  bool operator==(const LoraChoice&) const = default;
};

/// The entries of `lora_config` in order, if `enable_lora` is set; empty without files.
///
/// The keys are MaxDiffusion's, each a list with one item per adapter, or a single item:
/// lora_model_name_or_path, weight_name or high_noise_weight_name and low_noise_weight_name,
/// adapter_name, scale; from_pt is ignored; trained_in_lora_config reads the others. Throws an
/// Error that names the key if it is unknown, of the wrong type, or a list of another length.
std::vector<LoraChoice> lora_choices(const ModelConfig& config);

/// The files of `training_lora`, in order.
std::vector<LoraChoice> training_lora_choices(const ModelConfig& config);

/// `lora_config` (JSON) with the files of `lora`, `FILE[:scale][,FILE...]`, appended. Throws an
/// Error for a file without a name, and for a scale out of range.
std::string with_lora_files(const std::string& lora_config, const std::string& lora);

/// The properties of the trained adapter in `lora_config`, as key -> value text: rank (of the first
/// adapter) is lora_rank, init is lora_init, the others have the same names. Empty unless
/// `enable_lora` is set.
std::vector<std::pair<std::string, std::string>> trained_in_lora_config(const ModelConfig& config);

}  // namespace kinema::config
