#include "kinema/serve/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kinema::serve {
namespace {

/// A number of the request, else of the model's defaults.
double number_of(const Model& model, const MakeRequest& request, const char* key,
                 double otherwise) {
  for (const io::Json* json : {&request.settings, &model.defaults}) {
    const io::Json* value = json->find(key);
    if (value != nullptr &&
        (value->kind() == io::Json::Kind::Integer || value->kind() == io::Json::Kind::Number)) {
      return value->as_number();
    }
  }
  return otherwise;
}

int64_t integer_of(const Model& model, const MakeRequest& request, const char* key) {
  constexpr double kMost = 1e9;
  return static_cast<int64_t>(std::clamp(number_of(model, request, key, 1), 1.0, kMost));
}

}  // namespace

std::string shape_of(const Model& model, const MakeRequest& request) {
  const bool has_true_scale = model.defaults.contains("true_cfg_scale");
  const double scale =
      number_of(model, request, has_true_scale ? "true_cfg_scale" : "guidance_scale", 1);
  return fmt::format(
      "{}x{}x{}{}", integer_of(model, request, "width"), integer_of(model, request, "height"),
      model.is_video ? integer_of(model, request, "num_frames") : 1, scale > 1 ? ", guided" : "");
}

double cells_of(const Model& model, const MakeRequest& request) {
  return static_cast<double>(integer_of(model, request, "width")) *
         static_cast<double>(integer_of(model, request, "height")) *
         static_cast<double>(model.is_video ? integer_of(model, request, "num_frames") : 1);
}

int64_t steps_of(const Model& model, const MakeRequest& request) {
  return integer_of(model, request, "num_inference_steps");
}

Estimate estimate(Store& store, const Model& model, const MakeRequest& request, bool is_loaded) {
  const std::vector<Measurement> known = store.measurements(model.name);
  if (known.empty()) {
    return {};
  }
  const std::string shape = shape_of(model, request);
  const double cells = cells_of(model, request);
  const bool is_guided = shape.ends_with("guided");
  // The same shape, else the same kind of steps, else the nearest number of pixels.
  const auto distance = [&](const Measurement& each) {
    const bool is_same_kind = each.shape.ends_with("guided") == is_guided;
    return (each.shape == shape ? 0.0 : 1.0) + (is_same_kind ? 0.0 : 100.0) +
           std::abs(std::log(each.cells / cells));
  };
  const Measurement nearest = *std::ranges::min_element(known, {}, distance);
  Estimate out{.is_measured = nearest.shape == shape};
  const double scale = out.is_measured ? 1.0 : cells / nearest.cells;
  const double passes = nearest.shape.ends_with("guided") == is_guided ? 1.0
                        : is_guided                                    ? 2.0
                                                                       : 0.5;
  const double each =
      nearest.step_seconds * passes * static_cast<double>(steps_of(model, request)) +
      nearest.other_seconds;
  const bool is_ready = is_loaded && out.is_measured;
  out.seconds =
      scale * each * static_cast<double>(request.count) + (is_ready ? 0.0 : nearest.setup_seconds);
  if (nearest.bytes > 0) {
    const auto weights = static_cast<double>(std::min(model.bytes, nearest.bytes));
    out.bytes = std::llround(weights + scale * (static_cast<double>(nearest.bytes) - weights));
  }
  return out;
}

}  // namespace kinema::serve
