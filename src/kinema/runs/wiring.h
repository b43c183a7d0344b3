#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kinema/config/config.h"
#include "kinema/data/source.h"
#include "kinema/data/space_to_depth.h"
#include "kinema/data/split.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/clip_report.h"
#include "kinema/runs/job.h"
#include "kinema/runs/text_adapters.h"
#include "kinema/runtime/array.h"
#include "kinema/text/hashed.h"

/// From configuration keys to the settings of the rooms below.
namespace kinema::runs {

/// Whether the key stands on the command line, and in no file or variable alone.
bool on_command_line(const config::Loaded& loaded, const std::string& key);

DType dtype(config::Dtype given);
nn::ModelOptions model_options(const config::Config& config);
nn::InitOptions init_options(const config::Config& config);

/// Where pretrained weights lie of a pipeline's `transformer`, or of its `transformer_2`; empty:
/// from scratch. Throws an Error when the folder that was named, or the part of a pipeline, is not
/// there.
std::filesystem::path pretrained_transformer(const config::Config& config,
                                             const std::string& part = "transformer");

/// A safetensors file that holds models of a pipeline beside the network, or one of them.
bool is_pipeline_file(const std::filesystem::path& path);
/// One that holds CLIP's two text encoders, which are all that Stable Diffusion XL has.
bool has_both_text_encoders(const std::filesystem::path& file);

data::SpaceToDepth space_to_depth(const config::Config& config);

/// Widths that a network expects of text; 0: any, and of pooled text none.
struct TextWidths {
  int64_t states = 0;
  int64_t pooled = 0;
};
TextWidths text_widths(const networks::Sizes& network);
/// Tokens of the text that a configuration's encoder gives a network.
int64_t text_tokens(const config::Config& config, const networks::Sizes& network);
text::HashedEncoder hashed_encoder(const config::Config& config, const TextWidths& widths);

/// The VAE's folder, or a file that holds it; throws an Error that says what to set when there is
/// none.
std::filesystem::path vae_folder(const config::Config& config);

/// The single file that the text encoders lie in; empty: they have folders.
std::filesystem::path text_encoder_file(const config::Config& config);

/// The text encoder and autoencoder of a configuration, with models of the pipeline's folder or of
/// folders of their own. Throw an Error naming what is missing.
std::unique_ptr<encoders::Autoencoder> make_autoencoder(const config::Config& config,
                                                        const runtime::Devices& devices);
/// What is kept of a caption must not depend on which others were encoded with it, so that
/// captions, unlike prompts, never share an array.
enum class TextUse { PROMPTS, CAPTIONS };
std::unique_ptr<encoders::TextEncoder> make_text_encoder(const config::Config& config,
                                                         const TextWidths& widths,
                                                         const pjrt::Client& client, const Job& job,
                                                         TextUse use = TextUse::PROMPTS,
                                                         const TextAdapters& adapters = {});

/// Training samples for a transformer; `batch` samples make a batch. Videos are encoded on the
/// client's device; null when the process is told to stop while they are (make_clip_source).
/// `report`: where it is told what was found of clips. `part`: of eval_split; ALL for a set that is
/// not split.
std::unique_ptr<data::Source> make_source(const config::Config& config,
                                          const networks::Sizes& model, int64_t batch,
                                          const pjrt::Client& client, const Job& job,
                                          const ClipReport& report = {},
                                          data::Split::Part part = data::Split::Part::TRAINED);

/// The samples of eval_data_dir, in order: TFRecords, or videos where it holds clips or a list of
/// them; with eval_split, those of the training's set that are kept out.
std::unique_ptr<data::Source> make_eval_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job);

}  // namespace kinema::runs
