#pragma once

#include <optional>
#include <string_view>

#include "kinema/schedulers/schedule.h"

/// The training process of a network, from the class of its pipeline's scheduler.
namespace kinema::schedulers {

/// The training process of a network: the scaling of its input and output, and what it predicts.
enum class Process {
  /// x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) eps, scaled to unit variance as input; the network
  /// predicts the noise or the velocity (Prediction).
  DIFFUSION,
  /// x_t = (1 - sigma) x_0 + sigma eps, unscaled as input; the network predicts eps - x_0.
  FLOW,
  /// One of the two, according to the configuration (`use_flow_sigmas`, `flow_prediction`).
  DIFFUSION_OR_FLOW,
  /// x_t = x_0 + sigma eps, scaled by 1 / sqrt(sigma^2 + sigma_data^2), with the timestep
  /// log(sigma) / 4; from the output F the picture is c_skip x_t + c_out F (arXiv:2206.00364, table
  /// 1).
  EDM,
  /// A network that predicts x_0 from any x_t in one step (arXiv:2303.01469).
  CONSISTENCY,
};

/// A scheduler class of diffusers.
struct SchedulerClass {
  std::string_view name;
  Process process;
  /// kinema's sampler; empty where another one has to be named.
  std::optional<Sampler> sampler = {};

  /// True if kinema samples networks of this process.
  bool is_supported() const {
    return process != Process::CONSISTENCY && (process != Process::EDM || sampler);
  }
  /// True if kinema trains them.
  bool is_trained() const { return process != Process::EDM && process != Process::CONSISTENCY; }
};

/// The class with this name, with or without `Flax`; null for an unknown one.
const SchedulerClass* scheduler_class(std::string_view name);

/// The class; throws an Error if it is unknown or its networks are not supported. `where`: the file
/// that contains the name.
const SchedulerClass& supported_scheduler_class(std::string_view name, std::string_view where);

/// A class name without the prefix `Flax` of JAX configurations.
std::string_view without_flax(std::string_view name);

}  // namespace kinema::schedulers
