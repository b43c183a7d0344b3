// Linear regression: a graph, its gradient, and steps on the CPU.
//
//   y = x w + b,  loss = mean (y - target)^2,  w -= rate dloss/dw,  b -= rate dloss/db
#include <cstdio>

#include "kinema/core/threefry.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"

int main() {
  using namespace kinema;
  constexpr int64_t kPoints = 64;
  constexpr int kSteps = 200;
  constexpr double kRate = 0.1;

  // Points on the plane 2 x0 - 3 x1 + 0.5.
  HostArray points({DType::F32, {kPoints, 2}});
  HostArray targets({DType::F32, {kPoints, 1}});
  RandomStream random(random_key(0, "points"));
  for (size_t i = 0; i < kPoints; ++i) {
    float* x = &points.as<float>()[2 * i];
    x[0] = random.normal();
    x[1] = random.normal();
    targets.as<float>()[i] = 2.0F * x[0] - 3.0F * x[1] + 0.5F;
  }

  // One step as a graph. Nothing is computed yet: an op checks shapes and adds a node.
  Graph graph;
  const Tensor w = graph.input({DType::F32, {2, 1}}, "w");
  const Tensor b = graph.input({DType::F32, {1}}, "b");
  const Tensor x = graph.input(points.shape, "x");
  const Tensor target = graph.input(targets.shape, "target");
  const Tensor loss = mean(square(matmul(x, w) + b - target));
  const std::vector<Tensor> d = gradients(loss, std::vector{w, b});
  const std::vector<Tensor> outputs{w - kRate * d[0], b - kRate * d[1], loss};

  // The graph becomes StableHLO text, which the plugin compiles.
  const pjrt::Client client = runtime::open_client({.hardware = "cpu"});
  const auto step = runtime::Program::compile(client, graph, outputs, {.name = "step"});

  std::vector<HostArray> state{HostArray(w.shape()), HostArray(b.shape()), {}};  // w, b, loss
  for (int i = 0; i < kSteps; ++i) {
    state = step.run_on_host(std::vector{state[0], state[1], points, targets});
  }
  const auto weights = state[0].as<float>();
  const float last = state[2].as<float>()[0];
  std::printf("w = [%.3f, %.3f], b = %.3f, loss = %.1e\n", weights[0], weights[1],
              state[1].as<float>()[0], last);
  return last < 1e-6F ? 0 : 1;
}
