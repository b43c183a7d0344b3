#include "kinema/weights/model_kind.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/gguf.h"
#include "kinema/io/json.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

using Tensors = std::vector<std::pair<std::string, Dims>>;

std::vector<io::TensorView> views(const Tensors& tensors) {
  std::vector<io::TensorView> out;
  for (const auto& [name, dims] : tensors) {
    out.push_back({.name = name, .shape = {DType::F32, dims}, .bytes = {}});
  }
  return out;
}

fs::path write(const fs::path& path, const Tensors& tensors) {
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, dims] : tensors) {
    entries.push_back(io::TensorEntry::lazy(name, {DType::F32, dims}, [dims = dims] {
      return HostArray(Shape{DType::F32, dims});
    }));
  }
  io::write_safetensors(path, entries);
  return path;
}

Tensors operator+(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tensors prefixed(const std::string& prefix, Tensors tensors) {
  for (auto& [name, dims] : tensors) {
    name = prefix + name;
  }
  return tensors;
}

/// The tensors that identify a Wan network with `in` input channels.
Tensors wan(int64_t in) {
  return {{"patch_embedding.weight", {64, in, 1, 2, 2}}, {"head.head.weight", {64, 64}}};
}
Tensors flux(int64_t in) {
  return {{"img_in.weight", {24, in}},
          {"single_blocks.0.modulation.lin.weight", {72, 24}},
          {"final_layer.linear.weight", {24, 24}}};
}
Tensors zimage() {
  return {{"x_embedder.weight", {24, 24}},
          {"layers.0.adaLN_modulation.0.weight", {96, 24}},
          {"final_layer.linear.weight", {24, 24}}};
}
Tensors unet(int64_t in, int64_t sizes = 2816) {
  return {{"input_blocks.0.0.weight", {4, in, 3, 3}},
          {"input_blocks.1.0.in_layers.0.weight", {4}},
          {"label_emb.0.0.weight", {16, sizes}},
          {"out.2.weight", {4, 4, 3, 3}}};
}
Tensors unet_of_sd(int64_t text, int64_t in = 4) {
  return {{"input_blocks.0.0.weight", {4, in, 3, 3}},
          {"input_blocks.1.0.in_layers.0.weight", {4}},
          {"input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight", {4, text}},
          {"middle_block.1.transformer_blocks.0.attn2.to_k.weight", {4, text}},
          {"out.2.weight", {4, 4, 3, 3}}};
}
Tensors lora(const std::string& module) {
  return {{module + ".lora_down.weight", {2, 8}}, {module + ".lora_up.weight", {8, 2}}};
}
/// The pair of a layer with `width` inputs and outputs, in diffusers' names.
Tensors first_query(const std::string& module, int64_t width) {
  return {{module + ".lora_A.weight", {2, width}}, {module + ".lora_B.weight", {width, 2}}};
}
Tensors of_module(std::initializer_list<const char*> endings, Dims dims = {8, 2}) {
  Tensors out;
  for (const char* ending : endings) {
    out.emplace_back(std::string("lora_unet_input_blocks_4_1_proj_in.") + ending, dims);
  }
  return out;
}

struct Case {
  std::string name;
  Tensors tensors;
};

const std::vector<Case>& cases() {
  static const Tensors vae = {{"vae.decoder.mid.attn_1.q.weight", {8, 8, 1, 1}}};
  static const std::string kFirst = "first_stage_model.decoder.conv_in.weight";
  static const std::vector<Case> all{
      {"Flux transformer",
       prefixed("model.diffusion_model.", flux(24)) +
           Tensors{{"model.diffusion_model.double_blocks.0.img_attn.qkv.weight.quant_state."
                    "bitsandbytes__nf4",
                    {78}}}},
      {"SVDQuant weights (Nunchaku)", {{"single_blocks.0.linear.wscales", {8}}}},
      {"LoRA", lora("lora_unet_input_blocks_4_1_proj_in") + of_module({"dora_scale"})},
      {"LoRA", of_module({"lora_down.weight", "lora_mid.weight", "lora_up.weight"})},
      {"LyCORIS adapter", of_module({"alpha", "hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"})},
      {"LyCORIS adapter", of_module({"alpha", "lokr_w1", "lokr_w2_a", "lokr_w2_b"})},
      {"LyCORIS adapter", of_module({"alpha", "oft_blocks"}, {2, 1, 8, 8})},
      {"LyCORIS adapter", of_module({"alpha", "a1.weight", "a2.weight", "b1.weight", "b2.weight"})},
      {"LyCORIS adapter", of_module({"weight", "on_input"}, {8})},
      {"LyCORIS adapter of a network that is not known", {{"base_model.model.a.ia3_l", {8, 1}}}},
      {"BOFT (PEFT)", {{"base_model.model.a.boft_R.default", {2, 8, 8}}}},
      {"OFT (PEFT before 0.16)", {{"base_model.model.a.oft_r.default", {8, 8, 8}}}},
      {"LyCORIS adapter of a network that is not known",
       {{"base_model.model.a.oft_R.weight", {8, 28}}}},
      {"VeRA", {{"base_model.model.a.vera_lambda_b", {8}}}},
      {"ControlNet LLLite", {{"lllite_unet_input_blocks_4_1.down.0.weight", {8, 8}}}},
      {"LoRA", lora("lora_te_text_model_encoder_layers_0_mlp_fc1")},
      {"SD 1.5 or SD 2.x LoRA",
       {{"lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q.lora_down.weight",
         {4, 320}}}},
      {"SD 1.5 or SD 2.x LoRA",
       {{"unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_k.lora_A.weight",
         {4, 320}}}},
      {"Qwen-Image LoRA",
       {{"transformer.transformer_blocks.0.attn.to_q.lora_A.weight", {4, 8}},
        {"transformer.transformer_blocks.0.img_mlp.net.2.lora_A.weight", {4, 8}}}},
      {"Qwen-Image LoRA", {{"transformer_blocks.59.attn.to_q.lora_A.default.weight", {4, 8}}}},
      {"Qwen-Image LoRA", lora("lora_unet_transformer_blocks_0_img_mod_1")},
      {"Flux.2 LoRA", lora("transformer.single_transformer_blocks.0.attn.to_qkv_mlp_proj")},
      {"Flux.2 LoRA", lora("diffusion_model.single_blocks.47.linear1")},
      {"Hunyuan Video LoRA", lora("lora_unet_double_blocks_0_img_mlp_fc1")},
      {"Hunyuan Video LoRA", lora("diffusion_model.double_blocks.0.img_attn_qkv")},
      {"Hunyuan Video LoRA", lora("transformer.transformer_blocks.0.attn.to_q") +
                                 lora("transformer.single_transformer_blocks.39.attn.to_q")},
      {"Hunyuan Video LoRA",
       lora("transformer.context_embedder.token_refiner.refiner_blocks.0.attn.to_q")},
      {"SD 3 LoRA", lora("lora_unet_joint_blocks_0_x_block_attn_qkv")},
      {"SD 3 LoRA", first_query("transformer.transformer_blocks.0.attn.to_q", 1536)},
      {"SD 3 LoRA", first_query("transformer.transformer_blocks.0.attn.to_q", 2432)},
      {"LoRA", first_query("transformer.transformer_blocks.0.attn.to_q", 3072)},  // of Flux.1
      {"Chroma LoRA", lora("diffusion_model.distilled_guidance_layer.layers.0.in_layer")},
      {"HiDream LoRA", lora("diffusion_model.double_stream_blocks.0.block.attn1.to_q")},
      {"AuraFlow LoRA", lora("transformer.joint_transformer_blocks.0.attn.to_q")},
      {"LoRA", lora("diffusion_model.layers.0.attention.to_q")},  // of Z-Image
      {"LoRA", first_query("diffusion_model.layers.0.attention.qkv", 3840)},
      {"Lumina 2 LoRA", first_query("diffusion_model.layers.0.attention.qkv", 2304)},
      {"Lumina 2 LoRA", lora("transformer.layers.0.attn.to_q")},
      {"Mochi LoRA", lora("transformer.transformer_blocks.0.attn1.to_q") +
                         lora("transformer.transformer_blocks.0.attn1.add_q_proj")},
      {"LTX-2 LoRA", lora("diffusion_model.transformer_blocks.0.attn1.to_q") +
                         lora("diffusion_model.transformer_blocks.0.audio_attn1.to_q")},
      {"CogVideoX LoRA", first_query("transformer.transformer_blocks.0.attn1.to_q", 1920)},
      {"CogVideoX LoRA", first_query("transformer.transformer_blocks.0.attn1.to_q", 3072)},
      {"Sana LoRA", first_query("transformer.transformer_blocks.0.attn1.to_q", 2240)},
      {"PixArt or Sana LoRA",
       first_query("base_model.model.transformer_blocks.0.attn1.to_q", 1152)},
      {"LTX-Video or Cosmos LoRA",
       first_query("diffusion_model.transformer_blocks.0.attn1.to_q", 2048)},
      {"Cosmos LoRA", lora("diffusion_model.blocks.0.self_attn.q_proj")},
      {"Wan VACE LoRA",
       lora("diffusion_model.vace_blocks.0.self_attn.q") + lora("diffusion_model.blocks.0.ffn.0")},
      {"LoRA", lora("transformer.transformer_blocks.18.attn.to_q") +
                   lora("transformer.single_transformer_blocks.37.attn.to_q")},
      {"LoRA", lora("lora_unet_input_blocks_4_1_proj_in")},
      {"LoRA", lora("diffusion_model.blocks.0.self_attn.q") +
                   Tensors{{"diffusion_model.blocks.0.norm3.diff", {8}}}},
      {"LoRA of a network that is not known", lora("lora_unet_no_such_module")},
      {"full difference", {{"diffusion_model.blocks.0.self_attn.q.diff", {8, 8}}}},
      {"ControlNet", prefixed("control_model.", unet(4)) +
                         Tensors{{"control_model.input_hint_block.0.weight", {16, 3, 3, 3}}}},
      {"control-LoRA", {{"lora_controlnet", {1}}}},
      {"ControlNet", {{"controlnet_cond_embedding.conv_in.weight", {16, 3, 3, 3}}}},
      {"IP-Adapter", {{"ip_adapter.1.to_k_ip.weight", {8, 8}}, {"image_proj.proj.weight", {8, 8}}}},
      {"T2I-Adapter",
       {{"adapter.body.0.in_conv.weight", {8, 8, 1, 1}}, {"adapter.conv_in.weight", {8, 8, 3, 3}}}},
      {"AnimateDiff motion module",
       {{"down_blocks.0.motion_modules.0.temporal_transformer.norm.weight", {8}}}},
      {"Flux Redux image encoder", {{"redux_up.weight", {8, 8}}, {"redux_down.weight", {8, 8}}}},
      {"Wan VACE module", {{"vace_blocks.0.after_proj.weight", {64, 64}}}},
      {"Wan VACE", wan(16) + Tensors{{"vace_blocks.0.after_proj.weight", {64, 64}}}},
      {"Wan-Animate", wan(36) + Tensors{{"pose_patch_embedding.weight", {64, 16, 1, 2, 2}}}},
      {"Wan 2.2 S2V (speech to video)",
       wan(16) + Tensors{{"casual_audio_encoder.weights", {1, 25, 1, 1}}}},
      {"Wan with audio (MultiTalk, InfiniteTalk)",
       wan(36) + Tensors{{"audio_proj.proj1.weight", {8, 8}}}},
      {"Wan Fun-Control with a camera",
       wan(36) + Tensors{{"control_adapter.conv.weight", {8, 8, 1, 1}}}},
      {"Wan Fun-Control", wan(48) + Tensors{{"ref_conv.weight", {64, 16, 2, 2}}}},
      {"Wan Fun-Control", wan(48)},
      {"Wan Fun-Control", wan(52)},
      {"Flux Fill", flux(144)},
      {"Flux Depth/Canny control", flux(48)},
      {"SDXL inpainting UNet", unet(9)},
      {"SDXL inpainting UNet",
       prefixed("model.diffusion_model.", unet(9)) + Tensors{{kFirst, {8, 4, 3, 3}}}},
      {"SDXL InstructPix2Pix UNet", unet(8)},
      {"SDXL refiner UNet", unet(4, 2560)},
      {"Wan all-in-one", prefixed("model.diffusion_model.", wan(16)) +
                             Tensors{{"vae.decoder.conv1.weight", {8, 16, 3, 3, 3}}}},
      {"Flux all-in-one", prefixed("model.diffusion_model.", flux(24)) + vae},
      {"SDXL checkpoint",
       prefixed("model.diffusion_model.", unet(4)) + Tensors{{kFirst, {8, 4, 3, 3}}}},
      {"Wan transformer", wan(16)},
      {"Wan transformer", wan(36)},
      {"Flux transformer", flux(24)},
      {"Z-Image all-in-one", prefixed("model.diffusion_model.", zimage()) + vae},
      {"Z-Image transformer", zimage()},
      {"SDXL UNet", unet(4)},
      {"SD checkpoint", prefixed("model.diffusion_model.", unet_of_sd(36)) +
                            Tensors{{"cond_stage_model.transformer.text_model.a.weight", {8}}}},
      {"SD 1.5 checkpoint", prefixed("model.diffusion_model.", unet_of_sd(768)) +
                                Tensors{{"cond_stage_model.transformer.text_model.a.weight", {8}}}},
      {"SD 2.x checkpoint", prefixed("model.diffusion_model.", unet_of_sd(1024)) +
                                Tensors{{"cond_stage_model.model.ln_final.weight", {8}}}},
      {"SD 1.5 UNet", unet_of_sd(768)},
      {"SD 2.x UNet", unet_of_sd(1024)},
      {"SD UNet", unet_of_sd(36)},
      {"SD inpainting UNet", unet_of_sd(768, 9)},
      {"SD InstructPix2Pix UNet", unet_of_sd(768, 8)},
      {"SD 2 depth UNet", unet_of_sd(1024, 5)},
      {"SD upscaler UNet", unet_of_sd(1024, 7)},
      {"ControlNet", prefixed("control_model.", unet_of_sd(768)) +
                         Tensors{{"control_model.input_hint_block.0.weight", {16, 3, 3, 3}}}},
      {"UNet of a model that is not known",
       {{"down_blocks.0.resnets.0.conv1.weight", {4, 4, 3, 3}}}},
      {"SD 3", {{"model.diffusion_model.joint_blocks.0.context_block.attn.qkv.weight", {24, 8}}}},
      // The names of diffusers' classes.
      {"SD 3",
       {{"pos_embed.pos_embed", {1, 36864, 24}},
        {"pos_embed.proj.weight", {24, 16, 2, 2}},
        {"time_text_embed.text_embedder.linear_1.weight", {24, 8}},
        {"context_embedder.weight", {24, 8}},
        {"transformer_blocks.0.norm1_context.linear.weight", {144, 24}}}},
      {"Flux.2",
       {{"x_embedder.weight", {24, 8}},
        {"double_stream_modulation_img.linear.weight", {144, 24}},
        {"single_transformer_blocks.0.attn.to_qkv_mlp_proj.weight", {216, 24}}}},
      {"Hunyuan Video",
       {{"x_embedder.proj.weight", {24, 16, 1, 2, 2}},
        {"context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight", {24, 24}},
        {"single_transformer_blocks.0.norm.linear.weight", {72, 24}}}},
      {"LTX-Video",
       {{"proj_in.weight", {24, 128}},
        {"caption_projection.linear_1.weight", {24, 8}},
        {"time_embed.emb.timestep_embedder.linear_1.weight", {24, 256}},
        {"transformer_blocks.0.scale_shift_table", {6, 24}}}},
      {"Flux.2", {{"double_stream_modulation_img.lin.weight", {24, 8}}}},
      {"Chroma", {{"distilled_guidance_layer.in_proj.weight", {24, 8}}}},
      {"Hunyuan Video", {{"double_blocks.0.img_attn_qkv.weight", {24, 8}}}},
      {"LTX-Video", {{"patchify_proj.weight", {24, 8}}}},
      {"Qwen-Image",
       {{"txt_norm.weight", {8}}, {"transformer_blocks.0.img_mod.1.weight", {24, 8}}}},
      {"UMT5-XXL encoder",
       {{"encoder.block.0.layer.0.SelfAttention.q.weight", {8, 8}},
        {"encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", {32, 2}},
        {"spiece_model", {16}}}},
      {"UMT5-XXL encoder",
       {{"token_embedding.weight", {8, 8}}, {"blocks.0.pos_embedding.embedding.weight", {32, 2}}}},
      {"T5-XXL encoder", {{"encoder.block.0.layer.0.SelfAttention.q.weight", {8, 8}}}},
      {"CLIP-G", {{"text_model.embeddings.token_embedding.weight", {610, 1280}}}},
      {"CLIP-G", {{"transformer.resblocks.0.attn.in_proj_weight", {24, 8}}}},
      {"Qwen3 encoder", {{"model.layers.0.self_attn.q_norm.weight", {8}}}},
      {"Qwen3 encoder", {{"blk.0.attn_q_norm.weight", {8}}}},
      {"CLIP-L", {{"text_model.embeddings.token_embedding.weight", {610, 768}}}},
      {"CLIP vision encoder", {{"vision_model.embeddings.patch_embedding.weight", {8, 3, 4, 4}}}},
      {"Wan VAE (original names), incomplete",
       {{"conv1.weight", {32, 32, 1, 1, 1}},
        {"conv2.weight", {16, 16, 1, 1, 1}},
        {"decoder.conv1.weight", {8, 16, 3, 3, 3}},
        {"encoder.conv1.weight", {8, 3, 3, 3, 3}}}},
      {"Wan VAE", {{"decoder.middle.1.to_qkv.weight", {24, 8, 1, 1}}}},
      {"Wan VAE", {{"decoder.mid_block.attentions.0.to_qkv.weight", {24, 8, 1, 1}}}},
      {"VAE", {{"decoder.mid.attn_1.q.weight", {8, 8, 1, 1}}}},
      {"VAE", {{"decoder.mid_block.attentions.0.to_q.weight", {8, 8}}}},
      {"TAESD (tiny autoencoder)", {{"taesd_decoder.1.weight", {8, 4, 3, 3}}}},
      {"TAESD (tiny autoencoder)",
       {{"encoder.layers.0.weight", {8, 3, 3, 3}},
        {"encoder.layers.1.conv.0.weight", {8, 8, 3, 3}},
        {"decoder.layers.0.weight", {8, 16, 3, 3}},
        {"decoder.layers.2.conv.0.weight", {8, 8, 3, 3}}}},
      {"TAESD (tiny autoencoder)", {{"1.weight", {8, 4, 3, 3}}, {"3.conv.0.weight", {8, 8, 3, 3}}}},
      {"TAESD (tiny autoencoder)", {{"0.weight", {8, 3, 3, 3}}, {"1.conv.0.weight", {8, 8, 3, 3}}}},
      {"textual inversion embedding", {{"<cat-toy>", {768}}}},
      {"textual inversion embedding", {{"clip_l", {2, 768}}, {"clip_g", {2, 1280}}}},
      {"latents", {{"latents", {1, 4, 1, 8, 8}}}},
  };
  return all;
}

TEST(ModelKind, IsDetectedByTensors) {
  for (const Case& each : cases()) {
    const std::optional<FoundKind> found = detect_tensor_kind(views(each.tensors));
    ASSERT_TRUE(found) << each.name;
    EXPECT_EQ(found->kind->name, each.name) << found->because;
  }
}

TEST(ModelKind, IsDetectedByTheClassOfAFolder) {
  const io::Scratch scratch;
  std::set<const ModelKind*> by_class;
  for (const ModelKind& kind : model_kinds()) {
    for (size_t begin = 0; begin < kind.classes.size();) {
      const size_t end = std::min(kind.classes.find(' ', begin), kind.classes.size());
      const std::string name(kind.classes.substr(begin, end - begin));
      begin = end + 1;
      const bool is_pipeline = name.ends_with("Pipeline");
      const fs::path folder = scratch / name;
      fs::create_directory(folder);
      std::ofstream(folder / (is_pipeline ? "model_index.json" : "config.json")) << fmt::format(
          R"({{"_class_name": "{}"{}}})", name,
          // Without this key it is a UNet of Stable Diffusion 1 or 2.
          name == "UNet2DConditionModel" ? R"(, "addition_embed_type": "image")" : "");
      const std::optional<FoundKind> found = detect_kind(folder);
      ASSERT_TRUE(found) << name;
      EXPECT_EQ(found->kind, &kind) << name << " is taken for " << found->kind->name;
      by_class.insert(found->kind);
    }
  }
  // No row without a test.
  std::set<const ModelKind*> tested = by_class;
  for (const Case& each : cases()) {
    tested.insert(detect_tensor_kind(views(each.tensors))->kind);
  }
  for (const ModelKind& kind : model_kinds()) {
    EXPECT_TRUE(tested.contains(&kind)) << kind.name << " has no case";
    if (!kind.classes.empty()) {
      EXPECT_TRUE(by_class.contains(&kind)) << kind.name;
    }
  }
}

TEST(ModelKind, IsDetectedByTheSizesInAConfiguration) {
  const io::Scratch scratch;
  const auto kind = [&](const std::string& config) {
    fs::create_directories(scratch / "m");
    std::ofstream(scratch / "m/config.json") << config;
    return std::string(detect_kind(scratch / "m")->kind->name);
  };
  const std::string unet = R"({"_class_name": "UNet2DConditionModel", "out_channels": 4, )";
  EXPECT_EQ(kind(unet + R"("in_channels": 9, "addition_embed_type": "text_time"})"),
            "SDXL inpainting UNet");
  EXPECT_EQ(kind(unet + R"("in_channels": 4, "addition_embed_type": "text_time"})"), "SDXL UNet");
  EXPECT_EQ(kind(unet + R"("in_channels": 4, "addition_embed_type": null})"), "SD UNet");
  EXPECT_EQ(kind(unet + R"("in_channels": 4, "cross_attention_dim": 768})"), "SD 1.5 UNet");
  EXPECT_EQ(kind(unet + R"("in_channels": 4, "cross_attention_dim": 1024})"), "SD 2.x UNet");
  EXPECT_EQ(kind(unet + R"("in_channels": 9, "cross_attention_dim": 768})"), "SD inpainting UNet");
  EXPECT_EQ(kind(unet + R"("in_channels": 4, "addition_embed_type": "image"})"),
            "UNet of a model that is not known");
  EXPECT_EQ(kind(R"({"_class_name": "FluxTransformer2DModel", "in_channels": 384,
                     "out_channels": 64})"),
            "Flux Fill");
  EXPECT_EQ(kind(R"({"_class_name": "FluxTransformer2DModel", "in_channels": 64,
                     "out_channels": null})"),
            "Flux transformer");
  EXPECT_EQ(kind(R"({"_class_name": "WanModel", "in_dim": 48, "out_dim": 16})"), "Wan Fun-Control");
  EXPECT_EQ(kind(R"({"_class_name": "WanModel", "in_dim": 36, "out_dim": 16})"), "Wan transformer");
}

TEST(ModelKind, NamesTheCommandsThatAcceptAFile) {
  const io::Scratch scratch;
  const auto takers = [&](const Tensors& tensors) {
    const fs::path file = write(scratch / "a.safetensors", tensors);
    return accepting_commands(*detect_kind(file)->kind, "a.safetensors");
  };
  EXPECT_THAT(takers(prefixed("model.diffusion_model.", unet(4)) +
                     Tensors{{"first_stage_model.decoder.conv_in.weight", {8, 4, 3, 3}}}),
              AllOf(HasSubstr("generate a.safetensors"),
                    HasSubstr("wan_vae_pretrained_model_name_or_path=a.safetensors")));
  EXPECT_THAT(takers(flux(24)),
              AllOf(HasSubstr("wan_transformer_pretrained_model_name_or_path=a.safetensors"),
                    Not(HasSubstr("vae"))));
  EXPECT_THAT(takers(lora("lora_unet_input_blocks_4_1_proj_in")), HasSubstr("lora=a.safetensors"));
  EXPECT_EQ(takers({{"encoder.block.0.layer.0.SelfAttention.q.weight", {8, 8}}}), "");
  EXPECT_FALSE(detect_kind(write(scratch / "b.safetensors", {{"a", {2}}})));
  EXPECT_FALSE(detect_kind(scratch.path()));
  EXPECT_FALSE(detect_kind(scratch / "absent.safetensors"));
}

TEST(ModelKind, IsRefusedByNameIfUnsupported) {
  const io::Scratch scratch;
  const fs::path pix2pix = write(scratch / "pix2pix.safetensors", unet(8));
  EXPECT_THAT(
      [&] { check_role(pix2pix, {Role::NETWORK}); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("pix2pix.safetensors is not supported"), HasSubstr("SDXL InstructPix2Pix UNet"),
          HasSubstr("`input_blocks.0.0.weight` [4,8,3,3]"), HasSubstr("\n  "))));
  const fs::path inpaint = write(scratch / "inpaint.safetensors", unet(9));
  const fs::path animate = io::golden("animate/wan22_animate/transformer");
  EXPECT_THAT(accepting_commands(*detect_kind(animate)->kind, animate),
              AllOf(HasSubstr("generate "), Not(HasSubstr("train "))));
  EXPECT_THAT(accepting_commands(*detect_kind(inpaint)->kind, inpaint),
              AllOf(HasSubstr("generate"), HasSubstr("convert"), HasSubstr("train ")));
  const fs::path file =
      write(scratch / "style.safetensors", lora("diffusion_model.blocks.0.self_attn.q"));
  EXPECT_THAT(
      [&] {
        check_role(file, {Role::NETWORK, Role::VAE}, "some_key");
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("some_key: "), HasSubstr("style.safetensors is LoRA"),
                                 HasSubstr("a transformer or UNet or an autoencoder"),
                                 HasSubstr("\n  style.safetensors is taken by"))));
  EXPECT_NO_THROW(check_role(file, {Role::ADAPTER}));
}

TEST(ModelKind, OfGgufIsDetectedByItsTensorsToo) {
  const io::Scratch scratch;
  const std::vector<io::GgufEntry> entries{
      {"enc.blk.0.attn_q.weight", {32, 32}, io::GgmlType::F32, [] {
         return std::vector<float>(1024);
       }}};
  io::write_gguf(scratch / "t5.gguf", entries, {});
  EXPECT_EQ(detect_kind(scratch / "t5.gguf")->kind->name, "T5-XXL encoder");
}

}  // namespace
}  // namespace kinema::weights
