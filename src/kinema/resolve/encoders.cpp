#include "kinema/resolve/encoders.h"

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_encoder.h"
#include "kinema/encoders/clip_ids.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/kl_autoencoder.h"
#include "kinema/encoders/qwen3_encoder.h"
#include "kinema/encoders/sd_encoder.h"
#include "kinema/encoders/sdxl_encoder.h"
#include "kinema/encoders/umt5_encoder.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/text_files.h"
#include "kinema/model_source/trained_text.h"
#include "kinema/resolve/device.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// Options of T5 and UMT5.
t5::EncoderOptions t5_options(const config::ModelConfig& m) {
  const DType type = model_source::dtype(m.text_encoder_dtype);
  return {.weights_dtype = type,
          .activations_dtype = type,
          .precision = model_source::precision(m.precision),
          .scan_layers = m.scan_layers};
}

/// For image models: Flux, whose second text encoder is T5, Stable Diffusion, and Z-Image, whose
/// encoder is Qwen3.
std::unique_ptr<encoders::TextEncoder> image_text_encoder(
    const config::Config& config, const model_source::TextModels& models, const TextWidths& widths,
    const pjrt::Client& client, const Job& job, TextUse use,
    const model_source::TextAdapters& adapters) {
  const config::ModelConfig& m = config.model;
  const DType type = model_source::dtype(m.text_encoder_dtype);
  const auto on_note = [job](const std::string& note) { job.notice(note); };
  std::vector<fs::path> embeddings;
  for (const fs::path& folder :
       {adapters.words,
        fs::path(use == TextUse::PROMPTS ? config.generate.embeddings_folder : std::string())}) {
    if (!folder.empty()) {
      embeddings.push_back(folder);
    }
  }
  if (models.kind == model_source::TextModels::Kind::FLUX) {
    return encoders::flux_text_encoder(
        client, {.first = models.first,
                 .second = models.second,
                 .max_sequence_length = m.max_sequence_length,
                 .width = widths.states,
                 .pooled_width = widths.pooled,
                 .batched = use == TextUse::PROMPTS && m.use_batched_text_encoder,
                 .memory = encoders::text_encoder_memory(m.text_encoder_memory),
                 .options = t5_options(m),
                 .clip_dtype = type,
                 .clip_adapters = adapters.first,
                 .t5_adapters = adapters.second,
                 .program = program_options(config),
                 .embeddings = embeddings,
                 .on_note = on_note});
  }
  if (models.kind == model_source::TextModels::Kind::QWEN3) {
    check(embeddings.empty(),
          "[encoders] embeddings_folder is {}, but this model's text encoder learns no words",
          embeddings.empty() ? "" : embeddings.front().string());
    return encoders::qwen3_text_encoder(
        client, {.model = models.first.model,
                 .tokenizer = models.first.tokenizer,
                 .part = models.first.part,
                 .config = models.first.config,
                 .max_sequence_length = m.max_sequence_length,
                 .width = widths.states,
                 .memory = encoders::text_encoder_memory(m.text_encoder_memory),
                 .options = {.weights_dtype = type,
                             .activations_dtype = type,
                             .precision = model_source::precision(m.precision),
                             .scan_layers = m.scan_layers},
                 .program = program_options(config),
                 .on_note = on_note,
                 .adapters = adapters.first});
  }
  if (models.kind == model_source::TextModels::Kind::SD) {
    return encoders::sd_text_encoder(client, {.files = models.first,
                                              .clip_skip = config.generate.clip_skip,
                                              .width = widths.states,
                                              .dtype = type,
                                              .precision = model_source::precision(m.precision),
                                              .scan_layers = m.scan_layers,
                                              .program = program_options(config),
                                              .adapters = adapters.first,
                                              .embeddings = embeddings,
                                              .on_note = on_note});
  }
  return encoders::sdxl_text_encoder(client, {.first = models.first,
                                              .second = models.second,
                                              .clip_skip = config.generate.clip_skip,
                                              .width = widths.states,
                                              .pooled_width = widths.pooled,
                                              .dtype = type,
                                              .precision = model_source::precision(m.precision),
                                              .scan_layers = m.scan_layers,
                                              .program = program_options(config),
                                              .adapters = adapters.first,
                                              .adapters_2 = adapters.second,
                                              .embeddings = embeddings,
                                              .on_note = on_note});
}

/// The side of a latent cell of the configuration's image autoencoder, if its folder is here.
std::optional<int64_t> kl_cell_side(const config::ModelConfig& config) {
  for (const std::string& name :
       {config.wan_vae_pretrained_model_name_or_path, config.pretrained_model_name_or_path}) {
    for (const fs::path& folder : {fs::path(name), fs::path(name) / "vae"}) {
      std::error_code ignored;
      if (!name.empty() && fs::exists(folder / "config.json", ignored) &&
          encoders::is_kl_autoencoder(folder)) {
        return encoders::kl_cell_side(folder);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

encoders::LatentLayout latent_layout(const config::Config& config, const networks::Sizes& model) {
  if (config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    const data::SpaceToDepth blocks = model_source::space_to_depth(config);
    return {.channels = model.out_channels,
            .spatial = blocks.side(),
            .temporal = blocks.frames(),
            .first_frame_alone = false};
  }
  if (const std::optional<int64_t> side = kl_cell_side(config.model)) {
    return {.channels = model.out_channels, .spatial = *side};
  }
  constexpr int64_t kTi2vChannels = 48;  // the cells of Wan 2.2's TI2V VAE have twice the side
  return {.channels = model.out_channels, .spatial = model.out_channels == kTi2vChannels ? 16 : 8};
}

TextWidths text_widths(const networks::Sizes& network) {
  return {.states = network.text_dim, .pooled = network.pooled_dim};
}

int64_t text_tokens(const config::Config& config, const networks::Sizes& network) {
  const bool own = config.model.text_encoder != config::TextEncoder::HASHED;
  return own && network.encoder_tokens > 0 ? network.encoder_tokens
                                           : config.model.max_sequence_length;
}

text::HashedEncoder hashed_encoder(const config::Config& config, const TextWidths& widths) {
  text::HashedEncoder out;
  out.max_sequence_length = config.model.max_sequence_length;
  out.text_dim = widths.states;
  out.pooled_dim = widths.pooled;
  return out;
}

std::optional<double> latent_scale(const config::Config& config) {
  std::error_code ignored;
  if (!fs::is_regular_file(model_source::vae_folder(config), ignored)) {
    return std::nullopt;
  }
  const model_files::Family* family = model_source::family_of_network(config);
  return family == nullptr ? std::nullopt : std::optional(family->latent_scale);
}

std::string autoencoder_text(const config::Config& config) {
  if (config.model.autoencoder != config::Autoencoder::SPACE_TO_DEPTH) {
    return fs::path(model_source::vae_folder(config)).string();
  }
  const data::SpaceToDepth s = model_source::space_to_depth(config);
  return fmt::format("{} {} {} {} {} {}", s.block, s.temporal, s.regions, s.temporal_regions,
                     s.shift, s.scale);
}

std::unique_ptr<encoders::Autoencoder> make_autoencoder(const config::Config& config,
                                                        const runtime::Devices& devices) {
  const config::ModelConfig& m = config.model;
  if (m.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    return encoders::space_to_depth_autoencoder(model_source::space_to_depth(config));
  }
  std::optional<encoders::Tiling> tiling;
  if (m.vae_tiling) {
    tiling = encoders::Tiling{.height = m.vae_tile_height,
                              .width = m.vae_tile_width,
                              .stride_height = m.vae_tile_stride_height,
                              .stride_width = m.vae_tile_stride_width};
  }
  const fs::path folder = model_source::vae_folder(config);
  if (encoders::is_kl_autoencoder(folder)) {
    return std::make_unique<encoders::KlAutoencoder>(
        devices, folder,
        encoders::KlAutoencoderOptions{
            .model = {.weights_dtype = model_source::dtype(m.vae_weights_dtype),
                      .activations_dtype = model_source::dtype(m.vae_dtype),
                      .precision = model_source::precision(m.precision)},
            .latent_scale = latent_scale(config),
            .tiling = tiling,
            .program = program_options(config)});
  }
  encoders::WanAutoencoderOptions options;
  options.model = {.weights_dtype = model_source::dtype(m.vae_weights_dtype),
                   .activations_dtype = model_source::dtype(m.vae_dtype),
                   .precision = model_source::precision(m.precision)};
  options.replicate = m.replicate_vae;
  options.encode_chunk = m.vae_encode_chunk;
  options.decode_chunk = m.vae_decode_chunk;
  options.tiling = tiling;
  options.program = program_options(config);
  return std::make_unique<encoders::WanAutoencoder>(devices, folder, options);
}

std::unique_ptr<encoders::TextEncoder> make_text_encoder(
    const config::Config& config, const TextWidths& widths, const pjrt::Client& client,
    const Job& job, TextUse use, const model_source::TextAdapters& adapters) {
  const config::ModelConfig& m = config.model;
  const auto on_note = [job](const std::string& note) { job.notice(note); };
  if (m.text_encoder == config::TextEncoder::HASHED) {
    return encoders::hashed_text_encoder(hashed_encoder(config, widths), on_note);
  }
  model_source::TextModels models = model_source::text_models(config);
  for (size_t i = 0; i < adapters.trained.size(); ++i) {
    if (!adapters.trained[i].empty()) {
      (i == 0 ? models.first : models.second).model = adapters.trained[i];
    }
  }
  if (models.kind != model_source::TextModels::Kind::UMT5) {
    return image_text_encoder(config, models, widths, client, job, use, adapters);
  }
  return encoders::umt5_text_encoder(
      client, {.model = models.first.model,
               .tokenizer = models.first.tokenizer,
               .part = models.first.part,
               .max_sequence_length = m.max_sequence_length,
               .width = widths.states,
               .batched = use == TextUse::PROMPTS && m.use_batched_text_encoder,
               .memory = encoders::text_encoder_memory(m.text_encoder_memory),
               .options = t5_options(m),
               .program = program_options(config),
               .on_note = on_note});
}

std::unique_ptr<encoders::TextEncoder> make_ids_encoder(const config::Config& config,
                                                        const networks::Sizes& network,
                                                        const pjrt::Client& client,
                                                        const Job& job) {
  const model_source::TrainedText text = model_source::trained_text(config).value();
  encoders::ClipIdsSettings out{.length = text.texts.front().tokens,
                                .on_note = [job](const std::string& note) { job.notice(note); }};
  for (size_t i = 0; i < text.texts.size(); ++i) {
    out.tokenizers.push_back(text::ClipTokenizer::open(text.files[i].tokenizer));
    std::vector<encoders::TrainedWord>& words = out.words.emplace_back();
    for (const training::WordRows& word : text.words) {
      words.push_back({.name = word.name,
                       .first_id = text.texts[i].config.vocab_size + word.first_row,
                       .rows = word.rows});
    }
  }
  if (!network.text_is_ids) {
    out.states =
        make_text_encoder(config, {.states = network.text_dim}, client, job, TextUse::CAPTIONS);
  }
  return encoders::clip_ids_encoder(std::move(out));
}

std::unique_ptr<encoders::ImageEncoder> make_image_encoder(const config::Config& config,
                                                           const sample::PipelineFolder& pipeline,
                                                           int64_t image_dim,
                                                           const pjrt::Client& client) {
  if (pipeline.image_encoder.empty() || pipeline.image_processor.empty()) {
    return nullptr;
  }
  auto clip = std::make_unique<encoders::ClipEncoder>(
      client, pipeline.image_encoder, pipeline.image_processor,
      encoders::ClipOptions{.program = program_options(config)});
  check(image_dim == 0 || clip->config().hidden_size == image_dim,
        "[image] the image encoder in {} makes tokens of width {}, but the transformer takes {}",
        pipeline.image_encoder.string(), clip->config().hidden_size, image_dim);
  return clip;
}

}  // namespace kinema::resolve
