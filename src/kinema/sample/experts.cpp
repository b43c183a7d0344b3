#include "kinema/sample/experts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/inner_model.h"
#include "kinema/networks/open.h"
#include "kinema/sample/memory.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/weights.h"

namespace kinema::sample {

namespace {

/// Without options that only matter in training, and placed on the devices.
nn::ModelOptions for_sampling(nn::ModelOptions options, const runtime::Devices& devices) {
  options.dropout = 0.0;
  options.remat = {};
  options.place = devices.placement();
  return options;
}

}  // namespace

networks::Network with_controls(networks::Network network, const PipelineFolder& folder) {
  if (folder.controlnets.empty()) {
    return network;
  }
  check(!folder.has_two_experts(), "[sample] ControlNets are not for models with two experts");
  std::vector<networks::AttachedControl> controls;
  for (const ControlFolder& each : folder.controlnets) {
    controls.push_back({.network = networks::open_control(each.path), .types = each.types});
  }
  return networks::controlled(network, std::move(controls));
}

Experts::Experts(runtime::Devices devices, PipelineFolder folder, const nn::ModelOptions& options,
                 std::span<const SharedTransformer> shared_transformers)
    : devices_(std::move(devices)),
      folder_(std::move(folder)),
      options_(for_sampling(options, devices_)) {
  for (const SharedTransformer& each : shared_transformers) {
    check(each.expert >= 0 && each.expert < size(),
          "[sample] expert {} is shared, but {} has {} transformers", each.expert,
          folder_.folder.string(), size());
    is_shared_.at(static_cast<size_t>(each.expert)) = true;
  }
  const auto network_of = [&](int64_t expert, const std::filesystem::path& part) {
    const auto found = std::ranges::find(shared_transformers, expert, &SharedTransformer::expert);
    return found != shared_transformers.end() ? found->network : networks::open(part);
  };
  check(shared_transformers.empty() || folder_.controlnets.empty(),
        "[sample] a transformer in training takes no ControlNets");
  networks_.push_back(with_controls(network_of(0, folder_.transformer), folder_));
  networks_[0]->check_divides(options_.place);
  if (folder_.has_two_experts()) {
    networks_.push_back(network_of(1, folder_.transformer_2));
    const networks::Sizes& high = networks_[0].sizes();
    const networks::Sizes& low = networks_[1].sizes();
    check(high.in_channels == low.in_channels && high.out_channels == low.out_channels &&
              high.text_dim == low.text_dim && high.patch_size == low.patch_size,
          "[sample] transformer and transformer_2 of {} differ in channels, patch_size or text_dim",
          folder_.folder.string());
    networks_[1]->check_divides(options_.place);
  }
  // As when they are loaded, but before anything is compiled.
  for (int64_t expert = 0; expert < size(); ++expert) {
    if (is_shared(expert)) {
      continue;
    }
    const std::vector<std::filesystem::path> paths = model_paths(expert);
    const auto models = networks::by_model(networks_.at(expert)->parameters(options_));
    for (size_t i = 0; i < models.size(); ++i) {
      weights::check_tensors(model_files::Checkpoint::open(paths.at(i)), models[i].specs);
    }
  }
}

std::vector<std::filesystem::path> Experts::model_paths(int64_t expert) const {
  std::vector<std::filesystem::path> out{path(expert)};
  for (const ControlFolder& each : folder_.controlnets) {
    out.push_back(each.path);
  }
  return out;
}

int64_t Experts::at_timestep(float timestep) const {
  if (!folder_.has_two_experts()) {
    return 0;
  }
  const double boundary =
      *folder_.boundary_ratio *
      static_cast<double>(
          folder_.schedule.value_or(schedulers::ScheduleConfig{}).num_train_timesteps);
  return static_cast<double>(timestep) >= boundary ? 0 : 1;
}

void Experts::release_other(int64_t expert) {
  // An expert's size must be free in addition to its parameters, for activations and for the
  // compiler.
  const int64_t wanted =
      (is_shared(expert) ? 1 : 2) * parameter_bytes(networks_.at(expert), options_, devices_);
  std::vector<runtime::Array>& other = loaded_.at(1 - expert);
  if (!other.empty() && available_bytes(devices_) <= wanted) {
    other.clear();
  }
}

std::vector<const runtime::Array*> Experts::shared_parameters(int64_t expert) const {
  check(static_cast<bool>(shared_parameters_), "[sample] no parameters are shared yet");
  std::vector<const runtime::Array*> out = shared_parameters_(expert);
  const auto specs = networks_.at(static_cast<size_t>(expert))->parameters(options_);
  check(out.size() == specs.size(), "[sample] {} parameters are shared, the transformer has {}",
        out.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    check(out[i]->shape() == specs[i].shape, "[sample] `{}` is shared as {}, expected {}",
          specs[i].name, to_string(out[i]->shape()), to_string(specs[i].shape));
  }
  return out;
}

void Experts::prepare(int64_t expert) {
  const auto load = [&] { parameters(expert); };
  if (together_) {
    together_(load);
  } else {
    load();
  }
}

bool Experts::has_parameter_memory(int64_t expert) const {
  return is_shared(expert) ||
         std::ranges::any_of(loaded_, [](const auto& x) { return !x.empty(); });
}

std::vector<const runtime::Array*> Experts::parameters(int64_t expert) {
  if (is_shared(expert)) {
    release_other(expert);
    return shared_parameters(expert);
  }
  const auto pointers = [](const std::vector<runtime::Array>& arrays) {
    std::vector<const runtime::Array*> out;
    for (const runtime::Array& array : arrays) {
      out.push_back(&array);
    }
    return out;
  };
  std::vector<runtime::Array>& mine = loaded_.at(expert);
  if (!mine.empty()) {
    return pointers(mine);
  }
  release_other(expert);
  const AddSeconds loading(load_seconds_);
  const std::vector<std::filesystem::path> paths = model_paths(expert);
  const auto models = networks::by_model(networks_.at(expert)->parameters(options_));
  const std::vector<weights::Adapter>& adapters =
      expert == 0 ? folder_.adapters : folder_.adapters_2;
  for (size_t i = 0; i < models.size(); ++i) {
    std::ranges::move(
        weights::load(paths.at(i), models[i].specs, devices_,
                      i == 0 ? std::span(adapters) : std::span<const weights::Adapter>()),
        std::back_inserter(mine));
  }
  return pointers(mine);
}

}  // namespace kinema::sample
