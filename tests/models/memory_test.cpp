#include <gtest/gtest.h>

#include "kinema/graph/autodiff.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::wan {
namespace {

class MemoryTest : public pjrt::CpuTest {};

/// Bytes of temporaries for a loss and its gradients, eight blocks, 320 tokens.
int64_t temporary_bytes(const char* policy) {
  const TransformerConfig config{
      .num_attention_heads = 2, .text_dim = 64, .ffn_dim = 1024, .num_layers = 8};
  const nn::ModelOptions options{.remat = remat_policy(policy)};
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : parameters(config, options)) {
    params.push_back(graph.input(spec.shape));
  }
  const Tensor y = transformer(params, config, options,
                               {.hidden_states = graph.input({DType::F32, {1, 16, 5, 16, 16}}),
                                .timestep = graph.input({DType::F32, {1}}),
                                .encoder_hidden_states = graph.input({DType::F32, {1, 64, 64}})});
  const std::vector<Tensor> outputs = gradients(mean(square(y)), params);
  return runtime::Program::compile(pjrt::cpu_client(), graph, outputs).report().memory.temporary;
}

// FULL keeps a block's input, 1/30 of what the block's backward pass reads, and recomputes one
// block at a time: near 1/8 of NONE, plus a block's working set.
TEST_F(MemoryTest, FullRematTakesAThirdOfTheMemoryOfNone) {
  const int64_t none = temporary_bytes("NONE");
  const int64_t full = temporary_bytes("FULL");

  EXPECT_LE(static_cast<double>(full), 0.35 * static_cast<double>(none)) << full << " of " << none;
  EXPECT_GE(static_cast<double>(full), 0.05 * static_cast<double>(none)) << full << " of " << none;
}

}  // namespace
}  // namespace kinema::wan
