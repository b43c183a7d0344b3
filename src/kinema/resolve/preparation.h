#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/datasets/clips.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/pjrt/client.h"
#include "kinema/preparation/prepare.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/settings.h"

/// What `kinema prepare` reads and writes.
namespace kinema::resolve {

struct PreparationFolders {
  std::string clips;
  std::string records;
  std::string eval_records;  // empty: none are written
};
PreparationFolders preparation_folders(const config::Config& config);
/// The settings with these folders.
config::Loaded with_folders(config::Loaded loaded, const PreparationFolders& folders);

/// Widths of the text: the transformer's, where the encoder could give any; 0: what it gives.
TextWidths text_widths_to_prepare(const config::Loaded& loaded);

/// For a model that makes videos of images: CLIP of its pipeline, if it has one.
std::unique_ptr<encoders::ImageEncoder> image_encoder_to_prepare(const config::Config& config,
                                                                 const pjrt::Client& client);

/// What the records are made with, beside the clips.
struct RecordContents {
  TextWidths text;
  bool sizes = false;  // of pictures
  bool writes = true;  // in this process
};

/// A folder of records to write.
struct PreparedPart {
  std::string kind;  // `training` or `evaluation`
  preparation::Options options;
  bool in_eval_folder = false;
};
/// The folders, in order; the clips of the second begin where those of the first end. Throws an
/// Error where both are one folder.
std::vector<PreparedPart> preparation_parts(const config::Config& config,
                                            const datasets::ClipSettings& clips,
                                            const RecordContents& with);

}  // namespace kinema::resolve
