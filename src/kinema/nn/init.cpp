#include "kinema/nn/init.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::nn {
namespace {

double xavier_bound(const Dims& dims, double gain) {
  const auto out = static_cast<double>(dims.empty() ? 1 : dims[0]);
  const auto all = static_cast<double>(checked_elements(dims));
  return gain * std::sqrt(6.0 / (all / out + out));
}

}  // namespace

void check_row_offsets(const Init& init, const Dims& dims, std::string_view key) {
  check(dims.size() >= 2 && static_cast<int64_t>(init.row_offsets.size()) == dims[dims.size() - 2],
        "[init] `{}` is {} but {} row offsets are given", key, to_string(dims),
        init.row_offsets.size());
}

void initial_values(const Init& init, const Dims& dims, std::string_view key, uint64_t seed,
                    std::span<float> values) {
  check(static_cast<int64_t>(values.size()) == checked_elements(dims),
        "[init] `{}` is {} but {} values are to be filled", key, to_string(dims), values.size());
  RandomStream random(random_key(seed, key));
  switch (init.kind) {
    case Init::Kind::ZEROS:
      std::ranges::fill(values, 0.0F);
      break;
    case Init::Kind::CONSTANT:
      std::ranges::fill(values, static_cast<float>(init.scale));
      break;
    case Init::Kind::NORMAL:
      std::ranges::generate(values,
                            [&] { return static_cast<float>(init.scale) * random.normal(); });
      break;
    case Init::Kind::UNIFORM:
    case Init::Kind::XAVIER_UNIFORM: {
      const double bound =
          init.kind == Init::Kind::UNIFORM ? init.scale : xavier_bound(dims, init.scale);
      std::ranges::generate(
          values, [&] { return static_cast<float>(bound * (2.0 * random.uniform() - 1.0)); });
      break;
    }
  }
  if (!init.row_offsets.empty()) {
    check_row_offsets(init, dims, key);
    const auto width = static_cast<size_t>(dims.back());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(init.row_offsets[i / width % init.row_offsets.size()]);
    }
  }
}

}  // namespace kinema::nn
