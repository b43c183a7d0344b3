#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "graph/evaluate.h"
#include "kinema/core/host_array.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"

namespace kinema {

/// F64 values in [low, high), determined by the seed.
inline HostArray random_f64(Dims dims, double low = -1.0, double high = 1.0, uint64_t seed = 0) {
  HostArray out(Shape{DType::F64, std::move(dims)});
  RandomStream stream(random_key(seed, "gradient_check"));
  for (double& value : out.as<double>()) {
    value = low + (high - low) * static_cast<double>(stream.uniform());
  }
  return out;
}

using TensorFunction = std::function<Tensor(std::span<const Tensor>)>;

struct GradientCase {
  std::string name;
  TensorFunction function;
  std::vector<HostArray> inputs;  // F64 ones are differentiated
};

/// A scalar to which every element of y contributes with another weight: sum_i y_i (1 + sin(1.7 i))
/// / 2.
inline Tensor weighted_sum(Tensor y) {
  const int64_t n = y.shape().elements();
  const Tensor line = iota(y.graph(), {DType::F64, {n}}, Axis(0));
  return sum(reshape(y, {n}) * (0.5 + 0.5 * sin(1.7 * line)));
}

/// The function's gradient as a function, for second-order tests.
inline TensorFunction gradient_of(TensorFunction function) {
  return [function](std::span<const Tensor> x) {
    std::vector<Tensor> wrt;
    for (const Tensor input : x) {
      if (input.dtype() == DType::F64) {
        wrt.push_back(input);
      }
    }
    Tensor total;
    for (const Tensor g : gradients(weighted_sum(function(x)), wrt)) {
      total = total ? total + weighted_sum(g) : weighted_sum(g);
    }
    return total;
  };
}

/// Compares reverse-mode gradients with central differences in F64, for every element of every F64
/// input.
///
/// All cases share one program, and their elements are varied at the same time, so a family of ops
/// costs one compile. With step h = 1e-5 the difference quotient has errors of h^2 f''' / 6 ~ 2e-11
/// f''' and of rounding 2^-53 |f| / h ~ 1e-11 |f|; the tests keep f and f''' below 1e3, so a limit
/// of 1e-7 of the larger of 1 and the gradient is safe, while a wrong rule has an error of its own
/// size. With a mesh, its devices share the work as the functions define.
inline void expect_gradients_match(const std::vector<GradientCase>& cases,
                                   const MeshAxes& mesh = {}) {
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-7;
  Graph graph;
  std::vector<HostArray> arrays;
  std::vector<Tensor> losses;
  std::vector<Tensor> grads;
  struct Operand {
    size_t test, input;  // indices among cases and among all inputs
  };
  std::vector<Operand> operands;
  for (size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE(cases[c].name);
    std::vector<Tensor> x;
    std::vector<Tensor> wrt;
    for (const HostArray& array : cases[c].inputs) {
      x.push_back(
          graph.input(array.shape, "", mesh.axes.empty() ? Sharding() : replicated(array.shape)));
      if (array.shape.dtype == DType::F64) {
        wrt.push_back(x.back());
        operands.push_back({c, arrays.size()});
      }
      arrays.push_back(array);
    }
    losses.push_back(weighted_sum(cases[c].function(x)));
    const std::vector<Tensor> found = gradients(losses.back(), wrt);
    grads.insert(grads.end(), found.begin(), found.end());
  }
  std::vector<Tensor> outputs = losses;
  outputs.insert(outputs.end(), grads.begin(), grads.end());
  const std::vector<HostArray> analytic = evaluate(graph, outputs, arrays, mesh);
  const HostProgram forward(graph, losses, mesh);

  // One operand per case at a time: `turn` is its index within the case.
  std::vector<size_t> turn(operands.size(), 0);
  size_t turns = 0;
  for (size_t i = 1; i < operands.size(); ++i) {
    turn[i] = operands[i].test == operands[i - 1].test ? turn[i - 1] + 1 : 0;
    turns = std::max(turns, turn[i]);
  }
  for (size_t t = 0; t <= turns; ++t) {
    size_t longest = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (turn[i] == t) {
        longest = std::max(longest, arrays[operands[i].input].as<double>().size());
      }
    }
    for (size_t element = 0; element < longest; ++element) {
      const auto moved = [&](double by) {
        std::vector<HostArray> at = arrays;
        for (size_t i = 0; i < operands.size(); ++i) {
          const auto values = at[operands[i].input].as<double>();
          if (turn[i] == t && element < values.size()) {
            values[element] += by;
          }
        }
        return forward(at);
      };
      const std::vector<HostArray> above = moved(kStep);
      const std::vector<HostArray> below = moved(-kStep);
      for (size_t i = 0; i < operands.size(); ++i) {
        const auto gradient = std::as_const(analytic[losses.size() + i]).as<double>();
        if (turn[i] != t || element >= gradient.size()) {
          continue;
        }
        const size_t c = operands[i].test;
        const double numeric =
            (above[c].as<double>()[0] - below[c].as<double>()[0]) / (2.0 * kStep);
        EXPECT_NEAR(gradient[element], numeric, kTolerance * std::max(1.0, std::abs(numeric)))
            << cases[c].name << ", operand " << t << ", element " << element;
      }
    }
  }
}

inline void expect_gradient_matches(TensorFunction function, std::vector<HostArray> inputs) {
  expect_gradients_match({{"", std::move(function), std::move(inputs)}});
}

}  // namespace kinema
