#include "kinema/encoders/t5_states.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/io/tensor_file.h"
#include "kinema/text/clean.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/t5.h"

namespace kinema::encoders {
namespace {

// Masked padding changes nothing, so a prompt runs with the shortest of these lengths (each twice
// the previous) that holds it.
constexpr int64_t kShortestRun = 64;
// Larger batches are not faster: the products are large enough.
constexpr size_t kLargestBatch = 8;
// Prompts that pass the blocks together, batched or not; bounds their memory.
constexpr size_t kAtOnce = 32;
constexpr size_t kRemembered = 32;
// Of states with padding, 8 MB each at published sizes.
constexpr size_t kRememberedWhole = 8;

/// The tokenizer of a folder, or of a file with a sentencepiece model (ComfyUI's umt5_xxl).
text::Tokenizer open_tokenizer(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return text::Tokenizer::open(path);
  }
  const io::TensorFile file = io::TensorFile::open(path);
  const io::TensorView& model = file.at("spiece_model");
  check(byte_size(model.shape.dtype) == 1, "[encoders] `{}` of {} is {}, expected bytes",
        model.name, file.path(), to_string(model.shape));
  text::Tokenizer out = text::Tokenizer::parse(model.bytes, file.path());
  file.check_intact();
  return out;
}

BlockModel block_model(const t5::EncoderConfig& config, const t5::EncoderOptions& options) {
  t5::EncoderOptions apart = options;
  apart.scan_layers = false;
  return {.name = "t5",
          .layers = config.num_layers,
          .activations = options.activations_dtype,
          .specs =
              [=](int64_t layer) {
                return layer < config.num_layers ? t5::block_parameters(config, options, layer)
                                                 : t5::norm_parameters(config, options);
              },
          .shared = t5::shared_parameters(config, options),
          .all = t5::parameters(config, apart),
          .block = [=](std::span<const Tensor> params, Tensor x,
                       Tensor mask) { return t5::block(params, config, options, x, mask); },
          .end = [=](std::span<const Tensor> params,
                     Tensor x) { return t5::final_norm(params, config, options, x); }};
}

}  // namespace

const HostArray* T5States::Memory::find(const T5Sequence& ids) const {
  const auto found = std::ranges::find(
      entries_, ids, [](const auto& entry) -> const T5Sequence& { return entry.first; });
  return found == entries_.end() ? nullptr : &found->second;
}

void T5States::Memory::trim(size_t kept) {
  while (entries_.size() > kept) {
    entries_.pop_front();
  }
}

T5States::T5States(const pjrt::Client& client, T5Settings settings)
    : settings_(std::move(settings)),
      tokenizer_(open_tokenizer(settings_.tokenizer)),
      files_(model_files::Checkpoint::open(settings_.model, settings_.part)),
      config_(weights::t5_config(files_)),
      blocks_(client, files_, block_model(config_, settings_.options), settings_.program,
              settings_.memory, settings_.masked, settings_.adapters) {
  weights::check_t5_tensors(files_, config_);
  check(tokenizer_.size() <= config_.vocab_size,
        "[encoders] {} has {} tokens but the embedding of {} has {} rows",
        settings_.tokenizer.string(), tokenizer_.size(), settings_.model.string(),
        config_.vocab_size);
  check(settings_.width == 0 || settings_.width == config_.d_model,
        "[encoders] {} is a {} and gives states of width {}, but the transformer takes {}\n"
        "  it belongs to another model",
        settings_.model.string(), weights::t5_class(config_), config_.d_model, settings_.width);
  check(settings_.max_sequence_length >= 1, "[encoders] max_sequence_length is {}, expected 1 up",
        settings_.max_sequence_length);
}

Shape T5States::shape() const {
  return {DType::F32, {settings_.max_sequence_length, config_.d_model}};
}

HostArray T5States::encode(std::span<const std::string> prompts) {
  std::vector<T5Sequence> all;
  for (const std::string& prompt : prompts) {
    all.push_back(tokenize(prompt, true));
  }
  return encode(std::span<const T5Sequence>(all));
}

HostArray T5States::encode(std::span<const T5Sequence> all) {
  // One device and one cache for callers from several threads.
  const std::scoped_lock lock(mutex_);
  encode_new(all);
  HostArray out(
      Shape{DType::F32,
            {static_cast<int64_t>(all.size()), settings_.max_sequence_length, config_.d_model}});
  const size_t stride = out.bytes.size() / std::max<size_t>(1, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const HostArray& states = *memory_.find(all[i]);
    std::memcpy(out.bytes.data() + i * stride, states.bytes.data(), states.bytes.size());
  }
  memory_.trim(settings_.masked ? kRemembered : kRememberedWhole);
  return out;
}

int64_t T5States::memory_bytes(std::span<const std::string> prompts) {
  std::vector<T5Sequence> all;
  for (const std::string& prompt : prompts) {
    all.push_back(tokenize(prompt, false));
  }
  return memory_bytes(std::span<const T5Sequence>(all));
}

int64_t T5States::memory_bytes(std::span<const T5Sequence> all) {
  const std::scoped_lock lock(mutex_);
  const std::vector<T5Sequence> missing = not_remembered(all);
  std::vector<Shape> shapes;
  for (const auto& batch : batches(std::span(missing).first(std::min(kAtOnce, missing.size())))) {
    shapes.push_back(
        {DType::F32, {static_cast<int64_t>(batch.size()), run_length(batch), config_.d_model}});
  }
  return blocks_.memory_bytes(shapes);
}

void T5States::release() {
  const std::scoped_lock lock(mutex_);
  blocks_.release();
}

T5Sequence T5States::tokenize(const std::string& prompt, bool warn_if_truncated) const {
  text::Tokens tokens = tokenizer_.encode(settings_.clean ? text::clean_prompt(prompt) : prompt,
                                          settings_.max_sequence_length);
  if (warn_if_truncated) {
    note_dropped(tokens.dropped);
  }
  return {.ids = std::move(tokens.ids)};
}

std::vector<int64_t> T5States::tokens(const std::string& text) const {
  constexpr int64_t kAll = std::numeric_limits<int32_t>::max();
  text::Tokens tokens = tokenizer_.encode(settings_.clean ? text::clean_prompt(text) : text, kAll);
  tokens.ids.pop_back();
  return std::move(tokens.ids);
}

void T5States::note_dropped(int64_t tokens) const {
  if (tokens > 0 && settings_.on_note) {
    settings_.on_note(fmt::format(
        "a prompt has {} tokens more than max_sequence_length {} holds: they are dropped", tokens,
        settings_.max_sequence_length));
  }
}

std::vector<T5Sequence> T5States::not_remembered(std::span<const T5Sequence> all) const {
  std::vector<T5Sequence> missing;
  for (const T5Sequence& ids : all) {
    if (memory_.find(ids) == nullptr && std::ranges::find(missing, ids) == missing.end()) {
      missing.push_back(ids);
    }
  }
  return missing;
}

/// Encodes prompts that are not in the cache.
void T5States::encode_new(std::span<const T5Sequence> all) {
  const std::vector<T5Sequence> missing = not_remembered(all);
  for (size_t start = 0; start < missing.size(); start += kAtOnce) {
    run(std::span(missing).subspan(start, std::min(kAtOnce, missing.size() - start)));
  }
}

/// A prompt that is not batched runs with the same length in any call, and so has the same bits.
int64_t T5States::run_length(std::span<const T5Sequence> prompts) const {
  if (!settings_.masked) {
    return settings_.max_sequence_length;
  }
  size_t longest = 0;
  for (const T5Sequence& ids : prompts) {
    longest = std::max(longest, ids.ids.size());
  }
  int64_t length = std::min(kShortestRun, settings_.max_sequence_length);
  while (length < static_cast<int64_t>(longest)) {
    length = std::min(2 * length, settings_.max_sequence_length);
  }
  return length;
}

/// The rows of the embedding table for ids, read from the file.
HostArray T5States::embed(std::span<const T5Sequence> prompts, int64_t length) const {
  std::vector<int64_t> padded;
  for (const T5Sequence& ids : prompts) {
    padded.insert(padded.end(), ids.ids.begin(), ids.ids.end());
    padded.insert(padded.end(), static_cast<size_t>(length) - ids.ids.size(), tokenizer_.pad());
  }
  return weights::embedding_rows(weights::t5_embedding(files_),
                                 {static_cast<int64_t>(prompts.size()), length}, padded);
}

/// Prompts grouped by array.
std::vector<std::span<const T5Sequence>> T5States::batches(
    std::span<const T5Sequence> prompts) const {
  const size_t batch = settings_.batched ? kLargestBatch : 1;
  std::vector<std::span<const T5Sequence>> out;
  for (size_t start = 0; start < prompts.size(); start += batch) {
    out.push_back(prompts.subspan(start, std::min(batch, prompts.size() - start)));
  }
  return out;
}

BlocksInput T5States::input_of(std::span<const T5Sequence> prompts) const {
  const int64_t length = run_length(prompts);
  BlocksInput input{.embeddings = embed(prompts, length)};
  const bool hides =
      std::ranges::any_of(prompts, [](const T5Sequence& each) { return !each.masked.empty(); });
  if (settings_.masked || hides) {
    input.mask = HostArray(Shape{DType::F32, {static_cast<int64_t>(prompts.size()), length}});
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto row = input.mask.as<float>().begin() + static_cast<int64_t>(i) * length;
      std::fill_n(row, settings_.masked ? std::ssize(prompts[i].ids) : length, 1.0F);
      std::ranges::transform(prompts[i].masked, row,
                             [](bool masked) { return masked ? 0.0F : 1.0F; });
    }
  }
  return input;
}

void T5States::run(std::span<const T5Sequence> prompts) {
  const std::vector<std::span<const T5Sequence>> all = batches(prompts);
  std::vector<BlocksInput> inputs;
  for (const std::span<const T5Sequence> batch : all) {
    inputs.push_back(input_of(batch));
  }
  const std::vector<HostArray> states = blocks_.run(inputs);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::byte* from = states[i].bytes.data();
    for (const T5Sequence& ids : all[i]) {
      const int64_t rows =
          settings_.masked ? static_cast<int64_t>(ids.ids.size()) : settings_.max_sequence_length;
      HostArray own(Shape{DType::F32, {rows, config_.d_model}});
      std::memcpy(own.bytes.data(), from, own.bytes.size());
      from += states[i].bytes.size() / all[i].size();
      memory_.add(ids, std::move(own));
    }
  }
}

}  // namespace kinema::encoders
