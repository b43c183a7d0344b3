#include "kinema/encoders/qwen3_states.h"

#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/qwen3.h"

namespace kinema::encoders {
namespace {

// Later tokens change nothing, so a prompt runs with the shortest of these lengths (each twice the
// previous) that holds it.
constexpr int64_t kShortestChat = 64;
// Prompts that pass the blocks together; bounds their memory.
constexpr size_t kChatsAtOnce = 32;
constexpr size_t kRememberedChats = 32;

BlockModel block_model(const qwen3::EncoderConfig& config, const qwen3::EncoderOptions& options) {
  qwen3::EncoderOptions apart = options;
  apart.scan_layers = false;
  const int64_t layers = config.num_hidden_layers - options.skipped_layers;
  return {.name = "qwen3",
          .layers = layers,
          .activations = options.activations_dtype,
          .specs =
              [=](int64_t layer) {
                return layer < layers ? qwen3::block_parameters(config, options, layer)
                                      : std::vector<nn::ParamSpec>();
              },
          .all = qwen3::parameters(config, apart),
          .block = [=](std::span<const Tensor> params, Tensor x,
                       Tensor /*mask*/) { return qwen3::block(params, config, options, x); }};
}

}  // namespace

Qwen3States::Qwen3States(const pjrt::Client& client, Qwen3Settings settings)
    : settings_(std::move(settings)),
      tokenizer_(text::QwenTokenizer::open(settings_.tokenizer)),
      files_(model_files::Checkpoint::open(settings_.model, settings_.part)),
      config_(weights::qwen3_config(files_, settings_.config)),
      blocks_(client, files_, block_model(config_, settings_.options), settings_.program,
              settings_.memory, /*masked=*/false, settings_.adapters) {
  weights::check_qwen3_tensors(files_, config_);
  check(settings_.options.skipped_layers > 0,
        "[encoders] Qwen3 is read up to a layer before its last, expected skipped_layers from 1");
  check(tokenizer_.size() <= config_.vocab_size,
        "[encoders] {} has {} tokens but the embedding of {} has {} rows",
        settings_.tokenizer.string(), tokenizer_.size(), settings_.model.string(),
        config_.vocab_size);
  check(settings_.width == 0 || settings_.width == config_.hidden_size,
        "[encoders] {} is a Qwen3 and gives states of width {}, but the transformer takes {}\n"
        "  it belongs to another model",
        settings_.model.string(), config_.hidden_size, settings_.width);
  check(settings_.max_sequence_length >= 1, "[encoders] max_sequence_length is {}, expected 1 up",
        settings_.max_sequence_length);
}

Shape Qwen3States::shape() const {
  return {DType::F32, {settings_.max_sequence_length, config_.hidden_size}};
}

HostArray Qwen3States::encode(std::span<const std::string> prompts) {
  std::vector<Ids> all;
  for (const std::string& prompt : prompts) {
    all.push_back(tokenize(prompt, true));
  }
  // One device and one cache for callers from several threads.
  const std::scoped_lock lock(mutex_);
  const std::vector<Ids> missing = not_remembered(all);
  for (size_t start = 0; start < missing.size(); start += kChatsAtOnce) {
    run(std::span(missing).subspan(start, std::min(kChatsAtOnce, missing.size() - start)));
  }
  HostArray out(Shape{
      DType::F32,
      {static_cast<int64_t>(all.size()), settings_.max_sequence_length, config_.hidden_size}});
  const size_t stride = out.bytes.size() / std::max<size_t>(1, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const HostArray& states = *find(all[i]);
    std::memcpy(out.bytes.data() + i * stride, states.bytes.data(), states.bytes.size());
  }
  while (memory_.size() > kRememberedChats) {
    memory_.pop_front();
  }
  return out;
}

int64_t Qwen3States::rows(std::span<const std::string> prompts, int64_t multiple) const {
  int64_t longest = 1;
  for (const std::string& prompt : prompts) {
    longest = std::max<int64_t>(longest, std::ssize(tokenize(prompt, false)));
  }
  return (longest + multiple - 1) / multiple * multiple;
}

int64_t Qwen3States::memory_bytes(std::span<const std::string> prompts) {
  std::vector<Ids> all;
  for (const std::string& prompt : prompts) {
    all.push_back(tokenize(prompt, false));
  }
  const std::scoped_lock lock(mutex_);
  std::vector<Shape> shapes;
  for (const Ids& ids : not_remembered(all)) {
    if (shapes.size() < kChatsAtOnce) {
      shapes.push_back({DType::F32, {1, run_length(ids), config_.hidden_size}});
    }
  }
  return blocks_.memory_bytes(shapes);
}

void Qwen3States::release() {
  const std::scoped_lock lock(mutex_);
  blocks_.release();
}

Qwen3States::Ids Qwen3States::tokenize(const std::string& prompt, bool warn_if_truncated) const {
  text::Tokens tokens = tokenizer_.encode(text::qwen_chat(prompt), settings_.max_sequence_length);
  if (warn_if_truncated && tokens.dropped > 0 && settings_.on_note) {
    settings_.on_note(fmt::format(
        "a prompt has {} tokens more than max_sequence_length {} holds, with those of the chat: "
        "they are dropped",
        tokens.dropped, settings_.max_sequence_length));
  }
  return std::move(tokens.ids);
}

const HostArray* Qwen3States::find(const Ids& ids) const {
  const auto found =
      std::ranges::find(memory_, ids, [](const auto& entry) -> const Ids& { return entry.first; });
  return found == memory_.end() ? nullptr : &found->second;
}

std::vector<Qwen3States::Ids> Qwen3States::not_remembered(std::span<const Ids> all) const {
  std::vector<Ids> missing;
  for (const Ids& ids : all) {
    if (find(ids) == nullptr && std::ranges::find(missing, ids) == missing.end()) {
      missing.push_back(ids);
    }
  }
  return missing;
}

int64_t Qwen3States::run_length(const Ids& ids) const {
  int64_t length = std::min(kShortestChat, settings_.max_sequence_length);
  while (length < std::ssize(ids)) {
    length = std::min(2 * length, settings_.max_sequence_length);
  }
  return length;
}

void Qwen3States::run(std::span<const Ids> prompts) {
  std::vector<BlocksInput> inputs;
  for (const Ids& ids : prompts) {
    Ids padded = ids;
    padded.resize(static_cast<size_t>(run_length(ids)), tokenizer_.pad());
    inputs.push_back({.embeddings = weights::embedding_rows(files_.at("embed_tokens.weight"),
                                                            {1, std::ssize(padded)}, padded)});
  }
  const std::vector<HostArray> states = blocks_.run(inputs);
  for (size_t i = 0; i < prompts.size(); ++i) {
    HostArray own(Shape{DType::F32, {std::ssize(prompts[i]), config_.hidden_size}});
    std::memcpy(own.bytes.data(), states[i].bytes.data(), own.bytes.size());
    memory_.emplace_back(prompts[i], std::move(own));
  }
}

}  // namespace kinema::encoders
