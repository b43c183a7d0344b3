#include "kinema/model_source/model_paths.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/tensor_file.h"
#include "kinema/media/media_name.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_source/expert.h"
#include "kinema/model_source/text_files.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/t5.h"
#include "kinema/weights/weights.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

/// Throws an Error if the folder is not a model's; it says what the folder is, and which command or
/// key accepts it.
void check_is_model(const fs::path& folder) {
  std::error_code ignored;
  bool has_weights = fs::exists(folder / "config.json", ignored);
  bool has_clips = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    has_weights = has_weights || entry.path().extension() == ".safetensors";
    has_clips = has_clips || media::is_video_name(entry.path().filename().string());
  }
  if (has_weights) {
    return;
  }
  const std::string name = folder.string();
  check(!fs::exists(folder / "model_index.json", ignored),
        "[config] {} has no folder of its network, which its model_index.json lists: transformer/, "
        "or unet/ of Stable Diffusion",
        name);
  check(!fs::is_directory(folder / "checkpoints", ignored),
        "[config] {0} is the folder of a training run, not a model\n"
        "  to sample it: kinema generate {0}/config.yml; to train from its weights: "
        "wan_transformer_pretrained_model_name_or_path={0}/checkpoints/STEP",
        name);
  check(!has_clips,
        "[config] {0} is a folder of clips, not a model\n  to train on them: "
        "train_data_dir={0}",
        name);
  fail(
      "[config] {} is not a model: it has no model_index.json, transformer/, config.json or "
      ".safetensors file",
      name);
}

/// Throws an Error if the path has none of `roles`; it says what the path is, and which command or
/// key accepts it. Corrupt files are reported when they are opened.
void check_is(const fs::path& path, std::initializer_list<weights::Role> roles,
              std::string_view key) {
  std::optional<weights::FoundKind> found;
  try {
    found = weights::detect_kind(path);
  } catch (const Error&) {
    return;
  }
  if (found) {
    weights::check_role(path, roles, key);
  }
}

/// The keys for sampling a checkpoint, which is not a pipeline. Its other models are in its run's
/// configuration; without one, if it was trained from scratch, they are unknown.
std::string beside_checkpoint(const fs::path& checkpoint) {
  std::error_code ignored;
  fs::path folder = fs::absolute(checkpoint, ignored).lexically_normal();
  folder = folder.has_filename() ? folder : folder.parent_path();
  const fs::path run = folder.parent_path().parent_path();
  if (fs::exists(run / "config.yml", ignored)) {
    return fmt::format(
        "kinema generate {} generate_checkpoint_step={} samples it with its run's configuration",
        (run / "config.yml").string(), folder.filename().string());
  }
  return fmt::format(
      "give the pipeline that its run started from, and "
      "wan_transformer_pretrained_model_name_or_path={}; for a run from scratch give its values of "
      "autoencoder, text_encoder and max_sequence_length",
      checkpoint.string());
}

}  // namespace

bool is_pipeline_file(const fs::path& path) {
  if (path.extension() != ".safetensors" && !io::is_pickle_name(path)) {
    return false;
  }
  try {
    return !model_files::parts_in(path).empty();
  } catch (const Error&) {
    return false;  // a corrupt file is reported when it is opened
  }
}

fs::path pretrained_transformer(const config::Config& config, const std::string& part) {
  const std::string& own = config.model.wan_transformer_pretrained_model_name_or_path;
  const fs::path path = own.empty() ? config.model.pretrained_model_name_or_path : own;
  if (path.empty()) {
    return {};
  }
  std::error_code ignored;
  const bool is_whole = own.empty() && !fs::is_directory(path, ignored);
  check_is(path,
           is_whole ? std::initializer_list<weights::Role>{weights::Role::PIPELINE}
                    : std::initializer_list<weights::Role>{weights::Role::PIPELINE,
                                                           weights::Role::NETWORK},
           own.empty() ? "pretrained_model_name_or_path"
                       : "wan_transformer_pretrained_model_name_or_path");
  // A file may contain only the transformer, or also the pipeline's other models.
  const bool there = own.empty() ? fs::is_directory(path, ignored) || is_pipeline_file(path)
                                 : fs::exists(path, ignored);
  if (!there && (path.extension() == ".safetensors" || io::is_pickle_name(path)) &&
      fs::is_regular_file(path, ignored)) {
    io::TensorFile::open(path);  // throws the Error of a corrupt file
  }
  check(there || !own.empty() || !fs::is_regular_file(path, ignored),
        "[config] pretrained_model_name_or_path is the file {}, which is not a known pipeline\n"
        "  give a pipeline's folder, or a safetensors file with all its models",
        path.string());
  check(
      there, "[config] the model `{}` is not {} here\n  {}", path.string(),
      own.empty() ? "a folder" : "a folder or file",
      own.empty() ? "leave pretrained_model_name_or_path empty to start from scratch"
      : config.model.lightning_ckpt.empty()
          ? "wan_transformer_pretrained_model_name_or_path= uses the pipeline's"
          : "it is set by lightning_repo and lightning_ckpt; without them the pipeline's is used");
  if (fs::is_directory(path / part, ignored)) {
    return path / part;
  }
  if (part == "transformer" && fs::is_directory(path / "unet", ignored)) {
    return path / "unet";
  }
  // Wan 2.2's original release.
  const char* expert = part == "transformer" ? "high_noise_model" : "low_noise_model";
  if (fs::is_directory(path / expert, ignored)) {
    return path / expert;
  }
  const std::string other = part == "transformer" ? "transformer_2" : "transformer";
  check(!fs::is_directory(path / other, ignored), "[config] {} has a {}/ but no {}/", path.string(),
        other, part);
  if (fs::is_directory(path, ignored)) {
    check_is_model(path);
  }
  return path;
}

bool is_original_repository(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) && !fs::exists(folder / "model_index.json", ignored) &&
         !fs::exists(folder / "train_state.json", ignored) &&
         (!original_vae(folder).empty() || !original_text_encoder(folder).empty());
}

fs::path with_module(const config::Config& config, const fs::path& transformer, size_t place) {
  const std::vector<std::string>& modules = config.model.transformer_module;
  if (modules.empty() || transformer.empty()) {
    return transformer;
  }
  constexpr const char* kKey = "transformer_module";
  check(modules.size() <= 2, "[config] {} has {} files, expected one, or one for each expert", kKey,
        modules.size());
  check(place < modules.size(),
        "[config] {} has one file, but the model has two experts\n  expected {}=[HIGH, LOW]", kKey,
        kKey);
  const std::string& file = modules[place];
  std::error_code ignored;
  check(fs::exists(file, ignored), "[config] {} is {}, which does not exist", kKey, file);
  check_is(file, {weights::Role::MODULE}, kKey);
  const fs::path described = transformer / "config.json";
  const model_files::Family* family = fs::exists(described, ignored)
                                          ? model_files::family_of_config(io::Json::read(described))
                                          : nullptr;
  check(family == nullptr || family->name.starts_with("Wan") || family->name == "Z-Image",
        "[config] {} is {}, a part of a transformer, but {} is a network of {}, which has no such "
        "parts",
        kKey, file, transformer.string(), family == nullptr ? "" : family->name);
  return model_files::laid_over(transformer, file);
}

fs::path trained_transformer(const config::Config& config) {
  const Expert expert{.which = config.optimizer.train_expert};
  return with_module(config, pretrained_transformer(config, expert.part()),
                     expert.is_low_noise() ? 1 : 0);
}

fs::path local_transformer(const config::Config& config) {
  const config::ModelConfig& m = config.model;
  const std::string& own = m.wan_transformer_pretrained_model_name_or_path;
  const std::string& name = own.empty() ? m.pretrained_model_name_or_path : own;
  std::error_code ignored;
  return name.empty() || !fs::exists(name, ignored) ? fs::path() : trained_transformer(config);
}

const model_files::Family* family_of_network(const config::Config& config) {
  const fs::path network = local_transformer(config);
  if (network.empty()) {
    return nullptr;
  }
  std::error_code ignored;
  if (fs::is_directory(network, ignored)) {
    return fs::exists(network / "config.json", ignored)
               ? model_files::family_of_config(io::Json::read(network / "config.json"))
               : nullptr;
  }
  return model_files::find_family(model_files::Checkpoint::open(network));
}

fs::path vae_folder(const config::Config& config) {
  const std::string& own = config.model.wan_vae_pretrained_model_name_or_path;
  const std::string& pipeline = config.model.pretrained_model_name_or_path;
  const fs::path named(own.empty() ? pipeline : own);
  check(!named.empty(),
        "[config] autoencoder=wan needs a VAE: set wan_vae_pretrained_model_name_or_path=FOLDER, "
        "or autoencoder=space_to_depth");
  std::error_code ignored;
  if (fs::is_regular_file(named, ignored)) {
    check_is(
        named, {weights::Role::VAE, weights::Role::PIPELINE},
        own.empty() ? "pretrained_model_name_or_path" : "wan_vae_pretrained_model_name_or_path");
    return named;
  }
  check(own.empty() || fs::exists(named, ignored),
        "[config] wan_vae_pretrained_model_name_or_path (vae_file) {} does not exist",
        named.string());
  const fs::path inside = named / "vae";
  const fs::path folder = fs::is_directory(inside, ignored) ? inside : named;
  if (const fs::path original = original_vae(named); folder == named && !original.empty()) {
    return original;
  }
  check(fs::exists(folder / "config.json", ignored) ||
            !fs::exists(named / "train_state.json", ignored),
        "[config] {} is a run's checkpoint, which has a network but no VAE and no text encoders\n"
        "  {}",
        named.string(), beside_checkpoint(named));
  check(fs::exists(folder / "config.json", ignored),
        "[config] there is no VAE in {}: expected a folder vae/ with config.json and weights\n"
        "  wan_vae_pretrained_model_name_or_path=FOLDER or vae_file=FILE uses another one, such as "
        "the VAE of the pipeline that the network was trained from",
        named.string());
  return folder;
}

bool has_both_text_encoders(const fs::path& file) {
  const std::vector<std::string_view> parts =
      is_pipeline_file(file) ? model_files::parts_in(file) : std::vector<std::string_view>();
  return std::ranges::count(parts, model_files::kTextEncoder) > 0 &&
         std::ranges::count(parts, model_files::kTextEncoder2) > 0 &&
         !weights::is_t5_encoder(model_files::Checkpoint::open(file, model_files::kTextEncoder2));
}

}  // namespace kinema::model_source
