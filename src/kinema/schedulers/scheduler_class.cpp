#include "kinema/schedulers/scheduler_class.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"

namespace kinema::schedulers {
namespace {

// Other classes are errors: sampling with another class could give noise. The parallel classes
// differ in how many samples they take at once.
constexpr std::array<SchedulerClass, 29> kClasses{{
    {"DDIMInverseScheduler", Process::DIFFUSION},
    {"DDIMParallelScheduler", Process::DIFFUSION, Sampler::DDIM},
    {"DDIMScheduler", Process::DIFFUSION, Sampler::DDIM},
    {"DDPMParallelScheduler", Process::DIFFUSION, Sampler::DDPM},
    {"DDPMScheduler", Process::DIFFUSION, Sampler::DDPM},
    {"DEISMultistepScheduler", Process::DIFFUSION_OR_FLOW, Sampler::DEIS},
    {"DPMSolverMultistepInverseScheduler", Process::DIFFUSION_OR_FLOW},
    {"DPMSolverMultistepScheduler", Process::DIFFUSION_OR_FLOW, Sampler::DPM_MULTISTEP},
    {"DPMSolverSDEScheduler", Process::DIFFUSION, Sampler::DPM_SDE},
    {"DPMSolverSinglestepScheduler", Process::DIFFUSION_OR_FLOW, Sampler::DPM_SINGLESTEP},
    {"EulerAncestralDiscreteScheduler", Process::DIFFUSION, Sampler::EULER_ANCESTRAL},
    {"EulerDiscreteScheduler", Process::DIFFUSION, Sampler::EULER},
    {"HeunDiscreteScheduler", Process::DIFFUSION, Sampler::HEUN},
    {"KDPM2AncestralDiscreteScheduler", Process::DIFFUSION, Sampler::KDPM2_ANCESTRAL},
    {"KDPM2DiscreteScheduler", Process::DIFFUSION, Sampler::KDPM2},
    {"LCMScheduler", Process::DIFFUSION, Sampler::LCM},
    {"LMSDiscreteScheduler", Process::DIFFUSION, Sampler::LMS},
    {"PNDMScheduler", Process::DIFFUSION, Sampler::PNDM},
    {"SASolverScheduler", Process::DIFFUSION_OR_FLOW},
    {"TCDScheduler", Process::DIFFUSION, Sampler::TCD},
    {"UniPCMultistepScheduler", Process::DIFFUSION_OR_FLOW, Sampler::UNIPC},

    {"FlowMatchEulerDiscreteScheduler", Process::FLOW, Sampler::FLOW_MATCH_EULER},
    {"FlowMatchHeunDiscreteScheduler", Process::FLOW, Sampler::FLOW_MATCH_HEUN},
    {"FlowMatchLCMScheduler", Process::FLOW},

    {"CosineDPMSolverMultistepScheduler", Process::EDM},
    {"EDMDPMSolverMultistepScheduler", Process::EDM, Sampler::DPM_MULTISTEP},
    {"EDMEulerScheduler", Process::EDM, Sampler::EULER},

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
            ? "of EDM, EDMEulerScheduler and EDMDPMSolverMultistepScheduler are supported"
            : "they are consistency models");
  return *known;
}

}  // namespace kinema::schedulers
