#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/threefry.h"
#include "kinema/data/source.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"
#include "pjrt/cpu_plugin.h"

/// A transformer small enough to compile and train within a test.
namespace kinema::training::tiny {

inline wan::TransformerConfig config() {
  wan::TransformerConfig config;
  config.patch_size = {1, 1, 1};
  config.num_attention_heads = 2;
  config.attention_head_dim = 8;
  config.in_channels = 4;
  config.out_channels = 4;
  config.text_dim = 8;
  config.freq_dim = 8;
  config.ffn_dim = 16;
  config.num_layers = 2;
  return config;
}

inline networks::Network network() { return network_of(config()); }

inline nn::ModelOptions options() { return {.precision = Precision::HIGHEST}; }

inline BatchShapes shapes(int64_t batch) {
  return {.latents = {DType::F32, {batch, 4, 2, 2, 2}}, .text = {DType::F32, {batch, 3, 8}}};
}

inline HostArray normal(const Dims& dims, const char* purpose, int64_t position) {
  HostArray array(Shape{DType::F32, dims});
  RandomStream random(random_key(1, purpose, static_cast<uint64_t>(position)));
  for (float& x : array.as<float>()) {
    x = random.normal();
  }
  return array;
}

/// The batch of a step: a pure function of its number.
inline data::Batch batch(int64_t size, int64_t step) {
  return {.latents = normal(shapes(size).latents.dims, "latents", step),
          .encoder_hidden_states = normal(shapes(size).text.dims, "text", step),
          .timesteps = {},
          .ids = std::vector<std::string>(static_cast<size_t>(size), "sample")};
}

inline std::vector<nn::ParamSpec> specs() { return wan::parameters(config(), options()); }

/// Parameters that are all non-zero, so that every one has a gradient.
inline std::vector<pjrt::Buffer> params(pjrt::Client& client) {
  std::vector<pjrt::Buffer> buffers;
  for (const nn::ParamSpec& spec : specs()) {
    HostArray array = normal(spec.shape.dims, spec.name.c_str(), 0);
    const bool scale = spec.name.find("norm") != std::string::npos && spec.name.ends_with("weight");
    for (float& x : array.as<float>()) {
      x = 0.2F * x + (scale ? 1.0F : 0.0F);
    }
    buffers.push_back(client.to_device(array));
  }
  return buffers;
}

/// Compiled programs, shared by tests.
inline std::string program_cache() {
  return (std::filesystem::path(testing::TempDir()) / "kinema_training_programs").string();
}

inline Trainer trainer(const runtime::Devices& client, int64_t batch_size, const StepOptions& step,
                       State state, TrainerOptions trainer = {}) {
  trainer.program.executable_cache = program_cache();
  return Trainer(client, specs(), network_model(network(), options()), shapes(batch_size), step,
                 std::move(state), trainer);
}

inline Trainer fresh_trainer(pjrt::Client& client, int64_t batch_size, const StepOptions& step,
                             const TrainerOptions& more = {}) {
  return trainer(client, batch_size, step,
                 fresh_state(params(client), specs(), step.ema.is_on(), client), more);
}

/// The bytes of every buffer of a state.
inline std::vector<std::vector<std::byte>> bytes_of(const StateView& state) {
  std::vector<std::vector<std::byte>> out;
  for (const runtime::Array* array : state.parts.all()) {
    out.push_back(array->to_host().bytes);
  }
  return out;
}

}  // namespace kinema::training::tiny
