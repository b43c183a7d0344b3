#include "sample/pipeline_folder.h"

#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/json.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;
using schedulers::Sampler;

/// A setting that this build has in one form only; absent and null mean that form.
struct Fixed {
  std::string_view key;
  std::string_view value;  // as JSON
};

const std::vector<Fixed>& fixed_settings(Sampler sampler) {
  static const std::vector<Fixed> unipc{
      {"prediction_type", "\"flow_prediction\""},
      {"use_flow_sigmas", "true"},
      {"solver_order", "2"},
      {"solver_type", "\"bh2\""},
      {"predict_x0", "true"},
      {"lower_order_final", "true"},
      {"final_sigmas_type", "\"zero\""},
      {"disable_corrector", "[]"},
      {"thresholding", "false"},
      {"use_dynamic_shifting", "false"},
      {"use_karras_sigmas", "false"},
      {"use_exponential_sigmas", "false"},
      {"use_beta_sigmas", "false"},
  };
  static const std::vector<Fixed> euler{
      {"use_dynamic_shifting", "false"},   {"use_karras_sigmas", "false"},
      {"use_exponential_sigmas", "false"}, {"use_beta_sigmas", "false"},
      {"invert_sigmas", "false"},          {"stochastic_sampling", "false"},
  };
  return sampler == Sampler::UNIPC ? unipc : euler;
}

void check_fixed(const io::Json& config, Sampler sampler) {
  for (const Fixed& fixed : fixed_settings(sampler)) {
    const io::Json* value = config.find(fixed.key);
    check(value == nullptr || value->is_null() || value->dump(-1) == fixed.value,
          "[scheduler] {} is {}, but only {} is supported", value == nullptr ? "" : value->where(),
          value == nullptr ? "" : value->dump(-1), fixed.value);
  }
}

/// True when `model_index.json` lists the part: `["diffusers", "WanTransformer3DModel"]`, not
/// absent, null or `[null, null]`.
bool lists(const io::Json& index, std::string_view part) {
  const io::Json* entry = index.find(part);
  return entry != nullptr && entry->is_array() && entry->items().size() == 2 &&
         !entry->items()[1].is_null();
}

fs::path existing_part(const fs::path& folder, std::string_view part) {
  fs::path path = folder / part;
  check(fs::is_directory(path), "[sample] {} has no `{}` folder, which its model_index.json lists",
        folder.string(), part);
  return path;
}

void read_index(PipelineFolder& out, const io::Json& index) {
  const std::string& name = index.at("_class_name").as_string();
  check(name == "WanPipeline", "[sample] {} is a {}, expected a WanPipeline (text to video)",
        out.folder.string(), name);
  check(lists(index, "transformer"), "[sample] {} lists no `transformer`",
        (out.folder / "model_index.json").string());
  out.transformer = existing_part(out.folder, "transformer");
  if (const io::Json* ratio = index.find("boundary_ratio"); ratio != nullptr && !ratio->is_null()) {
    out.boundary_ratio = ratio->as_number();
    check(*out.boundary_ratio >= 0.0 && *out.boundary_ratio <= 1.0,
          "[sample] {} is {}, expected 0 to 1", ratio->where(), *out.boundary_ratio);
  }
  if (lists(index, "transformer_2")) {
    out.transformer_2 = existing_part(out.folder, "transformer_2");
    check(out.boundary_ratio.has_value(),
          "[sample] {} has two transformers but its model_index.json no `boundary_ratio`",
          out.folder.string());
  }
  if (const io::Json* expand = index.find("expand_timesteps");
      expand != nullptr && !expand->is_null()) {
    out.expand_timesteps = expand->as_bool();
  }
  if (lists(index, "scheduler")) {
    out.schedule =
        read_scheduler_config(existing_part(out.folder, "scheduler") / "scheduler_config.json");
  }
}

}  // namespace

PipelineFolder read_pipeline_folder(const fs::path& folder) {
  check(fs::is_directory(folder), "[sample] {} is not a folder", folder.string());
  PipelineFolder out{.folder = folder};
  if (fs::exists(folder / "model_index.json")) {
    read_index(out, io::Json::read(folder / "model_index.json"));
    return out;
  }
  check(fs::is_directory(folder / "transformer"),
        "[sample] {} has neither model_index.json nor a `transformer` folder", folder.string());
  out.transformer = folder / "transformer";
  return out;
}

schedulers::ScheduleConfig read_scheduler_config(const fs::path& file) {
  const io::Json config = io::Json::read(file);
  schedulers::ScheduleConfig out;
  out.sampler = schedulers::sampler_from_string(config.at("_class_name").as_string());
  check_fixed(config, out.sampler);
  const char* key = out.sampler == Sampler::UNIPC ? "flow_shift" : "shift";
  if (const io::Json* shift = config.find(key); shift != nullptr && !shift->is_null()) {
    out.shift = shift->as_number();
    check(out.shift > 0.0, "[scheduler] {} is {}, expected a number above 0", shift->where(),
          out.shift);
  } else {
    out.shift = 1.0;  // diffusers' default of both classes
  }
  if (const io::Json* steps = config.find("num_train_timesteps"); steps != nullptr) {
    out.num_train_timesteps = steps->as_int();
    check(out.num_train_timesteps > 0 && out.num_train_timesteps <= 1'000'000,
          "[scheduler] {} is {}, expected 1 to 1000000", steps->where(), out.num_train_timesteps);
  }
  return out;
}

}  // namespace kinema::sample
