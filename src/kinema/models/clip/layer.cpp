#include "kinema/models/clip/layer.h"

#include "kinema/core/error.h"
#include "kinema/nn/attention.h"

namespace kinema::clip {
namespace {

Tensor activate(Tensor x, Activation kind) {
  switch (kind) {
    case Activation::GELU:
      return gelu_erf(x);
    case Activation::QUICK_GELU:
      return x * logistic(1.702 * x);
    case Activation::GELU_TANH:
      return gelu_tanh(x);
  }
  fail("[clip] unknown activation {}", static_cast<int>(kind));
}

nn::Linear linear(const nn::Params& params, int64_t in, int64_t out) {
  return {params, in, out, {}};
}

}  // namespace

Layer::Layer(const nn::Params& params, const LayerConfig& c)
    : heads_(c.num_attention_heads),
      activation_(c.hidden_act),
      norm1_(params / "layer_norm1", c.hidden_size, c.layer_norm_eps),
      q_(linear(params / "self_attn" / "q_proj", c.hidden_size, c.hidden_size)),
      k_(linear(params / "self_attn" / "k_proj", c.hidden_size, c.hidden_size)),
      v_(linear(params / "self_attn" / "v_proj", c.hidden_size, c.hidden_size)),
      out_(linear(params / "self_attn" / "out_proj", c.hidden_size, c.hidden_size)),
      norm2_(params / "layer_norm2", c.hidden_size, c.layer_norm_eps),
      up_(linear(params / "mlp" / "fc1", c.hidden_size, c.intermediate_size)),
      down_(linear(params / "mlp" / "fc2", c.intermediate_size, c.hidden_size)) {}

Tensor Layer::heads(Tensor x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, -1}); }

Tensor Layer::operator()(Tensor x, Tensor bias, Precision precision) const {
  const Tensor y = norm1_(x);
  const Tensor attended =
      nn::attention(heads(q_(y, precision)), heads(k_(y, precision)), heads(v_(y, precision)),
                    {.kind = nn::AttentionKind::FLASH, .precision = precision, .bias = bias});
  x = x + out_(reshape(attended, x.shape().dims), precision);
  return x + down_(activate(up_(norm2_(x), precision), activation_), precision);
}

nn::Params root(nn::Params::Source& source, const std::string& prefix) {
  return prefix.empty() ? nn::Params(source, "") : nn::Params(source, prefix);
}

DType parameter_dtype(const std::string& key, DType dtype) {
  return key.find("norm") == std::string::npos ? dtype : DType::F32;
}

}  // namespace kinema::clip
