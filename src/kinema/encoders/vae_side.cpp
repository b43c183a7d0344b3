#include "kinema/encoders/vae_side.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/encoders/tiling.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"

namespace kinema::encoders {
namespace {

/// [1, c, k, h, w] as [c, k, h, w], with the first `frames` frames only.
HostArray first_frames(HostArray chunk, int64_t frames) {
  chunk.shape.dims.erase(chunk.shape.dims.begin());
  return frames < chunk.shape.dims[1] ? cut_frames(chunk, 0, frames) : std::move(chunk);
}

}  // namespace

VaeSide::VaeSide(Kind kind, runtime::Devices devices, const vae::Config& config,
                 const vae::Options& options, runtime::ProgramOptions program, Load load,
                 bool replicate)
    : kind_(kind),
      devices_(std::move(devices)),
      config_(config),
      options_(options),
      program_(std::move(program)),
      load_(std::move(load)),
      specs_(kind == Kind::ENCODER ? vae::encoder_parameters(config, options)
                                   : vae::decoder_parameters(config, options)) {
  split_over(devices_, program_);
  if (replicate) {
    for (nn::ParamSpec& spec : specs_) {
      spec.axes.assign(spec.axes.size(), "");
    }
  }
}

vae::Chunk VaeSide::build(std::span<const Tensor> params, Tensor input,
                          std::span<const Tensor> past) const {
  return kind_ == Kind::ENCODER
             ? vae::encode(params, config_, options_, input, past, {}, devices_.placement())
             : vae::decode(params, config_, options_, input, past, {}, devices_.placement());
}

runtime::Program VaeSide::compile(const Shape& input, std::span<const Shape> past,
                                  std::vector<Shape>* left) const {
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : specs_) {
    params.push_back(graph.input(spec.shape, spec.name, spec.sharding(devices_.placement())));
  }
  const auto video = [&](const Shape& shape, const std::string& name) {
    return graph.input(shape, name, vae::video_sharding(devices_.placement(), shape.dims));
  };
  const Tensor x = video(input, kind_ == Kind::ENCODER ? "video" : "latents");
  std::vector<Tensor> before;
  runtime::ProgramOptions options = program_;
  options.name = kind_ == Kind::ENCODER ? "vae_encode" : "vae_decode";
  options.name += past.empty() ? "_first" : "";
  for (size_t i = 0; i < past.size(); ++i) {
    before.push_back(video(past[i], "past." + std::to_string(i)));
    // The new past reuses the memory of the old one.
    options.emit.donate[static_cast<int64_t>(params.size() + 1 + i)] = static_cast<int64_t>(1 + i);
  }
  const vae::Chunk chunk = build(params, x, before);
  std::vector<Tensor> outputs{chunk.result};
  outputs.insert(outputs.end(), chunk.past.begin(), chunk.past.end());
  if (left != nullptr) {
    for (const Tensor& each : chunk.past) {
      left->push_back(each.shape());
    }
  }
  for (const Tensor& each : outputs) {
    options.emit.output_shardings.push_back(
        vae::video_sharding(devices_.placement(), each.shape().dims));
  }
  return runtime::Program::compile(devices_.client(), graph, outputs, options);
}

VaeSide::Ready VaeSide::ready(const Dims& frame, int64_t chunk) {
  const std::scoped_lock lock(mutex_);
  if (!params_) {
    params_ = std::make_shared<const std::vector<runtime::Array>>(load_(specs_));
  }
  return compiled(frame, chunk);
}

VaeSide::Ready VaeSide::compiled(const Dims& frame, int64_t chunk) {
  Programs& programs = programs_[frame];
  const auto input = [&](int64_t frames) {
    return Shape{DType::F32, {1, frame[0], frames, frame[1], frame[2]}};
  };
  if (!programs.first) {
    programs.past.clear();
    programs.first = std::make_unique<runtime::Program>(compile(input(1), {}, &programs.past));
  }
  if (chunk == 0) {
    return {params_, programs.first.get(), nullptr};
  }
  auto next = programs.next.find(chunk);
  if (next == programs.next.end()) {
    next = programs.next.emplace(chunk, compile(input(chunk), programs.past, nullptr)).first;
  }
  return {params_, programs.first.get(), &next->second};
}

int64_t VaeSide::memory_bytes(const Dims& input, int64_t chunk) {
  const std::scoped_lock lock(mutex_);
  const int64_t rest = input[1] - 1;
  const Ready programs =
      compiled({input[0], input[2], input[3]}, chunk < 0 ? rest : std::min(chunk, rest));
  int64_t parameters = 0;
  for (const nn::ParamSpec& spec : specs_) {
    parameters += runtime::bytes_per_device(spec.shape, spec.sharding(devices_.placement()),
                                            devices_.placement().mesh());
  }
  int64_t beside = 0;
  for (const runtime::Program* program : {programs.first, programs.next}) {
    if (program != nullptr) {
      beside = std::max(beside, program->report().memory.total() - parameters);
    }
  }
  return beside + (programs.params ? 0 : parameters);
}

void VaeSide::release() {
  const std::scoped_lock lock(mutex_);
  params_.reset();
  runtime::release_free_memory();
}

VaeSide::Call VaeSide::call(const runtime::Program& program, const Params& params,
                            const HostArray& input, std::span<const runtime::Array> past) const {
  HostArray batched = input;
  batched.shape.dims.insert(batched.shape.dims.begin(), 1);
  Call out{devices_.upload(batched, vae::video_sharding(devices_.placement(), batched.shape.dims)),
           {}};
  std::vector<const runtime::Array*> arguments;
  for (const runtime::Array& param : *params) {
    arguments.push_back(&param);
  }
  arguments.push_back(&out.input);
  for (const runtime::Array& each : past) {
    arguments.push_back(&each);
  }
  out.results = program.run(devices_, arguments);
  return out;
}

void VaeSide::run(const HostArray& input, int64_t chunk, const Sink& sink) {
  const Dims& d = input.shape.dims;
  const int64_t rest = d[1] - 1;
  // Frames of the input and of the result per latent frame.
  const int64_t in = kind_ == Kind::ENCODER ? config_.temporal() : 1;
  const int64_t out = kind_ == Kind::ENCODER ? 1 : config_.temporal();
  const int64_t size = chunk < 0 ? rest : std::min(chunk, rest);
  const Ready programs = ready({d[0], d[2], d[3]}, size);

  Call held = call(*programs.first, programs.params, cut_frames(input, 0, 1), {});
  int64_t wanted = 1;
  for (int64_t at = 1; at < d[1]; at += size) {
    Call made = call(*programs.next, programs.params, cut_frames(input, at, size),
                     std::span<const runtime::Array>(held.results).subspan(1));
    // The device computes this chunk while the host receives the previous one.
    sink(first_frames(held.results[0].to_host(), wanted));
    wanted = std::min(size, d[1] - at) / in * out;
    held = std::move(made);
  }
  sink(first_frames(held.results[0].to_host(), wanted));
}

}  // namespace kinema::encoders
