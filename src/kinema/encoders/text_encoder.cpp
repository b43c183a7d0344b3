#include "kinema/encoders/text_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/text/prompt_schedule.h"

namespace kinema::encoders {
namespace {

std::vector<Prompt> prompts_of(std::span<const std::string> texts) {
  std::vector<Prompt> prompts;
  prompts.reserve(texts.size());
  for (const std::string& text : texts) {
    prompts.push_back({text});
  }
  return prompts;
}

class HashedTextEncoder final : public TextEncoder {
 public:
  HashedTextEncoder(const text::HashedEncoder& settings,
                    std::function<void(const std::string&)> on_note)
      : settings_(settings), on_note_(std::move(on_note)) {}

  std::string name() const override { return "hashed"; }
  Shape shape() const override {
    return {DType::F32, {settings_.max_sequence_length, settings_.text_dim}};
  }
  Shape pooled_shape() const override {
    return settings_.pooled_dim > 0 ? Shape{DType::F32, {settings_.pooled_dim}} : Shape();
  }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    const auto n = static_cast<int64_t>(prompts.size());
    TextStates out{.states = HostArray(
                       Shape{DType::F32, {n, settings_.max_sequence_length, settings_.text_dim}})};
    if (settings_.pooled_dim > 0) {
      out.pooled = HostArray(Shape{DType::F32, {n, settings_.pooled_dim}});
    }
    auto states = out.states.bytes.begin();
    auto pooled = out.pooled.bytes.begin();
    for (const std::string& text : single_texts(prompts, name())) {
      say_what_is_cut(text);
      states = std::ranges::copy(settings_.encode(text).bytes, states).out;
      if (settings_.pooled_dim > 0) {
        pooled = std::ranges::copy(settings_.pooled(text).bytes, pooled).out;
      }
    }
    return out;
  }

  void say_what_is_cut(const std::string& text) const {
    const int64_t more =
        static_cast<int64_t>(text::words(text).size()) - settings_.max_sequence_length;
    if (more > 0 && on_note_) {
      on_note_(fmt::format("a prompt has {} more than max_sequence_length {} holds: {} dropped",
                           counted(more, "word"), settings_.max_sequence_length,
                           more == 1 ? "it is" : "they are"));
    }
  }

  text::HashedEncoder settings_;
  std::function<void(const std::string&)> on_note_;
};

class RememberingTextEncoder final : public TextEncoder {
 public:
  explicit RememberingTextEncoder(std::shared_ptr<const TextEncoder> encoder)
      : encoder_(std::move(encoder)) {}

  std::string name() const override { return encoder_->name(); }
  Shape shape() const override { return encoder_->shape(); }
  Shape pooled_shape() const override { return encoder_->pooled_shape(); }
  int64_t rows(std::span<const Prompt> prompts) const override { return encoder_->rows(prompts); }
  void release() const override { encoder_->release(); }

 private:
  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    // All prompts of a call together: an encoder may run them as one batch.
    if (!std::ranges::equal(prompts, prompts_)) {
      states_ = encoder_->encode(prompts);
      prompts_.assign(prompts.begin(), prompts.end());
      encoder_->release();
    }
    return states_;
  }
  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return std::ranges::equal(prompts, prompts_) ? 0 : encoder_->memory_bytes(prompts);
  }

  std::shared_ptr<const TextEncoder> encoder_;
  mutable std::vector<Prompt> prompts_;
  mutable TextStates states_;
};

}  // namespace

TextStates row(const TextStates& all, int64_t i) {
  const auto own = [i](const HostArray& x) {
    if (x.bytes.empty()) {
      return HostArray();
    }
    HostArray out(Shape{x.shape.dtype, {x.shape.dims.begin() + 1, x.shape.dims.end()}});
    const auto size = static_cast<int64_t>(out.bytes.size());
    std::copy_n(x.bytes.begin() + i * size, size, out.bytes.begin());
    return out;
  };
  return {.states = own(all.states), .pooled = own(all.pooled)};
}

std::vector<PromptUntil> prompts_by_step(const Prompt& prompt, int64_t steps) {
  if (prompt.syntax != text::PromptSyntax::A1111) {
    return {{steps, prompt}};
  }
  const std::vector<text::TextUntil> first = text::prompt_schedule(prompt.text, steps);
  const std::vector<text::TextUntil> second =
      prompt.second ? text::prompt_schedule(*prompt.second, steps) : first;
  std::vector<PromptUntil> out;
  for (size_t i = 0, j = 0; i < first.size() && j < second.size();) {
    const int64_t last = std::min(first[i].last_step, second[j].last_step);
    out.push_back({last, prompt});
    out.back().prompt.text = first[i].text;
    if (prompt.second) {
      out.back().prompt.second = second[j].text;
    }
    i += first[i].last_step == last ? 1 : 0;
    j += second[j].last_step == last ? 1 : 0;
  }
  return out;
}

TextStates TextEncoder::encode(std::span<const std::string> prompts) const {
  return encode_prompts(prompts_of(prompts));
}

int64_t TextEncoder::memory_bytes(std::span<const std::string> prompts) const {
  return prompts_bytes(prompts_of(prompts));
}

std::vector<std::string> single_texts(std::span<const Prompt> prompts, const std::string& encoder) {
  std::vector<std::string> texts;
  texts.reserve(prompts.size());
  for (const Prompt& prompt : prompts) {
    check(!prompt.second.has_value(),
          "[encoders] a prompt has a text for a second encoder, but {} is the only one", encoder);
    texts.push_back(prompt.text);
  }
  return texts;
}

std::unique_ptr<TextEncoder> remembering(std::shared_ptr<const TextEncoder> encoder) {
  return std::make_unique<RememberingTextEncoder>(std::move(encoder));
}

std::unique_ptr<TextEncoder> hashed_text_encoder(const text::HashedEncoder& settings,
                                                 std::function<void(const std::string&)> on_note) {
  return std::make_unique<HashedTextEncoder>(settings, std::move(on_note));
}

}  // namespace kinema::encoders
