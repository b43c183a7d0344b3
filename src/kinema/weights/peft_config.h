#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/pattern.h"
#include "kinema/io/json.h"
#include "kinema/weights/lora.h"

/// An adapter's PEFT configuration: adapter_config.json, or the metadata `lora_adapter_metadata` of
/// diffusers' files, where each model's keys have a prefix.
namespace kinema::weights {

/// Alpha from the configuration, for files without alpha keys.
struct ConfiguredAlpha {
  std::optional<double> alpha;
  /// By a regular expression for a module's name or its end; the first match is used.
  std::vector<std::pair<Pattern, double>> of_modules;
  bool by_root = false;  // rank-stabilised: alpha / sqrt(rank)
  int64_t rank = 0;      // if no tensor shows it: LoKr with whole factors
  std::string path;      // of the file, for messages

  /// alpha / rank of a module, or alpha / sqrt(rank); 1 without alpha.
  double factor(const std::string& module, int64_t rank, PatternBudget& budget) const;
};

/// Reads `PREFIXlora_alpha` (of LoHa and LoKr `alpha`), `PREFIXalpha_pattern` and
/// `PREFIXuse_rslora`. Throws an Error with `path` for patterns that cannot be read.
ConfiguredAlpha read_alpha(const io::Json& json, const std::string& prefix, const std::string& path,
                           PatternBudget& budget);

/// Throws for a PEFT method that changes the base when an adapter is initialised: the file then has
/// the difference from a model that is not available.
void check_init(const io::Json& json, const std::string& prefix, const std::string& path);

/// Chooses PEFT's formula of OFT. Throws an Error for one that is not read.
void set_oft(const io::Json& json, const std::string& prefix, const std::string& path,
             Lora::Targets& targets);

/// Throws an Error for a PEFT adapter of another method, if its tensors do not show it.
void check_peft_type(const std::filesystem::path& config, const io::TensorFile& file);

/// The prefix of diffusers' metadata keys for one model: a pipeline's file has `transformer.r`, a
/// file of the transformer's save_lora_adapter `r`.
std::string metadata_prefix(const io::Json& metadata, LoraMember member);

}  // namespace kinema::weights
