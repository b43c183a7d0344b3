#include "kinema/model_files/family.h"

#include <algorithm>
#include <array>

#include "kinema/model_files/names.h"
#include "kinema/model_files/transformers_config.h"

namespace kinema::model_files {
namespace {

constexpr std::array<PipelineClass, 3> kWanPipelines{
    {{"WanPipeline"}, {"WanImageToVideoPipeline", true}, {"WanVideoToVideoPipeline"}}};

constexpr std::array<PipelineClass, 1> kVacePipelines{{{"WanVACEPipeline"}}};

constexpr std::array<PipelineClass, 1> kAnimatePipelines{
    {{.name = "WanAnimatePipeline", .of_images = true}}};

constexpr PipelineClass flux_pipeline(std::string_view name, bool edits_image = false) {
  return {.name = name,
          .even_sigmas = true,
          .edits_image = edits_image,
          // Kontext's as on its page.
          .images = {
              .side = 1024, .num_inference_steps = 28, .guidance_scale = edits_image ? 2.5 : 3.5}};
}
constexpr std::array<PipelineClass, 6> kFluxPipelines{
    flux_pipeline("FluxPipeline"),
    flux_pipeline("FluxImg2ImgPipeline"),
    flux_pipeline("FluxInpaintPipeline"),
    flux_pipeline("FluxFillPipeline"),
    flux_pipeline("FluxControlPipeline"),
    flux_pipeline("FluxKontextPipeline", /*edits_image=*/true)};

constexpr PipelineClass zimage_pipeline(std::string_view name) {
  return {.name = name,
          .even_sigmas = true,
          .images = {.side = 1024,
                     .num_inference_steps = 50,
                     .guidance_scale = 5.0,
                     .distilled_shift = 3.0,
                     .distilled_name = "Turbo",
                     .distilled_steps = 8}};
}
constexpr std::array<PipelineClass, 5> kZImagePipelines{
    zimage_pipeline("ZImagePipeline"), zimage_pipeline("ZImageImg2ImgPipeline"),
    zimage_pipeline("ZImageInpaintPipeline"), zimage_pipeline("ZImageControlNetPipeline"),
    zimage_pipeline("ZImageControlNetInpaintPipeline")};

constexpr PipelineClass sdxl_pipeline(std::string_view name, bool fills_masks = false) {
  return {
      .name = name,
      .force_zeros_for_empty_prompt = true,
      .fills_masks = fills_masks,
      .images = {
          .side = 1024, .num_inference_steps = 50, .guidance_scale = 5.0, .takes_size_ids = true}};
}
constexpr std::array<PipelineClass, 7> kSdxlPipelines{
    sdxl_pipeline("StableDiffusionXLPipeline"),
    sdxl_pipeline("StableDiffusionXLImg2ImgPipeline"),
    sdxl_pipeline("StableDiffusionXLInpaintPipeline", /*fills_masks=*/true),
    sdxl_pipeline("StableDiffusionXLControlNetPipeline"),
    sdxl_pipeline("StableDiffusionXLControlNetImg2ImgPipeline"),
    sdxl_pipeline("StableDiffusionXLControlNetInpaintPipeline"),
    sdxl_pipeline("StableDiffusionXLControlNetUnionPipeline")};

constexpr PipelineClass sd_pipeline(std::string_view name, bool corrects_scheduler = false,
                                    bool fills_masks = false) {
  return {.name = name,
          .corrects_scheduler = corrects_scheduler,
          .fills_masks = fills_masks,
          .images = {.side = 512, .num_inference_steps = 50, .guidance_scale = 7.5}};
}
constexpr std::array<PipelineClass, 6> kSdPipelines{
    sd_pipeline("StableDiffusionPipeline", /*corrects_scheduler=*/true),
    sd_pipeline("StableDiffusionImg2ImgPipeline", /*corrects_scheduler=*/true),
    sd_pipeline("StableDiffusionInpaintPipeline", /*corrects_scheduler=*/true,
                /*fills_masks=*/true),
    sd_pipeline("StableDiffusionControlNetPipeline"),
    sd_pipeline("StableDiffusionControlNetImg2ImgPipeline"),
    sd_pipeline("StableDiffusionControlNetInpaintPipeline")};

constexpr std::array<std::string_view, 1> kAnimateMarks{"pose_patch_embedding.weight"};
constexpr std::array<std::string_view, 1> kVaceMarks{"vace_patch_embedding.weight"};
constexpr std::array<std::string_view, 1> kWanMarks{"patch_embedding.weight"};
constexpr std::array<std::string_view, 3> kFluxMarks{
    "single_transformer_blocks.0.norm.linear.weight", "single_blocks.0.modulation.lin.weight",
    "double_blocks.0.img_mod.lin.weight"};
// Lumina 2, with the same module tree, has an activation before it, and the number 1.
constexpr std::array<std::string_view, 1> kZImageMarks{"layers.0.adaLN_modulation.0.weight"};
constexpr std::array<std::string_view, 2> kSdxlMarks{"add_embedding.linear_1.weight",
                                                     "label_emb.0.0.weight"};
// UNets of Stable Diffusion XL have these too: they are found first.
constexpr std::array<std::string_view, 2> kSdMarks{
    "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight",
    "middle_block.1.transformer_blocks.0.attn2.to_k.weight"};

constexpr std::array<Family, 7> kFamilies{{{.name = "Wan",
                                            .transformer_class = "WanTransformer3DModel",
                                            .original_class = "WanModel",
                                            .original_class_2 = "Wan2_2Transformer3DModel",
                                            .marks = kWanMarks,
                                            .names = &kWanNames,
                                            .vae_class = "AutoencoderKLWan",
                                            .text_encoder_class = "UMT5EncoderModel",
                                            .pipelines = kWanPipelines},
                                           {.name = "Flux",
                                            .transformer_class = "FluxTransformer2DModel",
                                            .marks = kFluxMarks,
                                            .names = &kFluxNames,
                                            .vae_class = "AutoencoderKL",
                                            .text_encoder_class = "CLIPTextModel",
                                            .text_encoder_2_class = "T5EncoderModel",
                                            .latent_scale = 0.3611,
                                            .pipelines = kFluxPipelines},
                                           {.name = "Z-Image",
                                            .transformer_class = "ZImageTransformer2DModel",
                                            .marks = kZImageMarks,
                                            .names = &kZImageNames,
                                            .vae_class = "AutoencoderKL",
                                            .text_encoder_class = "Qwen3Model",
                                            .latent_scale = 0.3611,
                                            .pipelines = kZImagePipelines},
                                           {.name = "Stable Diffusion XL",
                                            .transformer_class = "UNet2DConditionModel",
                                            .addition_embed_type = "text_time",
                                            .marks = kSdxlMarks,
                                            .names = &kUNetNames,
                                            .part = "unet",
                                            .vae_class = "AutoencoderKL",
                                            .text_encoder_class = "CLIPTextModel",
                                            .text_encoder_2_class = "CLIPTextModelWithProjection",
                                            .latent_scale = 0.13025,
                                            .pipelines = kSdxlPipelines},
                                           {.name = "Stable Diffusion 1 and 2",
                                            .transformer_class = "UNet2DConditionModel",
                                            .marks = kSdMarks,
                                            .own_modules = "down_blocks.0.attentions.",
                                            .names = &kStableDiffusionNames,
                                            .part = "unet",
                                            .vae_class = "AutoencoderKL",
                                            .text_encoder_class = "CLIPTextModel",
                                            .latent_scale = kStableDiffusionScale,
                                            .pipelines = kSdPipelines},
                                           // Its files have the marks of Wan too.
                                           {.name = "Wan VACE",
                                            .transformer_class = "WanVACETransformer3DModel",
                                            .original_class = "VaceWanModel",
                                            .marks = kVaceMarks,
                                            .own_modules = "vace_",
                                            .names = &kWanNames,
                                            .vae_class = "AutoencoderKLWan",
                                            .text_encoder_class = "UMT5EncoderModel",
                                            .pipelines = kVacePipelines},
                                           {.name = "Wan Animate",
                                            .transformer_class = "WanAnimateTransformer3DModel",
                                            .original_class = "WanAnimateModel",
                                            .marks = kAnimateMarks,
                                            .own_modules = "face_adapter.",
                                            .names = &kWanNames,
                                            .vae_class = "AutoencoderKLWan",
                                            .text_encoder_class = "UMT5EncoderModel",
                                            .pipelines = kAnimatePipelines}}};

/// The value of `addition_embed_type`; empty without one.
std::string_view addition_of(const io::Json& config) {
  const io::Json* added = config.find("addition_embed_type");
  return added != nullptr && added->is_string() ? std::string_view(added->as_string()) : "";
}

void add(std::string& list, std::string_view name) {
  list += list.empty() ? "" : " or ";
  list += name;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

std::string class_of_model(const io::Json& config) {
  const io::Json* name = config.is_object() ? config.find("_class_name") : nullptr;
  return name != nullptr && name->is_string() ? name->as_string() : class_of(config);
}

const Family* family_with(const std::function<bool(std::string_view tensor)>& has) {
  const Family* out = nullptr;
  for (const Family& family : kFamilies) {
    const bool more_special = out != nullptr && family.names == out->names;
    if ((out == nullptr || more_special) && std::ranges::any_of(family.marks, has)) {
      out = &family;
    }
  }
  return out;
}

const Family* family_of_config(const io::Json& config) {
  const io::Json* name = config.is_object() ? config.find("_class_name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    return nullptr;
  }
  const Family* found = nullptr;  // of the class, if none has this addition
  for (const Family& family : kFamilies) {
    const bool is_class = name->as_string() == family.transformer_class ||
                          family.has_original_class(name->as_string());
    if (is_class && family.addition_embed_type == addition_of(config)) {
      return &family;
    }
    found = is_class && found == nullptr ? &family : found;
  }
  return found;
}

const PipelineClass* pipeline_class(std::string_view name) {
  const Family* family = family_of_pipeline(name);
  return family == nullptr ? nullptr
                           : &*std::ranges::find(family->pipelines, name, &PipelineClass::name);
}

const Family* family_of_pipeline(std::string_view name) {
  const auto* const found = std::ranges::find_if(kFamilies, [&](const Family& family) {
    return std::ranges::find(family.pipelines, name, &PipelineClass::name) !=
           family.pipelines.end();
  });
  return found == kFamilies.end() ? nullptr : found;
}

io::Json model_index(const Family& family, std::string_view scheduler_class, bool fills_masks) {
  using io::Json;
  const auto part = [](std::string_view library, std::string_view name) {
    return Json::array({Json(library), Json(name)});
  };
  const auto tokenizer = [&](std::string_view encoder) {
    return part("transformers", encoder.starts_with("CLIP")   ? "CLIPTokenizer"
                                : encoder.starts_with("Qwen") ? "Qwen2Tokenizer"
                                                              : "T5TokenizerFast");
  };
  const auto found = std::ranges::find(family.pipelines, fills_masks, &PipelineClass::fills_masks);
  const PipelineClass& pipeline =
      found == family.pipelines.end() ? family.pipelines.front() : *found;
  Json out = Json::object({{"_class_name", pipeline.name},
                           {std::string(family.part), part("diffusers", family.transformer_class)},
                           {"scheduler", part("diffusers", scheduler_class)},
                           {"text_encoder", part("transformers", family.text_encoder_class)},
                           {"tokenizer", tokenizer(family.text_encoder_class)},
                           {"vae", part("diffusers", family.vae_class)}});
  if (!family.text_encoder_2_class.empty()) {
    out.set("text_encoder_2", part("transformers", family.text_encoder_2_class));
    out.set("tokenizer_2", tokenizer(family.text_encoder_2_class));
  }
  if (pipeline.force_zeros_for_empty_prompt) {
    out.set("force_zeros_for_empty_prompt", true);
  }
  return out;
}

std::string transformer_classes() {
  std::string list;
  for (const Family& family : kFamilies) {
    if (list.find(family.transformer_class) == std::string::npos) {
      add(list, family.transformer_class);
    }
  }
  return list;
}

std::string pipeline_classes() {
  std::string list;
  for (const Family& family : kFamilies) {
    for (const PipelineClass& each : family.pipelines) {
      add(list, each.name);
    }
  }
  return list;
}

}  // namespace kinema::model_files
