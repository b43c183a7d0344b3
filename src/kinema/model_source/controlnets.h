#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/selected_model.h"

namespace kinema::model_source {

/// Attaches the ControlNets of `controlnet` to the model's folder, after those of the hub were
/// downloaded; returns a log line for each. One of Z-Image is laid over its transformer. Pictures
/// belong to ControlNets in their order; a single union ControlNet takes all, each of the kind in
/// `control_type`. Throws an Error for a file that is no ControlNet, and for other numbers of
/// pictures or kinds.
std::vector<std::string> add_controlnets(const config::Loaded& loaded, SelectedModel& model,
                                         const Job& job);

/// The ControlNet that a configuration trains.
struct TrainedControl {
  networks::Network network;    // the UNet with it
  std::filesystem::path start;  // its files; empty: new
};
/// That of train_controlnet; else nothing. Throws an Error for another network, and for settings
/// that train something else.
std::optional<TrainedControl> trained_control(const config::Config& config,
                                              const networks::Network& network, const Job& job);

/// The network of a run that trained a ControlNet, with it; other networks alone.
networks::Network with_trained_control(const SelectedModel& model, networks::Network network);

/// The network of a denoising step with the ControlNets of `controlnet`, if there are any, for
/// `plan`: no parameters are read.
networks::Network with_controlnets(const config::Loaded& loaded, networks::Network network,
                                   const Job& job);

}  // namespace kinema::model_source
