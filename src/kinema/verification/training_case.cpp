#include "kinema/verification/training_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/inner_model.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/controlnets.h"
#include "kinema/verification/network.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

/// True if the case's image network is a flow, and so has sigmas.
bool is_image_flow(const Case& c) { return c.has("step0.sigma"); }

/// The weights of step i's samples; ones if the case has none. Some cases have a table of all
/// steps.
HostArray weights_of(const Case& c, int64_t i, int64_t samples, const networks::Sizes& sizes) {
  const std::string own = fmt::format("step{}.loss_weight", i);
  const std::string table = "loss_weights";
  if (c.has(own)) {
    return c.tensor(own);
  }
  if (sizes.makes_images || !c.has(table)) {
    return numbers(std::vector<float>(static_cast<size_t>(samples), 1.0F));
  }
  const HostArray all = c.tensor(table);
  check(all.shape.rank() == 2 && all.shape.dims[1] == samples,
        "[verify] loss_weights is {}, expected f32[steps,{}]", to_string(all.shape), samples);
  return part_of(all, i);
}

/// The text states of step i: captions of Z-Image are filled with zeros, behind their lengths and
/// to the longest of all steps, so that steps share a program.
HostArray captions_of(const Case& c, int64_t i) {
  int64_t rows = 0;
  for (const std::string& name : c.names("step")) {
    rows = name.ends_with(".cap_feats") ? std::max(rows, c.tensor(name).shape.dims.at(1)) : rows;
  }
  const HostArray given = c.tensor(fmt::format("step{}.cap_feats", i));
  const HostArray lengths = c.tensor(fmt::format("step{}.cap_lengths", i));
  const Dims& d = given.shape.dims;
  HostArray out(Shape{DType::F32, {d[0], rows, d[2]}});
  for (int64_t b = 0; b < d[0]; ++b) {
    const int64_t kept = lengths.as<int64_t>()[b];
    std::ranges::copy(given.as<float>().subspan(b * d[1] * d[2], kept * d[2]),
                      out.as<float>().begin() + b * rows * d[2]);
  }
  return out;
}

bool is_of_control_branch(const nn::ParamSpec& spec) { return spec.name.starts_with("vace_"); }

}  // namespace

GivenStep read_step(const Case& c, int64_t i, const networks::Sizes& sizes) {
  const auto tensor = [&](const char* name) { return c.tensor(fmt::format("step{}.{}", i, name)); };
  const auto as_video = [&](HostArray latents) {
    if (sizes.makes_images) {
      check(latents.shape.rank() == 4, "[verify] latents of step {} are {}, expected [b,c,h,w]", i,
            to_string(latents.shape));
      latents.shape.dims.insert(latents.shape.dims.begin() + 2, 1);
    }
    return latents;
  };
  GivenStep out;
  out.batch.latents = as_video(tensor("latents"));
  out.batch.encoder_hidden_states = c.has(fmt::format("step{}.cap_feats", i))
                                        ? captions_of(c, i)
                                        : tensor("encoder_hidden_states");
  if (networks::find_entry(sizes.named, networks::Entry::PICTURES) != nullptr) {
    out.batch.condition = as_video(tensor("controlnet_cond"));
  } else if (networks::find_entry(sizes.named, networks::Entry::BRANCH) != nullptr) {
    out.batch.condition = tensor("control_hidden_states");
  } else if (c.has(fmt::format("step{}.image_latents", i))) {
    out.batch.condition = as_video(tensor("image_latents"));
  }
  if (sizes.pooled_dim > 0) {
    out.batch.pooled = tensor(is_image_flow(c) ? "pooled_projections" : "text_embeds");
  }
  if (sizes.size_ids > 0) {
    out.batch.size_ids = tensor("time_ids");
  }
  const HostArray timesteps = !sizes.makes_images ? tensor("timestep")
                              : is_image_flow(c)  ? scaled(tensor("sigma"), 1000.0F)
                                                  : floats_of(tensor("timestep"));
  out.draw = {as_video(tensor("noise")), timesteps,
              weights_of(c, i, out.batch.latents.shape.dims.at(0), sizes)};
  if (sizes.takes_guidance) {
    out.draw.push_back(tensor("guidance"));
  }
  return out;
}

training::BatchShapes shapes_of(const data::Batch& batch) {
  training::BatchShapes out{.latents = batch.latents.shape,
                            .text = batch.encoder_hidden_states.shape};
  for (const training::ExtraShape& extra : training::kExtraShapes) {
    if (const HostArray& array = batch.*extra.array; !array.bytes.empty()) {
      out.*extra.shape = array.shape;
    }
  }
  return out;
}

training::StepOptions step_options(const Case& c, const networks::Sizes& sizes) {
  const io::Json& optimizer = c.about().at("optimizer");
  training::StepOptions out{.adamw = {.b1 = optimizer.at("b1").as_number(),
                                      .b2 = optimizer.at("b2").as_number(),
                                      .eps = optimizer.at("eps").as_number(),
                                      .weight_decay = optimizer.at("weight_decay").as_number()},
                            .given_draw = true};
  if (const io::Json& norm = optimizer.at("max_grad_norm"); !norm.is_null()) {
    out.adamw.max_norm = norm.as_number();
  }
  if (!sizes.makes_images) {
    out.objective.flow.sigma_min = sigma_min_of(c, "step0.");
  } else if (is_image_flow(c)) {
    out.objective.flow = {.shift = 1.0, .sigma_min = 0.0};
  } else {
    out.objective.diffusion = training::DiffusionObjective{};
  }
  if (sizes.takes_guidance) {
    out.objective.guidance = 0.0;  // replaced by the drawn values
  }
  return out;
}

bool is_evaluated(const Case& c) { return !c.names("eval.").empty(); }

std::vector<std::string> targets_of(const Case& c) {
  if (c.about().contains("targets")) {
    const io::Json& targets = c.about().at("targets");
    return targets.is_array() ? strings(targets) : std::vector{targets.as_string()};
  }
  constexpr std::string_view kStart = "lora.";
  constexpr std::string_view kEnd = ".lora_A.weight";
  std::vector<std::string> out;
  for (const std::string& name : c.names(kStart)) {
    if (name.ends_with(kEnd)) {
      out.push_back(name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size()));
    }
  }
  return out;
}

void freeze_others(const Case& c, std::vector<nn::ParamSpec>& specs) {
  int64_t control = 0;
  for (const nn::ParamSpec& spec : specs) {
    control += is_of_control_branch(spec) ? spec.count() : 0;
  }
  if (control > 0 && c.about().contains("trained") && c.about().at("trained").as_int() == control) {
    for (nn::ParamSpec& spec : specs) {
      spec.trained = is_of_control_branch(spec);
    }
  }
}

bool is_controlled(const Case& c) { return c.about().contains("unet"); }

std::string without_control_prefix(const std::string& key) {
  constexpr std::string_view kStart = "controlnet.";
  return key.starts_with(kStart) ? key.substr(kStart.size()) : key;
}

std::vector<runtime::Array> new_control(const Case& c, std::span<const nn::ParamSpec> specs,
                                        const runtime::Devices& devices) {
  const std::vector<networks::ModelSpecs> models = networks::by_model(specs);
  const std::vector<std::filesystem::path> folders = controlled_folders(c);
  std::vector<runtime::Array> out = weights::load(folders[0], models.at(0).specs, devices);
  std::vector<runtime::Array> control = weights::load(folders[1], models.at(1).specs, devices);
  for (size_t i = 0; i < control.size(); ++i) {
    const std::string& name = models[1].specs[i].name;
    const bool is_output = name.starts_with("controlnet_down_blocks.") ||
                           name.starts_with("controlnet_mid_block.") ||
                           name.starts_with("controlnet_cond_embedding.conv_out.");
    out.push_back(is_output ? devices.zeros(models[1].specs[i].shape) : std::move(control[i]));
  }
  return out;
}

HostArray factor_of(const Case& c, const nn::ParamSpec& spec) {
  const bool stores_b = std::ranges::any_of(
      c.names("lora."), [](const std::string& name) { return name.ends_with("lora_B.weight"); });
  HostArray out(spec.shape);
  auto at = out.bytes.begin();
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    const std::string key = "lora." + spec.key(layer);
    const bool is_zero = !stores_b && key.find("lora_B") != key.npos;
    const HostArray one =
        is_zero ? HostArray(spec.layer_shape()) : convert(c.tensor(key), spec.shape.dtype);
    at = std::ranges::copy(one.bytes, at).out;
  }
  return out;
}

std::vector<weights::Adapter> training_adapter(const Case& c) {
  if (!c.about().contains("adapter")) {
    return {};
  }
  const std::string& about = c.about().at("adapter").as_string();
  const auto path = c.folder() / about.substr(0, about.find(','));
  return {{.lora = std::make_shared<const weights::Lora>(weights::Lora::open(path))}};
}

}  // namespace kinema::verification
