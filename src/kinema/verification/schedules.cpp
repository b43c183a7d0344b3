// Schedules of samplers, their steps, and sampling and weights of timesteps in training.
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/flow_match.h"
#include "kinema/schedulers/samplers.h"
#include "kinema/schedulers/schedule.h"
#include "kinema/training/ema.h"
#include "kinema/training/objective.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/kinds.h"

namespace kinema::verification {
namespace {

using schedulers::FlowMatch;
using schedulers::Schedule;
using schedulers::ScheduleConfig;
using schedulers::TimestepBias;

/// The samples of a schedule, step by step.
struct Followed {
  HostArray samples;  // [steps + 1, ...], starting with the given sample
  HostArray inputs;   // [steps, ...]: the model's inputs
  HostArray outputs;  // [steps, ...]: the model's outputs
};

/// The fixtures' stand-in for a model, v(x, t) = (0.4 + t/2000) x - 0.5 cond + 0.1 sin(3 x).
float stand_in(float x, float t, float cond) {
  return (0.4F + t / 2000.0F) * x - 0.5F * cond + 0.1F * std::sin(3.0F * x);
}

HostArray zeros_of(const HostArray& one, int64_t count) {
  Shape shape = one.shape;
  shape.dims.insert(shape.dims.begin(), count);
  return HostArray(shape);
}

/// Samples from `x`, with the given model outputs [steps, ...] or, if empty, the stand-in's.
Followed follow(const Schedule& schedule, const HostArray& x, const HostArray& cond,
                const HostArray& outputs = {}) {
  check(x.shape.elements() == cond.shape.elements(),
        "[verify] the first sample is {} but cond is {}", to_string(x.shape),
        to_string(cond.shape));
  Followed out{.samples = zeros_of(x, schedule.size() + 1),
               .inputs = zeros_of(x, schedule.size()),
               .outputs = zeros_of(x, schedule.size())};
  const auto all = out.samples.as<float>();
  const auto start = x.as<float>();
  const auto c = cond.as<float>();
  const size_t n = start.size();
  for (size_t j = 0; j < n; ++j) {
    all[j] = start[j];
    float previous = 0;
    float m1 = 0;
    float m2 = 0;
    float m3 = 0;
    for (int64_t i = 0; i < schedule.size(); ++i) {
      const schedulers::StepCoefficients& k = schedule.steps[i];
      const float now = all[i * n + j];
      const float input = now * k.input;
      const float v = !outputs.bytes.empty() ? outputs.as<float>()[i * n + j]
                                             : stand_in(input, schedule.timesteps[i], c[j]);
      out.inputs.as<float>()[i * n + j] = input;
      out.outputs.as<float>()[i * n + j] = v;
      const float m0 = k.data_x * now + k.data_v * v;
      const float corrected = k.correct_x * now + k.correct_previous * previous +
                              k.correct_m0 * m0 + k.correct_m1 * m1 + k.correct_m2 * m2 +
                              k.correct_m3 * m3;
      all[(i + 1) * n + j] = k.from_c * corrected + k.from_m0 * m0 + k.from_m1 * m1 +
                             k.from_m2 * m2 + k.from_m3 * m3 + k.from_v * v + k.from_x * now +
                             k.from_previous * previous;
      previous = corrected;
      if (k.is_kept) {
        m3 = m2;
        m2 = m1;
        m1 = m0;
      }
    }
  }
  return out;
}

/// The number after `word` in a dotted name.
std::optional<double> number_after(const std::string& key, std::string_view word) {
  const size_t at = key.find(word);
  if (at == std::string::npos) {
    return {};
  }
  char* end = nullptr;
  const double value = std::strtod(key.c_str() + at + word.size(), &end);
  return end == key.c_str() + at + word.size() ? std::nullopt : std::optional(value);
}

/// Adds the tensors of a video's schedule `unipc.shift3.steps20`; the model's outputs are the
/// case's or the stand-in's.
void add_wan_schedule(const Run& run, const std::string& key, const ScheduleConfig& config,
                      int64_t steps) {
  const Schedule schedule = schedulers::make_schedule(config, steps);
  run.add_known(key + ".timesteps", numbers(schedule.timesteps));
  run.add_known(key + ".sigmas", numbers(schedule.sigmas));
  const HostArray x = run.tensor("initial_sample");
  const HostArray cond = run.tensor("cond");
  check(x.shape == cond.shape && x.shape.dtype == DType::F32,
        "[verify] initial_sample is {} but cond is {}", to_string(x.shape), to_string(cond.shape));
  const std::string given = key + ".model_outputs";
  const HostArray outputs = run.has(given) ? run.tensor(given) : HostArray();
  check(outputs.bytes.empty() || outputs.shape.elements() == x.shape.elements() * schedule.size(),
        "[verify] {} is {}, expected {} times {}", given, to_string(outputs.shape), schedule.size(),
        to_string(x.shape));
  const HostArray samples = follow(schedule, x, cond, outputs).samples;
  run.add_known(key + ".samples", samples);
  run.add_known(key + ".final", part_of(samples, schedule.size()));
}

/// Adds the tensors of an image's schedule, `euler.leading.steps4`.
void add_image_schedule(const Run& run, const std::string& key, const Schedule& schedule,
                        const HostArray& start) {
  const Followed followed = follow(schedule, start, run.tensor("cond"));
  run.add_known({{key + ".sigmas", numbers(schedule.sigmas)},
                 {key + ".timesteps", numbers(schedule.timesteps)},
                 {key + ".samples", followed.samples},
                 {key + ".model_inputs", followed.inputs},
                 {key + ".model_outputs", followed.outputs}});
}

/// The case's timestep densities, by name: `logit_normal_shifted`.
FlowMatch flow_of(const std::string& kind) {
  FlowMatch flow = schedulers::kFluxFlow;
  flow.density =
      schedulers::density_from_string(kind.starts_with("logit_normal") ? "logit_normal" : kind);
  if (kind == "logit_normal_shifted") {
    flow.logit_mean = 0.5;
    flow.logit_std = 0.8;
  }
  return flow;
}

void follow_wan_schedules(const Run& run) {
  for (const std::string& key : run.c.names_before(".timesteps")) {
    const auto shift = number_after(key, ".shift");
    const auto steps = number_after(key, ".steps");
    if (shift && steps) {
      const auto sampler = schedulers::sampler_from_string(key.substr(0, key.find('.'))).sampler;
      run.attempt(key, [&] {
        add_wan_schedule(run, key, {.sampler = sampler, .shift = *shift},
                         static_cast<int64_t>(*steps));
      });
    }
  }
  if (run.has("euler.train.sigmas")) {
    const std::string about = run.about("euler.train.*").as_string();
    const auto table =
        schedulers::euler_training_table(number_after(about, "shift ").value_or(3.0),
                                         run.tensor("euler.train.sigmas").shape.elements());
    run.add("euler.train.sigmas", numbers(table.sigmas));
    run.add("euler.train.timesteps", numbers(table.timesteps));
  }
}

void follow_flux_schedules(const Run& run) {
  const std::vector<std::string> keys = run.c.names_before(".sigmas");
  for (const std::string& key : std::set(keys.begin(), keys.end())) {
    ScheduleConfig config{
        .sampler = schedulers::Sampler::FLOW_MATCH_EULER, .shift = 1.0, .even_sigmas = true};
    if (!key.starts_with("schnell")) {
      config.dynamic_shift = schedulers::DynamicShift{};
      // MaxDiffusion's line starts at the text's length.
      if (const auto length = number_after(key, ".length")) {
        config.dynamic_shift->base_tokens = static_cast<int64_t>(*length);
      }
    }
    const int64_t steps = run.tensor(key + ".sigmas").shape.dims.at(0) - 1;
    const auto tokens = static_cast<int64_t>(number_after(key, ".tokens").value_or(0));
    add_image_schedule(run, key, schedulers::make_schedule(config, steps, tokens),
                       run.tensor("initial_sample"));
  }
}

/// The network's time, 0 for noise, of timesteps in f32.
HostArray times_of(const HostArray& timesteps) {
  return mapped(timesteps, [](double t) { return (1000.0F - static_cast<float>(t)) / 1000.0F; });
}

/// The schedule of the pipeline with which a name starts: `zimage_turbo.steps4`.
ScheduleConfig schedule_of_folder(const Run& run, const std::string& key) {
  const auto folder = sample::read_pipeline_folder(run.c.folder() / key.substr(0, key.find('.')));
  check(folder.schedule.has_value(), "[verify] {} has no scheduler", folder.folder.string());
  return *folder.schedule;
}

/// Noise levels in training: a thousand, with the shift of the pipeline's scheduler.
FlowMatch flow_of_folder(const Run& run, const std::string& key) {
  FlowMatch flow = schedulers::kFluxFlow;
  flow.shift = schedule_of_folder(run, key).shift;
  return flow;
}

HostArray sigmas_of(const FlowMatch& flow, const HostArray& u) {
  return mapped(u, [&](double x) { return flow.sigma(flow.timestep(flow.level(x))); });
}

/// u of each of `count` levels.
HostArray all_levels(int64_t count) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<float>((static_cast<double>(i) + 0.5) / static_cast<double>(count)));
  }
  return numbers(out);
}

/// Cases `zimage_turbo.steps4`: with `start` also the last sample of a trajectory.
void follow_zimage_schedules(const Run& run) {
  for (const std::string& key : run.c.names_before(".sigmas")) {
    if (key.ends_with(".training")) {
      const HostArray sigmas = sigmas_of(flow_of_folder(run, key), all_levels(1000));
      run.add(key + ".sigmas", sigmas);
      run.add(key + ".timesteps", scaled(sigmas, 1000.0F));
      continue;
    }
    const auto steps = static_cast<int64_t>(number_after(key, ".steps").value_or(0));
    const Schedule schedule = schedulers::make_schedule(schedule_of_folder(run, key), steps);
    run.add(key + ".sigmas", numbers(schedule.sigmas));
    run.add(key + ".timesteps", numbers(schedule.timesteps));
    run.add(key + ".t_given", times_of(numbers(schedule.timesteps)));
    if (run.has(key + ".start")) {
      // The stand-in gets sigmas, and no conditioning.
      Schedule by_sigma = schedule;
      for (float& t : by_sigma.timesteps) {
        t /= 1000.0F;
      }
      const HostArray start = run.tensor(key + ".start");
      const HostArray samples = follow(by_sigma, start, HostArray(start.shape)).samples;
      run.add(key + ".end", part_of(samples, schedule.size()));
    }
  }
}

/// diffusers', musubi's and DiffSynth's noise levels and weights in training.
void draw_zimage_objective(const Run& run) {
  const HostArray u = run.tensor("u");
  for (const std::string& key : run.c.names_before(".diffusers.index")) {
    FlowMatch flow = flow_of_folder(run, key);
    const std::string prefix = key + ".diffusers.";
    const HostArray sigmas = sigmas_of(flow, u);
    const HostArray timesteps = scaled(sigmas, 1000.0F);
    run.add(prefix + "index",
            mapped(u, [&](double x) { return std::round(1000.0 - 1000.0 * flow.level(x)); }));
    run.add(prefix + "sigmas", sigmas);
    run.add(prefix + "timesteps", timesteps);
    run.add(prefix + "t", times_of(timesteps));
    for (const auto& [name, weighting] :
         {std::pair{"sigma_sqrt", schedulers::Weighting::SIGMA_SQRT},
          {"cosmap", schedulers::Weighting::COSMAP}}) {
      flow.weighting = weighting;
      run.add(prefix + "weight." + name,
              mapped(timesteps, [&](double t) { return flow.weight(t); }));
    }
  }
  FlowMatch normal{.shift = 2.0, .sigma_min = 0.0, .density = schedulers::Density::LOGIT_NORMAL};
  const HostArray drawn = run.tensor("normal");
  run.add("logit_normal.u", mapped(drawn, [&](double x) { return normal.density_of(x); }));
  const FlowMatch mode{.density = schedulers::Density::MODE};
  run.add("mode.u", mapped(u, [&](double x) { return mode.density_of(x); }));
  // Without levels, noise is at u = 0 here and at 1 in musubi: the density is symmetric.
  run.add("musubi.shift2.sigmas",
          sigmas_of(normal, mapped(drawn, [&](double x) { return normal.density_of(-x); })));
  const FlowMatch bell{.shift = 3.0, .sigma_min = 0.0, .levels = 1000};
  const HostArray sigmas = sigmas_of(bell, all_levels(1000));
  run.add("diffsynth.sigmas", sigmas);
  // DiffSynth's weights have the mean 1 over these levels.
  HostArray weights = mapped(sigmas, [&](double s) { return bell.weight(1000.0 * s); });
  double sum = 0.0;
  for (const float weight : weights.as<float>()) {
    sum += weight;
  }
  run.add("diffsynth.weights", scaled(weights, static_cast<float>(1000.0 / sum)));
}

void follow_sdxl_schedules(const Run& run) {
  for (const bool zero_snr : {false, true}) {
    schedulers::Diffusion diffusion;
    diffusion.rescale_betas_zero_snr = zero_snr;
    run.add_known(zero_snr ? "alphas_cumprod_zero_snr" : "alphas_cumprod",
                  numbers(schedulers::alphas_cumprod(diffusion)));
  }
  for (const auto& [key, about] : run.about("cases").members()) {
    const auto sampler =
        schedulers::sampler_from_string(key.substr(0, key.find('.')), false).sampler;
    const Schedule schedule =
        schedulers::make_schedule(sample::schedule_of(sampler, about.at("config")),
                                  run.tensor(key + ".timesteps").shape.dims.at(0));
    add_image_schedule(run, key, schedule,
                       scaled(run.tensor("initial_noise"), schedule.initial_scale));
  }
}

/// Cases `epsilon.steps5`.
void follow_pndm_schedules(const Run& run) {
  for (const std::string& key : run.c.names_before(".timesteps")) {
    ScheduleConfig config = sample::schedule_of(schedulers::Sampler::PNDM, run.about("config"));
    config.diffusion.prediction_type =
        schedulers::prediction_from_string(key.substr(0, key.find('.')));
    const auto steps = static_cast<int64_t>(number_after(key, ".steps").value_or(0));
    add_image_schedule(run, key, schedulers::make_schedule(config, steps),
                       run.tensor("initial_noise"));
  }
}

void draw_flux_objective(const Run& run) {
  for (const std::string& kind : run.c.names_before(".draws")) {
    const FlowMatch flow = flow_of(kind);
    const HostArray u =
        mapped(run.tensor(kind + ".draws"), [&](double x) { return flow.density_of(x); });
    const HostArray sigma =
        mapped(u, [&](double x) { return flow.sigma(flow.timestep(flow.level(x))); });
    run.add(kind + ".u", u);
    run.add(kind + ".sigma", sigma);
    run.add(kind + ".timestep", mapped(sigma, [](double s) { return 1000.0 * s; }));
    run.add(kind + ".index",
            mapped(sigma, [](double s) { return 1000.0 - std::round(1000.0 * s); }));
  }
  FlowMatch weighing = schedulers::kFluxFlow;
  for (const auto& [name, weighting] : {std::pair{"sigma_sqrt", schedulers::Weighting::SIGMA_SQRT},
                                        {"cosmap", schedulers::Weighting::COSMAP},
                                        {"none", schedulers::Weighting::NONE}}) {
    weighing.weighting = weighting;
    run.add(std::string("weights.") + name, mapped(run.tensor("weights.sigma"), [&](double s) {
              return weighing.weight(1000.0 * s);
            }));
  }
  // MaxDiffusion draws one of as many levels as the sampler has steps, with equal probability.
  const int64_t count = run.tensor("maxdiffusion.drawn").shape.elements();
  const FlowMatch levels{.shift = 1.0, .sigma_min = 0.0, .levels = count};
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const double u = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    values.push_back(static_cast<float>(levels.level(u)));
  }
  run.add("maxdiffusion.drawn", numbers(values));
  values.push_back(0.0F);
  run.add("maxdiffusion.grid", numbers(values));
}

void draw_sdxl_objective(const Run& run) {
  const std::vector<float> alphas = schedulers::alphas_cumprod({});
  run.add("alphas_cumprod", numbers(alphas));
  run.add("snr", mapped(numbers(alphas), [](double a) { return a / (1.0 - a); }));
  for (const std::string& name : run.c.names("gamma")) {
    const double gamma = std::stod(name.substr(std::string_view("gamma").size()));
    const auto learned = schedulers::prediction_from_string(name.substr(name.find('.') + 1));
    run.add(name, numbers(schedulers::min_snr_weights(alphas, gamma, learned)));
  }
  CaseGraph graph(run);
  const Tensor noise = graph.input("noise");
  const auto mixed = [&, latents = graph.input("latents"),
                      timestep = graph.input(floats_of(run.tensor("timestep")))](auto prediction) {
    training::ObjectiveOptions options{.diffusion = training::DiffusionObjective{}};
    options.diffusion->diffusion.prediction_type = prediction;
    return training::flow_batch(latents, noise, timestep, options);
  };
  graph.output("noisy", mixed(schedulers::Prediction::EPSILON).noisy);
  graph.output("velocity", mixed(schedulers::Prediction::V_PREDICTION).target);
  graph.output("noise_with_offset", training::with_offset(noise, graph.input("offset"), 0.1));
  run.add(graph.run());
  for (const auto& [name, bias] :
       {std::pair{"later", TimestepBias{TimestepBias::Strategy::LATER, 3.0, 0.25}},
        {"earlier", TimestepBias{TimestepBias::Strategy::EARLIER, 3.0, 0.25}},
        {"earlier_maxdiffusion", TimestepBias{TimestepBias::Strategy::EARLIER, 3.0, 0.75}},
        {"range", TimestepBias{TimestepBias::Strategy::RANGE, 3.0, 0.25, 200, 500}}}) {
    const std::vector<double> each = schedulers::timestep_probabilities(bias);
    run.add(std::string("bias.") + name, numbers({each.begin(), each.end()}));
  }
  CaseGraph averages(run);
  const Tensor step = averages.input(floats_of(run.tensor("ema.step")));
  const training::Ema plain{.decay = 0.999, .update_after_step = 2};
  const training::Ema warm{.decay = 0.999, .update_after_step = 0, .warmup = true};
  averages.output("ema.decay", plain.decay_at(step));
  averages.output("ema.decay_warmup", warm.decay_at(step));
  run.add(averages.run());
}

}  // namespace

std::vector<Kind> schedule_kinds() {
  using enum Kind::Forms;
  return {
      {"sched",
       follow_wan_schedules,
       ONE,
       {{"*timesteps", kExact}, {"*sigmas", {.absolute = 1e-6}}, {"*", {.absolute = 1e-5}}}},
      {"flux_sched", follow_flux_schedules},
      {"zimage_sched", follow_zimage_schedules},
      {"zimage_objective", draw_zimage_objective},
      {"sdxl_sched", follow_sdxl_schedules},
      {"pndm_sched", follow_pndm_schedules},
      {"flux_objective", draw_flux_objective},
      {"sdxl_objective", draw_sdxl_objective},
  };
}

}  // namespace kinema::verification
