#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/datasets/clips.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/pjrt/client.h"
#include "kinema/preparation/prepare.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/settings.h"

/// The inputs and outputs of `kinema prepare`.
namespace kinema::resolve {

struct PreparationFolders {
  std::string clips;
  std::string records;
  std::string eval_records;  // empty: no evaluation records
};
/// Throws an Error for `buckets: auto`, which records cannot have.
PreparationFolders preparation_folders(const config::Config& config);
/// The settings with these folders.
config::Loaded with_folders(config::Loaded loaded, const PreparationFolders& folders);

/// The text widths of the transformer, if the encoder supports any width; 0: the encoder's.
TextWidths preparation_text_widths(const config::Loaded& loaded);

/// For an image-to-video model: CLIP of its pipeline, if it has one.
std::unique_ptr<encoders::ImageEncoder> preparation_image_encoder(const config::Config& config,
                                                                  const pjrt::Client& client);

/// Settings that determine the records' contents, in addition to the clips.
struct RecordContents {
  TextWidths text;
  bool sizes = false;  // the sizes of pictures
  bool writes = true;  // true if this process writes records
  std::optional<model_source::PreparedInput> input = {};
};

/// A folder of records to write.
struct PreparedPart {
  std::string kind;  // `training` or `evaluation`
  preparation::Options options;
  bool in_eval_folder = false;
};
/// The folders, in order; the second starts with the clip after the first one's last. Throws an
/// Error if both are the same folder, and for data sets with weights or regularization pictures.
std::vector<PreparedPart> preparation_parts(const config::Config& config,
                                            const datasets::ClipSettings& clips,
                                            const RecordContents& with);

}  // namespace kinema::resolve
