#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/lora.h"

namespace kinema::encoders {

/// Where the parameters of a text encoder are during its runs.
enum class TextEncoderMemory : uint8_t {
  /// RESIDENT from the second run on if the device has enough memory, else STREAMED: a single run
  /// reads each parameter once in both modes.
  AUTO,
  RESIDENT,  // on the device until they are released
  STREAMED,  // one block at a time on the device, read from the file when it is needed
};
/// `auto`, `resident` or `streamed`; throws an Error for another value.
TextEncoderMemory text_encoder_memory(std::string_view word);

/// Prompts that the encoder runs as one array.
struct BlocksInput {
  HostArray embeddings;  // [b, t, d], rows of the embedding table
  /// f32 [b, t], 0 for tokens that no token attends to; without bytes: all are attended to.
  HostArray mask = {};
};

/// A text encoder of equal blocks, as functions that build graphs.
struct BlockModel {
  std::string name;    // of its programs: `t5`
  int64_t layers = 0;  // that are run
  DType activations = DType::F32;
  /// The parameters of a block; for `layers` those of what follows the last, which may be none.
  std::function<std::vector<nn::ParamSpec>(int64_t layer)> specs;
  /// Parameters that every block gets after its own.
  std::vector<nn::ParamSpec> shared = {};
  /// Every parameter, which adapters may change.
  std::vector<nn::ParamSpec> all;
  /// x [b, t, d] in `activations` -> the next block's; mask f32 [b, t], or empty.
  std::function<Tensor(std::span<const Tensor> params, Tensor x, Tensor mask)> block;
  /// The last block's x -> the states, [b, t, d]; empty: x itself.
  std::function<Tensor(std::span<const Tensor> params, Tensor x)> end = {};
};

/// The blocks of a text encoder: one compiled program, run with the parameters of one block after
/// the other.
///
/// All inputs of a call pass a block before the next block is loaded. With STREAMED the device
/// holds two blocks: one that runs and one that is being read from the mapped file. Results are
/// bit-identical in all modes. Not thread-safe.
class EncoderBlocks {
 public:
  /// `files` has been checked against the model, and outlives the object. `masked`: most inputs
  /// have a mask, which memory_bytes assumes. Throws what weights::Adapters throws.
  EncoderBlocks(pjrt::Client client, const model_files::Checkpoint& files, BlockModel model,
                runtime::ProgramOptions program, TextEncoderMemory memory, bool masked = true,
                std::span<const weights::Adapter> adapters = {});

  /// f32 [b, t, d] of each input.
  std::vector<HostArray> run(std::span<const BlocksInput> inputs);
  /// Peak bytes of device memory of a run for embeddings of these shapes; compiles the programs.
  int64_t memory_bytes(std::span<const Shape> embeddings);
  /// Frees the memory of the parameters.
  void release();
  bool is_resident() const { return !resident_.empty(); }

 private:
  using Parameters = std::vector<pjrt::Buffer>;
  struct Programs {
    runtime::Program block;
    runtime::Program end;
  };

  struct Item {
    const Programs* programs;
    pjrt::Buffer x;
    std::optional<pjrt::Buffer> mask;
  };

  pjrt::Buffer run_block(const Item& item, const Parameters& parameters) const;
  HostArray run_end(const Item& item, const Parameters& parameters) const;
  Parameters load(int64_t layer) const;
  int64_t parameter_bytes(int64_t layer) const;
  int64_t parameter_bytes() const;  // of all layers
  bool will_stay() const;
  const Programs& programs(const Shape& embeddings, bool masked);

  pjrt::Client client_;
  const model_files::Checkpoint& files_;
  BlockModel model_;
  runtime::ProgramOptions program_;
  TextEncoderMemory memory_;
  bool masked_;
  weights::Adapters changes_;                           // adapters of all blocks' parameters
  Parameters shared_;                                   // used by all blocks; kilobytes
  bool ran_ = false;                                    // since the last release
  std::vector<Parameters> resident_;                    // by layer, then the end's; empty: streamed
  std::map<std::pair<Dims, bool>, Programs> programs_;  // by shape, and whether there is a mask
};

}  // namespace kinema::encoders
