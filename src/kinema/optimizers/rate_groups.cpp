#include "kinema/optimizers/rate_groups.h"

#include <fnmatch.h>

#include "kinema/core/error.h"

namespace kinema::optimizers {

std::vector<RateFactors> rate_factors(std::span<const nn::ParamSpec> trained,
                                      std::span<const RateGroup> groups) {
  if (groups.empty()) {
    return {};
  }
  std::vector<bool> used(groups.size());
  const auto factor_of = [&](const std::string& name) {
    for (size_t i = 0; i < groups.size(); ++i) {
      if (fnmatch(groups[i].pattern.c_str(), name.c_str(), 0) == 0) {
        used[i] = true;
        return groups[i].factor;
      }
    }
    return 1.0;
  };
  std::vector<RateFactors> out;
  for (const nn::ParamSpec& spec : trained) {
    RateFactors& factors = out.emplace_back();
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      factors.push_back(factor_of(spec.key(layer)));
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    check(used[i],
          "[config] learning_rate_groups: `{}` matches no trained parameter that an earlier group "
          "does not match\n  names are such as {} and {}",
          groups[i].pattern, trained.front().key(0), trained.back().key(0));
  }
  return out;
}

}  // namespace kinema::optimizers
