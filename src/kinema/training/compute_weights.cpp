#include "kinema/training/compute_weights.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::training {

ComputeWeights::ComputeWeights(runtime::Devices devices, std::vector<nn::ParamSpec> specs,
                               runtime::ProgramOptions how)
    : devices_(std::move(devices)), specs_(std::move(specs)), how_(std::move(how)) {
  how_.name = "compute_weights";
  how_.saved.clear();  // `saved` is for the training step
  how_.jit = true;
  runtime::split_over(devices_, how_);
}

std::vector<const runtime::Array*> ComputeWeights::of(std::span<const runtime::Array* const> kept) {
  check(kept.size() == specs_.size(), "[train] {} parameters were given, the network has {}",
        kept.size(), specs_.size());
  clear();  // before the next ones are created
  std::vector<const runtime::Array*> others;
  std::vector<std::pair<DType, Memory>> from;
  std::vector<bool> is_other;
  for (size_t i = 0; i < kept.size(); ++i) {
    const DType dtype = kept[i]->shape().dtype;
    // Averages may be in host memory, where the network expects only its frozen weights.
    const Memory memory = kept[i]->memory();
    const bool waits = memory == Memory::HOST && specs_[i].memory == Memory::DEVICE;
    is_other.push_back(dtype != specs_[i].shape.dtype || waits);
    if (is_other[i]) {
      others.push_back(kept[i]);
      from.emplace_back(dtype, memory);
    }
  }
  if (!others.empty()) {
    if (!program_ || from_ != from) {
      const mesh::Placement& place = devices_.placement();
      Graph graph;
      std::vector<Tensor> outputs;
      runtime::ProgramOptions how = how_;
      for (size_t i = 0; i < kept.size(); ++i) {
        if (is_other[i]) {
          const Sharding sharding = specs_[i].sharding(place);
          const Memory memory = kept[i]->memory();
          const Tensor given = graph.input(kept[i]->shape(), specs_[i].name, sharding, memory);
          outputs.push_back(
              convert(memory == Memory::HOST ? fetch(given) : given, specs_[i].shape.dtype));
          how.emit.output_shardings.push_back(sharding);
        }
      }
      program_ = runtime::Program::compile(devices_.client(), graph, outputs, how);
      from_ = std::move(from);
    }
    copies_ = program_->run(devices_, others);
  }
  std::vector<const runtime::Array*> out;
  auto copy = copies_.begin();
  for (size_t i = 0; i < kept.size(); ++i) {
    out.push_back(is_other[i] ? &*copy++ : kept[i]);
  }
  return out;
}

}  // namespace kinema::training
