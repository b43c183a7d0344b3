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
  const auto rows = static_cast<int64_t>(init.row_offsets.size());
  const bool fits = dims.size() == 1 ? dims[0] % std::max<int64_t>(rows, 1) == 0
                                     : dims.size() >= 2 && rows == dims[dims.size() - 2];
  check(fits, "[init] `{}` is {} but {} row offsets are given", key, to_string(dims), rows);
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
    case Init::Kind::TRUNCATED_NORMAL:
      std::ranges::generate(values, [&] {
        constexpr float kLargest = 2.0F;
        float value = random.normal();
        while (std::abs(value) > kLargest) {
          value = random.normal();
        }
        return static_cast<float>(init.scale) * value;
      });
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
    const auto width = dims.size() == 1 ? values.size() / init.row_offsets.size()
                                        : static_cast<size_t>(dims.back());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(init.row_offsets[i / width % init.row_offsets.size()]);
    }
  }
}

}  // namespace kinema::nn
