#pragma once

#include <string>

#include "kinema/sample/pipeline.h"

namespace kinema::sample {

/// The settings of a picture in the form of AUTOMATIC1111's web UI, which galleries and other
/// programs read from the text `parameters` of a PNG. `model` and `version` are names.
std::string parameters_text(const GenerateRequest& request, const Generated& generated,
                            const GeneratedVideo& video, const std::string& model,
                            const std::string& version);

}  // namespace kinema::sample
