#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/encoders/text_encoder.h"
#include "kinema/networks/with_text.h"
#include "kinema/nn/model_options.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::sample {

/// The text encoders inside a network, on the parameters of a run that trains them.
class InnerTextEncoder final : public encoders::TextEncoder {
 public:
  /// `plain` is the network without them; `ids` gives a prompt's token ids, and states of a text
  /// encoder that stays outside.
  InnerTextEncoder(runtime::Devices devices, networks::Network plain,
                   std::vector<networks::InnerText> texts, nn::ModelOptions options,
                   std::shared_ptr<const encoders::TextEncoder> ids, runtime::ProgramOptions how);

  /// The parameters for the next prompts, in the order of networks::encode_text. They must stay
  /// valid.
  void use(std::vector<const runtime::Array*> params) { params_ = std::move(params); }

  std::string name() const override { return "trained clip"; }
  Shape shape() const override;
  Shape pooled_shape() const override;

 private:
  encoders::TextStates encode_prompts(std::span<const encoders::Prompt> prompts) const override;
  const runtime::Program& program(const encoders::TextStates& ids) const;

  runtime::Devices devices_;
  networks::Network plain_;
  std::vector<networks::InnerText> texts_;
  nn::ModelOptions options_;
  std::shared_ptr<const encoders::TextEncoder> ids_;
  runtime::ProgramOptions how_;
  std::vector<const runtime::Array*> params_;
  mutable std::map<int64_t, runtime::Program> programs_;  // by the number of prompts
};

}  // namespace kinema::sample
