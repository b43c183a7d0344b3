#include "kinema/encoders/encoder_blocks.h"

#include <algorithm>
#include <future>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/weights/folder.h"

namespace kinema::encoders {
namespace {

using Arguments = std::vector<const pjrt::Buffer*>;

void append(Arguments& to, std::span<const pjrt::Buffer> buffers) {
  for (const pjrt::Buffer& buffer : buffers) {
    to.push_back(&buffer);
  }
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

EncoderBlocks::EncoderBlocks(pjrt::Client client, const model_files::Checkpoint& files,
                             BlockModel model, runtime::ProgramOptions program,
                             TextEncoderMemory memory, bool masked,
                             std::span<const weights::Adapter> adapters)
    : client_(std::move(client)),
      files_(files),
      model_(std::move(model)),
      program_(std::move(program)),
      memory_(memory),
      masked_(masked),
      changes_(adapters, model_.all) {}

EncoderBlocks::Parameters EncoderBlocks::load(int64_t layer) const {
  return weights::load_tensors(files_, model_.specs(layer), client_, changes_);
}

int64_t EncoderBlocks::parameter_bytes(int64_t layer) const {
  int64_t bytes = 0;
  for (const nn::ParamSpec& spec : model_.specs(layer)) {
    bytes += spec.shape.bytes();
  }
  return bytes;
}

pjrt::Buffer EncoderBlocks::run_block(const Item& item, const Parameters& parameters) const {
  Arguments arguments;
  append(arguments, parameters);
  append(arguments, shared_);
  arguments.push_back(&item.x);
  if (item.mask) {
    arguments.push_back(&*item.mask);
  }
  return std::move(item.programs->block.run(arguments).front());
}

HostArray EncoderBlocks::run_end(const Item& item, const Parameters& parameters) const {
  Arguments arguments;
  append(arguments, parameters);
  arguments.push_back(&item.x);
  return item.programs->end.run(arguments).front().to_host();
}

int64_t EncoderBlocks::parameter_bytes() const {
  return model_.layers * parameter_bytes(0) + parameter_bytes(model_.layers);
}

bool EncoderBlocks::will_stay() const {
  if (is_resident() || memory_ != TextEncoderMemory::AUTO) {
    return is_resident() || memory_ == TextEncoderMemory::RESIDENT;
  }
  // The VAE and the transformer, which run after the text encoder, need memory too.
  return ran_ && parameter_bytes() <= runtime::free_bytes(client_) / 3 * 2;
}

int64_t EncoderBlocks::memory_bytes(std::span<const Shape> embeddings) {
  int64_t states = 0;
  int64_t working = 0;
  for (const Shape& shape : embeddings) {
    states += Shape{model_.activations, shape.dims}.bytes();
    working = std::max(working, programs(shape, masked_).block.report().memory.temporary);
  }
  const int64_t two = std::min<int64_t>(2, model_.layers) * parameter_bytes(0);
  return states + working + (is_resident() ? 0 : will_stay() ? parameter_bytes() : two);
}

std::vector<HostArray> EncoderBlocks::run(std::span<const BlocksInput> inputs) {
  if (will_stay() && !is_resident()) {
    std::vector<Parameters> all;  // after an error in a block, no parameters stay loaded
    for (int64_t layer = 0; layer <= model_.layers; ++layer) {
      all.push_back(load(layer));
    }
    resident_ = std::move(all);
  }
  if (shared_.empty()) {
    shared_ = weights::load_tensors(files_, model_.shared, client_);
  }
  ran_ = true;
  std::vector<Item> items;
  for (const BlocksInput& input : inputs) {
    const bool masked = !input.mask.bytes.empty();
    items.push_back({&programs(input.embeddings.shape, masked),
                     client_.to_device(convert(input.embeddings, model_.activations)),
                     masked ? std::optional(client_.to_device(input.mask)) : std::nullopt});
  }
  const bool streamed = !is_resident();
  const auto read = [this](int64_t layer) {
    return in_background([] {}, [this, layer] { return load(layer); });
  };
  std::future<Parameters> next = streamed ? read(0) : std::future<Parameters>();
  for (int64_t layer = 0; layer < model_.layers; ++layer) {
    Parameters own;
    if (streamed) {
      own = next.get();
    }
    const Parameters& parameters = streamed ? own : resident_[static_cast<size_t>(layer)];
    for (Item& item : items) {
      item.x = run_block(item, parameters);
    }
    if (streamed) {
      // Not earlier: a device frees a run's arguments shortly after its results exist. When this
      // run has started, the arguments of the previous one are freed.
      next = read(layer + 1);
      for (const Item& item : items) {
        item.x.await();
      }
    }
  }
  const Parameters own = streamed ? next.get() : Parameters();
  std::vector<HostArray> out;
  for (const Item& item : items) {
    out.push_back(run_end(item, streamed ? own : resident_.back()));
  }
  return out;
}

void EncoderBlocks::release() {
  resident_.clear();
  shared_.clear();
  ran_ = false;
  runtime::release_free_memory();
}

const EncoderBlocks::Programs& EncoderBlocks::programs(const Shape& embeddings, bool masked) {
  const auto known = programs_.find({embeddings.dims, masked});
  if (known != programs_.end()) {
    return known->second;
  }
  const Shape states{model_.activations, embeddings.dims};
  const auto compile = [&](const std::string& name, std::vector<nn::ParamSpec> all, bool in_place,
                           const auto& output) {
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : all) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    const Tensor x = graph.input(states, "x");
    runtime::ProgramOptions options = program_;
    options.name = name;
    const std::vector<Tensor> outputs{output(graph, params, x)};
    if (in_place) {
      options.emit.donate[static_cast<int64_t>(params.size())] = 0;
    }
    return runtime::Program::compile(client_, graph, outputs, options);
  };
  std::vector<nn::ParamSpec> of_block = model_.specs(0);
  of_block.insert(of_block.end(), model_.shared.begin(), model_.shared.end());
  Programs made{compile(model_.name + "_block", std::move(of_block), true,
                        [&](Graph& graph, std::span<const Tensor> params, Tensor x) {
                          const Shape mask{DType::F32, {embeddings.dims[0], embeddings.dims[1]}};
                          return model_.block(params, x,
                                              masked ? graph.input(mask, "mask") : Tensor());
                        }),
                compile(model_.name + "_end", model_.specs(model_.layers), false,
                        [&](Graph&, std::span<const Tensor> params, Tensor x) {
                          const Tensor states_out = model_.end ? model_.end(params, x) : x;
                          return states_out.dtype() == DType::F32 ? states_out
                                                                  : convert(states_out, DType::F32);
                        })};
  return programs_.emplace(std::pair(embeddings.dims, masked), std::move(made)).first->second;
}

}  // namespace kinema::encoders
