#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/io/model_folder.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/lora.h"

namespace kinema::encoders {

/// Where the parameters of a text encoder are while it works.
enum class TextEncoderMemory : uint8_t {
  /// RESIDENT from the second run on where the device has room for them, STREAMED before that and
  /// elsewhere: one run reads each parameter once in any case.
  AUTO,
  RESIDENT,  // on the device, until they are released
  STREAMED,  // on the device a block at a time, read from the file as they are needed
};
/// `auto`, `resident` or `streamed`; throws an Error for another word.
TextEncoderMemory text_encoder_memory(std::string_view word);

/// Prompts that go through the encoder as one array.
struct T5Input {
  HostArray embeddings;  // [b, t, d_model], rows of the embedding table
  HostArray mask = {};   // f32 [b, t], not 0 where there is a token; for masked blocks
};

/// The blocks of T5 or UMT5, a compiled program that runs with the parameters of one after the
/// other.
///
/// All inputs of a call pass a block before the next one is needed. Streamed, the device holds two
/// blocks: one that runs and one that is read from the mapped file meanwhile. The bits are the same
/// wherever the parameters come from. Not for several threads at once.
class T5Blocks {
 public:
  /// `files` is checked against the configuration already, and outlives the object. Without
  /// `masked`, every position takes part. Throws what weights::Adapters throws.
  T5Blocks(pjrt::Client client, const io::ModelFolder& files, t5::EncoderConfig config,
           t5::EncoderOptions options, runtime::ProgramOptions program, TextEncoderMemory memory,
           bool masked = true, std::span<const weights::Adapter> adapters = {});

  /// f32 [b, t, d_model] of each input.
  std::vector<HostArray> run(std::span<const T5Input> inputs);
  /// Bytes that run would take of the device at its largest for embeddings of these shapes;
  /// compiles the programs.
  int64_t memory_bytes(std::span<const Shape> embeddings);
  /// Gives the parameters' memory back.
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
  /// Of a block, or with num_layers of the final norm.
  std::vector<nn::ParamSpec> specs(int64_t layer) const;
  Parameters load(int64_t layer) const;
  int64_t parameter_bytes(int64_t layer) const;
  int64_t parameter_bytes() const;  // of all layers
  bool will_stay() const;
  const Programs& programs(const Shape& embeddings);

  pjrt::Client client_;
  const io::ModelFolder& files_;
  t5::EncoderConfig config_;
  t5::EncoderOptions options_;
  runtime::ProgramOptions program_;
  TextEncoderMemory memory_;
  bool masked_;
  weights::Adapters changes_;         // of the parameters of all blocks
  Parameters shared_;                 // by all blocks; kilobytes
  bool ran_ = false;                  // since the last release
  std::vector<Parameters> resident_;  // by layer, then the norm's; empty: streamed
  std::map<Dims, Programs> programs_;
};

}  // namespace kinema::encoders
