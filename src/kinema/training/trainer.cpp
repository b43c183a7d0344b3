#include "kinema/training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/core/trace.h"
#include "kinema/graph/watch.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/sharding_report.h"
#include "kinema/training/batch.h"
#include "kinema/training/consistency.h"

namespace kinema::training {

namespace {

runtime::Program compile_step(const runtime::Devices& devices, const StepGraph& step,
                              runtime::ProgramOptions options) {
  step.set_emit(options.emit);
  split_over(devices, options);
  return runtime::Program::compile(devices.client(), *step.graph, step.outputs, options);
}

template <typename T>
runtime::Array scalar(const runtime::Devices& devices, DType dtype, T value) {
  return devices.upload(HostArray::from<T>(dtype, {}, std::span<const T>(&value, 1)));
}

StepOptions over(const runtime::Devices& devices, StepOptions step) {
  step.place = devices.placement();
  step.exchanges_stop = devices.is_shared();
  return for_platform(std::move(step), devices.client().platform_name());
}

}  // namespace

Trainer::Trainer(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs,
                 const Model& model, const BatchShapes& batch, StepOptions step, State state,
                 const TrainerOptions& options)
    : devices_(devices),
      options_(over(devices, std::move(step))),
      how_(options.program),
      before_compile_(options.before_compile) {
  compile(specs, model, batch);
  if (!state.empty()) {
    set_state(std::move(state));
  }
  const std::array<uint32_t, 2> key = random_key(options.seed, "train");
  key_ = devices_.upload(HostArray::from<uint32_t>(DType::U32, {2}, key));
  if (options_.objective.caption_dropout > 0.0) {
    check(options.empty_text.has_value(),
          "[train] caption_dropout is {} but there are no text states of the empty caption",
          options_.objective.caption_dropout);
    empty_captions_.push_back(devices_.upload(*options.empty_text));
    if (batch.pooled) {
      check(options.empty_pooled.has_value(),
            "[train] caption_dropout is {} but there is no pooled text of the empty caption",
            options_.objective.caption_dropout);
      empty_captions_.push_back(devices_.upload(*options.empty_pooled));
    }
  }
  if (has_expert_input()) {
    set_expert(0);
  }
}

void Trainer::set_state(State state) {
  const StateParts<nn::ParamSpec>& wanted = first().graph.state;
  check(state.frozen.size() == wanted.frozen.size() && state.changed() == wanted.changed(),
        "[train] a state of {} buffers for a step that keeps {}", state.size(), wanted.size());
  state_ = std::move(state);
}

void Trainer::exchange(HostState& other) {
  check(other.frozen.size() == state_.frozen.size() && other.changed() == state_.changed(),
        "[train] a state of {} arrays for one of {}", other.size(), state_.size());
  const pjrt::AllowTransfers all;
  const std::vector<runtime::Port>& ports = first().program.inputs();
  const std::vector<runtime::Array*> own = state_.mutable_all();
  const std::vector<runtime::HostParts*> theirs = other.mutable_all();
  for (size_t i = 0; i < own.size(); ++i) {
    runtime::HostParts out(*own[i]);
    *own[i] = {};  // there may not be memory for both
    *own[i] = theirs[i]->upload(devices_, ports[i].memory);
    *theirs[i] = std::move(out);
  }
}

void Trainer::set_expert(int64_t expert) {
  const pjrt::AllowTransfers copy(pjrt::Direction::TO_DEVICE, "active expert");
  expert_ = scalar(devices_, DType::U32, static_cast<uint32_t>(expert));
}

int64_t Trainer::state_bytes() const {
  return training::state_bytes(first().graph.state, devices_.placement()) - offloaded_bytes();
}

int64_t Trainer::offloaded_bytes() const {
  return runtime::has_device_memory(devices_.client())
             ? training::offloaded_bytes(first().graph.state, devices_.placement())
             : 0;
}

int64_t Trainer::step_bytes() const {
  int64_t most = 0;
  for (const auto& step : steps_) {
    const pjrt::CompiledMemory& memory = step->program.report().memory;
    most = std::max(most, memory.total() + runtime::kernel_bytes(devices_, memory.temporary));
  }
  return most;
}

void Trainer::compile(std::span<const nn::ParamSpec> specs, const Model& model,
                      const BatchShapes& batch) {
  runtime::ProgramOptions how = how_;
  how.name = "train_step";
  if (!steps_.empty()) {  // one file each if programs are dumped
    how.name += fmt::format("_{}", steps_.size() + 1);
  }
  StepGraph graph = build_step(specs, model, batch, options_);
  if (before_compile_) {
    before_compile_(graph);
  }
  runtime::Program program = compile_step(devices_, graph, how);
  steps_.push_back(
      std::make_unique<Compiled>(Compiled{batch, std::move(graph), std::move(program)}));
}

void Trainer::add_shapes(const Model& model, const BatchShapes& batch) {
  check(batch.latents.dims[0] == first().batch.latents.dims[0],
        "[train] a batch of {} samples, expected {} as in other shapes", batch.latents.dims[0],
        first().batch.latents.dims[0]);
  const std::vector<nn::ParamSpec> specs = first().graph.specs;
  compile(specs, model, batch);
}

size_t Trainer::shape_of(const data::Batch& batch) const {
  // All axes except the number of samples.
  const auto fits = [](const HostArray& array, const Shape& shape) {
    const Dims& dims = array.shape.dims;
    return array.shape.dtype == shape.dtype && dims.size() == shape.dims.size() && !dims.empty() &&
           std::equal(dims.begin() + 1, dims.end(), shape.dims.begin() + 1);
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (fits(batch.latents, steps_[i]->batch.latents) &&
        fits(batch.encoder_hidden_states, steps_[i]->batch.text)) {
      return i;
    }
  }
  fail(
      "[train] a batch has latents {} with text {} but the step was built for {} with {}{}\n"
      "  set `buckets` for data of several sizes",
      to_string(batch.latents.shape), to_string(batch.encoder_hidden_states.shape),
      to_string(first().batch.latents), to_string(first().batch.text),
      steps_.size() > 1 ? fmt::format(" and {} others", steps_.size() - 1) : "");
}

std::vector<int64_t> Trainer::rows() const {
  for (const runtime::Port& port : first().program.inputs()) {
    if (devices_.is_shared() && port.name == "latents") {
      return devices_.rows(port.sharding, port.shape.dims);
    }
  }
  return {};
}

runtime::Array Trainer::upload(const HostArray& array, std::span<const int64_t> rows,
                               const runtime::Port& port, const char* what) const {
  Shape wanted = port.shape;
  if (!rows.empty()) {
    wanted.dims[0] = std::ssize(rows);
    check(array.shape == wanted, "[train] a batch has {} as {} but the step was built for {}",
          to_string(array.shape), what, to_string(wanted));
    return devices_.upload_rows(array.bytes, port.shape, rows, port.sharding);
  }
  // With a fractional batch size, more samples are loaded than trained on: the first ones are used.
  Shape cut = array.shape;
  if (cut.rank() > 0 && wanted.rank() > 0 && cut.dims[0] > wanted.dims[0]) {
    cut.dims[0] = wanted.dims[0];
  }
  check(cut == wanted, "[train] a batch has {} as {} but the step was built for {}",
        to_string(array.shape), what, to_string(wanted));
  return devices_.upload(std::span(array.bytes).first(static_cast<size_t>(wanted.bytes())), wanted,
                         port.sharding);
}

StepResult Trainer::run(int64_t step, double learning_rate, const data::Batch& batch) {
  return run(step, learning_rate, batch, {});
}

Trainer::Arguments Trainer::arguments(const Compiled& compiled, int64_t step, double learning_rate,
                                      const data::Batch& batch,
                                      std::span<const HostArray> draw) const {
  const trace::Scope span("upload");
  const pjrt::AllowTransfers copies(pjrt::Direction::TO_DEVICE, "the batch");
  Arguments out;
  const std::vector<BatchPart> parts = batch_parts(batch, compiled.batch);
  out.uploaded.reserve(3 + parts.size() + draw.size());  // pointers to its elements are taken below
  out.all = state_.all();
  const auto add = [&](runtime::Array array) {
    out.uploaded.push_back(std::move(array));
    out.all.push_back(&out.uploaded.back());
  };
  const auto add_batch = [&](const HostArray& array, const char* what) {
    add(upload(array, batch.rows, compiled.program.inputs()[out.all.size()], what));
  };
  out.all.push_back(&key_);
  add(scalar(devices_, DType::U32, static_cast<uint32_t>(step)));
  add(scalar(devices_, DType::F32, static_cast<float>(learning_rate)));
  for (const BatchPart& part : parts) {
    add_batch(*part.array, part.what);
  }
  for (const runtime::Array& empty : empty_captions_) {
    out.all.push_back(&empty);
  }
  if (has_expert_input()) {
    out.all.push_back(&expert_);
  }
  for (const HostArray& array : draw) {
    add_batch(array, "noise, timesteps or weights");
  }
  if (options_.exchanges_stop) {
    const std::vector<uint32_t> asked(static_cast<size_t>(devices_.total()),
                                      stop_requested_ && stop_requested_() ? 1 : 0);
    const runtime::Port& port = compiled.program.inputs()[out.all.size()];
    add(devices_.upload(HostArray::from<uint32_t>(DType::U32, port.shape.dims, asked),
                        port.sharding));
  }
  return out;
}

StepResult Trainer::run(int64_t step, double learning_rate, const data::Batch& batch,
                        std::span<const HostArray> draw) {
  const Compiled& compiled = step_for(batch);
  const Arguments given = arguments(compiled, step, learning_rate, batch, draw);
  const int64_t begin = trace::now_ns();
  std::vector<runtime::Array> results;
  {
    const trace::Scope span("launch");
    results = compiled.program.run(devices_, given.all);
  }
  const size_t n = state_.changed();
  squares_ = std::move(results[n + 1]);
  metrics_ = std::move(results[n]);
  const pjrt::AllowTransfers copy(pjrt::Direction::TO_HOST, "the metrics",
                                  metrics_.shape().bytes());
  HostArray metrics;
  {
    const trace::Scope span("wait for the device");
    metrics = metrics_.to_host();
  }
  // The device does nothing else, and its loss is the last result: this is its time.
  trace::add("device", compiled.program.name(), begin, trace::now_ns());
  state_.set_changed(results);

  const std::span<const float> values = std::as_const(metrics).as<float>();
  StepResult out{.loss = values[StepGraph::LOSS],
                 .gradient_norm = values[StepGraph::GRADIENT_NORM],
                 .max_abs_gradient = values[StepGraph::MAX_ABS_GRADIENT],
                 .finite = values[StepGraph::FINITE] != 0.0F,
                 .stop = options_.exchanges_stop && values[StepGraph::STOP] != 0.0F};
  if (compiled.graph.has_estimate) {
    out.estimate = values.back();
  }
  return out;
}

std::string Trainer::find_nonfinite(int64_t step, const data::Batch& batch,
                                    const TappedModel& model) const {
  check(!options_.given_draw, "[train] a step with a given draw cannot be looked into");
  const pjrt::AllowTransfers all;
  const ProbeGraph probe = build_probe(first().graph.specs, model, step_for(batch).batch, options_);
  runtime::ProgramOptions how{.name = "find_nonfinite"};
  split_over(devices_, how);
  const runtime::Program program =
      runtime::Program::compile(devices_.client(), *probe.graph, probe.outputs, how);
  std::vector<const runtime::Array*> arguments = state().params();
  const runtime::Array number = scalar(devices_, DType::U32, static_cast<uint32_t>(step));
  arguments.insert(arguments.end(), {&key_, &number});
  const std::vector<BatchPart> parts = batch_parts(batch, step_for(batch).batch);
  std::vector<runtime::Array> uploaded;
  uploaded.reserve(parts.size());  // pointers to its elements are taken
  for (const BatchPart& part : parts) {
    uploaded.push_back(
        upload(*part.array, batch.rows, program.inputs()[arguments.size()], part.what));
    arguments.push_back(&uploaded.back());
  }
  for (const runtime::Array& empty : empty_captions_) {
    arguments.push_back(&empty);
  }
  if (has_expert_input()) {
    arguments.push_back(&expert_);
  }
  const HostArray flags = program.run(devices_, arguments)[0].to_host();
  return describe_nonfinite(probe.names, flags.as<float>(), nonfinite_gradients());
}

std::string Trainer::find_operation(int64_t step, double learning_rate, const data::Batch& batch,
                                    const Model& model) const {
  check(!options_.given_draw, "[train] a step with a given draw cannot be looked into");
  const pjrt::AllowTransfers all;
  const Compiled& compiled = step_for(batch);
  const StepGraph again = build_step(compiled.graph.specs, model, compiled.batch, options_);
  std::vector<Tensor> outputs(again.outputs.begin() + static_cast<ptrdiff_t>(again.state.changed()),
                              again.outputs.end());
  const Watch watch(*again.graph, outputs);
  outputs.push_back(watch.flags());
  runtime::ProgramOptions how = how_;  // with the flags, which may be the cause
  how.name = "debug_nans";
  how.jit = true;
  how.saved.clear();
  if (devices_.client().platform_name() == "cpu") {
    // A flag is a kernel, and there are hundreds: unoptimized code compiles in half the time.
    how.compile.flags.emplace("xla_backend_optimization_level", int64_t{0});
  }
  for (const Tensor output : outputs) {
    how.emit.output_shardings.push_back(devices_.placement().whole(output.shape().dims));
  }
  split_over(devices_, how);
  const runtime::Program program =
      runtime::Program::compile(devices_.client(), *again.graph, outputs, how);
  const Arguments given = arguments(compiled, step, learning_rate, batch, {});
  const HostArray flags = program.run(devices_, given.all).back().to_host();
  const std::optional<NonFinite> found = watch.first(flags.as<float>());
  return found ? to_text(*found) : "";
}

/// The results of the last step, as arrays that are replicated on all devices.
void Trainer::add_results(std::vector<runtime::Port>& ports,
                          std::vector<const runtime::Array*>& arrays) const {
  const auto add = [&](const char* name, const runtime::Array& array) {
    const Sharding whole = devices_.placement().whole(array.shape().dims);
    ports.push_back({name, array.shape(), array.shape(), whole});
    arrays.push_back(&array);
  };
  add("loss and gradient norm", metrics_);
  add("size of a gradient", squares_);
}

void Trainer::check_replicas() {
  static const runtime::Array kNone;
  if (devices_.total() == 1) {
    return;
  }
  const pjrt::AllowTransfers all;
  // Arrays in host memory are not checked: devices do not change them.
  std::vector<runtime::Port> ports;
  std::vector<const runtime::Array*> arrays;
  const std::vector<const runtime::Array*> all_arrays = state_.all();
  for (size_t i = 0; i < all_arrays.size(); ++i) {
    if (const runtime::Port& port = first().program.inputs()[i]; port.memory == Memory::DEVICE) {
      ports.push_back(port);
      arrays.push_back(all_arrays[i]);
    }
  }
  const bool shared = devices_.is_shared();
  if (shared && metrics_) {
    add_results(ports, arrays);
  }
  if (!replicas_ || (shared && !has_results_)) {
    has_results_ = static_cast<bool>(metrics_);
    replicas_.emplace(
        devices_, ports,
        runtime::ProgramOptions{.name = "check_replicas",
                                .executable_cache = how_.executable_cache,
                                .executable_cache_bytes = how_.executable_cache_bytes});
  }
  check_consistency({.devices = devices_,
                     .metrics = shared ? kNone : metrics_,
                     .squares = shared ? kNone : squares_,
                     .gradient_names = first().graph.gradient_names,
                     .check = *replicas_,
                     .state = arrays,
                     .ports = ports});
}

std::vector<std::string> Trainer::sharding_report() const {
  const auto logical = [&](const std::string& input) -> std::vector<std::string> {
    const bool is_extra = std::ranges::any_of(
        kExtraShapes, [&](const ExtraShape& extra) { return input == extra.input; });
    if (is_extra || input == "latents" || input == "text") {
      return {"data_sharding"};
    }
    const size_t dot = input.find('.');
    for (const nn::ParamSpec& spec : first().graph.specs) {
      if (dot != std::string::npos && input.substr(dot + 1) == spec.name) {
        return spec.logical_axes();
      }
    }
    return {};
  };
  return runtime::sharding_report(devices_.placement().mesh(), first().program, logical);
}

std::vector<std::string> Trainer::nonfinite_gradients() const {
  std::vector<std::string> names;
  const pjrt::AllowTransfers all;
  const HostArray squares = squares_.to_host();
  const std::span<const float> values = squares.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      names.push_back(first().graph.gradient_names[i]);
    }
  }
  return names;
}

}  // namespace kinema::training
