#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

/// Shared by the tests of the interpreters.
namespace kinema::interpreter {

/// `text` with every `from` replaced by `to`; fails if there is none.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  for (; at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// A change that makes a text wrong, and how that shows.
struct Damage {
  const char* name;
  const char* from;
  const char* to;
  /// Part of the error; empty: the text runs, but with wrong numbers.
  const char* error = "";
};

/// Changes one character of the text; place and kind depend on the seed.
inline std::string with_one_mark_changed(std::string text, int seed) {
  constexpr std::string_view kMarks = "0189%(){}<>[],:=-#xfi\"";
  RandomStream random(random_key(static_cast<uint64_t>(seed), "texts"));
  const auto below = [&](size_t limit) {
    return static_cast<size_t>(std::abs(random.normal()) * 1e6F) % limit;
  };
  const size_t at = below(text.size());
  text[at] = kMarks[below(kMarks.size())];
  return text;
}

/// softmax(scale q k^T) v and its log-sum-exp over the first `keys` keys, in f64; q [n, s, d], k
/// and v [n, t, d] f32.
struct Attention {
  HostArray y, lse;
};
inline Attention attention(const HostArray& q, const HostArray& k, const HostArray& v, double scale,
                           int64_t keys) {
  const int64_t n = q.shape.dims[0], s = q.shape.dims[1], d = q.shape.dims[2];
  const int64_t t = k.shape.dims[1];
  Attention out{HostArray(q.shape), HostArray({DType::F32, {n, 1, s}})};
  for (int64_t row = 0; row < n * s; ++row) {
    const int64_t first = row / s * t;  // key
    std::vector<double> weights(static_cast<size_t>(keys));
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t i = 0; i < d; ++i) {
        score += static_cast<double>(q.as<float>()[static_cast<size_t>(row * d + i)]) *
                 k.as<float>()[static_cast<size_t>((first + j) * d + i)];
      }
      sum += weights[static_cast<size_t>(j)] = std::exp(scale * score);
    }
    for (int64_t i = 0; i < d; ++i) {
      double y = 0;
      for (int64_t j = 0; j < keys; ++j) {
        y += weights[static_cast<size_t>(j)] / sum *
             v.as<float>()[static_cast<size_t>((first + j) * d + i)];
      }
      out.y.as<float>()[static_cast<size_t>(row * d + i)] = static_cast<float>(y);
    }
    out.lse.as<float>()[static_cast<size_t>(row)] = static_cast<float>(std::log(sum));
  }
  return out;
}

}  // namespace kinema::interpreter
