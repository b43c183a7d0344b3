#include "kinema/nn/norm.h"

#include <charconv>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"

namespace kinema::nn {

Tensor widened(Tensor x) { return as(x, x.dtype() == DType::F64 ? DType::F64 : DType::F32); }

LayerNorm::LayerNorm(const Params& params, int64_t dim, double eps)
    : eps_(eps),
      weight_(params.weight("weight", {dim}, {""}, Init::ones())),
      bias_(params.weight("bias", {dim}, {""}, Init::zeros())) {}

Tensor LayerNorm::operator()(Tensor x) const {
  const Tensor y = layer_norm(widened(x), eps_);
  return as(y * as(weight_, y.dtype()) + as(bias_, y.dtype()), x.dtype());
}

RmsNorm::RmsNorm(const Params& params, int64_t dim, double eps)
    : eps_(eps), weight_(params.weight("weight", {dim}, {"norm"}, Init::ones())) {}

Tensor RmsNorm::operator()(Tensor x, double scale) const {
  const Tensor y = rms_norm(widened(x), eps_);
  return y * weight(y.dtype(), scale);
}

Tensor RmsNorm::weight(DType dtype, double scale) const {
  const Tensor weight = as(weight_, dtype);
  return scale == 1.0 ? weight : weight * scale;
}

ScaleNorm::How ScaleNorm::from_string(std::string_view name) {
  How how;
  std::string_view kind = name;
  // `rms1em6`: the negative power of ten after the kind.
  constexpr std::string_view kPower = "1em";
  if (const size_t at = name.find(kPower); at != std::string_view::npos) {
    const std::string_view digits = name.substr(at + kPower.size());
    int power = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), power);
    check(error == std::errc() && end == digits.end(), "[norm] `{}` has no number after `{}`", name,
          kPower);
    how.epsilon = std::pow(10.0, -power);
    kind = name.substr(0, at);
  }
  check(kind == "rms" || kind == "layer" || kind == "none",
        "[norm] `{}` is not a norm\n  there are rms, layer and none", name);
  how.kind = kind == "rms" ? Kind::RMS : kind == "layer" ? Kind::LAYER : Kind::NONE;
  return how;
}

ScaleNorm::ScaleNorm(const Params& params, int64_t dim, const How& how) : how_(how) {
  if (how.kind != Kind::NONE) {
    scale_ = params.weight("scale", {dim}, {""}, Init::ones());
  }
  if (how.kind == Kind::LAYER) {
    shift_ = params.weight("shift", {dim}, {""}, Init::zeros());
  }
}

Tensor ScaleNorm::operator()(Tensor x) const {
  const Tensor wide = widened(x);
  switch (how_.kind) {
    case Kind::NONE:
      return x;
    case Kind::RMS:
      return as(rms_norm(wide, how_.epsilon) * as(scale_, wide.dtype()), x.dtype());
    case Kind::LAYER:
      return as(
          layer_norm(wide, how_.epsilon) * as(scale_, wide.dtype()) + as(shift_, wide.dtype()),
          x.dtype());
  }
  fail("[norm] unknown");
}

}  // namespace kinema::nn
