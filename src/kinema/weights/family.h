#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/weights/naming.h"

namespace kinema::weights {

/// How a pipeline that makes images is called where nothing else is said, as diffusers has it.
struct ImageDefaults {
  int64_t side = 0;  // pixels; 0: it makes videos
  int64_t num_inference_steps = 0;
  double guidance_scale = 0.0;
  bool told_sizes = false;  // the network is told a picture's sizes
};

/// A class that a pipeline's model_index.json names.
struct PipelineClass {
  std::string_view name;
  /// It makes videos of an image and a prompt, not of a prompt alone.
  bool of_images = false;
  /// It hands its scheduler sigmas evenly from 1 to 1/steps.
  bool even_sigmas = false;
  /// A negative prompt that is not given is zeros, as its model_index.json says.
  bool zeros_for_no_negative = false;
  ImageDefaults images = {};
};

/// How files say which family of networks they are of. A family is a line of the table in
/// family.cpp; what it computes is an Architecture of `networks`.
struct Family {
  /// As messages call it.
  std::string_view name;
  /// `_class_name` of a transformer's config.json: diffusers', and the original release's where
  /// that has such a file.
  std::string_view transformer_class;
  std::string_view original_class;
  /// Tensors, of which every transformer of the family has one: each naming's.
  std::span<const std::string_view> marks;
  /// What its tensors are called in other namings.
  const NameTable* names;
  /// The part of a pipeline that it is: the name of its folder, and in model_index.json.
  std::string_view part = "transformer";
  /// Classes of the other parts of its pipelines, as model_index.json names them; empty: none.
  std::string_view vae_class;
  std::string_view text_encoder_class;
  std::string_view text_encoder_2_class = {};
  /// `_class_name` of pipelines' model_index.json.
  std::span<const PipelineClass> pipelines;
};

std::span<const Family> families();

/// The class that a model's config.json names: `_class_name` of diffusers, or the first of
/// transformers' `architectures`; empty where neither is.
std::string class_of_model(const io::Json& config);

/// The family of a configuration by its class, in either naming; null for another.
const Family* family_of_config(const io::Json& config);
/// The class of a pipeline of one of the families; null for another.
const PipelineClass* pipeline_class(std::string_view name);

/// The family of a pipeline's class; null for another.
const Family* family_of_pipeline(std::string_view name);

/// The `model_index.json` of the family's pipeline (the first of its classes), with a scheduler of
/// that class.
io::Json model_index(const Family& family, std::string_view scheduler_class);

/// The classes of all transformers, and of all pipelines, for messages: `A or B`.
std::string transformer_classes();
std::string pipeline_classes();

}  // namespace kinema::weights
