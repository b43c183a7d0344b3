#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kinema::media {

/// What a path holds, told by its kind and its first bytes.
enum class PathKind : uint8_t {
  Safetensors,
  ModelFolder,
  Pipeline,
  TfRecord,
  Events,
  Video,
  Picture,
  Unknown
};

/// Throws an Error when the path does not exist.
PathKind path_kind(const std::filesystem::path& path);

/// Opens and checks a safetensors file, a TFRecord or TensorBoard event file (all CRCs), a video
/// or picture (decodes it), or a model folder (files against index; the model's own names and
/// shapes are checked by the models room). Throws an Error saying what is wrong; returns one line
/// saying what it is.
std::string check_path(const std::filesystem::path& path);

}  // namespace kinema::media
