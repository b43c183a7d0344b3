#include "kinema/networks/inner_model.h"

#include "kinema/model_files/checkpoint.h"

namespace kinema::networks {

bool is_controlnet(std::string_view part) {
  constexpr std::string_view kNumbered = "controlnet_";
  return part == kControlNet ||
         (part.starts_with(kNumbered) && part.size() > kNumbered.size() &&
          part.find_first_not_of("0123456789", kNumbered.size()) == std::string_view::npos);
}

std::string_view inner_part(std::string_view parameter) {
  const std::string_view first = parameter.substr(0, parameter.find('.'));
  const bool is_inner = first.size() < parameter.size() &&
                        (first == model_files::kTextEncoder ||
                         first == model_files::kTextEncoder2 || is_controlnet(first));
  return is_inner ? first : std::string_view();
}

std::vector<ModelSpecs> by_model(std::span<const nn::ParamSpec> specs) {
  std::vector<ModelSpecs> out{{.part = "", .specs = {}}};
  for (const nn::ParamSpec& spec : specs) {
    const std::string_view part = inner_part(spec.name);
    if (out.back().part != part) {
      out.push_back({.part = std::string(part), .specs = {}});
    }
    out.back().specs.push_back(spec);
    if (!part.empty()) {
      out.back().specs.back().name.erase(0, part.size() + 1);
    }
  }
  return out;
}

}  // namespace kinema::networks
