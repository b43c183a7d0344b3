#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/networks/network.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/given_files.h"
#include "kinema/sample/segments.h"
#include "kinema/sample/sizes.h"
#include "kinema/sample/start.h"

/// The named inputs of a network, made of the files of a request.
namespace kinema::sample {

/// Throws an Error unless the autoencoder's latents have the channels that the network's latents
/// and named inputs take.
void check_channels(const networks::Sizes& network, const encoders::LatentLayout& layout,
                    const std::string& autoencoder);

/// The named inputs that a request gives, in the order of their declarations. `expand_timesteps`:
/// the model takes one timestep per token, and so a first frame. Throws an Error for files that are
/// missing, or that the network does not take.
std::vector<networks::NamedInput> given_inputs(const networks::Sizes& network,
                                               bool expand_timesteps, const GivenFiles& files,
                                               const StartFrames& start);

/// Throws an Error if the model uses CLIP's tokens of its images, and there is no encoder or
/// another number of images than the model has positions for.
void check_image_tokens(const networks::Sizes& network, bool has_encoder,
                        const ConditioningImages& images);

/// The number of frames that the references of a request become.
int64_t reference_frames(const std::vector<networks::NamedInput>& inputs, const GivenFiles& files);

/// The sizes of an input in a step.
StepInput step_input(const networks::NamedInput& input, const networks::Sizes& network,
                     const GivenFiles& files, const encoders::LatentLayout& layout);

/// The values of an input: f32 [n, channels, f', h', w'] of n videos, or of one for all videos.
/// `start`: that of the request, whose kept part some inputs hold; `segment`: that of a long video.
/// Throws an Error if the
/// autoencoder returns other sizes than those of the step.
HostArray make_input(const StepInput& input, const GivenFiles& files, const Start& start,
                     const VideoSizes& sizes, const encoders::Autoencoder& autoencoder,
                     const StartNoise& noise, const SegmentPart& segment = {});

}  // namespace kinema::sample
