#include "sample/denoise_step.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "graph/ops.h"
#include "schedulers/schedule.h"

namespace kinema::sample {
namespace {

using schedulers::StepCoefficients;

constexpr int64_t kTimestep = StepCoefficients::kCount;
constexpr int64_t kGuidance = kTimestep + 1;
constexpr int64_t kRescale = kGuidance + 1;
constexpr int64_t kNumbers = kRescale + 1;

/// One of the step's numbers, ready to scale a video.
Tensor number(Tensor numbers, int64_t i) {
  return reshape(slice(numbers, Axis(0), i, 1), {1, 1, 1, 1, 1});
}

/// Tokens of the first frame and of the frames behind it.
std::pair<int64_t, int64_t> tokens(const StepSpec& spec) {
  const auto& patch = spec.model.patch_size;
  const int64_t frame = spec.latents[3] / patch[1] * (spec.latents[4] / patch[2]);
  return {frame, (spec.latents[2] / patch[0] - 1) * frame};
}

/// The timestep once per video, or once per token; a given first frame is not noisy.
Tensor timesteps(Tensor numbers, const StepSpec& spec, int64_t batch) {
  const Tensor t = slice(numbers, Axis(0), kTimestep, 1);
  if (!spec.expand_timesteps) {
    return broadcast_to(t, {batch});
  }
  const auto [first, others] = tokens(spec);
  const Tensor row = reshape(t, {1, 1});
  if (spec.condition != Condition::FIRST_FRAME) {
    return broadcast_to(row, {batch, first + others});
  }
  const Tensor clean = constant(t.graph(), 0.0, {t.dtype(), {batch, first}});
  return others == 0 ? clean : concatenate({clean, broadcast_to(row, {batch, others})}, Axis(1));
}

/// What the transformer is told beside the sample.
struct Given {
  Tensor text;       // [contexts, t, d]
  Tensor condition;  // of b videos, or empty
  Tensor image;      // [b, n, d] or empty
  Tensor numbers;
};

/// x once more along the batch; an empty tensor stays empty.
Tensor twice(Tensor x) { return x ? concatenate({x, x}, Axis(0)) : x; }

/// The standard deviation of each video, [b, 1, 1, 1, 1].
Tensor spread(Tensor x) {
  const std::vector<int64_t> all{1, 2, 3, 4};
  return sqrt(mean(square(x - mean(x, all, true)), all, true));
}

/// Velocity after guidance, u + g (c - u), f32.
Tensor velocity(std::span<const Tensor> params, Tensor x, const Given& given,
                const StepSpec& spec) {
  const auto predict = [&](Tensor hidden, Tensor text, Tensor image) {
    return convert(wan::transformer(params, spec.model, spec.options,
                                    {.hidden_states = hidden,
                                     .timestep = timesteps(given.numbers, spec, hidden.dim(0)),
                                     .encoder_hidden_states = text,
                                     .encoder_hidden_states_image = image}),
                   DType::F32);
  };
  const Tensor hidden = model_input(x, given.condition, spec.condition);
  const int64_t b = spec.latents[0];
  Tensor prompted;
  Tensor plain;
  switch (spec.guidance) {
    case Guidance::NONE:
      return predict(hidden, given.text, given.image);
    case Guidance::DOUBLED_BATCH: {
      const Tensor both = predict(twice(hidden), given.text, twice(given.image));
      prompted = slice(both, Axis(0), 0, b);
      plain = slice(both, Axis(0), b, b);
      break;
    }
    case Guidance::TWO_PASSES:
      prompted = predict(hidden, slice(given.text, Axis(0), 0, b), given.image);
      plain = predict(hidden, slice(given.text, Axis(0), b, b), given.image);
      break;
  }
  const Tensor guided = plain + number(given.numbers, kGuidance) * (prompted - plain);
  if (!spec.rescale) {
    return guided;
  }
  // arXiv:2305.08891, section 3.4: r (spread of the prompted / spread of the guided) + 1 - r.
  const Tensor r = number(given.numbers, kRescale);
  return guided * (r * (spread(prompted) / spread(guided)) + (1.0 - r));
}

/// Equal for specs that give the same program.
std::string key_of(const StepSpec& spec) {
  const wan::TransformerConfig& m = spec.model;
  const wan::ModelOptions& o = spec.options;
  return fmt::format(
      "{},{},{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} | {} {} {} {} | {} {} {} {} {} {} {}",
      m.patch_size[0], m.patch_size[1], m.patch_size[2], m.num_attention_heads,
      m.attention_head_dim, m.in_channels, m.out_channels, m.text_dim, m.freq_dim, m.ffn_dim,
      m.num_layers, m.cross_attn_norm, m.eps, m.image_dim, m.added_kv_proj_dim, m.pos_embed_seq_len,
      m.rope_max_seq_len, to_string(o.weights_dtype), to_string(o.activations_dtype),
      static_cast<int>(o.precision), o.scan_layers, to_string(spec.latents), spec.text_length,
      static_cast<int>(spec.guidance), spec.expand_timesteps, spec.rescale,
      static_cast<int>(spec.condition), spec.image_tokens);
}

/// The shape of the condition; no dims where there is none.
Dims condition_dims(const StepSpec& spec) {
  Dims dims = spec.latents;
  switch (spec.condition) {
    case Condition::NONE:
      return {};
    case Condition::CHANNELS:
      dims[1] = spec.model.in_channels - spec.model.out_channels;
      break;
    case Condition::FIRST_FRAME:
      dims[2] = 1;
      break;
  }
  return dims;
}

}  // namespace

Tensor model_input(Tensor x, Tensor condition, Condition kind) {
  switch (kind) {
    case Condition::NONE:
      return x;
    case Condition::CHANNELS:
      return concatenate({x, condition}, Axis(1));
    case Condition::FIRST_FRAME:
      return x.dim(2) == 1 ? condition
                           : concatenate({condition, slice(x, Axis(2), 1, x.dim(2) - 1)}, Axis(2));
  }
  fail("[sample] unknown condition {}", static_cast<int>(kind));
}

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
  Given given{.text = text};
  if (const Dims dims = condition_dims(spec); !dims.empty()) {
    given.condition = graph.input({DType::F32, dims}, "condition");
  }
  if (spec.image_tokens > 0) {
    given.image = graph.input({DType::F32, {b, spec.image_tokens, spec.model.image_dim}}, "image");
  }
  const Tensor numbers = graph.input({DType::F32, {kNumbers}}, "numbers");
  given.numbers = numbers;

  const Tensor v = velocity(params, x, given, spec);

  const Scope scope(graph, "solver");
  const auto k = [&](int64_t i) { return number(numbers, i); };
  const Tensor m0 = x - k(0) * v;
  const Tensor c = k(1) * x + k(2) * previous + k(3) * m0 + k(4) * m1 + k(5) * m2;
  const Tensor next = k(6) * c + k(7) * m0 + k(8) * m1 + k(9) * v;
  const Tensor finite = convert(all(is_finite(next)), DType::S32);
  step->outputs = {next, c, m0, v, finite};
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
  options.output_names = {"x", "previous", "m1", "velocity", "finite"};
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
