#pragma once

#include <vector>

#include "graph/gradient_check.h"

namespace kinema {

/// One or more cases for every op that has a gradient, by family.
std::vector<GradientCase> elementwise_cases();
std::vector<GradientCase> shape_cases();
std::vector<GradientCase> reduction_cases();
std::vector<GradientCase> product_cases();
std::vector<GradientCase> annotation_cases();
std::vector<GradientCase> composed_cases();
std::vector<GradientCase> second_order_cases();

}  // namespace kinema
