// A network of one's own: three layers that learn which of two spirals a point lies on, from the
// parts that kinema's own models are made of.
#include <cmath>
#include <cstdio>

#include "kinema/core/threefry.h"
#include "kinema/graph/autodiff.h"
#include "kinema/nn/linear.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"
#include "kinema/training/adamw.h"
#include "kinema/weights/weights.h"

namespace {

using namespace kinema;

/// Points x [n, 2] of two spirals, and which one each is on: +1 or -1 [n, 1].
struct Spirals {
  HostArray x, side;

  explicit Spirals(int64_t n) : x({DType::F32, {n, 2}}), side({DType::F32, {n, 1}}) {
    RandomStream random(random_key(0, "spirals"));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const float sign = i % 2 == 0 ? 1.0F : -1.0F;
      const float r = 0.1F + random.uniform();
      x.as<float>()[2 * i] = sign * r * std::cos(5.0F * r);
      x.as<float>()[2 * i + 1] = sign * r * std::sin(5.0F * r);
      side.as<float>()[i] = sign;
    }
  }
};

/// A layer opens its parameters when it is made, and computes when it is called.
class Network {
 public:
  explicit Network(const nn::Params& params)
      : first_(params / "first", 2, kWidth, {}),
        second_(params / "second", kWidth, kWidth, {}),
        last_(params / "last", kWidth, 1, {}) {}

  /// Points [n, 2] -> scores [n, 1], above zero on the first spiral.
  Tensor operator()(Tensor x) const {
    const Tensor h = silu(first_(x, Precision::DEFAULT));
    return last_(silu(second_(h, Precision::DEFAULT)), Precision::DEFAULT);
  }

 private:
  static constexpr int64_t kWidth = 32;
  nn::Linear first_, second_, last_;
};

/// The shapes and first values of the parameters, by their names: "first.weight", "first.bias", ...
std::vector<nn::ParamSpec> parameters() {
  nn::SpecCollector collector([](const std::string&) { return DType::F32; });
  const Network network(nn::Params(collector, ""));
  return collector.take();
}

/// Waits for a program's scalar.
float value(const pjrt::Buffer& scalar) { return scalar.to_host().as<float>()[0]; }

}  // namespace

int main() {
  const Spirals data(400);
  const std::vector<nn::ParamSpec> specs = parameters();
  const size_t kept = 3 * specs.size() + 1;  // tensors of the state

  // A step takes parameters, AdamW's two moments of each, and how many updates there were, then the
  // data; it gives the same state after the update, then loss and accuracy.
  Graph graph;
  training::AdamWState state;
  for (auto* part : {&state.params, &state.mu, &state.nu}) {
    for (const nn::ParamSpec& spec : specs) part->push_back(graph.input(spec.shape, spec.name));
  }
  state.count = graph.input({DType::S32, {}}, "count");
  const Tensor x = graph.input(data.x.shape, "x");
  const Tensor side = graph.input(data.side.shape, "side");

  nn::Binder binder(specs, state.params);
  const Tensor margin = Network(nn::Params(binder, ""))(x) * side;
  // mean log(1 + exp(-margin)), without overflow
  const Tensor loss = mean(log(1.0 + exp(-abs(margin))) - minimum(margin, 0.0));
  const Tensor accuracy = mean(convert(compare(margin, Comparison::GT, 0.0), DType::F32));
  const std::vector<Tensor> d = gradients(loss, state.params);
  const Tensor norm = sqrt(training::total(training::gradient_sizes(specs, d).squares));
  const Tensor rate = constant(graph, 0.01, {DType::F32, {}});
  const training::AdamWState next = training::adamw(state, specs, d, norm, rate, {});

  std::vector<Tensor> outputs = next.params;
  outputs.insert(outputs.end(), next.mu.begin(), next.mu.end());
  outputs.insert(outputs.end(), next.nu.begin(), next.nu.end());
  outputs.insert(outputs.end(), {next.count, loss, accuracy});

  // The new state takes over the memory of the old one.
  runtime::ProgramOptions options{.name = "step"};
  for (size_t i = 0; i < kept; ++i) options.emit.donate[i] = i;
  pjrt::Client client = runtime::open_client({.hardware = "cpu"});
  const auto step = runtime::Program::compile(client, graph, outputs, options);

  std::vector<pjrt::Buffer> buffers = weights::initialise(specs, /*seed=*/0, client);
  for (const Tensor zero : graph.inputs().subspan(specs.size(), kept - specs.size())) {
    buffers.push_back(client.to_device(HostArray(zero.shape())));
  }
  const pjrt::Buffer points = client.to_device(data.x);
  const pjrt::Buffer sides = client.to_device(data.side);
  for (int i = 1; i <= 400; ++i) {
    std::vector<const pjrt::Buffer*> arguments;
    for (size_t k = 0; k < kept; ++k) arguments.push_back(&buffers[k]);
    arguments.insert(arguments.end(), {&points, &sides});
    buffers = step.run(arguments);
    if (i % 100 == 0) {
      std::printf("step %d: loss %.4f, accuracy %.3f\n", i, value(buffers[kept]),
                  value(buffers.back()));
    }
  }
  return value(buffers.back()) > 0.98F ? 0 : 1;
}
