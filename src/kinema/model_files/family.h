#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/model_files/naming.h"

namespace kinema::model_files {

/// Defaults of a pipeline that generates images, as in diffusers.
struct ImageDefaults {
  int64_t side = 0;  // pixels; 0: it generates videos
  int64_t num_inference_steps = 0;
  double guidance_scale = 0.0;
  bool takes_size_ids = false;  // the network takes a picture's sizes
  /// With a scheduler of this shift, the model was distilled to these steps without guidance; 0:
  /// there is none.
  double distilled_shift = 0.0;
  std::string_view distilled_name = {};  // a part of the names of such releases
  int64_t distilled_steps = 0;
};

/// A class name of a pipeline's model_index.json.
struct PipelineClass {
  std::string_view name;
  /// It generates videos from an image and a prompt.
  bool of_images = false;
  /// It passes its scheduler sigmas evenly spaced from 1 to 1/steps.
  bool even_sigmas = false;
  /// As in diffusers, its scheduler begins at timestep 1 (steps_offset) and does not clip samples
  /// (clip_sample), whatever its file says: files of early releases lack both keys.
  bool corrects_scheduler = false;
  /// Without a negative prompt, zeros are used, as in its model_index.json.
  bool force_zeros_for_empty_prompt = false;
  /// Its network edits a given image, whose tokens it reads beside those of the result.
  bool edits_image = false;
  /// Its network may have channels for a mask and the kept part of an image.
  bool fills_masks = false;
  ImageDefaults images = {};
};

/// How files identify a family of networks. A family is an entry of the table in family.cpp; its
/// computation is an Architecture of `networks`.
struct Family {
  /// The name in messages.
  std::string_view name;
  /// `_class_name` of a transformer's config.json: diffusers', and the original release's if it has
  /// such a file.
  std::string_view transformer_class;
  std::string_view original_class;
  /// Another class of configurations in the original release's form (VideoX-Fun's of Wan 2.2).
  std::string_view original_class_2 = {};
  /// The value of `addition_embed_type` in a UNet's config.json, which tells families of one class
  /// apart; empty: null, or the key does not exist.
  std::string_view addition_embed_type = {};
  /// Every transformer of the family has one of these tensors; one per naming.
  std::span<const std::string_view> marks;
  /// Start of modules, in diffusers' names, that of the families with the same names only this one
  /// has.
  std::string_view own_modules = {};
  /// Names of its tensors in other namings.
  const NameTable* names;
  /// The part of a pipeline that it is: its folder's name, and its key in model_index.json.
  std::string_view part = "transformer";
  /// Classes of the other parts of its pipelines in model_index.json; empty: none.
  std::string_view vae_class;
  std::string_view text_encoder_class;
  std::string_view text_encoder_2_class = {};
  /// The factor of latents of its autoencoder's releases, for files without a config.json.
  double latent_scale = 1.0;
  /// `_class_name` of pipelines' model_index.json.
  std::span<const PipelineClass> pipelines = {};  // none: only `verify` takes the family

  bool has_original_class(std::string_view name) const {
    return !name.empty() && (name == original_class || name == original_class_2);
  }
};

/// latent_scale of Stable Diffusion 1 and 2.
inline constexpr double kStableDiffusionScale = 0.18215;

std::span<const Family> families();

/// The class name of a model's config.json: diffusers' `_class_name`, or the first of transformers'
/// `architectures`; empty if it has neither.
std::string class_of_model(const io::Json& config);

/// The family of a network with these tensors: the first with one of its marks, or a later one of
/// the same names that has its own too; null for other models.
const Family* family_with(const std::function<bool(std::string_view tensor)>& has);

/// The family of a configuration by its class, in either naming, and of UNets also by their
/// `addition_embed_type`; null for an unknown class.
const Family* family_of_config(const io::Json& config);
/// A pipeline class of one of the families; null for an unknown class.
const PipelineClass* pipeline_class(std::string_view name);

/// The family of a pipeline's class; null for an unknown class.
const Family* family_of_pipeline(std::string_view name);

/// The `model_index.json` of the family's pipeline (the first of its classes; the first that fills
/// masks, if the network does), with a scheduler of that class.
io::Json model_index(const Family& family, std::string_view scheduler_class,
                     bool fills_masks = false);

/// The classes of all transformers, and of all pipelines, for messages: `A or B`.
std::string transformer_classes();
std::string pipeline_classes();

}  // namespace kinema::model_files
