#include "kinema/models/clip/text.h"

#include "kinema/core/error.h"
#include "kinema/models/clip/layer.h"
#include "kinema/nn/layers.h"

namespace kinema::clip {
namespace {

// Far below any score, so that softmax gives 0.
constexpr double kMasked = -1e30;
// The value in configurations that are older than transformers' key for the end token.
constexpr int64_t kLargestId = 2;

constexpr const char* kTokenEmbedding = "token_embedding.weight";

nn::Layers layers_of(const TextConfig& config, const std::string& prefix) {
  return {(prefix.empty() ? "" : prefix + ".") + "encoder.layers", config.num_hidden_layers};
}

/// The parameters outside the layers.
struct Ends {
  Ends(const nn::Params& all, const std::string& prefix, const TextConfig& c)
      : Ends(all, prefix.empty() ? all : all / prefix, c) {}

  Tensor position;
  nn::LayerNorm final_norm;
  Tensor projection;  // empty without a projection

 private:
  Ends(const nn::Params& all, const nn::Params& top, const TextConfig& c)
      : position((top / "embeddings" / "position_embedding")
                     .weight("weight", {c.max_position_embeddings, c.hidden_size}, {"", ""},
                             nn::Init::normal(0.02))),
        final_norm(top / "final_layer_norm", c.hidden_size, c.layer_norm_eps) {
    if (c.projection_dim > 0) {
      projection = (all / "text_projection")
                       .weight("weight", {c.projection_dim, c.hidden_size}, {"", ""},
                               nn::Init::normal(0.02));
    }
  }
};

/// f32 [1, 1, t, t], added to the scores [b, heads, query, key]: masks keys after the query.
Tensor causal(Graph& graph, int64_t t) {
  const Shape pairs{DType::S32, {t, t}};
  const Tensor is_behind =
      compare(iota(graph, pairs, Axis(1)), Comparison::GT, iota(graph, pairs, Axis(0)));
  const Shape scores{DType::F32, {t, t}};
  return reshape(select(is_behind, constant(graph, kMasked, scores), constant(graph, 0.0, scores)),
                 {1, 1, t, t});
}

/// The same, which also masks the tokens that are 0 in keys [b, t]: f32 [b, 1, t, t].
Tensor causal(Tensor keys) {
  const int64_t b = keys.dim(0);
  const int64_t t = keys.dim(1);
  const Shape all{DType::F32, {b, 1, t, t}};
  const Tensor kept = broadcast_to(reshape(keys, {b, 1, 1, t}), all.dims);
  const Tensor masked = constant(keys.graph(), kMasked, all);
  return select(compare(kept, Comparison::EQ, 0.0), masked,
                broadcast_to(causal(keys.graph(), t), all.dims));
}

/// The row of x [b, t, d] at each sample's position [b] -> [b, d].
Tensor rows_at(Tensor x, Tensor places) {
  Graph& graph = x.graph();
  const Dims& dims = x.shape().dims;
  const Tensor at = broadcast_to(reshape(places, {dims[0], 1, 1}), dims);
  const Tensor position = iota(graph, {DType::S32, dims}, Axis(1));
  // Selected, not multiplied by zeros and ones: other rows may be infinite or NaN.
  return sum(select(compare(position, Comparison::EQ, at), x, constant(graph, 0.0, x.shape())),
             {1});
}

/// The position of each prompt's end: s32 [b].
Tensor ends_of(Tensor ids, const TextConfig& config) {
  if (config.eos_token_id == kLargestId) {
    return argmax(ids, Axis(1));
  }
  const Tensor end = constant(ids.graph(), static_cast<double>(config.eos_token_id), ids.shape());
  return argmax(convert(compare(ids, Comparison::EQ, end), DType::S32), Axis(1));
}

void check_inputs(const TextInputs& inputs, const TextConfig& c) {
  const Tensor x = inputs.embeddings;
  check(x.rank() == 3 && x.dim(2) == c.hidden_size && x.dim(1) <= c.max_position_embeddings,
        "[clip] embeddings is {} but must be [b, t, {}] with t of at most {}", to_string(x.shape()),
        c.hidden_size, c.max_position_embeddings);
  check(inputs.ids.shape().dims == Dims({x.dim(0), x.dim(1)}),
        "[clip] ids is {} but must be [{}, {}]", to_string(inputs.ids.shape()), x.dim(0), x.dim(1));
  check(!inputs.keys || inputs.keys.shape() == Shape{DType::F32, {x.dim(0), x.dim(1)}},
        "[clip] keys is {} but must be f32[{},{}]",
        inputs.keys ? to_string(inputs.keys.shape()) : "", x.dim(0), x.dim(1));
  check(inputs.hidden_layer <= -1 && inputs.hidden_layer >= -1 - c.num_hidden_layers,
        "[clip] hidden states of layer {} were requested, of {} layers: expected {} to -1",
        inputs.hidden_layer, c.num_hidden_layers, -1 - c.num_hidden_layers);
}

}  // namespace

nn::ParamSpec token_embedding(const TextConfig& c, const std::string& prefix) {
  return {.name = (prefix.empty() ? "" : prefix + ".") + "embeddings." + kTokenEmbedding,
          .shape = {DType::F32, {c.vocab_size, c.hidden_size}},
          .axes = {"", ""},
          .init = nn::Init::normal(0.02)};
}

std::vector<nn::ParamSpec> text_parameters(const TextConfig& config, const std::string& prefix,
                                           const TextOptions& options) {
  validate(config);
  nn::SpecCollector specs(
      [&](const std::string& key) { return parameter_dtype(key, options.dtype); },
      options.low_ranks);
  const Ends ends(nn::Params(specs, ""), prefix, config);
  nn::open_layers(specs, layers_of(config, prefix), options.scan_layers,
                  [&](const nn::Params& params) { const Layer layer(params, config.layer()); });
  return specs.take();
}

TextOutputs text_states(std::span<const Tensor> params, const TextConfig& config,
                        const std::string& prefix, const TextOptions& options,
                        const TextInputs& inputs) {
  nn::Bound bound(text_parameters(config, prefix, options), params, /*quantized=*/{},
                  options.low_rank_dropout);
  check_inputs(inputs, config);
  Graph& graph = inputs.embeddings.graph();
  const Scope scope(graph, "text_model");
  const auto tap = [&](const std::string& name, Tensor value) {
    if (inputs.tap) {
      inputs.tap(name, value);
    }
  };
  const Ends ends(bound.root(), prefix, config);
  const int64_t t = inputs.embeddings.dim(1);
  const Tensor x = nn::as(inputs.embeddings, options.dtype) +
                   nn::as(slice(ends.position, Axis(0), 0, t), options.dtype);
  tap("embeddings", x);

  // The states of the requested layer are the input of the next one. A loop's body is the same for
  // every layer, so the result is selected by the layer's number.
  const int64_t layers = config.num_hidden_layers;
  const int64_t kept = layers + 1 + inputs.hidden_layer;
  const std::vector<Tensor> numbers{iota(graph, {DType::S32, {layers}}, Axis(0))};
  const Tensor mask = inputs.keys ? causal(inputs.keys) : causal(graph, t);
  const std::vector<Tensor> out = bound.run(
      layers_of(config, prefix), {x, x}, numbers, {.has_tap = inputs.tap != nullptr},
      [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) -> std::vector<Tensor> {
        const Tensor is_it = compare(layer.given[0], Comparison::EQ, static_cast<double>(kept));
        const Tensor hidden =
            select(broadcast_to(is_it, carry[0].shape().dims), carry[0], carry[1]);
        const Tensor y = Layer(layer.params, config.layer())(carry[0], mask, options.precision);
        if (layer.number >= 0) {
          tap("layer" + std::to_string(layer.number), y);
        }
        return {y, hidden};
      });

  TextOutputs outputs;
  outputs.hidden = kept == layers ? out[0] : out[1];
  if (inputs.hidden_norm) {
    outputs.hidden = ends.final_norm(outputs.hidden);
  }
  outputs.last = ends.final_norm(out[0]);
  tap("final_layer_norm", outputs.last);
  outputs.pooled = rows_at(outputs.last, ends_of(inputs.ids, config));
  if (config.projection_dim > 0) {
    const DType sums = options.dtype == DType::F64 ? DType::F64 : DType::F32;
    outputs.text_embeds =
        nn::as(dot_general(outputs.pooled, nn::as(ends.projection, options.dtype),
                           {.lhs_contract = {1}, .rhs_contract = {1}}, options.precision, sums),
               options.dtype);
  }
  return outputs;
}

}  // namespace kinema::clip
