#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/sample/pipeline_folder.h"

namespace kinema::cli {

/// Opens the files of `lora_config`, checks them against the transformers they are for, and puts
/// them into `folder`; with `lora_mode: apply` the options get the ranks that they need. Returns a
/// line about each file and transformer.
std::vector<std::string> add_lora(const config::Config& config, wan::ModelOptions& options,
                                  sample::PipelineFolder& folder);

/// The same for a model of which nothing but its sizes is here: checks the files against it, and
/// gives `options` the ranks.
void plan_lora(const config::Config& config, const wan::TransformerConfig& model,
               wan::ModelOptions& options);

}  // namespace kinema::cli
