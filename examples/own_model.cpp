// A network of one's own: three layers that learn which of two spirals a point lies on, from the
// parts that kinema's own models are made of.
#include <cmath>
#include <cstdio>

#include "kinema/core/threefry.h"
#include "kinema/graph/ops.h"
#include "kinema/nn/linear.h"
#include "kinema/runtime/client.h"
#include "kinema/training/loss_trainer.h"

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

/// Mean log(1 + exp(-margin)), without overflow, and the share of points on the right side.
training::LossTerms terms(const Network& network, Tensor x, Tensor side) {
  const Tensor margin = network(x) * side;
  return {.loss = mean(log(1.0 + exp(-abs(margin))) - minimum(margin, 0.0)),
          .metrics = {mean(convert(compare(margin, Comparison::GT, 0.0), DType::F32))}};
}

}  // namespace

int main() {
  const Spirals data(400);
  const pjrt::Client client = runtime::open_client({.hardware = "cpu"});
  training::LossTrainer trainer(
      client, {data.x.shape, data.side.shape}, [](const nn::Params& params) {
        return [network = Network(params)](std::span<const Tensor> inputs) {
          return terms(network, inputs[0], inputs[1]);
        };
      });
  const pjrt::Buffer points = client.to_device(data.x);
  const pjrt::Buffer sides = client.to_device(data.side);
  float accuracy = 0;
  for (int i = 1; i <= 400; ++i) {
    const std::vector<float> values = trainer.step(std::vector{&points, &sides}, 0.01F);
    accuracy = values[1];
    if (i % 100 == 0) std::printf("step %d: loss %.4f, accuracy %.3f\n", i, values[0], accuracy);
  }
  return accuracy > 0.98F ? 0 : 1;
}
