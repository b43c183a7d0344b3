#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "arrays.h"
#include "kinema/runtime/client.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/experts.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"
#include "sample/temporary_folder.h"

/// Transformers small enough to compile and run within a test.
namespace kinema::sample {

inline pjrt::Client& client() {
  static pjrt::Client opened = runtime::open_client({});
  return opened;
}

inline wan::TransformerConfig tiny(int64_t num_layers = 1) {
  return {.num_attention_heads = 2,
          .attention_head_dim = 12,
          .in_channels = 4,
          .out_channels = 4,
          .text_dim = 6,
          .freq_dim = 8,
          .ffn_dim = 16,
          .num_layers = num_layers};
}

/// Random parameters everywhere: freshly initialised ones would predict zero.
inline void save_transformer(const std::filesystem::path& folder,
                             const wan::TransformerConfig& config, uint64_t seed) {
  auto specs = wan::parameters(config, {});
  for (nn::ParamSpec& spec : specs) {
    spec.init = {.kind = nn::Init::Kind::NORMAL, .scale = 0.2};
  }
  weights::save(folder, wan::config_json(config), specs,
                weights::initialise(specs, seed, client()));
}

/// The folders `transformer` and `transformer_2`, with different weights.
class TwoTransformers : public testing::Test {
 protected:
  explicit TwoTransformers(const wan::TransformerConfig& config = tiny()) {
    save_transformer(folder_.path() / "transformer", config, 1);
    save_transformer(folder_.path() / "transformer_2", config, 2);
  }

  Experts one_expert(const nn::ModelOptions& options = {}) const {
    return {client(),
            {.folder = folder_.path(), .transformer = folder_.path() / "transformer"},
            options};
  }
  Experts two_experts(double boundary) const {
    return {client(),
            {.folder = folder_.path(),
             .transformer = folder_.path() / "transformer",
             .transformer_2 = folder_.path() / "transformer_2",
             .boundary_ratio = boundary},
            {}};
  }

  TemporaryFolder folder_;
  // Tests of one shape compile once.
  StepPrograms programs_{client(), {.executable_cache = program_cache()}};
};

}  // namespace kinema::sample
