#include "kinema/sample/denoise_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/mesh/batch.h"
#include "kinema/runtime/sharding_report.h"
#include "kinema/sample/solver.h"
#include "kinema/sample/velocity.h"

namespace kinema::sample {
namespace {

int64_t contexts(const StepSpec& spec) {
  return spec.latents[0] * (spec.guidance == Guidance::NONE ? 1 : 2);
}

/// The number of contexts in one call of the transformer.
int64_t contexts_at_once(const StepSpec& spec) {
  return spec.latents[0] * (spec.guidance == Guidance::DOUBLED_BATCH ? 2 : 1);
}

std::vector<Tensor> parameter_inputs(Graph& graph, const StepSpec& spec) {
  std::vector<Tensor> params;
  for (const nn::ParamSpec& param : spec.network->parameters(spec.options)) {
    params.push_back(param.input(graph, spec.options.place));
  }
  return params;
}

/// An input that is replicated on every device.
Tensor whole_input(Graph& graph, const StepSpec& spec, const Shape& shape, const char* name) {
  return graph.input(shape, name, spec.options.place.whole(shape.dims));
}

Tensor text_input(Graph& graph, const StepSpec& spec) {
  const Shape shape{DType::F32, {contexts(spec), spec.text_length, spec.network.sizes().text_dim}};
  return whole_input(graph, spec, shape, "text");
}

Tensor image_input(Graph& graph, const StepSpec& spec) {
  if (spec.image_tokens == 0) {
    return {};
  }
  const Shape shape{DType::F32,
                    {spec.latents[0], spec.image_tokens, spec.network.sizes().image_dim}};
  return whole_input(graph, spec, shape, "image");
}

/// `width` numbers per context; empty if the network has no such input.
Tensor rows_input(Graph& graph, const StepSpec& spec, int64_t width, const char* name) {
  return width == 0 ? Tensor()
                    : whole_input(graph, spec, {DType::F32, {contexts(spec), width}}, name);
}

/// The mask of the sample's cells, the same for all videos.
Tensor mask_input(Graph& graph, const StepSpec& spec) {
  const Dims& dims = spec.latents;
  return whole_input(graph, spec, {DType::F32, {1, 1, dims[2], dims[3], dims[4]}}, "mask");
}

/// Shapes of the keys and values, which are the same in all steps.
std::vector<networks::Value> key_values(const StepSpec& spec) {
  return spec.network->cross_key_values(spec.options, contexts(spec), spec.text_length,
                                        spec.image_tokens);
}

networks::Value face_tokens(const StepSpec& spec) {
  return spec.network->face_token_value(spec.options, contexts(spec), spec.latents);
}

networks::Value block_sum(const StepSpec& spec) {
  return spec.network->block_sum_value(spec.options, contexts(spec), spec.latents);
}

Tensor input(Graph& graph, const networks::Value& value) {
  return graph.input(value.shape, value.name, value.sharding);
}

/// Inputs that are results of an earlier step.
std::vector<Tensor> kept_inputs(Graph& graph, const StepSpec& spec) {
  const Shape video{DType::F32, spec.latents};
  switch (spec.reuse) {
    case Reuse::NOTHING:
    case Reuse::KEEP_BLOCKS:
    case Reuse::KEEP_BRANCHES:
    case Reuse::KEEP_VELOCITY:
      return {};
    case Reuse::BLOCKS:
      return {input(graph, block_sum(spec))};
    case Reuse::BRANCH:
      return {whole_input(graph, spec, video, "prompted"),
              whole_input(graph, spec, video, "plain")};
    case Reuse::VELOCITY:
      return {whole_input(graph, spec, video, "velocity"),
              whole_input(graph, spec, video, "reference")};
  }
  fail("[sample] unknown reuse {}", static_cast<int>(spec.reuse));
}

/// Names of the results that later steps use.
std::vector<std::string> kept_names(Reuse reuse) {
  switch (reuse) {
    case Reuse::NOTHING:
    case Reuse::BLOCKS:
      return {};
    case Reuse::KEEP_BLOCKS:
      return {"block_sum"};
    case Reuse::KEEP_BRANCHES:
      return {"prompted", "plain"};
    case Reuse::BRANCH:
      return {"prompted"};
    case Reuse::KEEP_VELOCITY:
      return {"reference", "drift"};
    case Reuse::VELOCITY:
      return {"drift"};
  }
  fail("[sample] unknown reuse {}", static_cast<int>(reuse));
}

/// The distance of the sample from that at the last full step, and the results to keep.
std::vector<Tensor> drift(Tensor x, Tensor next, const Given& given, const StepSpec& spec) {
  const bool whole = spec.reuse == Reuse::KEEP_VELOCITY;
  const Tensor reference = whole ? x : given.kept.at(1);
  const Tensor moved = sqrt(mean(square(next - reference)));
  return whole ? std::vector{reference, moved} : std::vector{moved};
}

}  // namespace

Dims StepInput::dims(const Dims& latents) const {
  Dims out = latents;
  out.at(1) = input.channels;
  if (input.entry == networks::Entry::FIRST_FRAME || input.entry == networks::Entry::TOKENS ||
      input.entry == networks::Entry::FRONT) {
    out.at(2) = 1;
  }
  if (input.entry == networks::Entry::TOKENS) {
    out.at(3) = rows;
    out.at(4) = columns;
  }
  if (input.entry == networks::Entry::POSES) {
    out.at(2) -= 1;
  }
  if (input.entry == networks::Entry::FACES) {
    out = {out.at(0), input.channels, networks::face_pictures(out.at(2)), input.cell, input.cell};
  }
  if (input.entry == networks::Entry::PICTURES || input.entry == networks::Entry::CAMERA) {
    out.at(2) = input.entry == networks::Entry::PICTURES ? 1 : out[2];
    out.at(3) *= input.cell;
    out.at(4) *= input.cell;
  }
  return out;
}

HostArray step_numbers(const schedulers::Schedule& schedule, int64_t step,
                       const StepNumbers& others) {
  std::vector<float> values = schedule.steps.at(static_cast<size_t>(step)).values();
  values.push_back(schedule.timesteps[static_cast<size_t>(step)]);
  for (const double each : {others.guidance_scale, others.guidance_rescale, others.weights.low,
                            others.weights.high, others.embedded_guidance}) {
    values.push_back(static_cast<float>(each));
  }
  const schedulers::Mix next = schedule.mix(step + 1);
  values.insert(values.end(),
                {next.signal, next.noise, static_cast<float>(others.guidance_normalization)});
  return HostArray::f32({kNumbers}, values);
}

std::string contexts_text(const StepSpec& spec, const mesh::Placement& asked) {
  return mesh::batch_text(asked, contexts_at_once(spec),
                          spec.guidance == Guidance::DOUBLED_BATCH ? "prompts and negative prompts"
                          : contexts_at_once(spec) == 1            ? "prompt"
                                                                   : "prompts");
}

void lay_out_contexts(StepSpec& spec) {
  spec.options.place = spec.options.place.for_samples(contexts_at_once(spec));
}

bool contexts_divide(const StepSpec& spec) {
  return contexts_at_once(spec) % spec.options.place.parts("activation_batch") == 0;
}

void check_contexts(const StepSpec& spec) {
  const mesh::Placement& place = spec.options.place;
  const int64_t count = contexts_at_once(spec);
  check(contexts_divide(spec),
        "[mesh] {} in the transformer's batch {} not divide over the {} devices of "
        "`activation_batch` ({})\n  generate_batch_size={} would, or put devices on fsdp, context "
        "or tensor instead",
        spec.guidance == Guidance::DOUBLED_BATCH
            ? fmt::format("{} prompts and negative prompts", count)
            : fmt::format("the {} prompt{}", count, count == 1 ? "" : "s"),
        count == 1 ? "does" : "do", place.parts("activation_batch"),
        fmt::join(place.axes_of("activation_batch"), ", "),
        std::lcm(count, place.parts("activation_batch")) * spec.latents[0] / count);
}

std::unique_ptr<StepGraph> build_step(const StepSpec& given_spec) {
  StepSpec spec = given_spec;
  // Without gradients, attention in blocks is best at any length.
  nn::AttentionOptions& attention = spec.options.attention;
  attention.min_length = 0;
  attention.fused_rotation = true;
  if (attention.kind == nn::AttentionKind::DOT_PRODUCT) {
    attention.kind = nn::AttentionKind::FLASH;
  }
  check(spec.latents.size() == 5, "[sample] latents are {}, expected [b,c,f,h,w]",
        to_string(spec.latents));
  auto step = std::make_unique<StepGraph>();
  Graph& graph = step->graph;
  const std::vector<Tensor> params = parameter_inputs(graph, spec);
  const auto p = static_cast<int64_t>(params.size());
  step->parameters = p;
  step->donate = {{p, 0}, {p + 1, 1}};
  if (!spec.form.long_history) {
    step->donate[p + 3] = 2;
  }

  const Shape video{DType::F32, spec.latents};
  // The latents are small: every device has all of them, and runs the solver on them.
  const Tensor x = whole_input(graph, spec, video, "x");
  const Tensor previous = whole_input(graph, spec, video, "previous");
  const Tensor m1 = whole_input(graph, spec, video, "m1");
  const Tensor m2 = whole_input(graph, spec, video, "m2");
  const Tensor m3 = spec.form.long_history ? whole_input(graph, spec, video, "m3") : Tensor();
  Given given;
  if (spec.keys) {
    for (const networks::Value& each : key_values(spec)) {
      given.keys.push_back(input(graph, each));
    }
  } else {
    given.text = text_input(graph, spec);
    given.image = image_input(graph, spec);
  }
  given.pooled = rows_input(graph, spec, spec.network.sizes().pooled_dim, "pooled");
  given.size_ids = rows_input(graph, spec, spec.network.sizes().size_ids, "size_ids");
  for (const StepInput& each : spec.inputs) {
    if (each.input.entry == networks::Entry::FACES) {
      given.inputs.push_back(input(graph, face_tokens(spec)));
      continue;
    }
    given.inputs.push_back(whole_input(graph, spec, {DType::F32, each.dims(spec.latents)},
                                       std::string(each.input.name).c_str()));
  }
  if (const int64_t layers = spec.network.sizes().control_layers; layers > 0) {
    given.control_scale = whole_input(graph, spec, {DType::F32, {layers}}, "control_scale");
  }
  const Tensor clean = spec.keeps_part ? whole_input(graph, spec, video, "clean") : Tensor();
  const Tensor clean_noise =
      spec.keeps_part ? whole_input(graph, spec, video, "clean_noise") : Tensor();
  const Tensor mask = spec.keeps_part ? mask_input(graph, spec) : Tensor();
  given.kept = kept_inputs(graph, spec);
  const Tensor noise = spec.form.noise ? whole_input(graph, spec, video, "noise") : Tensor();
  const Tensor numbers = whole_input(graph, spec, {DType::F32, {kNumbers}}, "numbers");
  given.numbers = numbers;

  const Velocity made = make_velocity(params, x, given, spec);
  const Tensor v = made.value;

  const Scope scope(graph, "solver");
  const Solved solved =
      solve({.x = x, .previous = previous, .m1 = m1, .m2 = m2, .m3 = m3, .v = v, .noise = noise},
            numbers, spec.form);
  Tensor next = solved.next;
  if (spec.keeps_part) {
    const Tensor kept =
        number(numbers, kKeptSignal) * clean + number(numbers, kKeptNoise) * clean_noise;
    const Tensor made = compare(broadcast_to(mask, spec.latents), Comparison::GT, 0.5);
    next = select(made, next, kept);
  }
  const Tensor finite = convert(all(is_finite(next)), DType::S32);
  step->outputs = {next, solved.corrected, solved.data, v, finite};
  const bool moves = spec.reuse == Reuse::KEEP_VELOCITY || spec.reuse == Reuse::VELOCITY;
  const std::vector<Tensor> kept = moves ? drift(x, next, given, spec) : made.kept;
  step->outputs.insert(step->outputs.end(), kept.begin(), kept.end());
  for (const Tensor y : step->outputs) {
    step->output_shardings.push_back(spec.options.place.whole(y.shape().dims));
  }
  if (spec.reuse == Reuse::KEEP_BLOCKS) {
    step->output_shardings.back() = block_sum(spec).sharding;
  }
  return step;
}

std::unique_ptr<StepGraph> build_keys(const StepSpec& spec) {
  auto made = std::make_unique<StepGraph>();
  Graph& graph = made->graph;
  const std::vector<Tensor> params = parameter_inputs(graph, spec);
  made->parameters = static_cast<int64_t>(params.size());
  const Tensor text = text_input(graph, spec);
  Tensor image = image_input(graph, spec);
  if (image && spec.guidance != Guidance::NONE) {
    image = concatenate({image, image}, Axis(0));
  }
  made->outputs = spec.network->cross_keys(params, spec.options, text, image);
  for (const networks::Value& each : key_values(spec)) {
    made->output_shardings.push_back(each.sharding);
  }
  return made;
}

std::unique_ptr<StepGraph> build_faces(const StepSpec& spec) {
  auto made = std::make_unique<StepGraph>();
  Graph& graph = made->graph;
  const std::vector<Tensor> params = parameter_inputs(graph, spec);
  made->parameters = static_cast<int64_t>(params.size());
  const auto found = std::ranges::find(spec.inputs, networks::Entry::FACES,
                                       [](const StepInput& each) { return each.input.entry; });
  check(found != spec.inputs.end(), "[sample] the step has no faces");
  Dims dims = found->dims(spec.latents);
  const Tensor pictures = whole_input(graph, spec, {DType::F32, dims}, "faces");
  Tensor tokens = spec.network->face_tokens(params, spec.options, pictures);
  if (spec.guidance != Guidance::NONE) {
    dims[0] = 1;  // the same for all
    const Tensor black =
        spec.network->face_tokens(params, spec.options, constant(graph, -1.0, {DType::F32, dims}));
    tokens = concatenate({tokens, broadcast_to(black, tokens.shape().dims)}, Axis(0));
  }
  made->outputs = {tokens};
  made->output_shardings = {face_tokens(spec).sharding};
  return made;
}

void StepGraph::set_emit(EmitOptions& options) const {
  options.donate = donate;
  options.output_shardings = output_shardings;
}

const runtime::Program& StepPrograms::get(const StepSpec& spec) {
  return of(steps_, spec, [&] {
    const auto step = build_step(spec);
    runtime::ProgramOptions options = options_;
    options_.saved.clear();
    options.name = "denoise_step";
    options.output_names = {"x", "previous", "m1", "velocity", "finite"};
    const std::vector<std::string> kept = kept_names(spec.reuse);
    options.output_names.insert(options.output_names.end(), kept.begin(), kept.end());
    return compile(*step, options);
  });
}

const runtime::Program& StepPrograms::keys(const StepSpec& spec) {
  return of(keys_, spec, [&] {
    const auto made = build_keys(spec);
    runtime::ProgramOptions options = options_;
    options.saved.clear();
    options.name = "cross_keys";
    for (const networks::Value& each : key_values(spec)) {
      options.output_names.push_back(each.name);
    }
    return compile(*made, options);
  });
}

const runtime::Program& StepPrograms::faces(const StepSpec& spec) {
  return of(faces_, spec, [&] {
    const auto made = build_faces(spec);
    runtime::ProgramOptions options = options_;
    options.saved.clear();
    options.name = "face_tokens";
    options.output_names = {"face_tokens"};
    return compile(*made, options);
  });
}

std::vector<std::string> StepPrograms::sharding_report(const StepSpec& spec) {
  const std::vector<nn::ParamSpec> specs = spec.network->parameters(spec.options);
  const auto logical = [&](const std::string& input) -> std::vector<std::string> {
    const auto found = std::ranges::find(specs, input, &nn::ParamSpec::name);
    return found == specs.end() ? std::vector<std::string>() : found->logical_axes();
  };
  return runtime::sharding_report(devices_.placement().mesh(), get(spec), logical);
}

const runtime::Program& StepPrograms::of(std::list<Compiled>& known, const StepSpec& spec,
                                         const std::function<runtime::Program()>& make) {
  if (const auto found = std::ranges::find(known, spec, &Compiled::spec); found != known.end()) {
    known.splice(known.begin(), known, found);
    return found->program;
  }
  known.push_front(Compiled{spec, make()});
  if (known.size() > kMostPrograms) {
    known.pop_back();
  }
  return known.front().program;
}

runtime::Program StepPrograms::compile(const StepGraph& made, runtime::ProgramOptions options) {
  made.set_emit(options.emit);
  runtime::Program program =
      runtime::Program::compile(devices_.client(), made.graph, made.outputs, options);
  const runtime::ProgramReport& report = program.report();
  compile_seconds_ += report.emit_seconds + report.compile_seconds;
  return program;
}

}  // namespace kinema::sample
