#include "kinema/model_source/trained_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/learned_words.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/text_files.h"

namespace kinema::model_source {
namespace {

using Kind = TextModels::Kind;

constexpr const char* kKey = "train_text_encoder";
constexpr const char* kWordsKey = "textual_inversion";

void check_trains_text(const config::Config& config, const char* key) {
  check(config.model.text_encoder != config::TextEncoder::HASHED,
        "[config] {} is given, but text_encoder=hashed has nothing to train", key);
  check(config::has_clips(config.data),
        "[config] {} needs captions, but dataset_type={} gives states of a text encoder that is "
        "not trained\n  dataset_type=images or videos reads captions; dataset_save_location still "
        "caches latents",
        key, config::word_of(config.data.dataset_type));
  check(config.optimizer.train_expert == config::TrainExpert::NONE,
        "[config] {} is for models with one network, but train_expert is {}", key,
        config::word_of(config.optimizer.train_expert));
}

/// The words that a configuration trains, with the text they start from.
void add_words(const config::Config& config, TrainedText& out) {
  const config::OptimizerConfig& o = config.optimizer;
  check(!o.train_text_encoder && !config.model.enable_lora && config.model.trained_modules.empty(),
        "[config] textual_inversion trains words alone, but {} is given too\n  train the words "
        "first; embeddings_folder then has them in prompts",
        o.train_text_encoder       ? kKey
        : config.model.enable_lora ? "enable_lora"
                                   : "trained_modules");
  const std::vector<std::string>& starts = o.textual_inversion_start;
  check(starts.empty() || starts.size() == o.textual_inversion.size(),
        "[config] textual_inversion_start has {} texts for {} words", starts.size(),
        o.textual_inversion.size());
  for (const std::string& name : o.textual_inversion) {
    check(!name.empty() && name.find_first_of("/\\") == std::string::npos && name[0] != '.',
          "[config] textual_inversion has the word `{}`, which cannot be the name of a file", name);
    check(std::ranges::count(o.textual_inversion, name) == 1,
          "[config] textual_inversion has the word `{}` twice", name);
    out.starts.push_back(starts.empty() ? "*" : starts[out.words.size()]);
    out.words.push_back({.name = name,
                         .first_row = std::ssize(out.words) * o.textual_inversion_vectors,
                         .rows = o.textual_inversion_vectors});
  }
}

}  // namespace

training::BaseModels TrainedText::base() const {
  training::BaseModels out{.words = words};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& part = texts[i].part;
    out.texts[part] = {.path = files[i].model, .part = std::string(files[i].part)};
    if (words.empty()) {
      continue;
    }
    HostArray rows(Shape{DType::F32, {texts[i].learned_rows, texts[i].config.hidden_size}});
    auto to = rows.bytes.begin();
    for (size_t word = 0; word < words.size(); ++word) {
      to = std::ranges::copy(encoders::rows_of_text(files[i], starts[word], words[word].rows).bytes,
                             to)
               .out;
    }
    out.learned_rows[part] = std::move(rows);
  }
  return out;
}

std::optional<TrainedText> trained_text(const config::Config& config) {
  const bool has_words = !config.optimizer.textual_inversion.empty();
  if (!config.optimizer.train_text_encoder && !has_words) {
    return std::nullopt;
  }
  TrainedText out;
  if (has_words) {
    add_words(config, out);
  }
  const char* key = has_words ? kWordsKey : kKey;
  check_trains_text(config, key);
  const TextModels models = text_models(config);
  check(models.kind != Kind::UMT5 && models.kind != Kind::QWEN3,
        "[config] {} is for CLIP (Stable Diffusion, Flux), but this model's text encoder is {}\n"
        "  without it the transformer alone is trained",
        key, models.kind == Kind::UMT5 ? "UMT5" : "Qwen3");
  out.files.push_back(models.first);
  if (models.kind == Kind::SDXL) {
    out.files.push_back(models.second);
  }
  // The layers that sampling reads: encoders/sd_encoder.cpp, sdxl_encoder.cpp, flux_encoder.cpp.
  const int64_t last = models.kind == Kind::SD ? -1 : -2;
  constexpr std::array kParts{model_files::kTextEncoder, model_files::kTextEncoder2};
  for (size_t i = 0; i < out.files.size(); ++i) {
    encoders::ClipTextModel model = encoders::clip_text_model(out.files[i]);
    out.texts.push_back(
        {.part = std::string(kParts.at(i)),
         .config = model.config,
         .prefix = std::move(model.prefix),
         .hidden_layer = last - config.generate.clip_skip,
         .hidden_norm = models.kind == Kind::SD,
         .tokens = model.length,
         .dtype = dtype(config.model.text_encoder_dtype),
         .precision = precision(config.model.precision),
         .learned_rows = std::ssize(out.words) * config.optimizer.textual_inversion_vectors});
  }
  return out;
}

networks::Network with_text(const networks::Network& network,
                            const std::optional<TrainedText>& text) {
  return text ? networks::with_text(network, text->texts) : network;
}

const std::vector<std::string>& text_adapter_targets() {
  static const std::vector<std::string> names{"q_proj",   "k_proj", "v_proj",
                                              "out_proj", "fc1",    "fc2"};
  return names;
}

}  // namespace kinema::model_source
