#include "kinema/sample/parameters_text.h"

#include <fmt/format.h>

#include <string_view>

#include "kinema/schedulers/samplers.h"

namespace kinema::sample {
namespace {

std::string_view levels_name(const schedulers::ScheduleConfig& schedule) {
  switch (schedule.levels.spread) {
    case schedulers::Spread::KARRAS:
      return "Karras";
    case schedulers::Spread::EXPONENTIAL:
      return "Exponential";
    case schedulers::Spread::BETA:
      return "Beta";
    default:
      return "";
  }
}

/// A value with commas or colons is quoted, as there.
std::string quoted(const std::string& value) {
  if (value.find_first_of(",:\n\"") == std::string::npos) {
    return value;
  }
  std::string out = "\"";
  for (const char c : value) {
    out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c == '\n' ? ' ' : c);
  }
  return out + "\"";
}

}  // namespace

std::string parameters_text(const GenerateRequest& request, const Generated& generated,
                            const GeneratedVideo& video, const std::string& model,
                            const std::string& version) {
  std::string out = video.prompt;
  if (request.negative_prompt && !request.negative_prompt->empty()) {
    out += "\nNegative prompt: " + *request.negative_prompt;
  }
  out += fmt::format("\nSteps: {}, Sampler: {}", request.num_inference_steps,
                     schedulers::webui_name(generated.schedule));
  if (const std::string_view levels = levels_name(generated.schedule); !levels.empty()) {
    out += fmt::format(", Schedule type: {}", levels);
  }
  out += fmt::format(", CFG scale: {:g}, Seed: {}, Size: {}x{}", request.guidance_scale,
                     request.seed, generated.sizes.width, generated.sizes.height);
  if (!model.empty()) {
    out += ", Model: " + quoted(model);
  }
  return out + ", Version: " + quoted("kinema " + version);
}

}  // namespace kinema::sample
