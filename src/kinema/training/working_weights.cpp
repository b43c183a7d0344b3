#include "kinema/training/working_weights.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::training {

WorkingWeights::WorkingWeights(runtime::Devices devices, std::vector<nn::ParamSpec> specs,
                               runtime::ProgramOptions how)
    : devices_(std::move(devices)), specs_(std::move(specs)), how_(std::move(how)) {
  how_.name = "working_weights";
  how_.saved.clear();  // that is the step
  how_.jit = true;
  runtime::split_over(devices_, how_);
}

std::vector<const runtime::Array*> WorkingWeights::of(std::span<const runtime::Array* const> kept) {
  check(kept.size() == specs_.size(), "[train] {} parameters were given, the network has {}",
        kept.size(), specs_.size());
  clear();  // before the next ones are made
  std::vector<const runtime::Array*> others;
  std::vector<DType> from;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]->shape().dtype != specs_[i].shape.dtype) {
      others.push_back(kept[i]);
      from.push_back(kept[i]->shape().dtype);
    }
  }
  if (!others.empty()) {
    if (!program_ || from_ != from) {
      const mesh::Placement& place = devices_.placement();
      Graph graph;
      std::vector<Tensor> outputs;
      runtime::ProgramOptions how = how_;
      for (size_t i = 0; i < kept.size(); ++i) {
        if (kept[i]->shape().dtype != specs_[i].shape.dtype) {
          const Sharding sharding = specs_[i].sharding(place);
          const Tensor given = graph.input(kept[i]->shape(), specs_[i].name, sharding);
          outputs.push_back(convert(given, specs_[i].shape.dtype));
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
    out.push_back(kept[i]->shape().dtype == specs_[i].shape.dtype ? kept[i] : &*copy++);
  }
  return out;
}

}  // namespace kinema::training
