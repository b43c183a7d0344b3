#include "kinema/nn/quantized_modules.h"

#include <algorithm>
#include <memory>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/core/pattern.h"

namespace kinema::nn {

QuantizedProducts quantized_products(const Quantization& quantization, ModulePath path) {
  if (quantization.mode == Quantization::Mode::NONE) {
    return {};
  }
  return [pattern = Pattern(quantization.module_path), product = quantization.product(), path,
          budget = std::make_shared<PatternBudget>()](
             const std::string& key) -> std::optional<QuantizedProduct> {
    return pattern.matches(path(key), *budget) ? std::optional(product) : std::nullopt;
  };
}

void check_module_path(const Quantization& quantization, std::span<const std::string> keys,
                       ModulePath path) {
  const QuantizedProducts quantized = quantized_products(quantization, path);
  if (!quantized || keys.empty() || std::ranges::any_of(keys, [&](const std::string& key) {
        return quantized(key).has_value();
      })) {
    return;
  }
  const std::string nearest = path(*std::ranges::min_element(keys, {}, [&](const std::string& key) {
    return edit_distance(path(key), quantization.module_path);
  }));
  fail(
      "[quantization] no module's whole path matches `{}`\n"
      "  {} is `{}`; all are matched by `.*`, those of blocks by `{}.*`",
      quantization.module_path,
      is_near(quantization.module_path, nearest) ? "the nearest" : "an existing one", nearest,
      nearest.substr(0, nearest.find('/') + 1));
}

std::string plain_module_path(std::string_view key) {
  std::string path(key);
  for (size_t at = path.find(".{}"); at != std::string::npos; at = path.find(".{}")) {
    path.erase(at, 3);
  }
  std::ranges::replace(path, '.', '/');
  return path;
}

}  // namespace kinema::nn
