#include <array>

#include "kinema/weights/model_kind.h"

namespace kinema::weights {
namespace {

constexpr uint8_t operator|(Role a, Role b) {
  return static_cast<uint8_t>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr uint8_t operator|(uint8_t a, Role b) {
  return static_cast<uint8_t>(a | static_cast<uint8_t>(b));
}
constexpr auto kNetwork = static_cast<uint8_t>(Role::NETWORK);
constexpr auto kAdapter = static_cast<uint8_t>(Role::ADAPTER);
constexpr auto kVaeRole = static_cast<uint8_t>(Role::VAE);
constexpr auto kPart = static_cast<uint8_t>(Role::PART);

constexpr std::string_view kWan = "Wan";
constexpr std::string_view kFlux = "Flux";
constexpr std::string_view kZImage = "Z-Image";
constexpr std::string_view kSdxl = "Stable Diffusion XL";
constexpr std::string_view kSd = "Stable Diffusion 1 and 2";
// Widths of their text states: CLIP-L's and OpenCLIP-H's.
constexpr int64_t kSd1Text = 768;
constexpr int64_t kSd2Text = 1024;

// Other models of a pipeline in the same file.
constexpr std::string_view kParts =
    "vae.* first_stage_model.* text_encoders.* conditioner.* cond_stage_model.*";

constexpr std::string_view kLoraTensors =
    "*.lora_down.weight *.lora_up.weight *.lora_A.* *.lora_B.* *.lora.down.weight "
    "*_lora.down.weight *.lora_linear_layer.down.weight *_lora1.down.weight *_lora2.down.weight";

constexpr std::string_view kLycorisTensors =
    "*.hada_w1_a *.lokr_w1 *.lokr_w1_a *.oft_blocks *.oft_R.* *.a1.weight *.on_input *.ia3_l";

// The first attention of networks whose blocks are called like Flux's in diffusers, or like SDXL's.
constexpr std::string_view kFirstQuery =
    "transformer_blocks.0.attn.to_q.lora_A.weight transformer_blocks.0.attn.to_q.lora.down.weight "
    "transformer_blocks.0.attn.to_q.lora_down.weight "
    "lora_transformer_transformer_blocks_0_attn_to_q.lora_down.weight "
    "base_model.model.transformer_blocks.0.attn.to_q.lora_A.weight";
constexpr std::string_view kFirstAttention =
    "transformer_blocks.0.attn1.to_q.lora_A.weight "
    "transformer_blocks.0.attn1.to_q.lora.down.weight "
    "transformer_blocks.0.attn1.to_q.lora_down.weight "
    "base_model.model.transformer_blocks.0.attn1.to_q.lora_A.weight";

constexpr std::string_view kSupportedLora =
    "LoRA files of Wan, Flux.1, Z-Image and Stable Diffusion 1, 2 and XL are supported";
constexpr std::string_view kOnlyLora =
    "LoRA, LoCon, LoHa, LoKr, DoRA, GLoRA, IA3, OFT, BOFT of LyCORIS and full differences are "
    "supported";
constexpr std::string_view kFullPrecision =
    "take the file in bfloat16 or float8, or a GGUF file of the same model";
constexpr std::string_view kTextToImage =
    "an SDXL checkpoint for text to image, whose UNet takes 4 channels, is supported";
constexpr std::string_view kSdTextToImage =
    "a model of Stable Diffusion 1 or 2 for text to image or inpainting, whose UNet takes 4 or 9 "
    "channels, is supported";
constexpr std::string_view kPlainWan =
    "Wan 2.1 and 2.2 for text to video, image to video and first frame to video are supported";

constexpr ModelKind kKinds[] = {
    // ---- How weights are stored --------------------------------------------------------------
    {.name = "SVDQuant weights (Nunchaku)",
     .any = "*.wscales *.smooth_factor",
     .remedy = kFullPrecision},

    // ---- Adapters ----------------------------------------------------------------------------
    {.name = "BOFT (PEFT)", .any = "*.boft_R* *.boft_s*", .remedy = kOnlyLora},
    {.name = "OFT (PEFT before 0.16)", .any = "*.oft_diag *.oft_r*", .remedy = kOnlyLora},
    {.name = "VeRA", .any = "*.vera_lambda_*", .remedy = kOnlyLora},
    {.name = "ControlNet LLLite", .any = "lllite_unet_* lllite_dit_*"},
    // SDXL's UNet has no attention in its first level, which has 320 channels.
    {.name = "SD 1.5 or SD 2.x LoRA",
     .roles = kAdapter,
     .size =
         {"lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q.lora_down.weight "
          "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_k.lora_down.weight "
          "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_q.lora_down.weight "
          "lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_q.lora_down.weight "
          "lora_unet_input_blocks_1_1_transformer_blocks_0_attn2_to_q.lora_down.weight "
          "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.lora_A.weight "
          "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_k.lora_A.weight "
          "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_q.lora_A.weight",
          1, 320},
     .known_modules = true},
    // Its attention has the same names as Flux's, which has at most 38 blocks of a kind.
    {.name = "Qwen-Image LoRA",
     .any = "*.img_mlp.net.0.proj.lora* *.img_mlp.net.2.lora* *.img_mod.1.lora* "
            "*_img_mlp_net_0_proj.lora* *_img_mlp_net_2.lora* *_img_mod_1.lora* "
            "*transformer_blocks.59.attn.to_q.lora* *transformer_blocks.59.attn.to_k.lora* "
            "*transformer_blocks_59_attn_to_q.lora* *transformer_blocks_59_attn_to_k.lora*",
     .remedy = kSupportedLora},
    // Their blocks have names that are also Flux's or SDXL's: they are told by other modules, by
    // the
    // number of blocks, or by the width.
    {.name = "Flux.2 LoRA",
     .any = "*.attn.to_qkv_mlp_proj.lora* *_attn_to_qkv_mlp_proj.lora* "
            "*double_stream_modulation_img.linear.lora* *double_stream_modulation_img.lin.lora* "
            "*single_blocks.47.linear1.lora* *single_blocks_47_linear1.lora*",
     .remedy = kSupportedLora},
    {.name = "Hunyuan Video LoRA",
     .any = "*double_blocks.0.img_attn_qkv.lora* *double_blocks.0.img_mlp.fc1.lora* "
            "*double_blocks_0_img_mlp_fc1.lora* *double_blocks_0_img_mod_linear.lora* "
            "*double_blocks_19_img_attn_qkv.lora* *single_blocks_39_linear1.lora* "
            "*single_transformer_blocks.39.attn.to_q.lora* *refiner_blocks.0.attn.to_q.lora* "
            "*individual_token_refiner.blocks.0.self_attn_qkv.lora* "
            "*individual_token_refiner_blocks_0_self_attn_qkv.lora*",
     .remedy = kSupportedLora},
    {.name = "SD 3 LoRA",
     .any = "*joint_blocks.0.x_block.attn.qkv.lora* *joint_blocks.0.context_block.attn.qkv.lora* "
            "*joint_blocks_0_x_block_attn_qkv.lora* *joint_blocks_0_context_block_attn_qkv.lora*",
     .remedy = kSupportedLora},
    {.name = "SD 3 LoRA", .size = {kFirstQuery, 1, 1536}, .remedy = kSupportedLora},  // medium
    {.name = "SD 3 LoRA", .size = {kFirstQuery, 1, 2432}, .remedy = kSupportedLora},  // 3.5 large
    {.name = "Chroma LoRA",
     .any = "*distilled_guidance_layer.layers.0.linear_1.lora* "
            "*distilled_guidance_layer.layers.0.in_layer.lora* "
            "*distilled_guidance_layer_layers_0_in_layer.lora*",
     .remedy = kSupportedLora},
    {.name = "HiDream LoRA",
     .any = "*double_stream_blocks.0.block.attn1.to_q.lora* "
            "*double_stream_blocks_0_block_attn1_to_q.lora*",
     .remedy = kSupportedLora},
    {.name = "AuraFlow LoRA",
     .any = "*joint_transformer_blocks.0.attn.to_q.lora* "
            "*joint_transformer_blocks.0.attn.add_q_proj.lora*",
     .remedy = kSupportedLora},
    // Its blocks have the names of Z-Image's.
    {.name = "Lumina 2 LoRA",
     .size = {"diffusion_model.layers.0.attention.qkv.lora_down.weight "
              "diffusion_model.layers.0.attention.qkv.lora_A.weight "
              "lora_unet_layers_0_attention_qkv.lora_down.weight "
              "transformer.layers.0.attn.to_q.lora_A.weight",
              1, 2304},
     .remedy = kSupportedLora},
    {.name = "Lumina 2 LoRA", .any = "*layers.0.attn.to_q.lora*", .remedy = kSupportedLora},
    {.name = "Mochi LoRA",
     .any = "transformer_blocks.0.attn1.add_q_proj.lora* blocks.0.attn.qkv_x.lora*",
     .remedy = kSupportedLora},
    {.name = "LTX-2 LoRA",
     .any = "transformer_blocks.0.audio_attn1.to_q.lora* "
            "transformer_blocks.0.audio_to_video_attn.to_q.lora*",
     .remedy = kSupportedLora},
    {.name = "CogVideoX LoRA", .size = {kFirstAttention, 1, 1920}, .remedy = kSupportedLora},
    {.name = "CogVideoX LoRA", .size = {kFirstAttention, 1, 3072}, .remedy = kSupportedLora},
    {.name = "Sana LoRA", .size = {kFirstAttention, 1, 2240}, .remedy = kSupportedLora},
    {.name = "PixArt or Sana LoRA", .size = {kFirstAttention, 1, 1152}, .remedy = kSupportedLora},
    {.name = "LTX-Video or Cosmos LoRA",
     .any = "transformer_blocks.0.attn1.to_q.lora* transformer_blocks.0.attn1.to_k.lora*",
     .remedy = kSupportedLora},
    {.name = "Cosmos LoRA",
     .any = "*blocks.0.self_attn.q_proj.lora* *blocks_0_self_attn_q_proj.lora*",
     .remedy = kSupportedLora},
    {.name = "Wan VACE LoRA",
     .roles = kAdapter,
     .any = "vace_blocks.0.self_attn.q.lora* vace_blocks.0.attn1.to_q.lora* "
            "lora_unet_vace_blocks_0_self_attn_q.lora* lora_unet__vace_blocks_0_self_attn_q.lora*",
     .known_modules = true},
    {.name = "LoRA", .roles = kAdapter, .any = kLoraTensors, .known_modules = true},
    {.name = "LoRA of a network that is not known", .any = kLoraTensors, .remedy = kSupportedLora},
    {.name = "LyCORIS adapter", .roles = kAdapter, .any = kLycorisTensors, .known_modules = true},
    {.name = "LyCORIS adapter of a network that is not known",
     .any = "*.hada_w1_a *.lokr_w1 *.lokr_w1_a *.oft_blocks *.oft_R.* *.ia3_l",
     .remedy = kSupportedLora},
    {.name = "full difference",
     .roles = kAdapter,
     .any = "*.diff *.diff_b *.diff_m *.w_norm *.b_norm",
     .known_modules = true},

    // ---- Networks in addition to another one
    // -----------------------------------------------------
    {.name = "control-LoRA", .any = "lora_controlnet"},
    {.name = "ControlNet of another network",
     .classes = "FluxControlNetModel FluxMultiControlNetModel WanControlnet FluxControlNetPipeline "
                "SD3ControlNetModel SparseControlNetModel",
     .any = "controlnet_blocks.* controlnet_x_embedder.*",
     .remedy = "ControlNets of Z-Image and of Stable Diffusion 1, 2 and XL are supported"},
    {.name = "Z-Image ControlNet",
     .roles = static_cast<uint8_t>(Role::CONTROL),
     .classes = "ZImageControlNetModel",
     .any = "control_all_x_embedder.*"},
    {.name = "ControlNet",
     .roles = static_cast<uint8_t>(Role::CONTROL),
     .classes = "ControlNetModel ControlNetUnionModel",
     .any = "input_hint_block.* control_model.* controlnet_cond_embedding.* "
            "controlnet_down_blocks.*"},
    {.name = "IP-Adapter",
     .any = "ip_adapter.* image_proj.* *.to_k_ip.weight double_blocks.0.processor.ip_adapter_*"},
    {.name = "T2I-Adapter", .classes = "T2IAdapter", .all = "adapter.body.0.* adapter.conv_in.*"},
    {.name = "AnimateDiff motion module",
     .classes = "MotionAdapter UNetMotionModel",
     .any = "down_blocks.0.motion_modules.*"},
    {.name = "Flux Redux image encoder",
     .classes = "ReduxImageEncoder FluxPriorReduxPipeline",
     .any = "redux_up.weight redux_down.weight",
     .remedy = "a folder of FLUX.1 Redux is taken by generate's key redux, beside FLUX.1-dev"},

    // ---- Networks with tensors of a known family's names -------------------------------------
    {.name = "Hunyuan Video",
     .classes = "HunyuanVideoTransformer3DModel HunyuanVideo15Transformer3DModel "
                "HunyuanVideoFramepackTransformer3DModel HunyuanVideoPipeline "
                "HunyuanVideoImageToVideoPipeline HunyuanVideoFramepackPipeline",
     .any = "double_blocks.0.img_attn_qkv.weight txt_in.individual_token_refiner.* "
            "context_embedder.token_refiner.refiner_blocks.*"},

    // ---- Networks of known families with additional inputs ----------------------------------
    {.name = "Wan VACE",
     .roles = Role::NETWORK | Role::PIPELINE,
     .classes = "VaceWanModel WanVACETransformer3DModel WanVACEPipeline",
     .any = "vace_blocks.* vace_patch_embedding.*",
     .all = "patch_embedding.weight"},
    {.name = "Wan VACE module",
     .roles = static_cast<uint8_t>(Role::MODULE),
     .any = "vace_blocks.* vace_patch_embedding.*"},
    {.name = "Wan-Animate",
     .roles = Role::NETWORK | Role::PIPELINE,
     .classes = "WanAnimateModel WanAnimateTransformer3DModel WanAnimatePipeline",
     .any = "pose_patch_embedding.* face_encoder.* face_adapter.* motion_encoder.*",
     .all = "patch_embedding.weight",
     .is_trained = false},
    {.name = "Wan 2.2 S2V (speech to video)",
     .classes = "WanModel_S2V WanS2VTransformer3DModel WanSpeechToVideoPipeline",
     .network = kWan,
     .any = "casual_audio_encoder.* audio_injector.* cond_encoder.*",
     .remedy = kPlainWan},
    {.name = "Wan with audio (MultiTalk, InfiniteTalk)",
     .any = "audio_proj.proj1.* blocks.0.audio_cross_attn.*",
     .remedy = kPlainWan},
    {.name = "Wan Fun-Control with a camera",
     .network = kWan,
     .any = "control_adapter.*",
     .remedy = kPlainWan},
    {.name = "Wan Fun-Control", .roles = kNetwork, .network = kWan, .any = "ref_conv.*"},
    {.name = "Wan Fun-Control", .roles = kNetwork, .network = kWan, .input = {3, 0}},
    {.name = "Wan Fun-Control", .roles = kNetwork, .network = kWan, .input = {3, 4}},
    {.name = "Flux Fill",
     .roles = Role::NETWORK | Role::PIPELINE,
     .classes = "FluxFillPipeline",
     .network = kFlux,
     .input = {6, 0}},
    {.name = "Flux Depth/Canny control",
     .roles = Role::NETWORK | Role::PIPELINE,
     .classes = "FluxControlPipeline",
     .network = kFlux,
     .input = {2, 0}},
    {.name = "Flux Depth/Canny control from an image",
     .classes = "FluxControlImg2ImgPipeline FluxControlInpaintPipeline",
     .remedy = "as class FluxControlPipeline in model_index.json its models follow control_image"},
    {.name = "Flux Kontext",
     .roles = static_cast<uint8_t>(Role::PIPELINE),
     .classes = "FluxKontextPipeline"},
    {.name = "Flux Kontext with a mask",
     .classes = "FluxKontextInpaintPipeline",
     .remedy = "as class FluxKontextPipeline in model_index.json it edits whole pictures"},
    {.name = "SDXL inpainting UNet",
     .roles = Role::NETWORK | Role::PIPELINE,
     .network = kSdxl,
     .input = {2, 1}},
    {.name = "SD inpainting UNet",
     .roles = Role::NETWORK | Role::PIPELINE,
     .network = kSd,
     .input = {2, 1}},
    {.name = "SD InstructPix2Pix UNet",
     .classes = "StableDiffusionInstructPix2PixPipeline",
     .network = kSd,
     .input = {2, 0},
     .remedy = kSdTextToImage},
    {.name = "SD 2 depth UNet",
     .classes = "StableDiffusionDepth2ImgPipeline",
     .network = kSd,
     .input = {1, 1},
     .remedy = kSdTextToImage},
    {.name = "SD upscaler UNet",
     .classes = "StableDiffusionUpscalePipeline",
     .network = kSd,
     .input = {1, 3},
     .remedy = kSdTextToImage},
    {.name = "SDXL InstructPix2Pix UNet",
     .classes = "StableDiffusionXLInstructPix2PixPipeline",
     .network = kSdxl,
     .input = {2, 0},
     .remedy = kTextToImage},
    {.name = "SDXL refiner UNet",
     .network = kSdxl,
     .size = {"add_embedding.linear_1.weight label_emb.0.0.weight", 1, 2560},
     .remedy = kTextToImage},

    // ---- Networks that are supported ---------------------------------------------------------
    {.name = "Wan all-in-one",
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kWan,
     .any = kParts},
    {.name = "Flux all-in-one",
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kFlux,
     .any = kParts},
    {.name = "Z-Image all-in-one",
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kZImage,
     .any = kParts},
    {.name = "SDXL checkpoint",
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kSdxl,
     .any = kParts},
    {.name = "SD 1.5 checkpoint",
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kSd,
     .any = kParts,
     .text_dim = kSd1Text},
    {.name = "SD 2.x checkpoint",
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kSd,
     .any = kParts,
     .text_dim = kSd2Text},
    {.name = "SD checkpoint",  // of another width
     .roles = Role::NETWORK | Role::PIPELINE | Role::VAE,
     .network = kSd,
     .any = kParts},
    {.name = "Wan transformer",
     .roles = kNetwork,
     .classes = "WanTransformer3DModel WanModel",
     .network = kWan},
    {.name = "Flux transformer",
     .roles = kNetwork,
     .classes = "FluxTransformer2DModel",
     .network = kFlux},
    {.name = "Z-Image transformer",
     .roles = kNetwork,
     .classes = "ZImageTransformer2DModel",
     .network = kZImage},
    {.name = "SDXL UNet", .roles = kNetwork, .network = kSdxl},
    {.name = "SD 1.5 UNet", .roles = kNetwork, .network = kSd, .text_dim = kSd1Text},
    {.name = "SD 2.x UNet", .roles = kNetwork, .network = kSd, .text_dim = kSd2Text},
    {.name = "SD UNet", .roles = kNetwork, .network = kSd},
    {.name = "Wan pipeline",
     .roles = static_cast<uint8_t>(Role::PIPELINE),
     .classes = "WanPipeline WanImageToVideoPipeline WanVideoToVideoPipeline"},
    {.name = "Flux pipeline",
     .roles = static_cast<uint8_t>(Role::PIPELINE),
     .classes = "FluxPipeline FluxImg2ImgPipeline FluxInpaintPipeline"},
    {.name = "Z-Image pipeline",
     .roles = static_cast<uint8_t>(Role::PIPELINE),
     .classes = "ZImagePipeline ZImageImg2ImgPipeline ZImageInpaintPipeline "
                "ZImageControlNetPipeline ZImageControlNetInpaintPipeline"},
    {.name = "SDXL pipeline",
     .roles = static_cast<uint8_t>(Role::PIPELINE),
     .classes = "StableDiffusionXLPipeline StableDiffusionXLImg2ImgPipeline "
                "StableDiffusionXLInpaintPipeline StableDiffusionXLControlNetPipeline "
                "StableDiffusionXLControlNetImg2ImgPipeline "
                "StableDiffusionXLControlNetInpaintPipeline "
                "StableDiffusionXLControlNetUnionPipeline"},
    {.name = "SD pipeline",
     .roles = static_cast<uint8_t>(Role::PIPELINE),
     .classes =
         "StableDiffusionPipeline StableDiffusionImg2ImgPipeline "
         "StableDiffusionInpaintPipeline StableDiffusionControlNetPipeline "
         "StableDiffusionControlNetImg2ImgPipeline StableDiffusionControlNetInpaintPipeline"},

    // ---- Networks of other families ----------------------------------------------------------
    {.name = "UNet of a model that is not known",
     .classes = "UNet2DConditionModel",
     .any = "input_blocks.1.0.in_layers.0.weight down_blocks.0.resnets.0.conv1.weight"},
    {.name = "SD 3",
     .classes = "SD3Transformer2DModel StableDiffusion3Pipeline",
     .any = "joint_blocks.0.context_block.attn.qkv.weight"},
    {.name = "SD 3",
     .all = "pos_embed.proj.weight context_embedder.weight "
            "transformer_blocks.0.norm1_context.linear.weight"},
    {.name = "Flux.2",
     .classes = "Flux2Transformer2DModel Flux2Pipeline Flux2KleinPipeline",
     .any = "double_stream_modulation_img.lin.weight double_stream_modulation_img.linear.weight"},
    {.name = "Chroma",
     .classes = "ChromaTransformer2DModel ChromaPipeline",
     .any = "distilled_guidance_layer.*"},
    {.name = "LTX-Video",
     .classes = "LTXVideoTransformer3DModel LTXPipeline",
     .any = "patchify_proj.weight"},
    {.name = "LTX-Video",
     .all = "time_embed.emb.timestep_embedder.linear_1.weight caption_projection.linear_1.weight "
            "transformer_blocks.0.scale_shift_table proj_in.weight"},
    {.name = "Qwen-Image",
     .classes = "QwenImageTransformer2DModel QwenImagePipeline",
     .all = "txt_norm.weight transformer_blocks.0.img_mod.1.weight"},

    // ---- Text and image encoders -------------------------------------------------------------
    {.name = "UMT5-XXL encoder",
     .roles = kPart,
     .classes = "UMT5EncoderModel",
     .any = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight "
            "enc.blk.1.attn_rel_b.weight"},
    {.name = "UMT5-XXL encoder",
     .roles = kPart,
     .all = "token_embedding.weight blocks.0.pos_embedding.embedding.weight"},
    {.name = "T5-XXL encoder",
     .roles = kPart,
     .classes = "T5EncoderModel",
     .any = "encoder.block.0.layer.0.SelfAttention.q.weight enc.blk.0.attn_q.weight"},
    {.name = "Qwen3 encoder",
     .roles = kPart,
     .classes = "Qwen3Model Qwen3ForCausalLM",
     .any = "layers.0.self_attn.q_norm.weight model.layers.0.self_attn.q_norm.weight "
            "blk.0.attn_q_norm.weight"},
    {.name = "CLIP-G",
     .roles = kPart,
     .classes = "CLIPTextModelWithProjection",
     .size = {"text_model.embeddings.token_embedding.weight", 1, 1280}},
    {.name = "CLIP-G", .roles = kPart, .any = "transformer.resblocks.0.attn.in_proj_weight"},
    {.name = "CLIP-L",
     .roles = kPart,
     .classes = "CLIPTextModel",
     .any = "text_model.embeddings.token_embedding.weight"},
    {.name = "CLIP vision encoder",
     .roles = kPart,
     .classes = "CLIPVisionModel CLIPVisionModelWithProjection",
     .any = "vision_model.embeddings.patch_embedding.weight visual.patch_embedding.weight "
            "visual.conv1.weight",
     .remedy = "it is read from image_encoder/ of a pipeline's folder"},

    // ---- Autoencoders ------------------------------------------------------------------------
    {.name = "Wan VAE",
     .roles = kVaeRole,
     .classes = "AutoencoderKLWan",
     .any = "decoder.middle.1.to_qkv.weight decoder.mid_block.attentions.0.to_qkv.weight"},
    {.name = "Wan VAE (original names), incomplete",
     .all = "encoder.conv1.weight decoder.conv1.weight conv1.weight conv2.weight",
     .remedy = "it has no tensor `decoder.middle.1.to_qkv.weight`: download the file again"},
    {.name = "VAE",
     .roles = kVaeRole,
     .classes = "AutoencoderKL",
     .any = "decoder.mid.attn_1.q.weight decoder.mid_block.attentions.0.to_q.weight "
            "decoder.mid_block.attentions.0.query.weight first_stage_model.decoder.mid.attn_1.q."
            "weight vae.decoder.mid.attn_1.q.weight"},
    {.name = "TAESD (tiny autoencoder)",
     .classes = "AutoencoderTiny",
     .any = "taesd_decoder.* decoder.layers.2.conv.0.weight encoder.layers.1.conv.0.weight"},
    {.name = "TAESD (tiny autoencoder)", .all = "1.weight 3.conv.0.weight"},  // a decoder's file
    {.name = "TAESD (tiny autoencoder)", .all = "0.weight 1.conv.0.weight"},  // an encoder's

    // ---- Others ------------------------------------------------------------------------------
    {.name = "textual inversion embedding",
     .any = "clip_l clip_g t5xxl emb_params string_to_param.*",
     .most_tensors = 4},
    // diffusers' learned_embeds.safetensors: the learned words, `<cat-toy>`.
    {.name = "textual inversion embedding", .any = "<*", .most_tensors = 16},
    {.name = "latents",
     .roles = static_cast<uint8_t>(Role::LATENTS),
     .any = "latents",
     .most_tensors = 4},
};

}  // namespace

std::span<const ModelKind> model_kinds() { return kKinds; }

}  // namespace kinema::weights
