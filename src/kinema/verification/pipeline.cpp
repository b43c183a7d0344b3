#include <algorithm>
#include <cstdlib>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_encoder.h"
#include "kinema/sample/pipeline.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"
#include "kinema/weights/family.h"

namespace kinema::verification {
namespace {

using schedulers::ScheduleConfig;

/// A thousandth of the largest magnitude, as the fixtures' README suggests.
constexpr Limit kLatents{.of_largest = 1e-3};
constexpr Limit kFrames{.absolute = 1e-3};

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
    const auto append = [](std::vector<std::byte>& to, const runtime::Array& from) {
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

/// Something that outlives the pipeline.
template <typename T>
std::shared_ptr<const T> borrowed(const T& thing) {
  return {std::shared_ptr<const void>(), &thing};
}

sample::GenerateRequest request_of(const Case& c, const ScheduleConfig& own) {
  const io::Json& call = c.about().at("call");
  const auto given = [&](const char* key) -> const io::Json* {
    const io::Json* value = call.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  sample::GenerateRequest request;
  request.prompts = {call.at("prompt").as_string()};
  if (const io::Json* negative = given("negative_prompt")) {
    request.negative_prompt = negative->as_string();
  }
  for (const auto& [name, image] :
       {std::pair{"image", &request.images.first}, {"last_image", &request.images.last}}) {
    if (c.has(name)) {
      *image = c.tensor(name);
    }
  }
  request.num_frames = call.at("num_frames").as_int();
  request.height = call.at("height").as_int();
  request.width = call.at("width").as_int();
  request.num_inference_steps = call.at("num_inference_steps").as_int();
  request.guidance_scale = call.at("guidance_scale").as_number();
  if (const io::Json* second = given("guidance_scale_2")) {
    request.guidance_scale_2 = second->as_number();
  }
  request.schedule = schedule_of(c, own);
  request.initial_latents = c.folder() / "io" / (c.name() + ".safetensors");
  return request;
}

/// The case's folder, run as the class that the case names: TI2V takes an image or none.
sample::PipelineFolder folder_of(const Case& c) {
  sample::PipelineFolder folder =
      sample::read_pipeline_folder(c.folder() / c.about().at("pipeline").as_string());
  const std::string& name = c.about().at("class").as_string();
  check(weights::pipeline_class(name) != nullptr, "[verify] {} is `{}`, expected {}",
        c.about().at("class").where(), name, weights::pipeline_classes());
  folder.class_name = name;
  return folder;
}

sample::PipelineParts parts_of(const Case& c, const sample::PipelineFolder& folder,
                               Session& session) {
  sample::PipelineParts parts{
      .autoencoder = borrowed(session.autoencoder(folder.folder)),
      .text_encoder = borrowed(session.text_encoder(
          folder.folder, c.about().at("call").at("max_sequence_length").as_int()))};
  if (!folder.image_encoder.empty()) {
    parts.image_encoder = std::make_shared<encoders::ClipEncoder>(
        session.client(), folder.image_encoder, folder.image_processor,
        encoders::ClipOptions{.program = session.program_options()});
  }
  return parts;
}

/// What the transformer is shown at the first step.
HostArray first_model_input(const sample::DenoiseBatch& batch, Session& session) {
  Graph graph;
  std::vector<HostArray> arguments{batch.latents};
  const Tensor x = graph.input(batch.latents.shape, "x");
  Tensor condition;
  if (!batch.condition.bytes.empty()) {
    condition = graph.input(batch.condition.shape, "condition");
    arguments.push_back(batch.condition);
  }
  const std::vector<Tensor> outputs{sample::model_input(x, condition, batch.condition_kind)};
  return session.program(graph, outputs, "model_input").run_on_host(arguments)[0];
}

/// [3, f, h, w] in [-1, 1] -> [f, h, w, 3] in [0, 1].
HostArray frames_of(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  HostArray out(Shape{DType::F32, {dims[1], dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  const size_t plane = from.size() / 3;
  for (size_t i = 0; i < from.size(); ++i) {
    out.as<float>()[i % plane * 3 + i / plane] = std::clamp(from[i] * 0.5F + 0.5F, 0.0F, 1.0F);
  }
  return out;
}

}  // namespace

std::vector<Row> pipeline_rows(const Case& c, Session& session) {
  std::vector<Row> rows = prompt_rows(c, session);
  const sample::PipelineFolder folder = folder_of(c);
  sample::PipelineParts parts = parts_of(c, folder, session);
  sample::Pipeline pipeline(session.client(), folder, parts,
                            {.model = session.model_options(),
                             .program = session.program_options(),
                             .programs = session.step_programs()});
  const auto add = [&](const char* tensor, const HostArray& value, const Limit& limit) {
    if (c.has(tensor)) {
      rows.push_back(compare(c.name(), tensor, value, c.tensor(tensor), limit));
    }
  };
  Trace trace;
  const sample::Generated made = pipeline.generate(
      request_of(c, folder.schedule.value_or(ScheduleConfig{})),
      {.encoded =
           [&](std::span<const sample::DenoiseBatch> batches, int64_t /*num_frames*/) {
             add("first_model_input", first_model_input(batches[0], session), kLatents);
           },
       .step = [&](const sample::DenoiseStep& step) { trace.add(step); }});

  const HostArray noise = c.tensor("initial_latents");
  const size_t steps = trace.timesteps.size();
  rows.push_back(expert_row(c, trace));
  add("timesteps", HostArray::f32({static_cast<int64_t>(steps)}, trace.timesteps), {});
  add("model_outputs", stacked(std::move(trace.outputs), noise, steps), kLatents);
  add("step_latents", stacked(std::move(trace.latents), noise, steps), kLatents);
  const HostArray& latents = made.videos[0].latents;
  add("final_latents", latents, kLatents);
  add("frames", frames_of(parts.autoencoder->decode(latents)), kFrames);
  return rows;
}

}  // namespace kinema::verification
