#include "kinema/resolve/encoder_settings.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/preparation/content_index.h"
#include "kinema/resolve/encoders.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// Increased when the same settings start to give other latents or text states.
constexpr const char* kEncoding = "4";

/// The settings with the hash of a model's contents instead of its path.
preparation::Settings by_content(preparation::Settings settings, preparation::ContentIndex& index) {
  const std::map<std::string, std::vector<std::string>> parts_of{
      {"text encoder's folder", {"text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2"}},
      {"image encoder's folder", {"image_encoder", "image_processor"}}};
  for (const char* named :
       {"vae", "text encoder's folder", "text encoders' file", "image encoder's folder"}) {
    const auto found = settings.find(named);
    if (found == settings.end()) {
      continue;
    }
    std::string content;
    const auto parts = parts_of.find(found->first);
    if (parts == parts_of.end()) {
      content = index.hash_of(found->second);
    } else {
      for (const std::string& part : parts->second) {
        const fs::path inside = fs::path(found->second) / part;
        std::error_code ignored;
        if (fs::is_directory(inside, ignored)) {
          content += index.hash_of(inside);
        }
      }
    }
    settings.erase(found);
    settings[std::string("content of ") + named] = content;
  }
  settings["encoding"] = kEncoding;
  index.save();
  return settings;
}

/// The settings that determine latents, with models as paths.
preparation::Settings by_path(const config::Config& config) {
  const config::ModelConfig& m = config.model;
  preparation::Settings out;
  out["autoencoder"] = config::word_of(m.autoencoder);
  out["alpha_background"] = config.data.alpha_background;
  if (m.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    const data::SpaceToDepth blocks = model_source::space_to_depth(config);
    out["space_to_depth"] = fmt::format(
        "blocks of {}x{}x{}, regions {}x{}, ({} + x) * {}", blocks.temporal, blocks.block,
        blocks.block, blocks.temporal_regions, blocks.regions, -blocks.shift, blocks.scale);
  } else {
    out["vae"] = model_source::vae_folder(config).string();
    out["vae_weights_dtype"] = config::word_of(m.vae_weights_dtype);
    out["vae_dtype"] = config::word_of(m.vae_dtype);
    out["precision"] = config::word_of(m.precision);
    if (m.vae_tiling) {
      out["vae_tiling"] = fmt::format("{}x{} each {}x{}", m.vae_tile_height, m.vae_tile_width,
                                      m.vae_tile_stride_height, m.vae_tile_stride_width);
    }
  }
  if (model_source::has_image_condition(config)) {
    out["image condition"] = "of the first frame";
    const std::optional<sample::PipelineFolder> pipeline = model_source::pipeline_index(config);
    if (pipeline && !pipeline->image_encoder.empty()) {
      out["image encoder's folder"] = m.pretrained_model_name_or_path;
    }
  }
  return out;
}

/// The settings that determine text states, with models as paths.
preparation::Settings by_path(const config::Config& config, const TextWidths& widths) {
  const config::ModelConfig& m = config.model;
  preparation::Settings out;
  out["text_encoder"] = config::word_of(m.text_encoder);
  out["max_sequence_length"] = fmt::format("{}", m.max_sequence_length);
  if (m.text_encoder == config::TextEncoder::HASHED) {
    out["text_dim"] = fmt::format("{}", widths.states);
    if (widths.pooled > 0) {
      out["pooled_dim"] = fmt::format("{}", widths.pooled);
    }
  } else {
    const std::string& own = m.wan_text_encoder_pretrained_model_name_or_path;
    const fs::path file = model_source::text_encoder_file(config);
    out["text encoder's folder"] = !own.empty()   ? own
                                   : file.empty() ? m.pretrained_model_name_or_path
                                                  : file.parent_path().string();
    if (!file.empty()) {
      out["text encoders' file"] = file.string();
    }
    out["text_encoder_dtype"] = config::word_of(m.text_encoder_dtype);
    if (config.generate.clip_skip > 0) {
      out["clip_skip"] = fmt::format("{}", config.generate.clip_skip);
    }
  }
  return out;
}

}  // namespace

preparation::Settings pixels_settings(const config::Config& config,
                                      preparation::ContentIndex& models) {
  return by_content(by_path(config), models);
}

preparation::Settings text_settings(const config::Config& config, const TextWidths& widths,
                                    preparation::ContentIndex& models) {
  return by_content(by_path(config, widths), models);
}

}  // namespace kinema::resolve
