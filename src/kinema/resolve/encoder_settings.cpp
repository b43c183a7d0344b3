#include "kinema/resolve/encoder_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/text_files.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/preparation/content_index.h"
#include "kinema/resolve/encoders.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// Increased when the same settings start to give other latents or text states.
constexpr const char* kEncoding = "4";

/// Several paths in one setting, a line each.
std::string joined(const std::vector<fs::path>& paths) {
  std::string out;
  for (const fs::path& path : paths) {
    out += (out.empty() ? "" : "\n") + path.string();
  }
  return out;
}

std::vector<std::string> split(const std::string& lines) {
  std::vector<std::string> out;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

/// The settings with the hash of a model's contents instead of its path.
preparation::Settings by_content(preparation::Settings settings, preparation::ContentIndex& index) {
  const std::map<std::string, std::vector<std::string>> parts_of{
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
      for (const std::string& path : split(found->second)) {
        content += index.hash_of(path);
      }
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
    // Autoencoders of Stable Diffusion 1 and 2 have the shapes of XL's, whose scale files have by
    // default.
    if (const std::optional<double> scale = latent_scale(config);
        scale == model_files::kStableDiffusionScale) {
      out["latent_scale"] = fmt::format("{}", *scale);
    }
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
    const model_source::TextModels models = model_source::text_models(config);
    std::vector<fs::path> folders;
    std::vector<fs::path> files;
    for (const fs::path& each : {models.first.model, models.first.tokenizer, models.second.model,
                                 models.second.tokenizer}) {
      std::error_code ignored;
      std::vector<fs::path>& kind = fs::is_directory(each, ignored) ? folders : files;
      if (!each.empty() && std::ranges::find(kind, each) == kind.end()) {
        kind.push_back(each);
      }
    }
    out["text encoder's folder"] = joined(folders);
    if (!files.empty()) {
      out["text encoders' file"] = joined(files);
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
