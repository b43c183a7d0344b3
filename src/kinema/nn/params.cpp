#include "kinema/nn/params.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/nn/adapter.h"

namespace kinema::nn {

std::string ParamSpec::key(int64_t layer) const {
  const size_t at = name.find("{}");
  if (layers == 0 || at == std::string::npos) {
    return name;
  }
  return name.substr(0, at) + std::to_string(layer) + name.substr(at + 2);
}

Shape ParamSpec::layer_shape() const {
  if (layers == 0) {
    return shape;
  }
  return {shape.dtype, Dims(shape.dims.begin() + 1, shape.dims.end())};
}

std::vector<std::string> ParamSpec::logical_axes() const {
  std::vector<std::string> logical = axes;
  logical.resize(static_cast<size_t>(layer_shape().rank()));
  if (layers > 0) {
    logical.insert(logical.begin(), "layers_per_stage");
  }
  return logical;
}

bool ParamSpec::is_low_rank() const {
  constexpr std::array<std::string_view, 11> kEndings{
      ".lora_A.weight", ".lora_B.weight", ".lora_scale", ".lora_magnitude_vector",
      ".hada_w1_a",     ".hada_w1_b",     ".hada_w2_a",  ".hada_w2_b",
      ".lokr_w1",       ".lokr_w2",       ".lokr_w2_a"};
  return name.ends_with(".lokr_w2_b") ||
         std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

Sharding ParamSpec::sharding(const mesh::Placement& placement) const {
  return placement.sharding(logical_axes(), shape.dims);
}

Tensor ParamSpec::input(Graph& graph, const mesh::Placement& placement,
                        const std::string& prefix) const {
  return graph.input(shape, prefix + name, sharding(placement), memory);
}

std::string stacked_name(std::string_view key) {
  // Parts such as `down_blocks.1.resnets.0` differ from each other: they are not stacked.
  constexpr std::array<std::string_view, 6> kStacks{
      "blocks", "transformer_blocks", "single_transformer_blocks",
      "layers", "noise_refiner",      "context_refiner"};
  std::string out;
  bool in_stack = false;
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('.', at), key.size());
    const std::string_view part = key.substr(at, end - at);
    const bool is_layer = in_stack && !part.empty() && end < key.size() &&
                          part.find_first_not_of("0123456789") == std::string_view::npos;
    out += is_layer ? "{}" : part;
    out += end < key.size() ? "." : "";
    in_stack = std::ranges::find(kStacks, part) != kStacks.end();
    at = end + 1;
  }
  return out;
}

Params Params::operator/(std::string_view name) const {
  return {*source_, prefix_.empty() ? std::string(name) : prefix_ + separator_ + std::string(name),
          separator_};
}

Tensor Params::weight(std::string_view name, const Dims& dims, const std::vector<std::string>& axes,
                      const Init& init) const {
  const std::string key = (*this / name).prefix_;
  check(axes.size() == dims.size(), "[params] `{}` has {} axes but {} axis names", key, dims.size(),
        axes.size());
  return source_->parameter(key, dims, axes, init);
}

std::optional<Tensor> Params::stored_scale(int64_t out, const std::string& axis) const {
  if (!source_->is_stored_quantized(prefix_)) {
    return std::nullopt;
  }
  return weight(ParamSpec::kStoredScale.substr(1), {out}, {axis}, Init::ones());
}

Tensor SpecCollector::parameter(const std::string& key, const Dims& dims,
                                const std::vector<std::string>& axes, const Init& init) {
  Shape shape{dtype_(key), dims};
  if (layers_ > 0) {
    shape.dims.insert(shape.dims.begin(), layers_);
  }
  checked_elements(shape.dims);
  specs_.push_back({.name = key, .shape = shape, .layers = layers_, .axes = axes, .init = init});
  return {};
}

int64_t SpecCollector::low_rank(const std::string& key) const {
  auto found = low_ranks_.find(key);
  if (found == low_ranks_.end()) {
    found = low_ranks_.find(stacked_name(key));
  }
  return found == low_ranks_.end() ? 0 : found->second;
}

AdapterForm SpecCollector::adapter_form(const std::string& key, int64_t out, int64_t in) const {
  AdapterForm form{.kind = low_ranks_.kind, .rank = low_rank(key)};
  if (form.rank > 0 && form.kind == AdapterKind::LOKR) {
    form.w1_rows = kronecker_sizes(out, low_ranks_.kronecker_factor).first;
    form.w1_columns = kronecker_sizes(in, low_ranks_.kronecker_factor).first;
    // LyCORIS' rule: a low-rank product would not be smaller.
    form.whole_w2 = 2 * form.rank >= std::max(out / form.w1_rows, in / form.w1_columns);
  }
  return form;
}

std::optional<QuantizedProduct> SpecCollector::quantized(const std::string& key) {
  products_.push_back(key);
  return std::nullopt;
}

bool SpecCollector::is_stored_quantized(const std::string& key) const {
  return is_code_dtype(dtype_(key + ".weight"));
}

Binder::Binder(std::span<const ParamSpec> specs, std::span<const Tensor> tensors,
               QuantizedProducts quantized)
    : quantized_(std::move(quantized)) {
  check(specs.size() == tensors.size(), "[params] {} tensors were given for {} parameters",
        tensors.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].layers == 0) {
      add(specs[i].name, tensors[i]);
    }
  }
}

Tensor Binder::parameter(const std::string& key, const Dims& dims, const std::vector<std::string>&,
                         const Init&) {
  const auto found = tensors_.find(key);
  check(found != tensors_.end(), "[params] no tensor was given for the parameter `{}`", key);
  check(found->second.shape().dims == dims, "[params] `{}` is {} but the model expects {}", key,
        to_string(found->second.shape()), to_string(dims));
  return found->second;
}

int64_t Binder::low_rank(const std::string& key) const {
  for (const char* factor : {".lora_A.weight", ".hada_w1_b", ".lokr_w2_b", ".lokr_w2"}) {
    if (const auto found = tensors_.find(key + factor); found != tensors_.end()) {
      return found->second.dim(0);
    }
  }
  return 0;
}

AdapterForm Binder::adapter_form(const std::string& key, int64_t /*out*/, int64_t /*in*/) const {
  AdapterForm form{.rank = low_rank(key)};
  const auto w1 = tensors_.find(key + ".lokr_w1");
  if (w1 != tensors_.end()) {
    form.kind = AdapterKind::LOKR;
    form.w1_rows = w1->second.dim(0);
    form.w1_columns = w1->second.dim(1);
    form.whole_w2 = tensors_.contains(key + ".lokr_w2");
  } else if (tensors_.contains(key + ".hada_w1_b")) {
    form.kind = AdapterKind::LOHA;
  } else if (tensors_.contains(key + ".lora_magnitude_vector")) {
    form.kind = AdapterKind::DORA;
  }
  return form;
}

}  // namespace kinema::nn
