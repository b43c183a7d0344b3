#pragma once

#include <string_view>

/// What the class of a pipeline's scheduler says of the network that it samples.
namespace kinema::schedulers {

/// What a network was trained as: how its input and output are scaled, and what it learned.
enum class Process {
  /// x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) eps, given to the network at unit variance; it learned the
  /// noise or the velocity (Prediction).
  DIFFUSION,
  /// x_t = (1 - sigma) x_0 + sigma eps, given as it is; it learned eps - x_0.
  FLOW,
  /// Either of the two, as the configuration says (`use_flow_sigmas`, `flow_prediction`).
  DIFFUSION_OR_FLOW,
  /// x_t = x_0 + sigma eps, given times 1 / sqrt(sigma^2 + sigma_data^2) with log(sigma) / 4 as its
  /// timestep; of the output F the picture is c_skip x_t + c_out F (arXiv:2206.00364, table 1).
  EDM,
  /// A network that makes x_0 of any x_t in one step (arXiv:2303.01469).
  CONSISTENCY,
};

/// A scheduler class of diffusers.
struct SchedulerClass {
  std::string_view name;
  Process process;

  /// Whether networks of this process are trained and sampled here.
  bool is_supported() const { return process != Process::EDM && process != Process::CONSISTENCY; }
};

/// The class of that name, with `Flax` before it too; null for one that is not known.
const SchedulerClass* scheduler_class(std::string_view name);

/// The class; throws an Error for one that is not known, or whose networks are not supported.
/// `where`: the file that names it.
const SchedulerClass& supported_scheduler_class(std::string_view name, std::string_view where);

/// A class's name without the `Flax` that configurations of JAX have before it.
std::string_view without_flax(std::string_view name);

}  // namespace kinema::schedulers
