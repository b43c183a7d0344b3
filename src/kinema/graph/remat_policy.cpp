#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"

namespace kinema {

RematPolicy remat_policy(const std::string& name, std::vector<std::string> saved,
                         std::vector<std::string> offloaded) {
  using Kind = RematPolicy::Kind;
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  if (upper == "NONE") {
    return {};
  }
  if (upper == "FULL") {
    return {.kind = Kind::FULL};
  }
  if (upper == "MATMUL_WITHOUT_BATCH") {
    return {.kind = Kind::MATMUL_WITHOUT_BATCH};
  }
  if (upper == "FLUX_OPTIMIZED") {
    return {.kind = Kind::FLUX_OPTIMIZED};
  }
  if (upper == "OFFLOAD_MATMUL_WITHOUT_BATCH") {
    return {.kind = Kind::MATMUL_WITHOUT_BATCH, .offload = true};
  }
  if (upper == "HIDDEN_STATE_WITH_OFFLOAD") {
    return {.kind = Kind::CUSTOM, .offloaded = {"hidden_states", "self_attn", "cross_attn"}};
  }
  if (upper == "CUSTOM") {
    return {.kind = Kind::CUSTOM, .saved = std::move(saved), .offloaded = std::move(offloaded)};
  }
  fail(
      "[remat] the policy `{}` is not known\n  use NONE, FULL, MATMUL_WITHOUT_BATCH, "
      "OFFLOAD_MATMUL_WITHOUT_BATCH, HIDDEN_STATE_WITH_OFFLOAD, FLUX_OPTIMIZED or CUSTOM",
      name);
}

}  // namespace kinema
