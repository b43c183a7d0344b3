#include "train/trainer.h"

#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/threefry.h"

namespace kinema::train {

namespace {

runtime::Program compile(const pjrt::Client& client, const StepGraph& step,
                         runtime::ProgramOptions options) {
  options.emit.donate = step.donate;
  return runtime::Program::compile(client, *step.graph, step.outputs, options);
}

template <typename T>
pjrt::Buffer scalar(const pjrt::Client& client, DType dtype, T value) {
  return client.to_device(HostArray::from<T>(dtype, {}, std::span<const T>(&value, 1)));
}

}  // namespace

Trainer::Trainer(const pjrt::Client& client, std::span<const nn::ParamSpec> specs,
                 const Model& model, const BatchShapes& batch, const StepOptions& step,
                 std::vector<pjrt::Buffer> state, const TrainerOptions& options)
    : client_(client),
      batch_(batch),
      options_(step),
      graph_(build_step(specs, model, batch, step)),
      program_(compile(client, graph_, options.program)),
      state_(std::move(state)) {
  check(static_cast<int64_t>(state_.size()) == graph_.state_size(),
        "[train] a state of {} buffers for a step that keeps {}", state_.size(),
        graph_.state_size());
  const std::array<uint32_t, 2> key = random_key(options.seed, "train");
  key_ = client_.to_device(HostArray::from<uint32_t>(DType::U32, {2}, key));
  if (step.objective.caption_dropout > 0.0) {
    check(options.empty_text.has_value(),
          "[train] caption_dropout is {} but there are no text states of the empty caption",
          step.objective.caption_dropout);
    empty_text_ = client_.to_device(*options.empty_text);
  }
}

pjrt::Buffer Trainer::upload(const HostArray& array, const Shape& wanted, const char* what) const {
  // A fractional batch size loads more samples than it trains on: the first ones count.
  Shape cut = array.shape;
  if (cut.rank() > 0 && wanted.rank() > 0 && cut.dims[0] > wanted.dims[0]) {
    cut.dims[0] = wanted.dims[0];
  }
  check(cut == wanted, "[train] a batch has {} as {} but the step was built for {}",
        to_string(array.shape), what, to_string(wanted));
  return client_.to_device(std::span(array.bytes).first(static_cast<size_t>(wanted.bytes())),
                           wanted);
}

StepResult Trainer::run(int64_t step, double learning_rate, const data::Batch& batch) {
  return run(step, learning_rate, batch, {});
}

StepResult Trainer::run(int64_t step, double learning_rate, const data::Batch& batch,
                        std::span<const HostArray> draw) {
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& buffer : state_) {
    arguments.push_back(&buffer);
  }
  const pjrt::Buffer number = scalar(client_, DType::U32, static_cast<uint32_t>(step));
  const pjrt::Buffer rate = scalar(client_, DType::F32, static_cast<float>(learning_rate));
  arguments.insert(arguments.end(), {&key_, &number, &rate});

  std::vector<pjrt::Buffer> uploaded;
  uploaded.reserve(2 + draw.size());  // their addresses are taken below
  const auto add = [&](const HostArray& array, const Shape& wanted, const char* what) {
    uploaded.push_back(upload(array, wanted, what));
    arguments.push_back(&uploaded.back());
  };
  add(batch.latents, batch_.latents, "latents");
  add(batch.encoder_hidden_states, batch_.text, "text states");
  if (empty_text_) {
    arguments.push_back(&empty_text_);
  }
  for (const HostArray& array : draw) {
    add(array, program_.inputs()[arguments.size()].shape, "noise, timesteps or weights");
  }

  std::vector<pjrt::Buffer> results = program_.run(arguments);
  const size_t n = state_.size();
  squares_ = std::move(results[n + 1]);
  const HostArray metrics = results[n].to_host();
  results.resize(n);
  state_ = std::move(results);

  const std::span<const float> values = metrics.as<float>();
  return {.loss = values[StepGraph::LOSS],
          .gradient_norm = values[StepGraph::GRADIENT_NORM],
          .max_abs_gradient = values[StepGraph::MAX_ABS_GRADIENT],
          .finite = values[StepGraph::FINITE] != 0.0F};
}

std::string Trainer::find_nonfinite(int64_t step, const data::Batch& batch,
                                    const TappedModel& model) const {
  check(!options_.given_draw, "[train] a step with a given draw cannot be looked into");
  const ProbeGraph probe = build_probe(graph_.specs, model, batch_, options_);
  const runtime::Program program =
      runtime::Program::compile(client_, *probe.graph, probe.outputs, {.name = "find_nonfinite"});
  const pjrt::Buffer number = scalar(client_, DType::U32, static_cast<uint32_t>(step));
  const pjrt::Buffer latents = upload(batch.latents, batch_.latents, "latents");
  const pjrt::Buffer text = upload(batch.encoder_hidden_states, batch_.text, "text states");
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& param : state().params()) {
    arguments.push_back(&param);
  }
  arguments.insert(arguments.end(), {&key_, &number, &latents, &text});
  if (empty_text_) {
    arguments.push_back(&empty_text_);
  }
  const HostArray flags = program.run(arguments)[0].to_host();
  return describe_nonfinite(probe.names, flags.as<float>(), nonfinite_gradients());
}

std::vector<std::string> Trainer::nonfinite_gradients() const {
  std::vector<std::string> names;
  const HostArray squares = squares_.to_host();
  const std::span<const float> values = squares.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      names.push_back(graph_.gradient_names[i]);
    }
  }
  return names;
}

}  // namespace kinema::train
