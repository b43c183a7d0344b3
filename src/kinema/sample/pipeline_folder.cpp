#include "kinema/sample/pipeline_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/json.h"
#include "kinema/model_files/family.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/schedulers/scheduler_class.h"
#include "kinema/weights/model_kind.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;

/// True if `model_index.json` lists the part: `["diffusers", CLASS]`, not absent, null or `[null,
/// null]`.
bool lists(const io::Json& index, std::string_view part) {
  const io::Json* entry = index.find(part);
  return entry != nullptr && entry->is_array() && entry->items().size() == 2 &&
         !entry->items()[1].is_null();
}

/// The allowed classes of a part of a family's pipeline; empty: any.
std::vector<std::string_view> classes_of(std::string_view part, const model_files::Family& family) {
  if (part == family.part || part == "transformer_2") {
    return {family.transformer_class};
  }
  if (part == "image_encoder") {
    return {"CLIPVisionModel", "CLIPVisionModelWithProjection"};
  }
  const std::map<std::string_view, std::string_view> one{
      {"vae", family.vae_class},
      {"text_encoder", family.text_encoder_class},
      {"text_encoder_2", family.text_encoder_2_class}};
  const auto found = one.find(part);
  return found == one.end() ? std::vector<std::string_view>()
                            : std::vector<std::string_view>{found->second};
}

/// True if a part of any family has this class.
bool is_class_of_a_part(std::string_view name) {
  return std::ranges::any_of(model_files::families(), [&](const model_files::Family& family) {
    return name == family.transformer_class || name == family.vae_class ||
           name == family.text_encoder_class || name == family.text_encoder_2_class;
  });
}

/// Throws an Error if the part's own config.json, if it exists, belongs to another family.
void check_own_class(const fs::path& part, const std::vector<std::string_view>& classes) {
  std::error_code ignored;
  if (classes.empty() || !fs::is_regular_file(part / "config.json", ignored)) {
    return;
  }
  const io::Json config = io::Json::read(part / "config.json");
  check(config.is_object(), "[sample] {}/config.json is {}, expected an object with a _class_name",
        part.string(), config.describe());
  const std::string own = model_files::class_of_model(config);
  check(
      !is_class_of_a_part(own) || std::ranges::find(classes, own) != classes.end(),
      "[sample] {} holds a `{}`, but its pipeline needs a {} there\n  restore that model's folder, "
      "or use the pipeline that this model belongs to",
      part.string(), own, fmt::join(classes, " or "));
}

/// The folder of a part that the index lists; empty if it does not.
fs::path part_of(const fs::path& folder, const io::Json& index, std::string_view part,
                 const model_files::Family& family, RequiredParts parts) {
  if (!lists(index, part)) {
    return {};
  }
  const io::Json& name = index.at(part).items()[1];
  const std::vector<std::string_view> classes = classes_of(part, family);
  check(classes.empty() || std::ranges::find(classes, name.as_string()) != classes.end(),
        "[sample] {} is a `{}`, expected {}", name.where(), name.as_string(),
        fmt::join(classes, " or "));
  fs::path path = folder / part;
  check(parts == RequiredParts::SOME || fs::is_directory(path),
        "[sample] {} has no `{}` folder, which its model_index.json lists", folder.string(), part);
  check_own_class(path, classes);
  return path;
}

void read_index(PipelineFolder& out, const io::Json& index, RequiredParts parts) {
  weights::check_role(out.folder, {weights::Role::PIPELINE});
  const std::string& name = index.at("_class_name").as_string();
  check(model_files::pipeline_class(name) != nullptr, "[sample] {} is a {}, expected a {}",
        out.folder.string(), name, model_files::pipeline_classes());
  out.class_name = name;
  const model_files::Family& family = *model_files::family_of_pipeline(name);
  const std::string_view network = family.part;
  check(lists(index, network), "[sample] {} lists no `{}`",
        (out.folder / "model_index.json").string(), network);
  const auto part = [&](std::string_view part) {
    return part_of(out.folder, index, part, family, parts);
  };
  out.transformer = part(network);
  out.vae = part("vae");
  out.text_encoder = part("text_encoder");
  out.tokenizer = part("tokenizer");
  out.text_encoder_2 = part("text_encoder_2");
  out.tokenizer_2 = part("tokenizer_2");
  out.image_encoder = part("image_encoder");
  out.image_processor = part("image_processor");
  if (const io::Json* ratio = index.find("boundary_ratio"); ratio != nullptr && !ratio->is_null()) {
    out.boundary_ratio = ratio->as_number();
    check(*out.boundary_ratio >= 0.0 && *out.boundary_ratio <= 1.0,
          "[sample] {} is {}, expected 0 to 1", ratio->where(), *out.boundary_ratio);
  }
  out.transformer_2 = part("transformer_2");
  if (out.has_two_experts()) {
    check(out.boundary_ratio.has_value(),
          "[sample] {} has two transformers but its model_index.json no `boundary_ratio`",
          out.folder.string());
  }
  if (const io::Json* expand = index.find("expand_timesteps");
      expand != nullptr && !expand->is_null()) {
    out.expand_timesteps = expand->as_bool();
  }
  if (const fs::path scheduler = part("scheduler");
      !scheduler.empty() && (parts == RequiredParts::ALL || fs::is_directory(scheduler))) {
    out.scheduler_class = index.at("scheduler").items()[1].as_string();
    out.schedule = read_scheduler_config(out.folder / kSchedulerConfig, out.scheduler_class);
    const model_files::PipelineClass& own = *model_files::pipeline_class(name);
    out.schedule->even_sigmas = own.even_sigmas;
    if (own.corrects_scheduler) {
      out.schedule->diffusion.steps_offset = 1;
      out.schedule->diffusion.clip_sample = false;
      out.schedule->solver.skip_prk_steps |= own.fills_masks;
    }
  }
  if (const io::Json* zeros = index.find("force_zeros_for_empty_prompt");
      zeros != nullptr && !zeros->is_null()) {
    out.force_zeros_for_empty_prompt = zeros->as_bool();
  }
}

/// Names that indicate which expert a transformer is: folders of symbolic links, weights files, and
/// the path in its config.
std::string names_around(const fs::path& pipeline, const fs::path& transformer) {
  std::error_code ignored;
  const fs::path real = fs::canonical(transformer, ignored);
  std::string out = real.filename().string();
  if (!fs::equivalent(real.parent_path(), pipeline, ignored)) {
    out += " " + real.parent_path().filename().string();
  }
  for (const auto& entry : fs::directory_iterator(transformer, ignored)) {
    out += " " + fs::canonical(entry.path(), ignored).filename().string();
  }
  try {
    const io::Json config = io::Json::read(transformer / "config.json");
    if (const io::Json* from = config.find("_name_or_path"); from != nullptr && from->is_string()) {
      out += " " + from->as_string();
    }
  } catch (const Error&) {
    // The reader of the config reports its errors.
  }
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool speaks_of(const std::string& names, std::string_view noise) {
  for (const std::string_view between : {"", "_", "-", " "}) {
    if (names.find(fmt::format("{}{}noise", noise, between)) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool PipelineFolder::of_images() const {
  const model_files::PipelineClass* known = model_files::pipeline_class(class_name);
  return known != nullptr && known->of_images;
}

void check_family(const PipelineFolder& folder, const networks::Network& network) {
  const model_files::Family* const wanted = model_files::family_of_pipeline(folder.class_name);
  const model_files::Family* const own = model_files::family_of_config(network->config());
  // Families of the same names have the same other parts: Wan and VACE.
  check(
      wanted == nullptr || own == nullptr || wanted->names == own->names,
      "[sample] the network is a {} of {}, but {} is a {}, whose {} is a {} of {}\n  both must be "
      "of one family",
      own == nullptr ? "" : own->transformer_class, own == nullptr ? "" : own->name,
      folder.folder.string(), folder.class_name, wanted == nullptr ? "" : wanted->part,
      wanted == nullptr ? "" : wanted->transformer_class, wanted == nullptr ? "" : wanted->name);
}

namespace {

/// A warning if model_index.json and scheduler_config.json name different classes; else empty.
std::string scheduler_doubt(const PipelineFolder& folder) {
  std::error_code ignored;
  if (folder.scheduler_class.empty() || !fs::exists(folder.folder / kSchedulerConfig, ignored)) {
    return "";
  }
  const io::Json config = scheduler_file(folder.folder / kSchedulerConfig);
  const io::Json* own = config.find("_class_name");
  const std::string name = own != nullptr && own->is_string() ? own->as_string() : "no class";
  return schedulers::without_flax(name) == schedulers::without_flax(folder.scheduler_class)
             ? ""
             : fmt::format(
                   "the scheduler of {} is {}, as in its model_index.json; its "
                   "scheduler_config.json has {}",
                   folder.folder.string(), folder.scheduler_class, name);
}

}  // namespace

void check_schedule(const PipelineFolder& folder) {
  const std::optional<schedulers::ScheduleConfig>& schedule = folder.schedule;
  if (!schedule || !schedule->unknown_class.empty() || !schedule->unsupported.empty()) {
    return;  // another sampler can be requested
  }
  constexpr int64_t kSteps = 4;
  const int64_t tokens = schedule->dynamic_shift ? schedule->dynamic_shift->max_tokens : 1;
  try {
    schedulers::make_schedule(*schedule, std::min(kSteps, schedule->num_train_timesteps), tokens);
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool is_index = !scheduler_doubt(folder).empty();
    fail("{}\n  from {}", what.substr(0, what.find('\n')),
         (folder.folder / (is_index ? "model_index.json" : kSchedulerConfig)).string());
  }
}

std::vector<std::string> warnings(const PipelineFolder& folder) {
  std::vector<std::string> out;
  if (std::string line = scheduler_doubt(folder); !line.empty()) {
    out.push_back(std::move(line));
  }
  if (!folder.has_two_experts()) {
    return out;
  }
  const std::string high = names_around(folder.folder, folder.transformer);
  const std::string low = names_around(folder.folder, folder.transformer_2);
  const bool first_is_low = (speaks_of(high, "low") && !speaks_of(high, "high")) ||
                            (high.find("transformer_2") != std::string::npos &&
                             folder.transformer.filename() != "transformer_2");
  const bool second_is_high = speaks_of(low, "high") && !speaks_of(low, "low");
  if (first_is_low || second_is_high) {
    out.push_back(fmt::format(
        "the experts seem to be exchanged: by its name, {} is for {} noise, but it is used "
        "for {} noise",
        first_is_low ? folder.transformer.string() : folder.transformer_2.string(),
        first_is_low ? "low" : "high", first_is_low ? "high" : "low"));
  }
  std::error_code ignored;
  if (fs::equivalent(folder.transformer, folder.transformer_2, ignored)) {
    out.push_back(fmt::format("both experts are the same folder, {}",
                              fs::canonical(folder.transformer, ignored).string()));
  }
  return out;
}

PipelineFolder read_pipeline_folder(const fs::path& folder, RequiredParts parts) {
  check(fs::is_directory(folder), "[sample] {} {}", folder.string(), not_a_folder(folder));
  PipelineFolder out{.folder = folder};
  if (fs::exists(folder / "model_index.json")) {
    read_index(out, io::Json::read(folder / "model_index.json"), parts);
    return out;
  }
  for (const model_files::Family& family : model_files::families()) {
    if (out.transformer.empty() && fs::is_directory(folder / family.part)) {
      out.transformer = folder / family.part;
    }
  }
  if (out.transformer.empty()) {
    weights::check_role(folder, {weights::Role::PIPELINE});  // names the kind of folder, if known
  }
  check(!out.transformer.empty(),
        "[sample] {} has neither model_index.json nor a folder `transformer` or `unet`",
        folder.string());
  for (const auto& [part, name] : {std::pair{&out.vae, "vae"},
                                   {&out.text_encoder, "text_encoder"},
                                   {&out.tokenizer, "tokenizer"},
                                   {&out.text_encoder_2, "text_encoder_2"},
                                   {&out.tokenizer_2, "tokenizer_2"}}) {
    if (fs::is_directory(folder / name)) {
      *part = folder / name;
    }
  }
  return out;
}

}  // namespace kinema::sample
