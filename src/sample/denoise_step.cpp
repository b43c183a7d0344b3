#include "sample/denoise_step.h"

#include <fmt/format.h>

#include "core/error.h"
#include "graph/ops.h"
#include "schedulers/schedule.h"

namespace kinema::sample {
namespace {

using schedulers::StepCoefficients;

constexpr int64_t kTimestep = StepCoefficients::kCount;
constexpr int64_t kGuidance = kTimestep + 1;
constexpr int64_t kNumbers = kGuidance + 1;

/// One of the step's numbers, ready to scale a video.
Tensor number(Tensor numbers, int64_t i) {
  return reshape(slice(numbers, Axis(0), i, 1), {1, 1, 1, 1, 1});
}

int64_t tokens(const StepSpec& spec) {
  const auto& patch = spec.model.patch_size;
  return spec.latents[2] / patch[0] * (spec.latents[3] / patch[1]) * (spec.latents[4] / patch[2]);
}

/// The timestep once per video, or once per token.
Tensor timesteps(Tensor numbers, const StepSpec& spec, int64_t batch) {
  const Tensor t = slice(numbers, Axis(0), kTimestep, 1);
  return spec.expand_timesteps ? broadcast_to(reshape(t, {1, 1}), {batch, tokens(spec)})
                               : broadcast_to(t, {batch});
}

/// Velocity after guidance, u + g (c - u), f32.
Tensor velocity(std::span<const Tensor> params, Tensor x, Tensor text, Tensor numbers,
                const StepSpec& spec) {
  const auto predict = [&](Tensor latents, Tensor context) {
    return convert(wan::transformer(params, spec.model, spec.options,
                                    {.hidden_states = latents,
                                     .timestep = timesteps(numbers, spec, latents.dim(0)),
                                     .encoder_hidden_states = context}),
                   DType::F32);
  };
  const int64_t b = spec.latents[0];
  Tensor prompted;
  Tensor plain;
  switch (spec.guidance) {
    case Guidance::NONE:
      return predict(x, text);
    case Guidance::DOUBLED_BATCH: {
      const Tensor both = predict(concatenate({x, x}, Axis(0)), text);
      prompted = slice(both, Axis(0), 0, b);
      plain = slice(both, Axis(0), b, b);
      break;
    }
    case Guidance::TWO_PASSES:
      prompted = predict(x, slice(text, Axis(0), 0, b));
      plain = predict(x, slice(text, Axis(0), b, b));
      break;
  }
  return plain + number(numbers, kGuidance) * (prompted - plain);
}

/// Equal for specs that give the same program.
std::string key_of(const StepSpec& spec) {
  const wan::TransformerConfig& m = spec.model;
  const wan::ModelOptions& o = spec.options;
  return fmt::format(
      "{},{},{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} | {} {} {} {} | {} {} {} {}",
      m.patch_size[0], m.patch_size[1], m.patch_size[2], m.num_attention_heads,
      m.attention_head_dim, m.in_channels, m.out_channels, m.text_dim, m.freq_dim, m.ffn_dim,
      m.num_layers, m.cross_attn_norm, m.eps, m.image_dim, m.added_kv_proj_dim, m.pos_embed_seq_len,
      m.rope_max_seq_len, to_string(o.weights_dtype), to_string(o.activations_dtype),
      static_cast<int>(o.precision), o.scan_layers, to_string(spec.latents), spec.text_length,
      static_cast<int>(spec.guidance), spec.expand_timesteps);
}

}  // namespace

std::unique_ptr<StepGraph> build_step(const StepSpec& spec) {
  check(spec.latents.size() == 5, "[sample] latents are {}, expected [b,c,f,h,w]",
        to_string(spec.latents));
  auto step = std::make_unique<StepGraph>();
  Graph& graph = step->graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& param : wan::parameters(spec.model, spec.options)) {
    params.push_back(graph.input(param.shape, param.name));
  }
  step->parameters = static_cast<int64_t>(params.size());

  const Shape video{DType::F32, spec.latents};
  const int64_t b = spec.latents[0];
  const int64_t contexts = spec.guidance == Guidance::NONE ? b : 2 * b;
  const Tensor x = graph.input(video, "x");
  const Tensor previous = graph.input(video, "previous");
  const Tensor m1 = graph.input(video, "m1");
  const Tensor m2 = graph.input(video, "m2");
  const Tensor text =
      graph.input({DType::F32, {contexts, spec.text_length, spec.model.text_dim}}, "text");
  const Tensor numbers = graph.input({DType::F32, {kNumbers}}, "numbers");

  const Tensor v = velocity(params, x, text, numbers, spec);

  const Scope scope(graph, "solver");
  const auto k = [&](int64_t i) { return number(numbers, i); };
  const Tensor m0 = x - k(0) * v;
  const Tensor c = k(1) * x + k(2) * previous + k(3) * m0 + k(4) * m1 + k(5) * m2;
  const Tensor next = k(6) * c + k(7) * m0 + k(8) * m1 + k(9) * v;
  step->outputs = {next, c, m0, v};
  return step;
}

const runtime::Program& StepPrograms::get(const StepSpec& spec) {
  const std::string key = key_of(spec);
  if (const auto known = programs_.find(key); known != programs_.end()) {
    return known->second;
  }
  const auto step = build_step(spec);
  runtime::ProgramOptions options = options_;
  options.name = "denoise_step";
  options.output_names = {"x", "previous", "m1", "velocity"};
  // x, previous and m2 are dead after the step and have the shapes of what it makes.
  const int64_t p = step->parameters;
  options.emit.donate = {{p, 0}, {p + 1, 1}, {p + 3, 2}};
  const auto program =
      programs_
          .emplace(key, runtime::Program::compile(client_, step->graph, step->outputs, options))
          .first;
  const runtime::ProgramReport& report = program->second.report();
  compile_seconds_ += report.emit_seconds + report.compile_seconds;
  return program->second;
}

}  // namespace kinema::sample
