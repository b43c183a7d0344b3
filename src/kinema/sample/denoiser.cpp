#include "kinema/sample/denoiser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/sample/latents.h"

namespace kinema::sample {
namespace {

/// Steps `first` .. `last` - 1 of one expert.
struct Phase {
  int64_t expert;
  int64_t first;
  int64_t last;
  bool truncated;  // no guidance, because of guidance_truncation
};

/// A batch between steps: the sample and the solver's history, replicated on every device.
struct State {
  runtime::Array x, previous, m1, m2;
  std::optional<runtime::Array> m3;  // of samplers with a long history
};

/// As in the reference, which computes the network's time in f32.
bool is_truncated(float timestep, double truncation) {
  return truncation < 1.0 && static_cast<double>((1000.0F - timestep) / 1000.0F) > truncation;
}

std::vector<Phase> phases_of(const schedulers::Schedule& schedule, const Experts& experts,
                             double truncation) {
  std::vector<Phase> phases;
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const int64_t expert = experts.at_timestep(schedule.timesteps[i]);
    const bool truncated = is_truncated(schedule.timesteps[i], truncation);
    if (phases.empty() || phases.back().expert != expert || phases.back().truncated != truncated) {
      phases.push_back({.expert = expert, .first = i, .last = i, .truncated = truncated});
    }
    phases.back().last = i + 1;
  }
  return phases;
}

/// The first step of the low-noise expert; nothing if there is one transformer.
std::optional<int64_t> split_of(const schedulers::Schedule& schedule, const Experts& experts) {
  if (experts.size() == 1) {
    return std::nullopt;
  }
  int64_t high = 0;
  for (const float t : schedule.timesteps) {
    high += experts.at_timestep(t) == 0 ? 1 : 0;
  }
  return high;
}

ReusePlan reuse_plan(const DenoiseSettings& settings, const Experts& experts) {
  return {settings.reuse, settings.schedule.size(), split_of(settings.schedule, experts),
          is_guided(settings, 0) || is_guided(settings, experts.size() - 1)};
}

/// The texts of a step: those of the batch, or later ones.
struct StepText {
  const HostArray *text, *negative_text, *pooled, *negative_pooled;
  bool operator==(const StepText&) const = default;
};

StepText text_at(const DenoiseBatch& batch, int64_t step) {
  StepText out{&batch.text, &batch.negative_text, &batch.pooled, &batch.negative_pooled};
  for (const DenoiseText& later : batch.later_texts) {
    if (later.first_step <= step) {
      out = {&later.text, &later.negative_text, &later.pooled, &later.negative_pooled};
    }
  }
  return out;
}

void append(std::vector<const runtime::Array*>& to, const std::vector<runtime::Array>& buffers) {
  for (const runtime::Array& buffer : buffers) {
    to.push_back(&buffer);
  }
}

void check_inputs(const DenoiseBatch& batch, const networks::Sizes& network) {
  for (const networks::NamedInput& declared : network.named) {
    const auto is_it = [&](const DenoiseBatch::Named& each) { return each.step.input == declared; };
    check(declared.optional || std::ranges::any_of(batch.inputs, is_it),
          "[sample] the network takes an input `{}` of {} channels, and none was given",
          declared.name, declared.channels);
  }
  const Dims& latents = batch.latents.shape.dims;
  for (const auto& [step, value] : batch.inputs) {
    check(std::ranges::find(network.named, step.input) != network.named.end(),
          "[sample] the network takes no input `{}` of {} channels", step.input.name,
          step.input.channels);
    check(value.shape == Shape{DType::F32, step.dims(latents)} &&
              step.input.fits(value.shape.dims, latents),
          "[sample] the input `{}` is {}, expected f32{}", step.input.name, to_string(value.shape),
          step.input.wanted(latents));
  }
}

/// Numbers per sample, for networks with such inputs.
void check_rows(const char* what, const HostArray& rows, const HostArray& negative, int64_t width,
                int64_t samples, bool guided) {
  const Shape expected{DType::F32, width == 0 ? Dims{} : Dims{samples, width}};
  const bool fits = width == 0 ? rows.bytes.empty() : rows.shape == expected;
  check(fits && (width == 0 || !guided || negative.shape == expected),
        "[sample] {} is {}, and of the negative prompt {}, expected {}", what,
        to_string(rows.shape), to_string(negative.shape),
        width == 0 ? std::string("none") : to_string(expected));
}

void check_indices(const DenoiseBatch& batch) {
  check(std::ssize(batch.indices) == batch.latents.shape.dims[0],
        "[sample] there are {} indices of {} videos, on which the sampler's noise depends",
        batch.indices.size(), batch.latents.shape.dims[0]);
}

void check_batch(const DenoiseBatch& batch, const networks::Sizes& network, bool guided) {
  const Dims& x = batch.latents.shape.dims;
  check(batch.latents.shape.dtype == DType::F32 && x.size() == 5 && x[1] == network.out_channels,
        "[sample] latents are {}, expected f32[b,{},f,h,w]", to_string(batch.latents.shape),
        network.out_channels);
  check_inputs(batch, network);
  const Dims& text = batch.text.shape.dims;
  check(batch.text.shape.dtype == DType::F32 && text.size() == 3 && text[0] == x[0] &&
            text[2] == network.text_dim,
        "[sample] prompt embeddings are {}, expected f32[{},t,{}]", to_string(batch.text.shape),
        x[0], network.text_dim);
  check(!guided || batch.negative_text.shape == batch.text.shape,
        "[sample] negative prompt embeddings are {}, expected {} as the prompt's",
        to_string(batch.negative_text.shape), to_string(batch.text.shape));
  for (const DenoiseText& later : batch.later_texts) {
    check(later.text.shape == batch.text.shape && later.pooled.shape == batch.pooled.shape &&
              (!guided || (later.negative_text.shape == batch.negative_text.shape &&
                           later.negative_pooled.shape == batch.negative_pooled.shape)),
          "[sample] prompt embeddings from step {} on are {}, expected {} as before",
          later.first_step + 1, to_string(later.text.shape), to_string(batch.text.shape));
  }
  check_rows("pooled text", batch.pooled, batch.negative_pooled, network.pooled_dim, x[0], guided);
  check_rows("size_ids", batch.size_ids, batch.negative_size_ids, network.size_ids, x[0], guided);
  const Dims& image = batch.image.shape.dims;
  check((network.image_dim == 0) == batch.image.bytes.empty() &&
            (batch.image.bytes.empty() || (image.size() == 3 && image[0] == x[0])),
        "[sample] image tokens are {}, expected {}", to_string(batch.image.shape),
        network.image_dim == 0 ? std::string("none")
                               : fmt::format("f32[{},n,{}]", x[0], network.image_dim));
}

State start(const DenoiseBatch& batch, const schedulers::StepForm& form,
            const runtime::Devices& devices) {
  const auto zeros = [&] { return devices.zeros(batch.latents.shape); };
  State out{.x = devices.upload(batch.latents),
            .previous = zeros(),
            .m1 = zeros(),
            .m2 = zeros(),
            .m3 = std::nullopt};
  if (form.long_history) {
    out.m3 = zeros();
  }
  return out;
}

/// [b, ...], or with guidance both contexts concatenated, [2 b, ...].
runtime::Array contexts(const HostArray& prompted, const HostArray& negative, bool guided,
                        const runtime::Devices& devices) {
  if (!guided) {
    return devices.upload(prompted);
  }
  Shape shape = prompted.shape;
  shape.dims[0] *= 2;
  HostArray both(shape);
  std::ranges::copy(prompted.bytes, both.bytes.begin());
  std::ranges::copy(negative.bytes,
                    both.bytes.begin() + static_cast<int64_t>(prompted.bytes.size()));
  return devices.upload(both);
}

/// False for the pictures of ControlNets in a step in which these add nothing, and are not run.
bool is_used(const DenoiseBatch::Named& input, const HostArray& scales) {
  return input.step.input.entry != networks::Entry::PICTURES ||
         std::ranges::any_of(scales.as<float>(), [](float scale) { return scale != 0.0F; });
}

std::vector<StepInput> inputs_at(const DenoiseBatch& batch, const HostArray& scales) {
  std::vector<StepInput> out;
  for (const DenoiseBatch::Named& each : batch.inputs) {
    if (is_used(each, scales)) {
      out.push_back(each.step);
    }
  }
  return out;
}

/// The final sample. A given first frame is restored: the solver has changed it too.
HostArray finished(const State& state, const DenoiseBatch& batch) {
  HostArray latents = state.x.to_host();
  for (const DenoiseBatch::Named& each : batch.inputs) {
    if (each.step.input.entry != networks::Entry::FIRST_FRAME) {
      continue;
    }
    const Dims& dims = latents.shape.dims;
    const int64_t frame = dims[3] * dims[4] * static_cast<int64_t>(sizeof(float));
    for (int64_t i = 0; i < dims[0] * dims[1]; ++i) {
      std::copy_n(each.value.bytes.begin() + i * frame, frame,
                  latents.bytes.begin() + i * dims[2] * frame);
    }
  }
  return latents;
}

/// The state of one call of denoise.
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
    check_reuse(settings_.reuse,
                is_guided(settings_, 0) && is_guided(settings_, experts_.size() - 1));
    std::vector<State> states;
    for (const DenoiseBatch& batch : batches_) {
      check(std::ssize(settings_.control) == experts_.network(0).sizes().control_layers,
            "[sample] there are {} factors of control, expected {}", settings_.control.size(),
            experts_.network(0).sizes().control_layers);
      check_batch(batch, experts_.network(0).sizes(),
                  is_guided(settings_, 0) || is_guided(settings_, experts_.size() - 1));
      if (settings_.schedule.form.noise) {
        check_indices(batch);
      }
      states.push_back(start(batch, settings_.schedule.form, programs_.devices()));
    }
    for (const Phase& phase :
         phases_of(settings_.schedule, experts_, settings_.guidance_truncation)) {
      experts_.prepare(phase.expert);
      for (size_t i = 0; i < batches_.size(); ++i) {
        advance(states[i], static_cast<int64_t>(i), phase);
      }
    }
    std::vector<HostArray> results;
    for (size_t i = 0; i < states.size(); ++i) {
      results.push_back(finished(states[i], batches_[i]));
    }
    return results;
  }

 private:
  void advance(State& state, int64_t index, const Phase& phase) {
    const DenoiseBatch& batch = batches_[index];
    DenoiseSettings own_settings = settings_;
    if (phase.truncated) {
      own_settings.guidance_scale = 1.0;
    }
    StepSpec spec = step_spec(experts_, phase.expert, batch, own_settings);
    const std::vector<const runtime::Array*> params = experts_.parameters(phase.expert);
    StepText text = text_at(batch, phase.first);
    HostArray scales = scales_at(settings_.control, phase.first, settings_.schedule.size());
    spec.inputs = inputs_at(batch, scales);
    std::vector<runtime::Array> given = given_to_steps(batch, text, scales, spec, params);
    // Results are kept within one expert and batch: an expert's first step is always full.
    ReusePlan plan = reuse_plan(settings_, experts_);
    std::vector<runtime::Array> kept;
    double drift = 0;
    for (int64_t i = phase.first; i < phase.last; ++i) {
      HostArray own_scales = scales_at(settings_.control, i, settings_.schedule.size());
      if (const StepText own = text_at(batch, i);
          !(own == text) || own_scales.bytes != scales.bytes) {
        text = own;
        scales = std::move(own_scales);
        spec.inputs = inputs_at(batch, scales);
        given = given_to_steps(batch, text, scales, spec, params);
      }
      spec.reuse = plan.at(i, settings_.schedule.timesteps[i] / 1000.0, drift);
      const runtime::Array table = programs_.devices().upload(
          step_numbers(settings_.schedule, i,
                       {.guidance_scale = guidance_scale_of(settings_, phase.expert),
                        .guidance_rescale = settings_.guidance_rescale,
                        .weights = plan.weights(i),
                        .embedded_guidance = settings_.embedded_guidance,
                        .guidance_normalization = settings_.guidance_normalization}));
      std::vector<const runtime::Array*> arguments = params;
      arguments.insert(arguments.end(), {&state.x, &state.previous, &state.m1, &state.m2});
      if (state.m3) {
        arguments.push_back(&*state.m3);
      }
      append(arguments, given);
      if (is_reuse(spec.reuse)) {
        append(arguments, kept);
      }
      std::optional<runtime::Array> noise;
      if (spec.form.noise) {
        noise = programs_.devices().upload(step_noise(settings_.seed, batch.indices, i,
                                                      settings_.schedule.noise_correlation,
                                                      batch.latents.shape.dims));
        arguments.push_back(&*noise);
      }
      arguments.push_back(&table);
      std::vector<runtime::Array> results = programs_.get(spec).run(programs_.devices(), arguments);
      state.x = std::move(results[0]);
      state.previous = std::move(results[1]);
      if (settings_.schedule.steps[i].is_kept) {
        if (state.m3) {
          state.m3 = std::move(state.m2);
        }
        state.m2 = std::move(state.m1);
        state.m1 = std::move(results[2]);
      }
      check_finite(results[4], index, i, phase.expert);
      ++done_;
      const runtime::Array& prediction =
          settings_.schedule.steps[i].is_kept ? state.m1 : results[2];
      report(state, prediction, results[3], index, i, phase.expert, spec.reuse);
      drift = keep(spec.reuse, results, kept);
    }
  }

  /// Inputs that are the same at all steps of a text: text and image or their keys and values, and
  /// the conditioning. The tokens of faces are computed here.
  std::vector<runtime::Array> given_to_steps(const DenoiseBatch& batch, const StepText& text,
                                             const HostArray& scales, const StepSpec& spec,
                                             const std::vector<const runtime::Array*>& params) {
    const runtime::Devices& devices = programs_.devices();
    std::vector<runtime::Array> given;
    const bool guided = spec.guidance != Guidance::NONE;
    given.push_back(contexts(*text.text, *text.negative_text, guided, devices));
    if (!batch.image.bytes.empty()) {
      given.push_back(devices.upload(batch.image));
    }
    if (spec.keys) {
      std::vector<const runtime::Array*> arguments = params;
      append(arguments, given);
      given = programs_.keys(spec).run(devices, arguments);
    }
    if (!text.pooled->bytes.empty()) {
      given.push_back(contexts(*text.pooled, *text.negative_pooled, guided, devices));
    }
    if (!batch.size_ids.bytes.empty()) {
      given.push_back(contexts(batch.size_ids, batch.negative_size_ids, guided, devices));
    }
    for (const DenoiseBatch::Named& each : batch.inputs) {
      if (each.step.input.entry == networks::Entry::FACES) {
        const runtime::Array pictures = devices.upload(each.value);
        std::vector<const runtime::Array*> arguments = params;
        arguments.push_back(&pictures);
        given.push_back(std::move(programs_.faces(spec).run(devices, arguments).front()));
      } else if (is_used(each, scales)) {
        given.push_back(devices.upload(each.value));
      }
    }
    for (const HostArray* each : {&scales, &batch.clean, &batch.clean_noise, &batch.mask}) {
      if (!each->bytes.empty()) {
        given.push_back(devices.upload(*each));
      }
    }
    return given;
  }

  /// Moves results for later steps to `kept`; returns the distance of the sample from the
  /// reference, if the step computes it.
  static double keep(Reuse reuse, std::vector<runtime::Array>& results,
                     std::vector<runtime::Array>& kept) {
    switch (reuse) {
      case Reuse::NOTHING:
      case Reuse::BLOCKS:
        break;
      case Reuse::KEEP_BLOCKS:
      case Reuse::KEEP_BRANCHES:
        kept.clear();
        std::move(results.begin() + 5, results.end(), std::back_inserter(kept));
        break;
      case Reuse::BRANCH:
        kept.at(0) = std::move(results[5]);
        break;
      case Reuse::KEEP_VELOCITY:
        kept.clear();
        kept.push_back(std::move(results[3]));
        kept.push_back(std::move(results[5]));
        return results[6].to_host().as<float>()[0];
      case Reuse::VELOCITY:
        return results[5].to_host().as<float>()[0];
    }
    return 0;
  }

  /// Reads the step's `finite`, four bytes. Waiting for it makes the progress correct and limits
  /// the queue; it is short compared to a step.
  void check_finite(const runtime::Array& finite, int64_t batch, int64_t step,
                    int64_t expert) const {
    check(finite.to_host().as<int32_t>()[0] != 0,
          "[sample] latents are not finite after step {} of {} ({}, batch {}): nothing is decoded\n"
          "  the weights are corrupt (see `kinema inspect --check`), a guidance scale is too "
          "large, or activations_dtype has too small a range",
          step + 1, settings_.schedule.size(), name_of(expert), batch);
  }

  static const char* name_of(int64_t expert) {
    return expert == 0 ? "transformer" : "transformer_2";
  }

  void report(const State& state, const runtime::Array& prediction, const runtime::Array& velocity,
              int64_t batch, int64_t step, int64_t expert, Reuse reuse) const {
    if (observer_) {
      observer_({.batch = batch,
                 .index = step,
                 .done = done_,
                 .total = settings_.schedule.size() * static_cast<int64_t>(batches_.size()),
                 .timestep = settings_.schedule.timesteps[step],
                 .expert = name_of(expert),
                 .latents = state.x,
                 .prediction = prediction,
                 .model_output = velocity,
                 .reuse = reuse});
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

double guidance_scale_of(const DenoiseSettings& settings, int64_t expert) {
  return expert == 0 ? settings.guidance_scale : settings.guidance_scale_2;
}

bool is_guided(const DenoiseSettings& settings, int64_t expert) {
  return settings.guidance_scale > 1.0 && guidance_scale_of(settings, expert) != 1.0;
}

StepSpec step_spec(const Experts& experts, int64_t expert, const DenoiseBatch& batch,
                   const DenoiseSettings& settings) {
  StepSpec spec{.network = experts.network(expert),
                .options = experts.options(),
                .latents = batch.latents.shape.dims,
                .text_length = batch.text.shape.dims[1],
                .text_fills = settings.text_fills,
                .guidance = Guidance::NONE,
                .expand_timesteps = experts.folder().expand_timesteps,
                .keeps_part = !batch.mask.shape.dims.empty(),
                .guess_mode = settings.guess_mode,
                .image_tokens = batch.image.shape.dims.empty() ? 0 : batch.image.shape.dims[1]};
  for (const DenoiseBatch::Named& each : batch.inputs) {
    spec.inputs.push_back(each.step);
  }
  if (is_guided(settings, expert)) {
    spec.guidance = settings.two_passes ? Guidance::TWO_PASSES : Guidance::DOUBLED_BATCH;
    spec.rescale = settings.guidance_rescale > 0.0;
    spec.normalizes = settings.guidance_normalization > 0.0;
  }
  spec.reuse = reuse_plan(settings, experts).whole();
  spec.keys = settings.reuse.keys;
  spec.form = settings.schedule.form;
  lay_out_contexts(spec);
  return spec;
}

std::vector<HostArray> denoise(Experts& experts, StepPrograms& programs,
                               std::span<const DenoiseBatch> batches,
                               const DenoiseSettings& settings, const DenoiseObserver& observer) {
  return Run(experts, programs, batches, settings, observer)();
}

}  // namespace kinema::sample
