#include "kinema/graph/ops/all_ops.h"

#include <vector>

namespace kinema {

std::span<const Op* const> all_ops() {
  static const std::vector<const Op*> kAllOps = [] {
    std::vector<const Op*> ops;
    for (const auto family :
         {leaf_ops(), elementwise_ops(), compare_ops(), reshape_ops(), slice_ops(),
          concatenate_ops(), gather_ops(), reduce_ops(), dot_ops(), convolution_ops(),
          annotate_ops(), composed_ops(), sort_ops(), collective_ops()}) {
      ops.insert(ops.end(), family.begin(), family.end());
    }
    return ops;
  }();
  return kAllOps;
}

}  // namespace kinema
