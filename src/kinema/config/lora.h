#pragma once

#include <string>
#include <vector>

#include "kinema/config/model_config.h"

namespace kinema::config {

/// One entry of `lora_config`: a LoRA file for the transformer, or one for each of two experts.
struct LoraChoice {
  std::string name;        ///< adapter_name, or where it comes from
  std::string source;      ///< lora_model_name_or_path: a file, a folder or a hub id
  std::string file;        ///< weight_name, or high_noise_weight_name; empty: `source` is it
  std::string file_2;      ///< low_noise_weight_name, or weight_name
  bool for_first = true;   ///< there is a file for the only or high-noise transformer
  bool for_second = true;  ///< there is a file for the low-noise transformer
  double scale = 1.0;

  bool operator==(const LoraChoice&) const = default;
};

/// The entries of `lora_config` when `enable_lora` is on, in order; none where it names no file.
///
/// The keys are MaxDiffusion's, each a list with one item an adapter, or the item alone:
/// lora_model_name_or_path, weight_name or high_noise_weight_name and low_noise_weight_name,
/// adapter_name, scale; from_pt is not needed and skipped, what is trained read by
/// take_lora_config. Throws an Error naming the key that is unknown, of the wrong type, or a list
/// of another length.
std::vector<LoraChoice> lora_choices(const ModelConfig& config);

/// `lora_config` (JSON) with the files of `lora`, `FILE[:scale][,FILE...]`, behind its own. Throws
/// an Error for a file without a name, and for a scale that is absurd.
std::string with_lora_files(const std::string& lora_config, const std::string& lora);

/// What `lora_config` says of the adapter that is trained, key of ours -> value as text: rank (of
/// the first adapter) is lora_rank, init lora_init, the others have the same names. Empty unless
/// `enable_lora` is on.
std::vector<std::pair<std::string, std::string>> trained_in_lora_config(const ModelConfig& config);

}  // namespace kinema::config
