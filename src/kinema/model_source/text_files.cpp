#include "kinema/model_source/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/tensor_file.h"
#include "kinema/model_files/family.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/qwen3.h"
#include "kinema/weights/t5.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnKey = "wan_text_encoder_pretrained_model_name_or_path";
constexpr std::array<std::string_view, 2> kPartNames{model_files::kTextEncoder,
                                                     model_files::kTextEncoder2};
constexpr std::array<const char*, 2> kFileKeys{"text_encoder_file", "text_encoder_2_file"};
constexpr std::array<const char*, 2> kTokenizers{"tokenizer", "tokenizer_2"};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return !path.empty() && fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return !path.empty() && fs::is_regular_file(path, ignored);
}

/// The first file of a folder whose name fits.
fs::path file_in(const fs::path& folder, auto&& fits) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto each = fs::directory_iterator(folder, error);
       !error && each != fs::directory_iterator(); each.increment(error)) {
    if (fits(each->path().filename().string())) {
      found.push_back(each->path());
    }
  }
  std::ranges::sort(found);
  return found.empty() ? fs::path() : found.front();
}

/// Which text encoders a file has.
struct Holds {
  bool first = false;
  bool second = false;
  std::string kind;  // `CLIP-L`; empty if it is not known
};

Holds held_by(const fs::path& file) {
  const std::optional<weights::FoundKind> found = weights::detect_kind(file);
  Holds out{.kind = found ? std::string(found->kind->name) : ""};
  if (found && found->kind->is(weights::Role::PART)) {  // a single encoder
    out.second = out.kind == "CLIP-G" || out.kind == "T5-XXL encoder";
    out.first = !out.second;
    return out;
  }
  for (const std::string_view part : model_files::parts_in(file)) {
    out.first |= part == model_files::kTextEncoder;
    out.second |= part == model_files::kTextEncoder2;
  }
  return out;
}

/// Checks that a file given by a key has this encoder.
void check_file(const fs::path& file, size_t place) {
  std::error_code ignored;
  check(fs::exists(file, ignored), "[config] {} {} does not exist", kFileKeys[place],
        file.string());
  check(is_file(file), "[config] {} is the folder {}, expected a file\n  {}=FOLDER takes a folder",
        kFileKeys[place], file.string(), kOwnKey);
  const Holds holds = held_by(file);
  const bool fits = place == 0 ? holds.first : holds.second;
  // A second CLIP of unusual width is known by its projection alone.
  if (fits || (place == 1 && holds.kind == "CLIP-L" &&
               model_files::Checkpoint::open(file, model_files::kTextEncoder)
                       .find("text_projection.weight") != nullptr)) {
    return;
  }
  const bool is_other = place == 0 ? holds.second : holds.first;
  if (!is_other) {
    weights::check_role(file, {weights::Role::PART}, kFileKeys[place]);
  }
  fail("[config] {} is {}, which is {}: {} was expected\n  {}", kFileKeys[place], file.string(),
       holds.kind.empty() ? "not a known text encoder" : holds.kind,
       place == 0 ? "CLIP-L (sdxl, sd, flux), OpenCLIP-H (sd 2), UMT5 (wan) or Qwen3 (z-image)"
                  : "CLIP-G (sdxl) or T5 (flux)",
       is_other ? fmt::format("{} takes it", kFileKeys[1 - place])
                : "kinema inspect describes a file");
}

/// Where a configuration says that text encoders are.
struct Places {
  std::array<fs::path, 2> files;  // text_encoder_file, text_encoder_2_file
  fs::path own;                   // wan_text_encoder_pretrained_model_name_or_path
  fs::path tokenizers;            // tokenizer_folder
  fs::path pipeline;

  explicit Places(const config::Config& config)
      : files{config.model.text_encoder_file, config.model.text_encoder_2_file},
        own(config.model.wan_text_encoder_pretrained_model_name_or_path),
        tokenizers(config.model.tokenizer_folder),
        pipeline(config.model.pretrained_model_name_or_path) {
    // A checkpoint may have text encoders that were trained with its network.
    const fs::path network = config.model.wan_transformer_pretrained_model_name_or_path;
    for (const fs::path& run : {network, network.parent_path()}) {
      if (own.empty() && is_file(run / "train_state.json") && is_folder(run / kPartNames[0])) {
        own = run;
      }
    }
    check(tokenizers.empty() || is_folder(tokenizers), "[config] tokenizer_folder {} {}",
          tokenizers.string(),
          is_file(tokenizers) ? "is a file, expected a folder" : "does not exist");
    for (size_t place = 0; place < files.size(); ++place) {
      if (!files[place].empty()) {
        check_file(files[place], place);
      }
    }
    if (is_file(own)) {
      const Holds holds = held_by(own);
      check(holds.first || holds.second,
            "[config] {} is the file {} ({}), which has no text encoder that is known", kOwnKey,
            own.string(), holds.kind.empty() ? "of an unknown kind" : holds.kind);
      for (size_t place = 0; place < files.size(); ++place) {
        if (files[place].empty() && (place == 0 ? holds.first : holds.second)) {
          files[place] = own;
        }
      }
      own = own.has_parent_path() ? own.parent_path() : fs::path(".");
    }
  }

  /// Folders that may have tokenizers and configurations, in order.
  std::vector<fs::path> folders() const {
    std::vector<fs::path> out;
    const auto beside = [](const fs::path& file) {
      return file.empty() || file.has_parent_path() ? file.parent_path() : fs::path(".");
    };
    for (const fs::path& each : {own, is_file(pipeline) ? beside(pipeline) : pipeline,
                                 beside(files[0]), beside(files[1])}) {
      if (is_folder(each) && std::ranges::find(out, each) == out.end()) {
        out.push_back(each);
      }
    }
    return out;
  }

  /// The encoder's folder or file; empty if there is none.
  fs::path model(size_t place) const {
    if (!files[place].empty()) {
      return files[place];
    }
    for (const fs::path& folder : {own, pipeline}) {
      if (folder.empty()) {
        continue;
      }
      if (is_folder(folder / kPartNames[place])) {
        return folder / kPartNames[place];
      }
      if (place == 0 && is_folder(folder)) {
        if (fs::path original = original_text_encoder(folder); !original.empty()) {
          return original;
        }
      }
    }
    if (is_file(pipeline)) {
      const Holds holds = held_by(pipeline);
      return (place == 0 ? holds.first : holds.second) ? pipeline : fs::path();
    }
    return {};
  }
};

/// True for a file with a sentencepiece model.
bool has_tokenizer(const fs::path& file) {
  return file.extension() == ".safetensors" && is_file(file) &&
         io::TensorFile::open(file).find("spiece_model") != nullptr;
}

fs::path tokenizer_of(const Places& places, size_t place, const fs::path& model, bool is_t5) {
  if (!places.tokenizers.empty() && is_folder(places.tokenizers / kTokenizers[place])) {
    return places.tokenizers / kTokenizers[place];
  }
  for (const fs::path& folder : places.folders()) {
    if (is_folder(folder / kTokenizers[place])) {
      return folder / kTokenizers[place];
    }
  }
  if (is_t5 && has_tokenizer(model)) {
    return model;
  }
  for (const fs::path& folder : places.folders()) {
    if (is_t5 && is_folder(folder / "google/umt5-xxl")) {
      return folder / "google/umt5-xxl";
    }
  }
  const std::vector<fs::path> searched = places.folders();
  fail(
      "[config] there is no {}/ for {} in {}\n  set tokenizer_folder to the folder of a pipeline "
      "that has it",
      kTokenizers[place], model.string(),
      searched.empty() ? "any folder" : searched.front().string());
}

/// True if the model is T5 or UMT5.
bool is_t5_model(const fs::path& model, std::string_view part) {
  return is_folder(model) ? weights::is_t5(io::Json::read(model / "config.json"))
                          : weights::is_t5_encoder(model_files::Checkpoint::open(model, part));
}

bool is_qwen3_model(const fs::path& model, std::string_view part) {
  return is_folder(model) ? weights::is_qwen3(io::Json::read(model / "config.json"))
                          : weights::is_qwen3_encoder(model_files::Checkpoint::open(model, part));
}

/// The part of a file with one encoder, which may be a second CLIP in the first one's names.
std::string_view part_of(const fs::path& model, size_t place) {
  if (!is_file(model)) {
    return kPartNames[place];
  }
  const std::vector<std::string_view> parts = model_files::parts_in(model);
  const bool has = std::ranges::find(parts, kPartNames[place]) != parts.end();
  return has || parts.empty() ? kPartNames[place] : parts.front();
}

encoders::TextFiles files_of(const Places& places, size_t place) {
  encoders::TextFiles out{.model = places.model(place)};
  out.part = part_of(out.model, place);
  out.tokenizer = tokenizer_of(places, place, out.model, is_t5_model(out.model, out.part));
  for (const fs::path& folder : places.folders()) {
    const fs::path config = folder / kPartNames[place] / "config.json";
    if (out.config.empty() && is_file(out.model) && is_file(config)) {
      out.config = config;
    }
  }
  return out;
}

/// True if the configuration's network has one text encoder: by the pipeline's class, else by the
/// network in the file or folder. False if neither is here.
bool has_one_encoder(const config::Config& config) {
  std::error_code ignored;
  const fs::path pipeline = config.model.pretrained_model_name_or_path;
  if (const fs::path index = pipeline / "model_index.json"; fs::exists(index, ignored)) {
    const model_files::Family* family =
        model_files::family_of_pipeline(io::Json::read(index).at("_class_name").as_string());
    return family != nullptr && family->text_encoder_2_class.empty();
  }
  const model_files::Family* family = family_of_network(config);
  return family != nullptr && family->text_encoder_2_class.empty();
}

}  // namespace

fs::path original_vae(const fs::path& folder) {
  return file_in(folder, [](const std::string& name) {
    return name.starts_with("Wan2") &&
           (name.ends_with("_VAE.pth") || name.ends_with("_VAE.safetensors"));
  });
}

fs::path original_text_encoder(const fs::path& folder) {
  return file_in(folder, [](const std::string& name) {
    return name.starts_with("models_t5_") &&
           (name.ends_with(".pth") || name.ends_with(".safetensors"));
  });
}

TextModels text_models(const config::Config& config) {
  const Places places(config);
  const std::string& own = config.model.wan_text_encoder_pretrained_model_name_or_path;
  check(!own.empty() || !places.pipeline.empty() || !places.files[0].empty(),
        "[config] text_encoder=umt5 needs a model: set pretrained_model_name_or_path=FOLDER, "
        "text_encoder_file=FILE or {}=FOLDER,\n  or text_encoder=hashed if the model was trained "
        "with it",
        kOwnKey);
  const fs::path named(own.empty() ? places.pipeline : fs::path(own));
  check(!places.model(0).empty(),
        "[config] there is no text_encoder/ in {}: expected the folder of a pipeline, or a file "
        "with its text encoders\n  text_encoder_file=FILE names one{}",
        named.empty() ? "the configuration's models" : named.string(),
        places.model(1).empty() ? "" : "; that of the second encoder is here");
  TextModels out;
  out.first = files_of(places, 0);
  if (is_qwen3_model(out.first.model, out.first.part)) {
    out.kind = TextModels::Kind::QWEN3;
    return out;
  }
  const bool first_is_t5 = is_t5_model(out.first.model, out.first.part);
  if (first_is_t5 && places.model(1).empty()) {
    return out;
  }
  if (!first_is_t5 && places.model(1).empty() && has_one_encoder(config)) {
    out.kind = TextModels::Kind::SD;
    return out;
  }
  check(!places.model(1).empty(),
        "[config] there is no text_encoder_2/ in {}\n  text_encoder_2_file=FILE names one: CLIP-G "
        "(sdxl) or T5 (flux)",
        named.string());
  out.second = files_of(places, 1);
  out.kind = is_t5_model(out.second.model, out.second.part) ? TextModels::Kind::FLUX
                                                            : TextModels::Kind::SDXL;
  return out;
}

}  // namespace kinema::model_source
