#include "kinema/encoders/umt5_encoder.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "kinema/encoders/t5_blocks.h"
#include "kinema/io/model_folder.h"
#include "kinema/text/clean.h"
#include "kinema/text/tokenizer.h"
#include "kinema/weights/t5.h"

namespace kinema::encoders {
namespace {

using Ids = std::vector<int64_t>;

// Positions behind a prompt are masked and change nothing, so a prompt runs in the shortest of
// these lengths, times two and so on, that holds it.
constexpr int64_t kShortestRun = 64;
// More prompts in one array gain nothing: the products are large enough.
constexpr size_t kLargestBatch = 8;
// Prompts that pass the blocks together, in arrays of their own or not; bounds what they take.
constexpr size_t kAtOnce = 32;
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
  Umt5TextEncoder(const pjrt::Client& client, T5Settings settings)
      : settings_(std::move(settings)),
        tokenizer_(text::Tokenizer::open(settings_.tokenizer)),
        files_(io::ModelFolder::open(settings_.model)),
        config_(weights::parse_t5_config(files_.config())),
        blocks_(client, files_, config_, settings_.options, settings_.program, settings_.memory) {
    weights::check_t5_tensors(files_, config_);
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
  Shape shape() const override {
    return {DType::F32, {settings_.max_sequence_length, config_.d_model}};
  }

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

  int64_t memory_bytes(std::span<const std::string> prompts) const override {
    const std::scoped_lock lock(mutex_);
    std::vector<Ids> all;
    for (const std::string& prompt : prompts) {
      all.push_back(
          tokenizer_.encode(text::clean_prompt(prompt), settings_.max_sequence_length).ids);
    }
    const std::vector<Ids> missing = not_remembered(all);
    std::vector<Shape> shapes;
    for (const auto& batch : batches(std::span(missing).first(std::min(kAtOnce, missing.size())))) {
      shapes.push_back(
          {DType::F32, {static_cast<int64_t>(batch.size()), run_length(batch), config_.d_model}});
    }
    return blocks_.memory_bytes(shapes);
  }

  void release() const override {
    const std::scoped_lock lock(mutex_);
    blocks_.release();
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

  std::vector<Ids> not_remembered(const std::vector<Ids>& all) const {
    std::vector<Ids> missing;
    for (const Ids& ids : all) {
      if (memory_.find(ids) == nullptr && std::ranges::find(missing, ids) == missing.end()) {
        missing.push_back(ids);
      }
    }
    return missing;
  }

  /// Puts what is not remembered yet into the memory.
  void encode_new(const std::vector<Ids>& all) const {
    const std::vector<Ids> missing = not_remembered(all);
    for (size_t start = 0; start < missing.size(); start += kAtOnce) {
      run(std::span(missing).subspan(start, std::min(kAtOnce, missing.size() - start)));
    }
  }

  /// In a call of its own or with others, a prompt that is not batched runs in the same length and
  /// so has the same bits.
  int64_t run_length(std::span<const Ids> prompts) const {
    size_t longest = 0;
    for (const Ids& ids : prompts) {
      longest = std::max(longest, ids.size());
    }
    int64_t length = std::min(kShortestRun, settings_.max_sequence_length);
    while (length < static_cast<int64_t>(longest)) {
      length = std::min(2 * length, settings_.max_sequence_length);
    }
    return length;
  }

  /// The rows of the embedding table for ids, straight from the file.
  HostArray embed(std::span<const Ids> prompts, int64_t length) const {
    const io::TensorView& table = weights::t5_embedding(files_);
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

  /// Prompts that share an array.
  std::vector<std::span<const Ids>> batches(std::span<const Ids> prompts) const {
    const size_t batch = settings_.batched ? kLargestBatch : 1;
    std::vector<std::span<const Ids>> out;
    for (size_t start = 0; start < prompts.size(); start += batch) {
      out.push_back(prompts.subspan(start, std::min(batch, prompts.size() - start)));
    }
    return out;
  }

  T5Input input_of(std::span<const Ids> prompts) const {
    const int64_t length = run_length(prompts);
    HostArray mask(Shape{DType::F32, {static_cast<int64_t>(prompts.size()), length}});
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::fill_n(mask.as<float>().begin() + static_cast<int64_t>(i) * length, prompts[i].size(),
                  1.0F);
    }
    return {embed(prompts, length), std::move(mask)};
  }

  void run(std::span<const Ids> prompts) const {
    const std::vector<std::span<const Ids>> all = batches(prompts);
    std::vector<T5Input> inputs;
    for (const std::span<const Ids> batch : all) {
      inputs.push_back(input_of(batch));
    }
    const std::vector<HostArray> states = blocks_.run(inputs);
    for (size_t i = 0; i < all.size(); ++i) {
      const std::byte* from = states[i].bytes.data();
      for (const Ids& ids : all[i]) {
        HostArray own(Shape{DType::F32, {static_cast<int64_t>(ids.size()), config_.d_model}});
        std::memcpy(own.bytes.data(), from, own.bytes.size());
        from += states[i].bytes.size() / all[i].size();
        memory_.add(ids, std::move(own));
      }
    }
  }

  T5Settings settings_;
  text::Tokenizer tokenizer_;
  io::ModelFolder files_;  // stays open: embeddings and streamed blocks come from it
  t5::EncoderConfig config_;

  // What a call leaves for the next; guarded by the mutex.
  mutable std::mutex mutex_;
  mutable T5Blocks blocks_;
  mutable Memory memory_;
};

}  // namespace

std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, T5Settings settings) {
  return std::make_unique<Umt5TextEncoder>(client, std::move(settings));
}

}  // namespace kinema::encoders
