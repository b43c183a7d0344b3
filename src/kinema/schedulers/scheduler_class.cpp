#include "kinema/schedulers/scheduler_class.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"

namespace kinema::schedulers {
namespace {

// Other classes are errors: sampling with another class could give noise.
constexpr std::array<SchedulerClass, 29> kClasses{{
    {"DDIMInverseScheduler", Process::DIFFUSION},
    {"DDIMParallelScheduler", Process::DIFFUSION},
    {"DDIMScheduler", Process::DIFFUSION},
    {"DDPMParallelScheduler", Process::DIFFUSION},
    {"DDPMScheduler", Process::DIFFUSION},
    {"DEISMultistepScheduler", Process::DIFFUSION_OR_FLOW},
    {"DPMSolverMultistepInverseScheduler", Process::DIFFUSION_OR_FLOW},
    {"DPMSolverMultistepScheduler", Process::DIFFUSION_OR_FLOW},
    {"DPMSolverSDEScheduler", Process::DIFFUSION},
    {"DPMSolverSinglestepScheduler", Process::DIFFUSION_OR_FLOW},
    {"EulerAncestralDiscreteScheduler", Process::DIFFUSION},
    {"EulerDiscreteScheduler", Process::DIFFUSION},
    {"HeunDiscreteScheduler", Process::DIFFUSION},
    {"KDPM2AncestralDiscreteScheduler", Process::DIFFUSION},
    {"KDPM2DiscreteScheduler", Process::DIFFUSION},
    {"LCMScheduler", Process::DIFFUSION},
    {"LMSDiscreteScheduler", Process::DIFFUSION},
    {"PNDMScheduler", Process::DIFFUSION},
    {"SASolverScheduler", Process::DIFFUSION_OR_FLOW},
    {"TCDScheduler", Process::DIFFUSION},
    {"UniPCMultistepScheduler", Process::DIFFUSION_OR_FLOW},

    {"FlowMatchEulerDiscreteScheduler", Process::FLOW},
    {"FlowMatchHeunDiscreteScheduler", Process::FLOW},
    {"FlowMatchLCMScheduler", Process::FLOW},

    {"CosineDPMSolverMultistepScheduler", Process::EDM},
    {"EDMDPMSolverMultistepScheduler", Process::EDM},
    {"EDMEulerScheduler", Process::EDM},

    {"CMStochasticIterativeScheduler", Process::CONSISTENCY},
    {"SCMScheduler", Process::CONSISTENCY},
}};

}  // namespace

std::string_view without_flax(std::string_view name) {
  constexpr std::string_view kFlax = "Flax";
  return name.starts_with(kFlax) ? name.substr(kFlax.size()) : name;
}

const SchedulerClass* scheduler_class(std::string_view name) {
  const auto* const found = std::ranges::find(kClasses, without_flax(name), &SchedulerClass::name);
  return found == kClasses.end() ? nullptr : found;
}

const SchedulerClass& supported_scheduler_class(std::string_view name, std::string_view where) {
  const SchedulerClass* known = scheduler_class(name);
  check(known != nullptr,
        "[scheduler] {}: the class `{}` is not known, so it is not known how the model was "
        "trained\n  "
        "models that predict noise, velocity or a rectified flow are supported: "
        "EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler, ...",
        where, name);
  check(known->is_supported(),
        "[scheduler] {}: models of a `{}` are not supported: {}\n  other samplers would give "
        "noise; models that predict noise, velocity or a rectified flow are supported",
        where, name,
        known->process == Process::EDM
            ? "their input and output are scaled as in EDM (sigma_data, Playground v2.5)"
            : "they are consistency models");
  return *known;
}

}  // namespace kinema::schedulers
