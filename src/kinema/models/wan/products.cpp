#include "kinema/models/wan/products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/core/pattern.h"

namespace kinema::wan {

std::string module_path(std::string_view key) {
  // Scanned layers have no number there; one that is not scanned has.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames{{
      {".{}.", "."},
      {".image_embedder.ff.net.0.proj", ".image_embedder.ff.net_0"},
      {".image_embedder.ff.net.2", ".image_embedder.ff.net_2"},
      {".to_q", ".query"},
      {".to_k", ".key"},
      {".to_v", ".value"},
      {".to_out.0", ".proj_attn"},
      {".ffn.net.0.proj", ".ffn.act_fn.proj"},
      {".ffn.net.2", ".ffn.proj_out"},
  }};
  std::string path(key);
  for (const auto& [ours, theirs] : kNames) {
    if (const size_t at = path.find(ours); at != std::string::npos) {
      path.replace(at, ours.size(), theirs);
    }
  }
  std::ranges::replace(path, '.', '/');
  return path;
}

nn::QuantizedProducts quantized_products(const nn::Quantization& quantization) {
  if (quantization.mode == nn::Quantization::Mode::NONE) {
    return {};
  }
  return [pattern = Pattern(quantization.module_path), product = quantization.product()](
             const std::string& key) -> std::optional<nn::QuantizedProduct> {
    return pattern.matches(module_path(key)) ? std::optional(product) : std::nullopt;
  };
}

void check_module_path(const nn::Quantization& quantization, std::span<const std::string> keys) {
  const nn::QuantizedProducts quantized = quantized_products(quantization);
  if (!quantized || keys.empty() || std::ranges::any_of(keys, [&](const std::string& key) {
        return quantized(key).has_value();
      })) {
    return;
  }
  const std::string nearest =
      module_path(*std::ranges::min_element(keys, {}, [&](const std::string& key) {
        return edit_distance(module_path(key), quantization.module_path);
      }));
  fail(
      "[quantization] no module's whole path matches `{}`\n"
      "  the nearest is `{}`; all are matched by `.*`, those of blocks by `blocks/.*`",
      quantization.module_path, nearest);
}

}  // namespace kinema::wan
