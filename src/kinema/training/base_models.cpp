#include "kinema/training/base_models.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/networks/with_text.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/weights.h"

namespace kinema::training {
namespace {

std::vector<runtime::Array> load_network(const BaseModels& base,
                                         std::span<const weights::Adapter> start, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices) {
  if (std::ranges::any_of(specs, &nn::ParamSpec::is_low_rank)) {
    return weights::load_adapted(base.network, base.merged, start, seed, specs, devices);
  }
  return base.network.empty() ? weights::initialise(specs, seed, devices)
                              : weights::load(base.network, specs, devices, base.merged);
}

std::vector<runtime::Array> load_text(const BaseModels& base,
                                      std::span<const weights::Adapter> start, uint64_t seed,
                                      const networks::ModelSpecs& model,
                                      const runtime::Devices& devices) {
  const TextModelFile& file = base.texts.at(model.part);
  const auto files = model_files::Checkpoint::open(file.path, file.part);
  std::vector<nn::ParamSpec> in_file;
  std::ranges::copy_if(model.specs, std::back_inserter(in_file), [](const nn::ParamSpec& spec) {
    return spec.name != networks::kLearnedRows;
  });
  std::vector<runtime::Array> own =
      weights::load_adapted(files, adapters_for(base.merged, model.part),
                            adapters_for(start, model.part), seed, in_file, devices);
  std::vector<runtime::Array> out;
  auto next = own.begin();
  for (const nn::ParamSpec& spec : model.specs) {
    out.push_back(spec.name == networks::kLearnedRows
                      ? devices.upload(base.learned_rows.at(model.part),
                                       spec.sharding(devices.placement()), spec.memory)
                      : std::move(*next++));
  }
  return out;
}

/// A new ControlNet (arXiv:2302.05543, section 3.2): parameters with the names of the UNet's are
/// its copies; the picture's embedding is initialised, and the outputs are zeros.
std::vector<runtime::Array> load_control(const BaseModels& base, uint64_t seed,
                                         const networks::ModelSpecs& model,
                                         const runtime::Devices& devices) {
  check(base.control.has_value(), "[train] the files of the ControlNet are not known");
  if (!base.control->empty()) {
    return weights::load(*base.control, model.specs, devices);
  }
  if (base.network.empty()) {
    return weights::initialise(model.specs, seed, devices);
  }
  const auto is_own = [](const nn::ParamSpec& spec) {
    return spec.name.starts_with("controlnet_");
  };
  std::vector<nn::ParamSpec> own;
  std::vector<nn::ParamSpec> copied;
  std::ranges::partition_copy(model.specs, std::back_inserter(own), std::back_inserter(copied),
                              is_own);
  std::vector<runtime::Array> made = weights::initialise(own, seed, devices);
  std::vector<runtime::Array> loaded =
      weights::load_arrays(model_files::Checkpoint::open(base.network), copied, devices);
  std::vector<runtime::Array> out;
  auto next_made = made.begin();
  auto next_loaded = loaded.begin();
  for (const nn::ParamSpec& spec : model.specs) {
    out.push_back(std::move(is_own(spec) ? *next_made++ : *next_loaded++));
  }
  return out;
}

}  // namespace

std::vector<weights::Adapter> adapters_for(std::span<const weights::Adapter> all,
                                           const std::string& part) {
  if (part.empty()) {
    return {all.begin(), all.end()};
  }
  return weights::for_text(all, part == "text_encoder" ? weights::LoraMember::TEXT_ENCODER
                                                       : weights::LoraMember::TEXT_ENCODER_2);
}

std::vector<runtime::Array> load_each(
    std::span<const nn::ParamSpec> specs,
    const std::function<std::vector<runtime::Array>(const networks::ModelSpecs&)>& load) {
  std::vector<runtime::Array> out;
  for (const networks::ModelSpecs& model : networks::by_model(specs)) {
    std::ranges::move(load(model), std::back_inserter(out));
  }
  check(out.size() == specs.size(), "[train] {} parameters were loaded, expected {}", out.size(),
        specs.size());
  return out;
}

std::vector<runtime::Array> load_base(const BaseModels& base,
                                      std::span<const weights::Adapter> start, uint64_t seed,
                                      std::span<const nn::ParamSpec> specs,
                                      const runtime::Devices& devices) {
  return load_each(specs, [&](const networks::ModelSpecs& model) {
    return model.part.empty() ? load_network(base, start, seed, model.specs, devices)
           : networks::is_controlnet(model.part) ? load_control(base, seed, model, devices)
                                                 : load_text(base, start, seed, model, devices);
  });
}

}  // namespace kinema::training
