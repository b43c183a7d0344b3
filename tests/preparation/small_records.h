#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/preparation/prepare.h"

/// Records of the reference's clips at a small size, from encoders without weights.
namespace kinema::preparation {

inline data::SpaceToDepth blocks() {
  data::SpaceToDepth out;
  out.block = 8;
  return out;
}

inline text::HashedEncoder words() {
  text::HashedEncoder out;
  out.max_sequence_length = 6;
  out.text_dim = 4;
  return out;
}

inline const encoders::Autoencoder& autoencoder() {
  static const auto out = encoders::space_to_depth_autoencoder(blocks());
  return *out;
}

inline const encoders::TextEncoder& text_encoder() {
  static const auto out = encoders::hashed_text_encoder(words());
  return *out;
}

inline std::shared_ptr<const data::ClipSet> clips_of(const std::filesystem::path& folder) {
  return data::folder_clips(folder, "text", /*keep_bad=*/true);
}

inline Options options(const std::filesystem::path& output) {
  Options out;
  out.clips = clips_of(io::golden("dataset"));
  out.name = "dataset";
  out.format = {.height = 16, .width = 24, .num_frames = 5};
  out.output = output;
  out.records_per_shard = 5;
  return out;
}

inline Prepared run(const Options& options, const Hooks& hooks = {}) {
  return prepare_records(options, {.autoencoder = autoencoder(), .text = text_encoder()}, hooks);
}

/// Every file of a folder by name.
inline std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    out[entry.path().filename().string()] = text.str();
  }
  return out;
}

inline std::vector<std::string> names(const std::vector<Shard>& shards) {
  std::vector<std::string> out;
  for (const Shard& shard : shards) {
    out.push_back(shard.name);
  }
  return out;
}

}  // namespace kinema::preparation
