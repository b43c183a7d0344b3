#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/tensor.h"

/// The inputs of a network that encoders make of given pictures and videos. A family declares them
/// (Sizes::named); sampling, training, planning and verifying read the declarations.
namespace kinema::networks {

struct Inputs;

/// Where a network reads an input.
enum class Entry : uint8_t {
  CHANNELS,     // channels after those of the noisy latents
  FIRST_FRAME,  // in place of their first frame, with timestep 0 for its tokens
  TOKENS,       // latents of one frame of any size, whose tokens follow those of the noisy latents
  BRANCH,       // in blocks of its own, whose results are added to the main ones
  FRONT,        // latents of one frame, whose tokens are a frame in front of the noisy latents
  CAMERA,       // added to the tokens, in pixels
  POSES,        // added to the tokens of all frames but the first, latents
  FACES,        // pictures of one frame, which the network encodes to tokens once for all steps
  PICTURES,     // as BRANCH, in pixels: pictures of ControlNets, side by side on the channels
};

/// What it holds: the formula of an encoder. Latents have z channels, and cells of s x s pixels and
/// t frames.
enum class MadeOf : uint8_t {
  FIRST_AND_LAST,     // t + z: a mask of the given frames, and latents of them and grey between
  FIRST_IMAGE,        // z: latents of the first frame
  MASK_AND_KEPT,      // 1 + z: a mask of the latents, and latents of the kept part
  KEPT_AND_MASK,      // z + s s: latents of the kept part, and the mask's pixels in each cell
  CONTROL_IMAGE,      // z: latents of a control image
  FOLLOWED_IMAGE,     // z: latents of a control image, the mode
  FOLLOWED_AND_KEPT,  // 2 z + 1: these, then a mask and latents of the kept part of the picture to
                      // start from, or zeros
  REFERENCE_IMAGE,    // z: latents of a picture to edit, or of its subject
  CONTROL_VIDEO,      // 2 z + s s: latents of the kept and of the masked part of a video, and the
                      // mask's pixels in each cell; reference images as frames in front
  // Of Wan Fun:
  CONTROL_AND_START,   // 2 z: latents of a control video, and of the first frame before zeros
  CONTROL_AND_MASKED,  // t + 2 z: latents of a control video, then as FIRST_AND_LAST
  START,               // z: latents of the first frame, before zeros
  REFERENCE_FRAME,     // z: latents of a reference image
  CAMERA_RAYS,         // 6 t: the rays of t pictures through each pixel, in Pluecker coordinates
  // Of Wan-Animate:
  ANIMATED,          // t + z: a mask of the given frames; latents of the character, then of them
  POSE_VIDEO,        // z: latents of drawn poses
  FACE_VIDEO,        // 3: pixels of the faces, in [-1, 1]
  CONTROL_PICTURES,  // 3 n: the pixels of n pictures, in [0, 1]
};

/// True for inputs that hold the mask of a part to fill in, and what is kept.
constexpr bool fills_masks(MadeOf made_of) {
  return made_of == MadeOf::MASK_AND_KEPT || made_of == MadeOf::KEPT_AND_MASK;
}

/// A declaration.
struct NamedInput {
  std::string_view name;  // in programs, samples and messages
  Entry entry = Entry::CHANNELS;
  MadeOf made_of = MadeOf::FIRST_AND_LAST;
  int64_t channels = 0;
  bool optional = false;
  /// Of Entry::PICTURES and CAMERA: side in pixels of a latent; of FACES: of a picture.
  int64_t cell = 1;

  /// Whether values of these dims [b, channels, f', h', w'] go with latents [b, c, f, h, w].
  bool fits(const Dims& value, const Dims& latents) const;
  /// The dims that fit, for messages: `[2, 16, 1, h, w]`.
  std::string wanted(const Dims& latents) const;

  bool operator==(const NamedInput&) const = default;
};

/// Pictures of faces for latents of f frames, the first of which is a reference image.
int64_t face_pictures(int64_t frames);

/// The declaration with this entry; null if there is none.
const NamedInput* find_entry(std::span<const NamedInput> inputs, Entry entry);

/// Puts a value [b, channels, f', h', w'] where the network reads the input: `inputs` has the
/// noisy latents. Inputs of one entry are put in the order of their declarations. Throws an Error
/// if the sizes do not fit.
void put(const NamedInput& input, Tensor value, Inputs& inputs);

}  // namespace kinema::networks
