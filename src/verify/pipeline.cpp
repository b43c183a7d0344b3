#include <algorithm>
#include <cstdlib>

#include "sample/denoiser.h"
#include "sample/experts.h"
#include "verify/compare.h"
#include "verify/session.h"

namespace kinema::verify {
namespace {

using schedulers::ScheduleConfig;

/// A thousandth of the largest magnitude, as the fixtures' README suggests.
constexpr Limit kLatents{.of_largest = 1e-3};

/// The folder's own schedule, or `FlowMatchEulerDiscreteScheduler(shift=3)`.
ScheduleConfig schedule_of(const Case& c, const ScheduleConfig& own) {
  const std::string& text = c.about().at("scheduler").as_string();
  const size_t open = text.find('(');
  if (open == std::string::npos) {
    return own;
  }
  ScheduleConfig config = own;
  config.sampler = schedulers::sampler_from_string(text.substr(0, open));
  constexpr std::string_view kShift = "shift=";
  if (const size_t at = text.find(kShift); at != std::string::npos) {
    config.shift = std::strtod(text.c_str() + at + kShift.size(), nullptr);
  }
  return config;
}

/// What the observer gathers: one entry per step.
struct Trace {
  std::vector<std::byte> outputs, latents;
  std::vector<float> timesteps;
  std::vector<std::string> experts;

  void add(const sample::DenoiseStep& step) {
    const auto append = [](std::vector<std::byte>& to, const pjrt::Buffer& from) {
      const HostArray host = from.to_host();
      to.insert(to.end(), host.bytes.begin(), host.bytes.end());
    };
    append(outputs, step.model_output);
    append(latents, step.latents);
    timesteps.push_back(step.timestep);
    experts.push_back(step.expert);
  }
};

HostArray stacked(std::vector<std::byte> bytes, const HostArray& one, size_t count) {
  Shape shape = one.shape;
  shape.dims.insert(shape.dims.begin(), static_cast<int64_t>(count));
  HostArray out(shape);
  out.bytes = std::move(bytes);
  return out;
}

/// How many steps another expert was used for than in the reference.
Row expert_row(const Case& c, const Trace& trace) {
  Row row{.name = c.name(), .tensor = "model_per_step", .ok = true};
  const auto& expected = c.about().at("model_per_step").items();
  for (size_t i = 0; i < std::max(expected.size(), trace.experts.size()); ++i) {
    const bool same = i < expected.size() && i < trace.experts.size() &&
                      expected[i].as_string() == trace.experts[i];
    row.max_diff += same ? 0.0 : 1.0;
  }
  row.ok = row.max_diff == 0.0;
  return row;
}

}  // namespace

std::vector<Row> pipeline_rows(const Case& c, Session& session) {
  std::vector<Row> rows = prompt_rows(c, session);
  if (c.about().at("class").as_string() != "WanPipeline") {
    rows.push_back(unsupported(c.name()));
    return rows;
  }
  const io::Json& call = c.about().at("call");
  const sample::PipelineFolder folder =
      sample::read_pipeline_folder(c.folder() / c.about().at("pipeline").as_string());
  sample::Experts experts(session.client(), folder, session.model_options());
  const HostArray noise = c.tensor("initial_latents");
  sample::DenoiseBatch batch{.latents = noise, .text = c.tensor("prompt_embeds")};
  if (c.has("negative_prompt_embeds")) {
    batch.negative_text = c.tensor("negative_prompt_embeds");
  }
  sample::DenoiseSettings settings{
      .schedule = schedulers::make_schedule(schedule_of(c, folder.schedule),
                                            call.at("num_inference_steps").as_int()),
      .guidance_scale = call.at("guidance_scale").as_number()};
  const io::Json* second = call.find("guidance_scale_2");
  settings.guidance_scale_2 =
      second != nullptr && !second->is_null() ? second->as_number() : settings.guidance_scale;
  Trace trace;
  const std::vector<HostArray> finals =
      sample::denoise(experts, session.step_programs(), std::span(&batch, 1), settings,
                      [&](const sample::DenoiseStep& step) { trace.add(step); });

  const size_t steps = trace.timesteps.size();
  rows.push_back(expert_row(c, trace));
  const auto add = [&](const char* tensor, const HostArray& value, const Limit& limit) {
    if (c.has(tensor)) {
      rows.push_back(compare(c.name(), tensor, value, c.tensor(tensor), limit));
    }
  };
  add("timesteps", HostArray::f32({static_cast<int64_t>(steps)}, trace.timesteps), {});
  add("model_outputs", stacked(std::move(trace.outputs), noise, steps), kLatents);
  add("step_latents", stacked(std::move(trace.latents), noise, steps), kLatents);
  add("final_latents", finals[0], kLatents);
  if (c.has("frames")) {
    rows.push_back(unsupported(c.name(), "frames"));
  }
  return rows;
}

}  // namespace kinema::verify
