#include "encoders/umt5_encoder.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "io/model_folder.h"
#include "text/clean.h"
#include "text/tokenizer.h"
#include "weights/folder.h"
#include "weights/umt5.h"

namespace kinema::encoders {
namespace {

using Ids = std::vector<int64_t>;

// Positions behind a prompt are masked and change nothing, so a prompt runs in the shortest of
// these lengths, times two and so on, that holds it.
constexpr int64_t kShortestRun = 64;
// More prompts at once gain nothing: the products are large enough.
constexpr size_t kLargestBatch = 8;
constexpr size_t kRemembered = 32;

/// States of prompts encoded lately, without the zeros behind them.
class Memory {
 public:
  /// f32 [tokens, d], or null.
  const HostArray* find(const Ids& ids) const {
    const auto found = std::ranges::find(entries_, ids, &Entry::first);
    return found == entries_.end() ? nullptr : &found->second;
  }
  void add(const Ids& ids, HostArray states) { entries_.emplace_back(ids, std::move(states)); }
  /// Forgets the oldest beyond what is kept between calls.
  void trim() {
    while (entries_.size() > kRemembered) {
      entries_.pop_front();
    }
  }

 private:
  using Entry = std::pair<Ids, HostArray>;
  std::deque<Entry> entries_;
};

class Umt5TextEncoder final : public TextEncoder {
 public:
  Umt5TextEncoder(const pjrt::Client& client, Umt5Settings settings)
      : client_(client),
        settings_(std::move(settings)),
        tokenizer_(text::Tokenizer::open(settings_.tokenizer)),
        files_(io::ModelFolder::open(settings_.model)),
        config_(weights::parse_umt5_config(files_.config())),
        specs_(umt5::parameters(config_, settings_.options)) {
    weights::check_umt5_tensors(files_, config_);
    check(tokenizer_.size() <= config_.vocab_size,
          "[encoders] {} has {} tokens but the embedding of {} has {} rows",
          settings_.tokenizer.string(), tokenizer_.size(), settings_.model.string(),
          config_.vocab_size);
    check(settings_.width == 0 || settings_.width == config_.d_model,
          "[encoders] {} gives states of width {} but the transformer takes {}",
          settings_.model.string(), config_.d_model, settings_.width);
    check(settings_.max_sequence_length >= 1, "[encoders] max_sequence_length is {}, expected 1 up",
          settings_.max_sequence_length);
  }

  std::string name() const override { return "umt5"; }

  HostArray encode(std::span<const std::string> prompts) const override {
    // Callers may come from several threads; the device and the memory are one.
    const std::scoped_lock lock(mutex_);
    std::vector<Ids> all;
    for (const std::string& prompt : prompts) {
      all.push_back(tokenize(prompt));
    }
    encode_new(all);
    HostArray out(Shape{
        DType::F32,
        {static_cast<int64_t>(prompts.size()), settings_.max_sequence_length, config_.d_model}});
    const size_t stride = out.bytes.size() / std::max<size_t>(1, prompts.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const HostArray& states = *memory_.find(all[i]);
      std::memcpy(out.bytes.data() + i * stride, states.bytes.data(), states.bytes.size());
    }
    memory_.trim();
    return out;
  }

  void release() const override {
    const std::scoped_lock lock(mutex_);
    parameters_.clear();
  }

 private:
  Ids tokenize(const std::string& prompt) const {
    text::Tokens tokens =
        tokenizer_.encode(text::clean_prompt(prompt), settings_.max_sequence_length);
    if (tokens.dropped > 0 && settings_.on_note) {
      settings_.on_note(fmt::format(
          "a prompt has {} tokens more than max_sequence_length {} holds: they are dropped",
          tokens.dropped, settings_.max_sequence_length));
    }
    return std::move(tokens.ids);
  }

  /// Puts what is not remembered yet into the memory.
  void encode_new(const std::vector<Ids>& all) const {
    std::vector<Ids> missing;
    int64_t longest = 0;
    for (const Ids& ids : all) {
      if (memory_.find(ids) == nullptr && std::ranges::find(missing, ids) == missing.end()) {
        missing.push_back(ids);
        longest = std::max(longest, static_cast<int64_t>(ids.size()));
      }
    }
    int64_t length = std::min(kShortestRun, settings_.max_sequence_length);
    while (length < longest) {
      length = std::min(2 * length, settings_.max_sequence_length);
    }
    const size_t batch = settings_.batched ? kLargestBatch : 1;
    for (size_t start = 0; start < missing.size(); start += batch) {
      const size_t count = std::min(batch, missing.size() - start);
      run(std::span(missing).subspan(start, count), length);
    }
  }

  /// The rows of the embedding table for ids, straight from the file.
  HostArray embed(std::span<const Ids> prompts, int64_t length) const {
    const io::TensorView& table = weights::umt5_embedding(files_);
    const auto count = static_cast<int64_t>(prompts.size());
    HostArray rows(Shape{table.shape.dtype, {count, length, config_.d_model}});
    const size_t bytes = rows.bytes.size() / static_cast<size_t>(count * length);
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::byte* to = rows.bytes.data() + i * static_cast<size_t>(length) * bytes;
      for (int64_t position = 0; position < length; ++position, to += bytes) {
        const auto at = static_cast<size_t>(position);
        const int64_t id = at < prompts[i].size() ? prompts[i][at] : tokenizer_.pad();
        std::memcpy(to, table.bytes.data() + static_cast<size_t>(id) * bytes, bytes);
      }
    }
    return rows;
  }

  void run(std::span<const Ids> prompts, int64_t length) const {
    const HostArray embeddings = embed(prompts, length);
    const auto count = static_cast<int64_t>(prompts.size());
    HostArray mask(Shape{DType::F32, {count, length}});
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::fill_n(mask.as<float>().begin() + static_cast<int64_t>(i) * length, prompts[i].size(),
                  1.0F);
    }
    if (parameters_.empty()) {
      parameters_ = weights::load_tensors(io::ModelFolder::open(settings_.model), specs_, client_);
    }
    const pjrt::Buffer inputs[] = {client_.to_device(embeddings), client_.to_device(mask)};
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& parameter : parameters_) {
      arguments.push_back(&parameter);
    }
    arguments.push_back(&inputs[0]);
    arguments.push_back(&inputs[1]);
    const runtime::Program& encoder = program(embeddings.shape);
    const HostArray states = encoder.run(arguments)[0].to_host();
    const int64_t row = states.shape.bytes() / (count * length);
    for (size_t i = 0; i < prompts.size(); ++i) {
      HostArray own(Shape{DType::F32, {static_cast<int64_t>(prompts[i].size()), config_.d_model}});
      std::memcpy(own.bytes.data(), states.bytes.data() + static_cast<int64_t>(i) * length * row,
                  own.bytes.size());
      memory_.add(prompts[i], std::move(own));
    }
  }

  /// The encoder for embeddings of one shape, compiled when it is first needed.
  const runtime::Program& program(const Shape& embeddings) const {
    const auto known = programs_.find(embeddings.dims);
    if (known != programs_.end()) {
      return known->second;
    }
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : specs_) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    umt5::EncoderInputs in;
    in.embeddings = graph.input(embeddings, "embeddings");
    in.mask = graph.input({DType::F32, {embeddings.dims[0], embeddings.dims[1]}}, "mask");
    const Tensor states = umt5::encoder(params, config_, settings_.options, in);
    const Tensor wide = states.dtype() == DType::F32 ? states : convert(states, DType::F32);
    runtime::ProgramOptions options = settings_.program;
    options.name = "umt5";
    return programs_
        .emplace(embeddings.dims,
                 runtime::Program::compile(client_, graph, std::vector<Tensor>{wide}, options))
        .first->second;
  }

  pjrt::Client client_;
  Umt5Settings settings_;
  text::Tokenizer tokenizer_;
  io::ModelFolder files_;  // stays open: prompts take rows of the embedding from it
  umt5::EncoderConfig config_;
  std::vector<nn::ParamSpec> specs_;

  // What a call leaves for the next; guarded by the mutex.
  mutable std::mutex mutex_;
  mutable std::vector<pjrt::Buffer> parameters_;
  mutable std::map<Dims, runtime::Program> programs_;
  mutable Memory memory_;
};

}  // namespace

std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, Umt5Settings settings) {
  return std::make_unique<Umt5TextEncoder>(client, std::move(settings));
}

}  // namespace kinema::encoders
