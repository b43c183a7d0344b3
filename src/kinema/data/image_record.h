#pragma once

#include <string>

#include "kinema/data/source.h"
#include "kinema/records/example_proto.h"

/// Records of MaxDiffusion's image trainers, which use the same names for different text states:
///
///                    Flux                                      Stable Diffusion XL
///   pixel_values     latents in packed tokens [s, 4 c]         latents [c, h, w]
///   text_embeds      T5's states [t, d]                        pooled [p]
///   prompt_embeds    pooled [p]                                states of both encoders [t, d]
///   img_ids          (0, row, column) of each token [s, 3]     -
///   input_ids        zeros, not read                           token ids, not read
namespace kinema::data {

/// True for an example with `pixel_values`.
bool is_image_record(const records::Example& example);

/// The features of latents and text states; `packed` if it has img_ids.
inline constexpr const char* kPixelValues = "pixel_values";
inline constexpr const char* kTextEmbeds = "text_embeds";
inline constexpr const char* kPromptEmbeds = "prompt_embeds";
inline constexpr const char* kImageIds = "img_ids";

/// Latents are returned as those of a video of one frame, [c, 1, h, w]. Throws an Error with
/// `where` for a missing feature, another rank or dtype, and positions that are not a complete
/// grid.
Sample parse_image_record(const records::Example& example, const std::string& where);

}  // namespace kinema::data
