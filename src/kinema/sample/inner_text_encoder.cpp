#include "kinema/sample/inner_text_encoder.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::sample {

InnerTextEncoder::InnerTextEncoder(runtime::Devices devices, networks::Network plain,
                                   std::vector<networks::InnerText> texts, nn::ModelOptions options,
                                   std::shared_ptr<const encoders::TextEncoder> ids,
                                   runtime::ProgramOptions how)
    : devices_(std::move(devices)),
      plain_(std::move(plain)),
      texts_(std::move(texts)),
      options_(std::move(options)),
      ids_(std::move(ids)),
      how_(std::move(how)) {
  options_.low_rank_dropout = 0;
  how_.name = "trained_text";
  how_.saved.clear();  // `saved` is for the training step
  runtime::split_over(devices_, how_);
}

Shape InnerTextEncoder::shape() const {
  Shape out = ids_->shape();
  out.dtype = DType::F32;
  out.dims.back() = plain_.sizes().text_dim;
  return out;
}

Shape InnerTextEncoder::pooled_shape() const {
  const int64_t width = plain_.sizes().pooled_dim;
  return width > 0 ? Shape{DType::F32, {width}} : Shape{};
}

const runtime::Program& InnerTextEncoder::program(const encoders::TextStates& ids) const {
  const int64_t prompts = ids.states.shape.dims[0];
  if (const auto known = programs_.find(prompts); known != programs_.end()) {
    return known->second;
  }
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : networks::with_text(plain_, texts_)->parameters(options_)) {
    if (!networks::inner_part(spec.name).empty()) {
      params.push_back(spec.input(graph, devices_.placement()));
    }
  }
  networks::Inputs inputs;
  inputs.text = graph.input(ids.states.shape, "text");
  if (!ids.pooled.bytes.empty()) {
    inputs.pooled = graph.input(ids.pooled.shape, "pooled");
  }
  networks::encode_text(plain_, texts_, params, options_, inputs);
  std::vector<Tensor> outputs{convert(inputs.text, DType::F32)};
  if (inputs.pooled) {
    outputs.push_back(convert(inputs.pooled, DType::F32));
  }
  runtime::ProgramOptions how = how_;
  for (const Tensor each : outputs) {
    how.emit.output_shardings.push_back(devices_.placement().whole(each.shape().dims));
  }
  return programs_
      .emplace(prompts, runtime::Program::compile(devices_.client(), graph, outputs, how))
      .first->second;
}

encoders::TextStates InnerTextEncoder::encode_prompts(
    std::span<const encoders::Prompt> prompts) const {
  check(std::ranges::all_of(prompts,
                            [](const encoders::Prompt& prompt) {
                              return prompt.syntax == text::PromptSyntax::PLAIN;
                            }),
        "[generate] samples of a run that trains its text encoders take plain prompts\n  "
        "prompt_syntax=plain; generate samples its checkpoints with weights");
  const encoders::TextStates ids = ids_->encode(prompts);
  if (prompts.empty()) {
    return ids;
  }
  std::vector<runtime::Array> given;
  given.push_back(devices_.upload(ids.states));
  if (!ids.pooled.bytes.empty()) {
    given.push_back(devices_.upload(ids.pooled));
  }
  std::vector<const runtime::Array*> arguments = params_;
  for (const runtime::Array& each : given) {
    arguments.push_back(&each);
  }
  const std::vector<runtime::Array> made = program(ids).run(devices_, arguments);
  encoders::TextStates out{.states = made[0].to_host(), .pooled = {}};
  if (made.size() > 1) {
    out.pooled = made[1].to_host();
  }
  return out;
}

}  // namespace kinema::sample
