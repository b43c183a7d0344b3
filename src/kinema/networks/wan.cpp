#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/models/wan/config_file.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/checkpoint_sizes.h"
#include "kinema/networks/families.h"
#include "kinema/networks/tap_names.h"

namespace kinema::networks {
namespace {

/// Tokens of CLIP's vision model for an image of 224 x 224, for Wan 2.1 image-to-video: 16 x 16
/// patches and the class token.
constexpr int64_t kClipTokens = 257;

/// What `more` channels after those of z latents hold: those of Wan's image to video, or of Wan
/// Fun.
MadeOf condition_of(int64_t more, int64_t z) {
  constexpr int64_t kMask = 4;  // channels of a mask: a latent frame has four pictures
  return more == z + kMask       ? MadeOf::FIRST_AND_LAST
         : more == 2 * z         ? MadeOf::CONTROL_AND_START
         : more == 2 * z + kMask ? MadeOf::CONTROL_AND_MASKED
         : more == z             ? MadeOf::START
                                 : MadeOf::FIRST_AND_LAST;
}

std::vector<NamedInput> named_inputs(const wan::TransformerConfig& c) {
  const int64_t more = c.in_channels - c.out_channels;
  if (c.animate) {
    return {{.name = "condition",
             .entry = Entry::CHANNELS,
             .made_of = MadeOf::ANIMATED,
             .channels = more},
            {.name = "poses",
             .entry = Entry::POSES,
             .made_of = MadeOf::POSE_VIDEO,
             .channels = c.animate->latent_channels},
            {.name = "faces",
             .entry = Entry::FACES,
             .made_of = MadeOf::FACE_VIDEO,
             .channels = 3,
             .cell = c.animate->motion_size()}};
  }
  std::vector<NamedInput> out;
  if (more != 0) {
    out.push_back({.name = "condition",
                   .entry = Entry::CHANNELS,
                   .made_of = condition_of(more, c.out_channels),
                   .channels = more});
  }
  if (c.ref_conv_channels > 0) {
    out.push_back({.name = "reference",
                   .entry = Entry::FRONT,
                   .made_of = MadeOf::REFERENCE_FRAME,
                   .channels = c.ref_conv_channels});
  }
  if (c.control_adapter_channels > 0) {
    out.push_back({.name = "camera",
                   .entry = Entry::CAMERA,
                   .made_of = MadeOf::CAMERA_RAYS,
                   .channels = c.control_adapter_channels,
                   .cell = c.control_adapter_shrink});
  }
  if (c.control_layers() > 0) {
    out.push_back({.name = "control",
                   .entry = Entry::BRANCH,
                   .made_of = MadeOf::CONTROL_VIDEO,
                   .channels = c.vace_in_channels});
  }
  if (out.empty()) {
    out.push_back({.name = "first_frame",
                   .entry = Entry::FIRST_FRAME,
                   .made_of = MadeOf::FIRST_IMAGE,
                   .channels = c.out_channels,
                   .optional = true});
  }
  return out;
}

Sizes sizes_of(const wan::TransformerConfig& c) {
  const bool image = c.image_dim > 0;
  return {.in_channels = c.in_channels,
          .out_channels = c.out_channels,
          .patch_size = c.patch_size,
          .max_positions = c.rope_max_seq_len,
          .text_dim = c.text_dim,
          .text_tokens = image ? wan::kImageModelText : 0,
          .image_dim = c.image_dim,
          .image_tokens = !image                    ? 0
                          : c.pos_embed_seq_len > 0 ? c.pos_embed_seq_len
                                                    : kClipTokens,
          .takes_last_image = c.pos_embed_seq_len > 0,
          .named = named_inputs(c),
          .control_layers = c.control_layers(),
          .num_layers = c.num_layers,
          .num_heads = c.num_attention_heads,
          .width = c.dim()};
}

std::vector<Tensor> in_order(const wan::CrossKeys& keys) {
  std::vector<Tensor> out{keys.key, keys.value};
  if (keys.image_key) {
    out.insert(out.end(), {keys.image_key, keys.image_value});
  }
  return out;
}

wan::CrossKeys by_name(const std::vector<Tensor>& keys) {
  check(keys.size() == 2 || keys.size() == 4,
        "[wan] {} tensors are given as keys and values of cross-attention, expected 2 or 4",
        keys.size());
  wan::CrossKeys out{.key = keys[0], .value = keys[1]};
  if (keys.size() == 4) {
    out.image_key = keys[2];
    out.image_value = keys[3];
  }
  return out;
}

constexpr std::array kTapNames{TapName{"block", "blocks"}};

class Wan final : public Architecture {
 public:
  explicit Wan(const wan::TransformerConfig& config) : config_(config), sizes_(sizes_of(config)) {
    wan::validate(config_);
  }

  const Sizes& sizes() const override { return sizes_; }
  schedulers::Learned learned() const override {
    return {.sampled = {.sampler = schedulers::Sampler::UNIPC, .shift = 5.0}};
  }
  io::Json config() const override { return wan::config_json(config_); }
  io::Json original_config() const override { return wan::original_config_json(config_); }

  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                        const nn::InitOptions& init) const override {
    return wan::parameters(config_, options, init);
  }
  void check_divides(const mesh::Placement& place) const override {
    wan::check_divides(config_, place);
  }

  Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                  const Inputs& inputs) const override {
    check(!inputs.pooled && !inputs.size_ids && !inputs.guidance,
          "[wan] pooled text, sizes or guidance are given, which this family does not take");
    wan::TransformerInputs in{.hidden_states = inputs.latents,
                              .timestep = inputs.timestep,
                              .encoder_hidden_states = inputs.text,
                              .encoder_hidden_states_image = inputs.image,
                              .control = inputs.control,
                              .control_scale = inputs.control_scale,
                              .reference = inputs.reference,
                              .camera = inputs.camera,
                              .poses = inputs.poses,
                              .faces = inputs.faces,
                              .block_sum = inputs.block_sum,
                              .cfg_batch = inputs.cfg_batch && !options.place.active() &&
                                           !config_.animate &&
                                           inputs.timestep.shape().elements() == 1,
                              .dropout_key = inputs.dropout_key,
                              .tap = inputs.tap};
    if (inputs.first_timestep) {
      in.timestep =
          wan::token_timesteps(inputs.first_timestep, inputs.timestep, inputs.latents, config_);
    }
    if (!inputs.cross_keys.empty()) {
      in.keys = by_name(inputs.cross_keys);
    }
    const wan::TransformerOutputs out = wan::transformer_outputs(params, config_, options, in);
    return {.prediction = out.velocity, .block_sum = out.block_sum};
  }

  std::string key_of_tap(const std::string& name) const override {
    return networks::key_of_tap(name, kTapNames);
  }

  std::vector<Tensor> cross_keys(std::span<const Tensor> params, const nn::ModelOptions& options,
                                 Tensor text, Tensor image) const override {
    return in_order(wan::cross_keys(params, config_, options, text, image));
  }

  std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                      int64_t text_tokens, int64_t image_tokens) const override {
    const auto value = [&](const char* name, int64_t length) {
      const Shape shape{options.activations_dtype,
                        {config_.all_layers(), contexts, length, config_.num_attention_heads,
                         config_.attention_head_dim}};
      return Value{
          .name = name,
          .shape = shape,
          .sharding = options.place.sharding(
              {"", "activation_batch", "", "activation_cross_attn_heads", ""}, shape.dims)};
    };
    std::vector<Value> out{value("text_keys", text_tokens), value("text_values", text_tokens)};
    if (image_tokens > 0) {
      out.push_back(value("image_keys", image_tokens));
      out.push_back(value("image_values", image_tokens));
    }
    return out;
  }

  Tensor face_tokens(std::span<const Tensor> params, const nn::ModelOptions& options,
                     Tensor pictures) const override {
    return wan::face_tokens(params, config_, options, pictures);
  }

  Value face_token_value(const nn::ModelOptions& options, int64_t contexts,
                         const Dims& latents) const override {
    check(config_.animate.has_value(), "[wan] this transformer reads no faces");
    const Shape shape{options.activations_dtype,
                      {contexts, latents.at(2), config_.animate->face_heads + 1, config_.dim()}};
    return {.name = "face_tokens",
            .shape = shape,
            .sharding = options.place.sharding({"activation_batch", "", "", ""}, shape.dims)};
  }

  Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                        const Dims& latents) const override {
    Dims frames = latents;  // a reference image is one more
    frames.at(frames.size() - 3) += config_.ref_conv_channels > 0 ? 1 : 0;
    const Shape shape{options.activations_dtype, {contexts, sizes_.tokens(frames), config_.dim()}};
    return {.name = "block_sum",
            .shape = shape,
            .sharding = options.place.sharding(
                {"activation_batch", "activation_length", "activation_heads"}, shape.dims)};
  }

  /// MaxDiffusion's formula: attention, projections and feed-forward of every block. Like
  /// MaxDiffusion, it omits patch embedding, timestep embedding, head and CLIP's tokens, and counts
  /// the text projections three times.
  double forward_flops(const Dims& latents, int64_t text_tokens) const override {
    const auto s = static_cast<double>(sizes_.tokens(latents));
    const auto d = static_cast<double>(config_.dim());
    const auto ffn = static_cast<double>(config_.ffn_dim);
    const auto text = static_cast<double>(text_tokens);
    const double self_projections = 3 * 2 * s * d * d;
    const double self_attention = 2 * 2 * s * s * d;
    const double cross_projections = 3 * 2 * text * d * d + 2 * s * d * d;
    const double cross_attention = 2 * 2 * s * text * d;
    const double outputs = 2 * 2 * s * d * d;
    const double feed_forward = 2 * 2 * s * d * ffn;
    const double block = self_projections + self_attention + cross_projections + cross_attention +
                         outputs + feed_forward;
    // A block of the control branch has a projection more, and its first one another.
    const double projections =
        config_.control_layers() > 0
            ? 2 * s * d * d * static_cast<double>(config_.control_layers() + 1)
            : 0.0;
    return block * static_cast<double>(config_.all_layers()) + projections;
  }

 private:
  wan::TransformerConfig config_;
  Sizes sizes_;
};

Network network(const wan::TransformerConfig& config) {
  return Network(std::make_shared<const Wan>(config));
}

/// The width of heads: that of every release, or by the number in an original configuration.
int64_t head_width(const model_files::Checkpoint& checkpoint, int64_t dim) {
  const io::Json* heads =
      checkpoint.config().is_object() ? checkpoint.config().find("num_heads") : nullptr;
  const int64_t count = heads == nullptr ? 0 : heads->as_int();
  return count > 0 && count <= dim && dim % count == 0 ? dim / count : wan::kReleasedHead;
}

/// Adds the control branch, if the checkpoint has one.
void add_control_branch(const model_files::Checkpoint& checkpoint, wan::TransformerConfig& c) {
  if (checkpoint.find("vace_patch_embedding.weight") == nullptr) {
    return;
  }
  const CheckpointSizes sizes(checkpoint);
  const Dims& patch = sizes.dims("vace_patch_embedding.weight", 5);
  check(patch[0] == c.dim(),
        "[weights] {}: the control branch has width {} (`{}`), but the transformer {}\n  expected "
        "the module of a transformer of the same size",
        checkpoint.path(), patch[0], checkpoint.name_in_file("vace_patch_embedding.weight"),
        c.dim());
  c.vace_in_channels = patch[1];
  const int64_t hints = sizes.count("vace_blocks.{}.scale_shift_table");
  check(hints > 0 && hints <= c.num_layers,
        "[weights] {} has {} control blocks (`{}`) for {} blocks", checkpoint.path(), hints,
        checkpoint.name_in_file("vace_blocks.0.scale_shift_table"), c.num_layers);
  // At equal distances, as in both releases: 15 for 30 blocks, 8 for 40.
  for (int64_t i = 0; i < hints; ++i) {
    c.vace_layers.push_back(i * (c.num_layers / hints));
  }
}

/// Adds the sizes of Wan-Animate, if the checkpoint has its parts.
void add_animate(const model_files::Checkpoint& checkpoint, wan::TransformerConfig& c) {
  if (checkpoint.find("pose_patch_embedding.weight") == nullptr) {
    return;
  }
  const CheckpointSizes sizes(checkpoint);
  const std::string motion = "motion_encoder.";
  wan::AnimateConfig a;
  a.latent_channels = sizes.dims("pose_patch_embedding.weight", 5)[1];
  a.motion_channels = {sizes.dims(motion + "conv_in.weight", 4)[0]};
  const int64_t blocks = sizes.count(motion + "res_blocks.{}.conv_skip.weight");
  for (int64_t i = 0; i < blocks; ++i) {
    a.motion_channels.push_back(
        sizes.dims(fmt::format("{}res_blocks.{}.conv_skip.weight", motion, i), 4)[0]);
  }
  a.motion_style_dim = sizes.dims(motion + "conv_out.weight", 4)[0];
  const Dims& directions = sizes.dims(motion + "motion_synthesis_weight", 2);
  a.motion_encoder_dim = directions[0];
  a.motion_dim = directions[1];
  a.face_hidden_dim = sizes.dims("face_encoder.conv2.weight", 3)[0];
  const int64_t all_heads = sizes.dims("face_encoder.conv1_local.weight", 3)[0];
  const int64_t adapters = sizes.count("face_adapter.{}.to_out.weight");
  check(a.face_hidden_dim > 0 && all_heads % a.face_hidden_dim == 0 && adapters > 0 &&
            c.num_layers % adapters == 0,
        "[weights] {}: the face encoder has {} channels for heads of {}, and {} blocks have {} "
        "adapters: expected multiples",
        checkpoint.path(), all_heads, a.face_hidden_dim, c.num_layers, adapters);
  a.face_heads = all_heads / a.face_hidden_dim;
  a.inject_face_latents_blocks = c.num_layers / adapters;
  c.animate = a;
}

wan::TransformerConfig config_from_shapes(const model_files::Checkpoint& checkpoint) {
  const std::string embedder = "condition_embedder.";
  const CheckpointSizes sizes(checkpoint);
  wan::TransformerConfig c;
  const Dims& patch = sizes.dims("patch_embedding.weight", 5);
  const int64_t dim = patch[0];
  const int64_t head = head_width(checkpoint, dim);
  check(dim >= head && dim % head == 0,
        "[weights] {}: `{}` has width {}, which is not a multiple of the head width, {}\n"
        "  put a diffusers config.json with the head width next to the file",
        checkpoint.path(), checkpoint.name_in_file("patch_embedding.weight"), dim, head);
  c.attention_head_dim = head;
  c.num_attention_heads = dim / head;
  c.in_channels = patch[1];
  c.patch_size = {patch[2], patch[3], patch[4]};
  const int64_t voxels = checked_elements({patch[2], patch[3], patch[4]});
  const int64_t out = sizes.dims("proj_out.weight", 2)[0];
  check(voxels > 0 && out % voxels == 0,
        "[weights] {}: `{}` has {} rows, expected a multiple of the patch, {}x{}x{}",
        checkpoint.path(), checkpoint.name_in_file("proj_out.weight"), out, patch[2], patch[3],
        patch[4]);
  c.out_channels = out / voxels;
  c.text_dim = sizes.dims(embedder + "text_embedder.linear_1.weight", 2)[1];
  c.freq_dim = sizes.dims(embedder + "time_embedder.linear_1.weight", 2)[1];
  c.ffn_dim = sizes.dims("blocks.0.ffn.net.0.proj.weight", 2)[0];
  c.num_layers = sizes.count("blocks.{}.scale_shift_table");
  check(c.num_layers > 0, "[weights] {} has no tensor `{}`, so it holds no Wan transformer",
        checkpoint.path(), checkpoint.name_in_file("blocks.0.scale_shift_table"));
  c.cross_attn_norm = checkpoint.find("blocks.0.norm2.weight") != nullptr;
  if (checkpoint.find(embedder + "image_embedder.norm1.weight") != nullptr) {
    c.image_dim = sizes.dims(embedder + "image_embedder.norm1.weight", 1)[0];
    c.added_kv_proj_dim = dim;
  }
  if (checkpoint.find(embedder + "image_embedder.pos_embed") != nullptr) {
    c.pos_embed_seq_len = sizes.dims(embedder + "image_embedder.pos_embed", 3)[1];
  }
  if (checkpoint.find("ref_conv.weight") != nullptr) {
    c.ref_conv_channels = sizes.dims("ref_conv.weight", 4)[1];
  }
  if (checkpoint.find("control_adapter.conv.weight") != nullptr) {
    // As every release: the number of channels is that of the convolution over the tiles of 8 x 8.
    c.control_adapter_channels = sizes.dims("control_adapter.conv.weight", 4)[1] /
                                 (c.control_adapter_shrink * c.control_adapter_shrink);
  }
  add_control_branch(checkpoint, c);
  add_animate(checkpoint, c);
  if (const io::Json* eps =
          checkpoint.config().is_object() ? checkpoint.config().find("eps") : nullptr;
      eps != nullptr) {
    c.eps = eps->as_number();
  }
  return c;
}

Network made_of_config(const io::Json& config) { return network(wan::parse_config(config)); }

Network made_of_shapes(const model_files::Checkpoint& checkpoint) {
  const io::Json& own = checkpoint.config();
  wan::TransformerConfig config;
  if (checkpoint.module() != nullptr && own.is_object() && !model_files::is_original_config(own)) {
    config = wan::parse_config(own);
    add_control_branch(checkpoint, config);
  } else {
    config = config_from_shapes(checkpoint);
  }
  return network(validated(checkpoint, config, [](const auto& c) { wan::validate(c); }));
}

std::optional<io::Json> released_config(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  wan::TransformerConfig out;
  if (has("1.3B")) {
    return wan::config_json(out);
  }
  if (!has("Wan2.1-") && !has("Wan2.2-")) {
    return std::nullopt;
  }
  if (has("5B")) {
    out.num_attention_heads = 24;
    out.ffn_dim = 14336;
    out.num_layers = 30;
    out.in_channels = out.out_channels = 48;
    return wan::config_json(out);
  }
  out.num_attention_heads = 40;
  out.ffn_dim = 13824;
  out.num_layers = 40;
  if (has("Animate")) {
    out.in_channels = 36;
    out.image_dim = 1280;
    out.added_kv_proj_dim = 5120;
    out.animate = wan::AnimateConfig{};
    return wan::config_json(out);
  }
  if (has("I2V") || has("FLF2V")) {
    out.in_channels = 36;
    if (has("Wan2.1-")) {
      out.image_dim = 1280;
      out.added_kv_proj_dim = 5120;
    }
    out.pos_embed_seq_len = has("FLF2V") ? 2 * kClipTokens : 0;
  }
  return wan::config_json(out);
}

}  // namespace

Maker wan_vace_family() {
  return {.class_name = wan::kVaceClassName,
          .from_config = made_of_config,
          .from_shapes = made_of_shapes,
          .released_config = [](std::string_view) { return std::optional<io::Json>(); }};
}

Maker wan_animate_family() {
  return {.class_name = wan::kAnimateClassName,
          .from_config = made_of_config,
          .from_shapes = made_of_shapes,
          .released_config = [](std::string_view) { return std::optional<io::Json>(); }};
}

Maker wan_family() {
  return {.class_name = wan::kClassName,
          .from_config = made_of_config,
          .from_shapes = made_of_shapes,
          .released_config = released_config};
}

}  // namespace kinema::networks
