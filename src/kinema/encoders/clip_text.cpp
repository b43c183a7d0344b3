#include "kinema/encoders/clip_text.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/models/clip/text.h"
#include "kinema/nn/linear.h"
#include "kinema/runtime/environment.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/folder.h"

namespace kinema::encoders {
namespace {

clip::TextOptions text_options(const ClipTextSettings& settings) {
  return {.dtype = settings.dtype,
          .precision = settings.precision,
          .scan_layers = settings.scan_layers};
}

/// The sizes of the model: from its own configuration, else from the other one if its width is the
/// same, else from its shapes.
clip::TextConfig config_of(const model_files::Checkpoint& files,
                           const std::filesystem::path& other) {
  if (!files.config().is_object() && !other.empty()) {
    const io::Json json = io::Json::read(other);
    const std::string table = clip::token_embedding({}, weights::clip_text_prefix(files)).name;
    if (weights::is_clip_text(json)) {
      const clip::TextConfig config = weights::parse_clip_text_config(json);
      if (files.at(table).shape.dims == Dims({config.vocab_size, config.hidden_size})) {
        return config;
      }
    }
  }
  return weights::clip_text_config(files);
}

int64_t length_of(const text::ClipTokenizer& tokenizer, const clip::TextConfig& config) {
  return std::min(tokenizer.max_length().value_or(config.max_position_embeddings),
                  config.max_position_embeddings);
}

/// Appends one prompt's row.
void append(HostArray& all, const pjrt::Buffer& row, size_t prompts) {
  const HostArray one = row.to_host();
  if (all.bytes.empty()) {
    all.shape = one.shape;
    all.shape.dims[0] = static_cast<int64_t>(prompts);
    all.bytes.reserve(one.bytes.size() * prompts);
  }
  all.bytes.insert(all.bytes.end(), one.bytes.begin(), one.bytes.end());
}

}  // namespace

ClipTextModel clip_text_model(const TextFiles& files) {
  const model_files::Checkpoint opened = model_files::Checkpoint::open(files.model, files.part);
  ClipTextModel out{.config = config_of(opened, files.config),
                    .prefix = weights::clip_text_prefix(opened)};
  weights::check_clip_text_tensors(opened, out.config);
  out.length = length_of(text::ClipTokenizer::open(files.tokenizer), out.config);
  return out;
}

ClipText::ClipText(const pjrt::Client& client, ClipTextSettings settings)
    : settings_(std::move(settings)),
      tokenizer_(text::ClipTokenizer::open(settings_.tokenizer)),
      files_(model_files::Checkpoint::open(settings_.model, settings_.part)),
      config_(config_of(files_, settings_.config)),
      prefix_(weights::clip_text_prefix(files_)),
      length_(length_of(tokenizer_, config_)),
      client_(client) {
  weights::check_clip_text_tensors(files_, config_);
  check(tokenizer_.size() <= config_.vocab_size,
        "[encoders] {} has {} tokens but the embedding of {} has {} rows",
        settings_.tokenizer.string(), tokenizer_.size(), settings_.model.string(),
        config_.vocab_size);
  check(settings_.hidden_layer <= -1 && settings_.hidden_layer >= -1 - config_.num_hidden_layers,
        "[encoders] layer {} from the end was requested, but {} has {} layers\n  clip_skip can be "
        "at most {}",
        -settings_.hidden_layer, settings_.model.string(), config_.num_hidden_layers,
        config_.num_hidden_layers - (settings_.hidden_norm ? 0 : 1));
}

std::vector<int64_t> ClipText::tokenize(const std::string& prompt) const {
  text::Tokens tokens = tokenizer_.encode(prompt, length_);
  if (tokens.dropped > 0 && settings_.on_note) {
    // Without the start and end tokens.
    const int64_t fit = length_ - 2;
    settings_.on_note(fmt::format("a prompt has {} tokens, {} fit into CLIP: the rest is dropped",
                                  fit + tokens.dropped, fit));
  }
  tokens.ids.resize(static_cast<size_t>(length_), tokenizer_.pad());
  return std::move(tokens.ids);
}

const runtime::Program& ClipText::program(int64_t hidden_layer, bool masked) {
  auto found = programs_.find({hidden_layer, masked});
  if (found == programs_.end()) {
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec :
         clip::text_parameters(config_, prefix_, text_options(settings_))) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    clip::TextInputs inputs{
        .embeddings = graph.input({settings_.dtype, {1, length_, config_.hidden_size}}, "x"),
        .ids = graph.input({DType::S64, {1, length_}}, "ids"),
        .hidden_layer = hidden_layer,
        .hidden_norm = settings_.hidden_norm};
    if (masked) {
      inputs.keys = graph.input({DType::F32, {1, length_}}, "keys");
    }
    const clip::TextOutputs out =
        clip::text_states(params, config_, prefix_, text_options(settings_), inputs);
    std::vector<Tensor> outputs{nn::as(out.hidden, DType::F32), nn::as(out.pooled, DType::F32)};
    if (config_.projection_dim > 0) {
      outputs.push_back(nn::as(out.text_embeds, DType::F32));
    }
    runtime::ProgramOptions options = settings_.program;
    options.name = "clip_text";
    found = programs_
                .emplace(std::pair(hidden_layer, masked),
                         runtime::Program::compile(client_, graph, outputs, options))
                .first;
  }
  return found->second;
}

ClipText::States ClipText::encode(std::span<const std::string> prompts,
                                  std::span<const int64_t> hidden_layers) {
  std::vector<ClipSequence> sequences;
  for (const std::string& prompt : prompts) {
    sequences.push_back({.ids = tokenize(prompt)});
  }
  std::vector<int64_t> layers(hidden_layers.begin(), hidden_layers.end());
  if (layers.empty()) {
    layers.assign(prompts.size(), settings_.hidden_layer);
  }
  return encode(std::span<const ClipSequence>(sequences), layers);
}

/// The input of the model: rows of the embedding table, with those that replace them.
pjrt::Buffer ClipText::embed(const ClipSequence& sequence) const {
  HostArray x =
      weights::embedding_rows(weights::clip_text_embedding(files_), {1, length_}, sequence.ids);
  if (!sequence.rows.empty()) {
    x = convert(x, DType::F32);
    for (const ClipSequence::Row& row : sequence.rows) {
      std::ranges::copy(row.values, x.as<float>().begin() + row.position * config_.hidden_size);
    }
  }
  return client_.to_device(convert(x, settings_.dtype));
}

ClipText::States ClipText::encode(std::span<const ClipSequence> sequences,
                                  std::span<const int64_t> hidden_layers) {
  // One device for callers from several threads.
  const std::scoped_lock lock(mutex_);
  for (size_t i = 0; i < sequences.size(); ++i) {
    // Before the parameters are loaded, because compilers need memory too.
    program(hidden_layers[i], !sequences[i].masked.empty());
  }
  if (params_.empty()) {
    params_ = weights::load_tensors(
        files_, clip::text_parameters(config_, prefix_, text_options(settings_)), client_,
        settings_.adapters);
  }
  States out;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const ClipSequence& sequence = sequences[i];
    const runtime::Program& run = program(hidden_layers[i], !sequence.masked.empty());
    std::vector<pjrt::Buffer> given;
    given.push_back(embed(sequence));
    given.push_back(
        client_.to_device(HostArray::from<int64_t>(DType::S64, {1, length_}, sequence.ids)));
    if (!sequence.masked.empty()) {
      HostArray keys(Shape{DType::F32, {1, length_}});
      std::ranges::transform(sequence.masked, keys.as<float>().begin(),
                             [](bool masked) { return masked ? 0.0F : 1.0F; });
      given.push_back(client_.to_device(std::move(keys)));
    }
    std::vector<const pjrt::Buffer*> arguments;
    for (const std::vector<pjrt::Buffer>* all : {&params_, &given}) {
      for (const pjrt::Buffer& each : *all) {
        arguments.push_back(&each);
      }
    }
    const std::vector<pjrt::Buffer> results = run.run(arguments);
    append(out.hidden, results[0], sequences.size());
    append(out.pooled, results[1], sequences.size());
    if (config_.projection_dim > 0) {
      append(out.text_embeds, results[2], sequences.size());
    }
  }
  return out;
}

void ClipText::note(const std::string& line) const {
  if (settings_.on_note) {
    settings_.on_note(line);
  }
}

int64_t ClipText::memory_bytes() {
  const std::scoped_lock lock(mutex_);
  int64_t bytes = program(settings_.hidden_layer).report().memory.temporary;
  if (params_.empty()) {
    for (const nn::ParamSpec& spec :
         clip::text_parameters(config_, prefix_, text_options(settings_))) {
      bytes += spec.shape.bytes();
    }
  }
  return bytes;
}

void ClipText::release() {
  const std::scoped_lock lock(mutex_);
  params_.clear();
  runtime::release_free_memory();
}

}  // namespace kinema::encoders
