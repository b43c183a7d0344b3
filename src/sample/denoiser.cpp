#include "sample/denoiser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace kinema::sample {
namespace {

/// Steps `first` .. `last` - 1 that belong to one expert.
struct Phase {
  int64_t expert;
  int64_t first;
  int64_t last;
};

/// A batch under way: the sample and the solver's history, all on the device.
struct State {
  pjrt::Buffer x, previous, m1, m2;
};

std::vector<Phase> phases_of(const schedulers::Schedule& schedule, const Experts& experts) {
  std::vector<Phase> phases;
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const int64_t expert = experts.at_timestep(schedule.timesteps[i]);
    if (phases.empty() || phases.back().expert != expert) {
      phases.push_back({.expert = expert, .first = i, .last = i});
    }
    phases.back().last = i + 1;
  }
  return phases;
}

void check_batch(const DenoiseBatch& batch, const wan::TransformerConfig& config, bool guided) {
  const Dims& x = batch.latents.shape.dims;
  check(batch.latents.shape.dtype == DType::F32 && x.size() == 5 && x[1] == config.in_channels,
        "[sample] latents are {}, expected f32[b,{},f,h,w]", to_string(batch.latents.shape),
        config.in_channels);
  check(config.in_channels == config.out_channels,
        "[sample] the transformer takes {} channels and makes {}: it needs an image, which is not "
        "supported",
        config.in_channels, config.out_channels);
  const Dims& text = batch.text.shape.dims;
  check(batch.text.shape.dtype == DType::F32 && text.size() == 3 && text[0] == x[0] &&
            text[2] == config.text_dim,
        "[sample] prompt embeddings are {}, expected f32[{},t,{}]", to_string(batch.text.shape),
        x[0], config.text_dim);
  check(!guided || batch.negative_text.shape == batch.text.shape,
        "[sample] negative prompt embeddings are {}, expected {} as the prompt's",
        to_string(batch.negative_text.shape), to_string(batch.text.shape));
}

State start(const DenoiseBatch& batch, const pjrt::Client& client) {
  const auto zeros = [&] { return client.to_device(HostArray(batch.latents.shape)); };
  return {.x = client.to_device(batch.latents), .previous = zeros(), .m1 = zeros(), .m2 = zeros()};
}

/// [b, t, d], or both contexts one after the other, [2 b, t, d].
pjrt::Buffer context(const DenoiseBatch& batch, bool guided, const pjrt::Client& client) {
  if (!guided) {
    return client.to_device(batch.text);
  }
  Shape shape = batch.text.shape;
  shape.dims[0] *= 2;
  HostArray both(shape);
  std::ranges::copy(batch.text.bytes, both.bytes.begin());
  std::ranges::copy(batch.negative_text.bytes,
                    both.bytes.begin() + static_cast<int64_t>(batch.text.bytes.size()));
  return client.to_device(std::move(both));
}

HostArray numbers(const schedulers::Schedule& schedule, int64_t step, double guidance_scale) {
  std::vector<float> values = schedule.steps[step].values();
  values.push_back(schedule.timesteps[step]);
  values.push_back(static_cast<float>(guidance_scale));
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

HostArray finished(const State& state, int64_t batch) {
  HostArray latents = state.x.to_host();
  const auto values = latents.as<float>();
  check(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }),
        "[sample] batch {} ended with values that are not finite: the weights or the precision are "
        "unfit",
        batch);
  return latents;
}

/// Everything one call of denoise shares between batches and phases.
class Run {
 public:
  Run(Experts& experts, StepPrograms& programs, std::span<const DenoiseBatch> batches,
      const DenoiseSettings& settings, const DenoiseObserver& observer)
      : experts_(experts),
        programs_(programs),
        batches_(batches),
        settings_(settings),
        observer_(observer) {}

  std::vector<HostArray> operator()() {
    std::vector<State> states;
    for (const DenoiseBatch& batch : batches_) {
      check_batch(batch, experts_.config(0), guided(0) || guided(experts_.size() - 1));
      states.push_back(start(batch, programs_.client()));
    }
    for (const Phase& phase : phases_of(settings_.schedule, experts_)) {
      for (size_t i = 0; i < batches_.size(); ++i) {
        advance(states[i], static_cast<int64_t>(i), phase);
      }
    }
    std::vector<HostArray> results;
    for (size_t i = 0; i < states.size(); ++i) {
      results.push_back(finished(states[i], static_cast<int64_t>(i)));
    }
    return results;
  }

 private:
  double scale(int64_t expert) const {
    return expert == 0 ? settings_.guidance_scale : settings_.guidance_scale_2;
  }
  bool guided(int64_t expert) const { return scale(expert) > 1.0; }

  const runtime::Program& program(const DenoiseBatch& batch, int64_t expert) {
    Guidance guidance = Guidance::NONE;
    if (guided(expert)) {
      guidance = settings_.two_passes ? Guidance::TWO_PASSES : Guidance::DOUBLED_BATCH;
    }
    return programs_.get({.model = experts_.config(expert),
                          .options = experts_.options(),
                          .latents = batch.latents.shape.dims,
                          .text_length = batch.text.shape.dims[1],
                          .guidance = guidance,
                          .expand_timesteps = experts_.folder().expand_timesteps});
  }

  void advance(State& state, int64_t index, const Phase& phase) {
    const DenoiseBatch& batch = batches_[index];
    const pjrt::Client& client = programs_.client();
    const runtime::Program& step = program(batch, phase.expert);
    const std::vector<pjrt::Buffer>& params = experts_.parameters(phase.expert);
    const pjrt::Buffer text = context(batch, guided(phase.expert), client);
    for (int64_t i = phase.first; i < phase.last; ++i) {
      const pjrt::Buffer table =
          client.to_device(numbers(settings_.schedule, i, scale(phase.expert)));
      std::vector<const pjrt::Buffer*> arguments;
      arguments.reserve(params.size() + 6);
      for (const pjrt::Buffer& param : params) {
        arguments.push_back(&param);
      }
      arguments.insert(arguments.end(),
                       {&state.x, &state.previous, &state.m1, &state.m2, &text, &table});
      std::vector<pjrt::Buffer> results = step.run(arguments);
      state.m2 = std::move(state.m1);
      state.x = std::move(results[0]);
      state.previous = std::move(results[1]);
      state.m1 = std::move(results[2]);
      // Waiting keeps the progress honest and bounds what is queued; a step is long against it.
      state.x.await();
      ++done_;
      report(state, results[3], index, i, phase.expert);
    }
  }

  void report(const State& state, const pjrt::Buffer& velocity, int64_t batch, int64_t step,
              int64_t expert) const {
    if (observer_) {
      observer_({.batch = batch,
                 .index = step,
                 .done = done_,
                 .total = settings_.schedule.size() * static_cast<int64_t>(batches_.size()),
                 .timestep = settings_.schedule.timesteps[step],
                 .expert = expert == 0 ? "transformer" : "transformer_2",
                 .latents = state.x,
                 .model_output = velocity});
    }
  }

  Experts& experts_;
  StepPrograms& programs_;
  std::span<const DenoiseBatch> batches_;
  const DenoiseSettings& settings_;
  const DenoiseObserver& observer_;
  int64_t done_ = 0;
};

}  // namespace

std::vector<HostArray> denoise(Experts& experts, StepPrograms& programs,
                               std::span<const DenoiseBatch> batches,
                               const DenoiseSettings& settings, const DenoiseObserver& observer) {
  return Run(experts, programs, batches, settings, observer)();
}

}  // namespace kinema::sample
