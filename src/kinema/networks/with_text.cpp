#include "kinema/networks/with_text.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/clip/text.h"
#include "kinema/networks/inner_model.h"
#include "kinema/weights/clip.h"

namespace kinema::networks {
namespace {

/// The entries of one model, under its own names; for the network (an empty part) those of no text
/// encoder.
nn::LowRanks of_part(const nn::LowRanks& all, std::string_view part) {
  nn::LowRanks out = all;
  out.clear();
  for (const auto& [name, rank] : all) {
    if (inner_part(name) == part) {
      out.emplace(part.empty() ? name : name.substr(part.size() + 1), rank);
    }
  }
  return out;
}

nn::ModelOptions outside(nn::ModelOptions options) {
  options.low_ranks = of_part(options.low_ranks, "");
  return options;
}

clip::TextOptions inside(const InnerText& text, const nn::ModelOptions& options,
                         Tensor dropout_key = {}) {
  return {.dtype = text.dtype,
          .precision = text.precision,
          .scan_layers = options.scan_layers,
          .low_ranks = of_part(options.low_ranks, text.part),
          .low_rank_dropout = nn::Dropout(options.low_rank_dropout, dropout_key)};
}

/// One encoder's parameters: the token table, the rows of learned words, then those of text_states.
std::vector<nn::ParamSpec> text_specs(const InnerText& text, const nn::ModelOptions& options) {
  std::vector<nn::ParamSpec> out{clip::token_embedding(text.config, text.prefix)};
  out[0].shape.dtype = text.dtype;
  if (text.learned_rows > 0) {
    out.push_back({.name = std::string(kLearnedRows),
                   .shape = {DType::F32, {text.learned_rows, text.config.hidden_size}},
                   .axes = {"", ""},
                   .init = {}});
  }
  std::ranges::move(clip::text_parameters(text.config, text.prefix, inside(text, options)),
                    std::back_inserter(out));
  return out;
}

/// ids [b, t] -> the states of one encoder.
clip::TextOutputs run(const InnerText& text, std::span<const Tensor> params,
                      const nn::ModelOptions& options, Tensor ids, Tensor dropout_key) {
  Graph& graph = ids.graph();
  const Scope scope(graph, text.part);
  Tensor x = take(params[0], ids);  // ids of learned words are clamped
  size_t used = 1;
  if (text.learned_rows > 0) {
    const auto vocabulary = static_cast<double>(text.config.vocab_size);
    const Tensor is_learned = compare(ids, Comparison::GE, vocabulary);
    const Tensor rows =
        convert(take(params[1], ids - constant(graph, vocabulary, ids.shape())), text.dtype);
    x = select(broadcast_to(expand_dims(is_learned, Axis(2)), x.shape().dims), rows, x);
    // As sampling has it: a learned word is no end of the text.
    ids = select(is_learned, constant(graph, 0.0, ids.shape()), ids);
    ++used;
  }
  return clip::text_states(params.subspan(used), text.config, text.prefix,
                           inside(text, options, dropout_key),
                           {.embeddings = x,
                            .ids = ids,
                            .hidden_layer = text.hidden_layer,
                            .hidden_norm = text.hidden_norm});
}

/// What a network reads of its CLIP text encoders.
enum class Reads : uint8_t { STATES, BOTH, POOLED };

Reads reads_of(const Network& network, std::span<const InnerText> texts) {
  return texts.size() == 2                 ? Reads::BOTH
         : network.sizes().pooled_dim == 0 ? Reads::STATES
                                           : Reads::POOLED;
}

class WithText final : public Architecture {
 public:
  WithText(const Network& network, std::vector<InnerText> texts)
      : network_(network), texts_(std::move(texts)), sizes_(network.sizes()) {
    const Sizes& own = network_.sizes();
    check((texts_.size() == 1 || (texts_.size() == 2 && own.pooled_dim > 0)) && own.makes_images &&
              own.image_dim == 0,
          "[networks] {} text encoders are given, which this network does not run", texts_.size());
    const clip::TextConfig& first = texts_.front().config;
    const clip::TextConfig& last = texts_.back().config;
    const Reads reads = reads_of(network_, texts_);
    const int64_t width =
        reads == Reads::BOTH ? first.hidden_size + last.hidden_size : first.hidden_size;
    const int64_t pooled = reads == Reads::BOTH ? last.projection_dim : first.hidden_size;
    check(reads == Reads::POOLED || width == own.text_dim,
          "[networks] the text encoders give states of width {}, but the network takes {}", width,
          own.text_dim);
    check(reads == Reads::STATES || pooled == own.pooled_dim,
          "[networks] the text encoders pool {} numbers, but the network takes {}", pooled,
          own.pooled_dim);
    if (reads == Reads::POOLED) {
      sizes_.pooled_dim = texts_.front().tokens;
      sizes_.pooled_is_ids = true;
    } else {
      sizes_.text_dim = std::ssize(texts_);
      sizes_.encoder_tokens = texts_.front().tokens;
      sizes_.pooled_dim = 0;
      sizes_.text_is_ids = true;
    }
  }

  const Sizes& sizes() const override { return sizes_; }
  schedulers::Learned learned() const override { return network_->learned(); }
  io::Json config() const override { return network_->config(); }
  io::Json original_config() const override { return network_->original_config(); }
  std::map<std::string, io::Json> inner_configs() const override {
    std::map<std::string, io::Json> out;
    for (const InnerText& text : texts_) {
      out.emplace(text.part, weights::clip_text_config_json(text.config));
    }
    return out;
  }

  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                        const nn::InitOptions& init) const override {
    std::vector<nn::ParamSpec> out = network_->parameters(outside(options), init);
    for (const InnerText& text : texts_) {
      for (nn::ParamSpec& spec : text_specs(text, options)) {
        spec.name = text.part + "." + spec.name;
        out.push_back(std::move(spec));
      }
    }
    return out;
  }
  void check_divides(const mesh::Placement& place) const override {
    network_->check_divides(place);
  }

  Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                  const Inputs& inputs) const override {
    const size_t own = network_->parameters(outside(options)).size();
    Inputs in = inputs;
    encode_text(network_, texts_, params.subspan(own), options, in);
    return network_->forward(params.first(own), outside(options), in);
  }

  std::string key_of_tap(const std::string& name) const override {
    return network_->key_of_tap(name);
  }
  std::vector<Tensor> cross_keys(std::span<const Tensor> /*params*/,
                                 const nn::ModelOptions& /*options*/, Tensor /*text*/,
                                 Tensor /*image*/) const override {
    fail("[networks] a network that runs its text encoders has no keys of their states");
  }
  std::vector<Value> cross_key_values(const nn::ModelOptions& /*options*/, int64_t /*contexts*/,
                                      int64_t /*text_tokens*/, int64_t /*images*/) const override {
    return {};
  }
  Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                        const Dims& latents) const override {
    return network_->block_sum_value(outside(options), contexts, latents);
  }
  /// Text encoders add 2 operations per parameter of their layers and token.
  double forward_flops(const Dims& latents, int64_t text_tokens) const override {
    double out = network_->forward_flops(latents, text_tokens);
    for (const InnerText& text : texts_) {
      for (const nn::ParamSpec& spec : clip::text_parameters(text.config, text.prefix, {})) {
        if (spec.layers > 0) {
          out += 2.0 * static_cast<double>(spec.shape.elements() * text.tokens);
        }
      }
    }
    return out;
  }

 private:
  Network network_;
  std::vector<InnerText> texts_;
  Sizes sizes_;
};

}  // namespace

void encode_text(const Network& network, std::span<const InnerText> texts,
                 std::span<const Tensor> params, const nn::ModelOptions& options, Inputs& inputs) {
  const Reads reads = reads_of(network, texts);
  std::vector<clip::TextOutputs> made;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Tensor ids =
        reads == Reads::POOLED
            ? inputs.pooled
            : squeeze(slice(inputs.text, Axis(2), static_cast<int64_t>(i), 1), Axis(2));
    const size_t count = text_specs(texts[i], options).size();
    made.push_back(run(texts[i], params.first(count), options, ids, inputs.dropout_key));
    params = params.subspan(count);
  }
  switch (reads) {
    case Reads::STATES:
      inputs.text = made[0].hidden;
      break;
    case Reads::BOTH:
      inputs.text = concatenate({made[0].hidden, made[1].hidden}, Axis(2));
      inputs.pooled = made[1].text_embeds;
      break;
    case Reads::POOLED:
      inputs.pooled = made[0].pooled;
      break;
  }
}

Network with_text(const Network& network, std::vector<InnerText> texts) {
  return Network(std::make_shared<const WithText>(network, std::move(texts)));
}

}  // namespace kinema::networks
