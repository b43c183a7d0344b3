#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kinema::media {

/// The contents of a path, by its kind and its first bytes.
enum class PathKind : uint8_t {
  Weights,  // a safetensors file or a pickle
  ModelFolder,
  Pipeline,
  TfRecord,
  Events,
  Video,
  Picture,
  Unknown
};

/// Throws an Error if the path does not exist.
PathKind path_kind(const std::filesystem::path& path);

/// Opens and checks a safetensors file or a pickle, a TFRecord or TensorBoard event file (all
/// CRCs), a video or picture (decodes it), or a model folder (files against the index; the module
/// `weights` checks names and shapes of the model). Throws an Error with the problem; returns one
/// line with the kind of file.
std::string check_path(const std::filesystem::path& path);

}  // namespace kinema::media
