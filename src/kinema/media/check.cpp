#include "kinema/media/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/io/file_format.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"
#include "kinema/media/video.h"
#include "kinema/records/event_file.h"
#include "kinema/records/example_proto.h"
#include "kinema/records/tfrecord.h"

namespace kinema::media {
namespace {

namespace fs = std::filesystem;

int64_t elements(const std::vector<io::TensorView>& tensors) {
  int64_t sum = 0;
  for (const io::TensorView& tensor : tensors) {
    sum += tensor.shape.elements();
  }
  return sum;
}

std::string check_model_folder(const fs::path& path) {
  const io::ModelFolder folder = io::ModelFolder::open(path);
  int64_t sum = 0;
  for (const io::TensorFile& file : folder.files()) {
    sum += elements(file.tensors());
  }
  const io::Json* name = folder.config().find("_class_name");
  return fmt::format("model folder{}: {} tensors, {} elements, {} file(s)",
                     name != nullptr && name->is_string() ? " of " + name->as_string() : "",
                     folder.tensors().size(), sum, folder.files().size());
}

// Checks every folder of the pipeline that contains a model.
std::string check_pipeline(const fs::path& path) {
  io::Json::read(path / "model_index.json").members();
  std::vector<fs::path> parts;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory() && fs::exists(entry.path() / "config.json")) {
      parts.push_back(entry.path());
    }
  }
  std::ranges::sort(parts);
  std::string out = "pipeline:";
  for (const fs::path& part : parts) {
    out += fmt::format(" {} ({} tensors)", part.filename().string(),
                       io::ModelFolder::open(part).tensors().size());
  }
  return out;
}

}  // namespace

PathKind path_kind(const fs::path& path) {
  std::error_code ignored;
  check(fs::exists(path, ignored), "[io] {} does not exist", path.string());
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path / "model_index.json")) {
      return PathKind::Pipeline;
    }
    return fs::exists(path / "config.json") ? PathKind::ModelFolder : PathKind::Unknown;
  }
  check(!fs::is_other(path, ignored),
        "[io] {} is a pipe, socket or device, expected a file or folder\n  save what it gives in a "
        "file",
        path.string());
  const std::string extension = path.extension().string();
  if (extension == ".safetensors" || io::is_pickle_name(path)) {
    return PathKind::Weights;
  }
  if (extension == ".tfrec" || extension == ".tfrecord" || extension == ".tfrecords") {
    return PathKind::TfRecord;
  }
  if (records::is_event_file(path)) {
    return PathKind::Events;
  }
  if (is_video_name(path.string())) {
    return PathKind::Video;
  }
  if (is_image_name(path.string())) {
    return PathKind::Picture;
  }
  return PathKind::Unknown;
}

std::string check_path(const fs::path& path) {
  switch (path_kind(path)) {
    case PathKind::Weights: {
      const io::TensorFile file = io::TensorFile::open(path);
      return fmt::format("{}: {} tensors, {} elements",
                         io::is_pickle_name(path) ? "pickle" : "safetensors file",
                         file.tensors().size(), elements(file.tensors()));
    }
    case PathKind::ModelFolder:
      return check_model_folder(path);
    case PathKind::TfRecord: {
      const records::TfRecordFile file = records::TfRecordFile::open(path);
      for (int64_t i = 0; i < file.size(); ++i) {
        records::summarize_example(file.at(i), file.where(i));
      }
      return fmt::format("TFRecord file: {} records", file.size());
    }
    case PathKind::Events:
      return fmt::format("TensorBoard events: {} values", records::read_event_file(path).size());
    case PathKind::Video: {
      const Video video = read_video(path);
      return fmt::format("video: {} frames of {}x{} (height x width), {} frames a second",
                         video.frames.shape.dims[0], video.frames.shape.dims[1],
                         video.frames.shape.dims[2], video.fps);
    }
    case PathKind::Picture: {
      const Dims sizes = read_image(path).shape.dims;
      return fmt::format("picture: {}x{} (height x width)", sizes[0], sizes[1]);
    }
    case PathKind::Pipeline:
      return check_pipeline(path);
    default: {
      const io::FileFormat format = io::file_format(path);
      check(!format, "[io] {}",
            io::wrong_format_text(path.string(), format,
                                  "a safetensors file, model folder, TFRecord file or video"));
      fail("[io] {} is no safetensors file, model folder, TFRecord file or video", path.string());
    }
  }
}

}  // namespace kinema::media
