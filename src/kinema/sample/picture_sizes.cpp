#include "kinema/sample/picture_sizes.h"

#include <vector>

namespace kinema::sample {

HostArray size_ids(const PictureSizes& sizes, int64_t height, int64_t width) {
  const std::array<int64_t, 2> made{height, width};
  std::vector<float> values;
  for (const std::array<int64_t, 2>& pair :
       {sizes.original.value_or(made), sizes.crop, sizes.target.value_or(made)}) {
    values.push_back(static_cast<float>(pair[0]));
    values.push_back(static_cast<float>(pair[1]));
  }
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

}  // namespace kinema::sample
