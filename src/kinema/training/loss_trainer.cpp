#include "kinema/training/loss_trainer.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/weights/weights.h"

namespace kinema::training {
namespace {

std::vector<Tensor> add_inputs(Graph& graph, std::span<const Shape> shapes) {
  std::vector<Tensor> out;
  for (const Shape& shape : shapes) {
    out.push_back(graph.input(shape));
  }
  return out;
}

std::vector<nn::ParamSpec> find_parameters(const LossBuilder& builder) {
  nn::SpecCollector collector([](const std::string&) { return DType::F32; });
  builder(nn::Params(collector, ""));
  return collector.take();
}

}  // namespace

LossTrainer::LossTrainer(const pjrt::Client& client, std::vector<Shape> inputs,
                         const LossBuilder& builder, const optimizers::AdamWOptions& optimizer,
                         uint64_t seed)
    : client_(client), specs_(find_parameters(builder)) {
  Graph graph;
  optimizers::AdamWState state;
  for (std::vector<Tensor>* part : {&state.params, &state.mu, &state.nu}) {
    for (const nn::ParamSpec& spec : specs_) {
      part->push_back(graph.input(spec.shape, spec.name));
    }
  }
  state.count = graph.input({DType::S32, {}}, "count");
  const std::vector<Tensor> given = add_inputs(graph, inputs);
  const Tensor rate = graph.input({DType::F32, {}}, "learning_rate");

  nn::Binder binder(specs_, state.params);
  const LossTerms terms = builder(nn::Params(binder, ""))(given);
  check(terms.loss.shape() == Shape{DType::F32, {}}, "[train] the loss is {}, expected {}",
        to_string(terms.loss.shape()), to_string(Shape{DType::F32, {}}));
  const std::vector<Tensor> d = gradients(terms.loss, state.params);
  const Tensor norm =
      sqrt(optimizers::total(optimizers::gradient_sizes(specs_, d, optimizer.max_value).squares));
  const optimizers::AdamWState next = optimizers::adamw(state, specs_, d, norm, rate, optimizer);

  std::vector<Tensor> outputs = next.params;
  outputs.insert(outputs.end(), next.mu.begin(), next.mu.end());
  outputs.insert(outputs.end(), next.nu.begin(), next.nu.end());
  outputs.push_back(next.count);
  runtime::ProgramOptions options{.name = "step"};
  for (size_t i = 0; i < outputs.size(); ++i) {
    options.emit.donate[i] = i;  // the new state takes over the memory of the old one
  }
  outputs.push_back(terms.loss);
  outputs.insert(outputs.end(), terms.metrics.begin(), terms.metrics.end());
  program_ = runtime::Program::compile(client, graph, outputs, options);

  state_ = weights::initialise(specs_, seed, client_);
  const size_t count = 3 * specs_.size() + 1;
  for (const Tensor zero : graph.inputs().subspan(specs_.size(), count - specs_.size())) {
    state_.push_back(client.to_device(HostArray(zero.shape())));
  }
}

std::vector<float> LossTrainer::step(std::span<const pjrt::Buffer* const> inputs,
                                     float learning_rate) {
  HostArray rate(Shape{DType::F32, {}});
  rate.as<float>()[0] = learning_rate;
  const pjrt::Buffer on_device = client_.to_device(rate);
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& each : state_) {
    arguments.push_back(&each);
  }
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  arguments.push_back(&on_device);
  std::vector<pjrt::Buffer> results = program_->run(arguments);
  std::vector<float> out;
  for (size_t i = state_.size(); i < results.size(); ++i) {
    out.push_back(results[i].to_host().as<float>()[0]);
  }
  results.erase(results.begin() + std::ssize(state_), results.end());
  state_ = std::move(results);
  return out;
}

std::vector<HostArray> LossTrainer::parameters() const {
  std::vector<HostArray> out;
  for (size_t i = 0; i < specs_.size(); ++i) {
    out.push_back(state_[i].to_host());
  }
  return out;
}

}  // namespace kinema::training
