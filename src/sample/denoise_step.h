#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "models/wan/transformer.h"
#include "runtime/program.h"

namespace kinema::sample {

/// How the prediction with and without the prompt are made.
enum class Guidance : uint8_t {
  NONE,           // the prompt's prediction alone
  DOUBLED_BATCH,  // both in one batch of twice the size
  TWO_PASSES,     // one after the other: less memory
};

/// What one compiled denoising step depends on.
struct StepSpec {
  wan::TransformerConfig model;
  wan::ModelOptions options;
  Dims latents;  // [b, c, f, h, w]
  int64_t text_length = 512;
  Guidance guidance = Guidance::DOUBLED_BATCH;
  bool expand_timesteps = false;
};

/// Inputs of the step after the parameters, in order. All f32.
///
///     x, previous, m1, m2   [b, c, f, h, w]   the sample and the solver's history, donated
///     text                  [b, t, d], or [2 b, t, d] (prompts, then negative prompts)
///     numbers               [12]              StepCoefficients, timestep, guidance scale
///
/// Outputs: the next x, the corrected sample (the next `previous`), the data prediction (the next
/// m1; this step's m1 is the next m2) and the velocity after guidance, u + g (c - u).
struct StepGraph {
  Graph graph;
  std::vector<Tensor> outputs;
  int64_t parameters = 0;  // how many inputs are parameters
};

/// The graph of transformer, guidance and solver for one step.
std::unique_ptr<StepGraph> build_step(const StepSpec& spec);

/// Compiled steps by what they depend on; two experts of one shape, and any number of steps,
/// guidance scales and samplers, share one.
class StepPrograms {
 public:
  explicit StepPrograms(const pjrt::Client& client, runtime::ProgramOptions options = {})
      : client_(client), options_(std::move(options)) {}

  const runtime::Program& get(const StepSpec& spec);
  const pjrt::Client& client() const { return client_; }
  double compile_seconds() const { return compile_seconds_; }

 private:
  pjrt::Client client_;
  runtime::ProgramOptions options_;
  std::map<std::string, runtime::Program> programs_;
  double compile_seconds_ = 0;
};

}  // namespace kinema::sample
