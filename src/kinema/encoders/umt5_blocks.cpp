#include "kinema/encoders/umt5_blocks.h"

#include <algorithm>
#include <future>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/weights/folder.h"

namespace kinema::encoders {
namespace {

/// Program::run, with what changes from run to run behind the parameters.
pjrt::Buffer run_one(const runtime::Program& program, std::span<const pjrt::Buffer> parameters,
                     std::initializer_list<const pjrt::Buffer*> others) {
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& parameter : parameters) {
    arguments.push_back(&parameter);
  }
  arguments.insert(arguments.end(), others);
  return std::move(program.run(arguments).front());
}

}  // namespace

TextEncoderMemory text_encoder_memory(std::string_view word) {
  if (word == "auto") return TextEncoderMemory::AUTO;
  if (word == "resident") return TextEncoderMemory::RESIDENT;
  check(word == "streamed",
        "[encoders] text_encoder_memory is `{}`, expected auto, resident or "
        "streamed",
        word);
  return TextEncoderMemory::STREAMED;
}

Umt5Blocks::Umt5Blocks(pjrt::Client client, const io::ModelFolder& files,
                       umt5::EncoderConfig config, umt5::EncoderOptions options,
                       runtime::ProgramOptions program, TextEncoderMemory memory)
    : client_(std::move(client)),
      files_(files),
      config_(std::move(config)),
      options_(options),
      program_(std::move(program)),
      memory_(memory) {}

std::vector<nn::ParamSpec> Umt5Blocks::specs(int64_t layer) const {
  return layer < config_.num_layers ? umt5::block_parameters(config_, options_, layer)
                                    : umt5::norm_parameters(config_, options_);
}

Umt5Blocks::Parameters Umt5Blocks::load(int64_t layer) const {
  return weights::load_tensors(files_, specs(layer), client_);
}

int64_t Umt5Blocks::parameter_bytes(int64_t layer) const {
  int64_t bytes = 0;
  for (const nn::ParamSpec& spec : specs(layer)) {
    bytes += spec.shape.bytes();
  }
  return bytes;
}

int64_t Umt5Blocks::parameter_bytes() const {
  return config_.num_layers * parameter_bytes(0) + parameter_bytes(config_.num_layers);
}

bool Umt5Blocks::will_stay() const {
  if (is_resident() || memory_ != TextEncoderMemory::AUTO) {
    return is_resident() || memory_ == TextEncoderMemory::RESIDENT;
  }
  // What comes after the text (a VAE, the transformer) wants a part of the memory too.
  return ran_ && parameter_bytes() <= runtime::free_bytes(client_) / 3 * 2;
}

int64_t Umt5Blocks::memory_bytes(std::span<const Shape> embeddings) {
  int64_t states = 0;
  int64_t working = 0;
  for (const Shape& shape : embeddings) {
    states += Shape{options_.activations_dtype, shape.dims}.bytes();
    working = std::max(working, programs(shape).block.report().memory.temporary);
  }
  const int64_t two = std::min<int64_t>(2, config_.num_layers) * parameter_bytes(0);
  return states + working + (is_resident() ? 0 : will_stay() ? parameter_bytes() : two);
}

std::vector<HostArray> Umt5Blocks::run(std::span<const Umt5Input> inputs) {
  if (will_stay() && !is_resident()) {
    std::vector<Parameters> all;  // a block that cannot be read leaves none behind
    for (int64_t layer = 0; layer <= config_.num_layers; ++layer) {
      all.push_back(load(layer));
    }
    resident_ = std::move(all);
  }
  ran_ = true;
  struct Item {
    const Programs* programs;
    pjrt::Buffer x;
    pjrt::Buffer mask;
  };
  std::vector<Item> items;
  for (const Umt5Input& input : inputs) {
    items.push_back({&programs(input.embeddings.shape),
                     client_.to_device(convert(input.embeddings, options_.activations_dtype)),
                     client_.to_device(input.mask)});
  }
  const bool streamed = !is_resident();
  const auto read = [this](int64_t layer) {
    return std::async(std::launch::async, [this, layer] { return load(layer); });
  };
  std::future<Parameters> next = streamed ? read(0) : std::future<Parameters>();
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    Parameters own;
    if (streamed) {
      own = next.get();
    }
    const Parameters& parameters = streamed ? own : resident_[static_cast<size_t>(layer)];
    for (Item& item : items) {
      item.x = run_one(item.programs->block, parameters, {&item.x, &item.mask});
    }
    if (streamed) {
      // Only now: a device lets go of a run's arguments shortly after its results are there, and by
      // the time that this run has begun it has let go of those before.
      next = read(layer + 1);
      for (const Item& item : items) {
        item.x.await();
      }
    }
  }
  const Parameters own = streamed ? next.get() : Parameters();
  std::vector<HostArray> out;
  for (const Item& item : items) {
    out.push_back(
        run_one(item.programs->norm, streamed ? own : resident_.back(), {&item.x}).to_host());
  }
  return out;
}

void Umt5Blocks::release() {
  resident_.clear();
  ran_ = false;
  runtime::give_back_free_memory();
}

const Umt5Blocks::Programs& Umt5Blocks::programs(const Shape& embeddings) {
  const auto known = programs_.find(embeddings.dims);
  if (known != programs_.end()) {
    return known->second;
  }
  const Shape states{options_.activations_dtype, embeddings.dims};
  const auto compile = [&](const char* name, int64_t layer, const auto& output) {
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : specs(layer)) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    const Tensor x = graph.input(states, "x");
    runtime::ProgramOptions options = program_;
    options.name = name;
    const std::vector<Tensor> outputs{output(graph, params, x)};
    if (outputs[0].shape() == states && layer < config_.num_layers) {
      options.emit.donate[static_cast<int64_t>(params.size())] = 0;
    }
    return runtime::Program::compile(client_, graph, outputs, options);
  };
  Programs made{
      compile("umt5_block", 0,
              [&](Graph& graph, std::span<const Tensor> params, Tensor x) {
                const Tensor mask =
                    graph.input({DType::F32, {embeddings.dims[0], embeddings.dims[1]}}, "mask");
                return umt5::block(params, config_, options_, x, mask);
              }),
      compile(
          "umt5_norm", config_.num_layers, [&](Graph&, std::span<const Tensor> params, Tensor x) {
            const Tensor states_out = umt5::final_norm(params, config_, options_, x);
            return states_out.dtype() == DType::F32 ? states_out : convert(states_out, DType::F32);
          })};
  return programs_.emplace(embeddings.dims, std::move(made)).first->second;
}

}  // namespace kinema::encoders
