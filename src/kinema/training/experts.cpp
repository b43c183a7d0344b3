#include "kinema/training/experts.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/core/trace.h"
#include "kinema/pjrt/transfers.h"

namespace kinema::training {

int64_t expert_at(double timestep, double boundary) { return timestep >= boundary ? 0 : 1; }

double high_noise_probability(const ObjectiveOptions& options) {
  const auto u = [&](double timestep) { return options.flow.uniform(timestep); };
  const double low = u(options.min_timestep);
  const double high = u(options.max_timestep);
  return std::clamp((high - u(options.boundary.value_or(0))) / (high - low), 0.0, 1.0);
}

int64_t ExpertSchedule::expert_of(int64_t step) const {
  const auto turn = static_cast<uint64_t>(step / length);
  RandomStream random(random_key(seed, "expert", turn));
  return static_cast<double>(random.uniform()) < high_noise_probability ? 0 : 1;
}

int64_t ExpertSchedule::count(int64_t expert, int64_t steps) const {
  int64_t out = 0;
  for (int64_t begin = 0; begin < steps; begin += length) {
    out += expert_of(begin) == expert ? std::min(length, steps - begin) : 0;
  }
  return out;
}

Experts::Experts(std::unique_ptr<Trainer> trainer, TwoExperts two)
    : trainer_(std::move(trainer)), two_(two) {
  check(two_->schedule.length >= 1, "[train] turns of {} steps", two_->schedule.length);
}

void Experts::set_state(int64_t expert, State state) {
  if (expert == active_) {
    trainer_->set_state(std::move(state));
  } else if (idle_on_host()) {
    const pjrt::AllowTransfers all;
    idle_host_ = state.map([](const runtime::Array& array) { return runtime::HostParts(array); });
  } else {
    idle_ = std::move(state);
  }
}

int64_t Experts::steps_before(int64_t step) {
  if (!two_) {
    return step;
  }
  if (step < counted_.next) {
    counted_ = {};
  }
  for (; counted_.next < step; ++counted_.next) {
    ++counted_.steps.at(static_cast<size_t>(expert_of(counted_.next)));
  }
  return counted_.steps.at(static_cast<size_t>(expert_of(step)));
}

void Experts::bring(int64_t expert) {
  if (expert == active_) {
    return;
  }
  check(two_.has_value() && (expert == 0 || expert == 1), "[train] there is no expert {}", expert);
  const trace::Scope span("change of experts");
  if (two_->idle_on_host) {
    trainer_->exchange(idle_host_);
  } else {
    exchange();
  }
  active_ = expert;
  trainer_->set_expert(expert);
}

StepResult Experts::run(int64_t step, double learning_rate, const data::Batch& batch) {
  bring(expert_of(step));
  return trainer_->run(step, learning_rate, batch);
}

void Experts::exchange() {
  State own = trainer_->take_state();
  trainer_->set_state(std::move(idle_));
  idle_ = std::move(own);
}

StateView Experts::state(int64_t expert) {
  bring(expert);
  return trainer_->state();
}

StateSource Experts::source(int64_t expert) const {
  const StateView own = trainer_->state();
  if (expert == active_) {
    return source_of(own);
  }
  if (!idle_on_host()) {
    return source_of({own.specs, idle_, own.moments});
  }
  StateSource out = source_of(own);  // for the specs of the moments
  out.parts = idle_host_.map([](const runtime::HostParts& array) {
    return StateSource::Kept{.dtype = array.shape().dtype,
                             .to_host = [&array] { return array.whole(); }};
  });
  return out;
}

void Experts::check_replicas() {
  trainer_->check_replicas();
  if (two_ && !two_->idle_on_host) {
    exchange();
    try {
      trainer_->check_replicas();
    } catch (...) {
      exchange();
      throw;
    }
    exchange();
  }
}

IdleBytes Experts::idle_bytes() const {
  if (!two_) {
    return {};
  }
  const StateParts<nn::ParamSpec>& state = trainer_->state_parts();
  const runtime::Devices& devices = trainer_->devices();
  return {.device = training::idle_bytes(state, devices.placement(), two_->idle_on_host).device,
          .host = idle_host_bytes(state, devices, two_->idle_on_host)};
}

int64_t idle_host_bytes(const StateParts<nn::ParamSpec>& state, const runtime::Devices& devices,
                        bool on_host) {
  const mesh::Placement& place = devices.placement();
  if (!on_host) {
    return offloaded_bytes(state, place) * static_cast<int64_t>(devices.count());
  }
  int64_t out = 0;
  for (const nn::ParamSpec* spec : state.all()) {
    out += runtime::host_bytes(devices, spec->shape, spec->sharding(place));
  }
  return out;
}

IdleBytes idle_bytes(const StateParts<nn::ParamSpec>& state, const mesh::Placement& place,
                     bool on_host) {
  if (on_host) {
    return {.device = 0, .host = checkpoint_bytes(state, {})};
  }
  const int64_t waiting = offloaded_bytes(state, place);  // in host memory already, per device
  const int64_t devices = place.active() ? place.mesh().devices() : 1;
  return {.device = state_bytes(state, place) - waiting, .host = waiting * devices};
}

}  // namespace kinema::training
