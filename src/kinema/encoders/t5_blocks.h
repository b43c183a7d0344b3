#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/t5/encoder.h"
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
struct T5Input {
  HostArray embeddings;  // [b, t, d_model], rows of the embedding table
  /// f32 [b, t], 0 for tokens that no token attends to; without bytes: all are attended to.
  HostArray mask = {};
};

/// The blocks of T5 or UMT5: one compiled program, run with the parameters of one block after the
/// other.
///
/// All inputs of a call pass a block before the next block is loaded. With STREAMED the device
/// holds two blocks: one that runs and one that is being read from the mapped file. Results are
/// bit-identical in all modes. Not thread-safe.
class T5Blocks {
 public:
  /// `files` has been checked against the configuration, and outlives the object. `masked`: most
  /// inputs have a mask, which memory_bytes assumes. Throws what weights::Adapters throws.
  T5Blocks(pjrt::Client client, const model_files::Checkpoint& files, t5::EncoderConfig config,
           t5::EncoderOptions options, runtime::ProgramOptions program, TextEncoderMemory memory,
           bool masked = true, std::span<const weights::Adapter> adapters = {});

  /// f32 [b, t, d_model] of each input.
  std::vector<HostArray> run(std::span<const T5Input> inputs);
  /// Peak bytes of device memory of a run for embeddings of these shapes; compiles the programs.
  int64_t memory_bytes(std::span<const Shape> embeddings);
  /// Frees the memory of the parameters.
  void release();
  bool is_resident() const { return !resident_.empty(); }

 private:
  using Parameters = std::vector<pjrt::Buffer>;
  struct Programs {
    runtime::Program block;
    runtime::Program norm;
  };

  struct Item {
    const Programs* programs;
    pjrt::Buffer x;
    std::optional<pjrt::Buffer> mask;
  };

  pjrt::Buffer run_block(const Item& item, const Parameters& parameters) const;
  HostArray run_norm(const Item& item, const Parameters& parameters) const;
  /// Of a block, or, for num_layers, of the final norm.
  std::vector<nn::ParamSpec> specs(int64_t layer) const;
  Parameters load(int64_t layer) const;
  int64_t parameter_bytes(int64_t layer) const;
  int64_t parameter_bytes() const;  // of all layers
  bool will_stay() const;
  const Programs& programs(const Shape& embeddings, bool masked);

  pjrt::Client client_;
  const model_files::Checkpoint& files_;
  t5::EncoderConfig config_;
  t5::EncoderOptions options_;
  runtime::ProgramOptions program_;
  TextEncoderMemory memory_;
  bool masked_;
  weights::Adapters changes_;         // adapters of all blocks' parameters
  Parameters shared_;                 // used by all blocks; kilobytes
  bool ran_ = false;                  // since the last release
  std::vector<Parameters> resident_;  // by layer, then the norm's; empty: streamed
  std::map<std::pair<Dims, bool>, Programs> programs_;  // by shape, and whether there is a mask
};

}  // namespace kinema::encoders
