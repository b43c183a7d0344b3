// A program of someone else against the installed library: a gradient as StableHLO.
#include <cstdio>

#include "config/config.h"
#include "graph/autodiff.h"
#include "graph/emit.h"
#include "graph/graph.h"
#include "graph/ops.h"

int main() {
  using namespace kinema;
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 3}}, "x");
  const Tensor loss = sum(x * x);
  const std::string text = emit(graph, gradients(loss, std::vector<Tensor>{x}));
  const config::Config defaults;
  std::printf("%s\n%s\n", text.c_str(), defaults.model.model_name.c_str());
  return text.find("stablehlo") == std::string::npos ? 1 : 0;
}
