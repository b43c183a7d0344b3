#include "kinema/model_source/quantization.h"

#include <map>

#include "kinema/core/error.h"
#include "kinema/core/pattern.h"

namespace kinema::model_source {
namespace {

/// Calls `read`, and adds the key's name to its errors.
template <typename Read>
auto of_key(const char* key, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail("[config] {}: {}", key, error.what());
  }
}

}  // namespace

nn::Quantization quantization_options(const config::ModelConfig& keys) {
  using Mode = nn::Quantization::Mode;
  if (!keys.use_qwix_quantization) {
    return {};
  }
  static const std::map<std::string_view, Mode> modes{
      {"int8", Mode::INT8}, {"fp8", Mode::FP8}, {"fp8_full", Mode::FP8_FULL}};
  const auto mode = modes.find(keys.quantization);
  check(mode != modes.end(),
        "[config] use_qwix_quantization is true and quantization empty\n  set quantization=int8, "
        "fp8 or fp8_full");
  nn::Quantization out{.mode = mode->second,
                       .module_path = keys.qwix_module_path,
                       .original_residuals = keys.qwix_use_original_residuals};
  of_key("qwix_module_path", [&] { return Pattern(keys.qwix_module_path); });
  if (out.mode == Mode::FP8_FULL) {
    // Other modes do not use these.
    const auto read = [](const char* key, const std::string& text) {
      return of_key(key, [&] { return nn::calibration(text); });
    };
    out.weight =
        read("weight_quantization_calibration_method", keys.weight_quantization_calibration_method);
    out.activation =
        read("act_quantization_calibration_method", keys.act_quantization_calibration_method);
    out.gradient =
        read("bwd_quantization_calibration_method", keys.bwd_quantization_calibration_method);
  }
  return out;
}

std::optional<DType> weights_storage(config::WeightsStorage given) {
  switch (given) {
    case config::WeightsStorage::INT8:
      return DType::S8;
    case config::WeightsStorage::FLOAT8_E4M3FN:
      return DType::F8E4M3FN;
    case config::WeightsStorage::FLOATS:
      break;
  }
  return std::nullopt;
}

}  // namespace kinema::model_source
