#include "kinema/kernels/gpu/generation.h"

#include <algorithm>
#include <array>
#include <string>

namespace kinema::kernels {
namespace {

// GH200 and GB200 contain the chip at the end of their names.
constexpr std::array<std::string_view, 4> kHopper{"h100", "h200", "h800", "h20"};
constexpr std::array<std::string_view, 3> kBlackwell{"b100", "b200", "b300"};

}  // namespace

Generation gpu_generation(std::string_view chip) {
  std::string name(chip);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return std::ranges::any_of(kHopper, has)      ? Generation::HOPPER
         : std::ranges::any_of(kBlackwell, has) ? Generation::BLACKWELL
                                                : Generation::AMPERE;
}

}  // namespace kinema::kernels
