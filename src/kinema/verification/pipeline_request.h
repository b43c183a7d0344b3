#pragma once

#include "kinema/sample/pipeline.h"
#include "kinema/verification/case.h"

/// The calls of whole pipelines in cases.
namespace kinema::verification {

bool is_wan(const sample::PipelineFolder& folder);
bool is_zimage(const sample::PipelineFolder& folder);
bool is_flux(const sample::PipelineFolder& folder);

/// The case's folder, with the pipeline class of the case: TI2V works with or without an image.
sample::PipelineFolder folder_of(const Case& c);

/// The arguments of the call, for image pipelines and for Wan's.
sample::GenerateRequest request_of(const Case& c, const sample::PipelineFolder& folder);

}  // namespace kinema::verification
