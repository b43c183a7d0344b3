#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/dense.h"
#include "kinema/nn/image_conv.h"
#include "kinema/nn/norm.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

using Layer = std::function<Tensor(Tensor x)>;

/// The layer of a name, with parameters of the sizes that the case has.
Layer layer_of(const std::string& name, const nn::Params& params, const Dims& kernel, Tensor x,
               Precision precision) {
  if (name == "linear") {
    const nn::Dense dense(params, kernel[0], kernel[1]);
    return [=](Tensor in) { return dense(in, precision); };
  }
  if (name == "block") {
    const nn::BlockDense dense(params, kernel[0] * kernel[1], kernel[0] * kernel[2], kernel[0]);
    return [=](Tensor in) { return dense(in, precision); };
  }
  if (name.starts_with("conv")) {
    using Resize = nn::ImageConv::Resize;
    const Resize resize = name == "conv"           ? Resize::NONE
                          : name == "conv_stride2" ? Resize::DOWN
                                                   : Resize::UP;
    const nn::ImageConv conv(params, kernel[2], kernel[3], kernel[0], resize);
    return [=](Tensor in) { return conv(in, precision); };
  }
  const nn::ScaleNorm norm(params, x.dim(-1), nn::ScaleNorm::from_string(name));
  return [=](Tensor in) { return norm(in); };
}

void add_layer(CaseGraph& graph, const std::string& name, Precision precision) {
  const Tensor x = graph.input(name + ".x");
  std::vector<Tensor> wrt{x};
  std::vector<std::string> names{name + ".dx"};
  nn::Binder binder;
  Dims kernel;
  for (const auto& [key, value] : graph.inputs(name + ".param.")) {
    binder.add(key, value);
    wrt.push_back(value);
    names.push_back(name + ".grad." + key);
    kernel = key == "kernel" ? value.shape().dims : kernel;
  }
  const Tensor y = layer_of(name, nn::Params(binder, ""), kernel, x, precision)(x);
  graph.output(name + ".y", y);
  const Tensor dy = reshape(graph.input(name + ".dy"), y.shape().dims);
  const std::vector<Tensor> grads = pull_back(std::vector<Tensor>{y}, std::vector<Tensor>{dy}, wrt);
  for (size_t i = 0; i < names.size(); ++i) {
    graph.output(names[i], grads[i]);
  }
}

void add_activations(CaseGraph& graph) {
  const Tensor x = graph.input("act.x");
  for (const char* name : {"silu", "gelu", "relu", "tanh", "sigmoid", "mish", "relu2", "swiglu"}) {
    const Tensor y = nn::activate(nn::activation_from_string(name), x);
    graph.output(std::string("act.") + name, y);
    graph.output(std::string("act.") + name + ".dx", gradients(sum(y), std::vector<Tensor>{x})[0]);
  }
}

void add_pooling(CaseGraph& graph) {
  const Tensor x = graph.input("pool.x");
  const Tensor y = nn::max_pool(x);
  graph.output("pool.y", y);
  graph.output("pool.dx",
               pull_back(std::vector<Tensor>{y}, std::vector<Tensor>{graph.input("pool.dy")},
                         std::vector<Tensor>{x})[0]);
}

/// The spaces that the case's text names: z float[3], a of 4 classes, m int[2] of 3 classes, b
/// float[2, 2].
void add_concatenation(CaseGraph& graph) {
  dreamer::Spaces spaces;
  for (const auto& [name, value] : graph.inputs("concat.")) {
    Dims shape = value.shape().dims;
    shape.erase(shape.begin());
    spaces.emplace_back(name, dreamer::Space{.dtype = value.dtype(),
                                             .shape = shape,
                                             .classes = name == "a"   ? 4
                                                        : name == "m" ? 3
                                                                      : 0});
  }
  graph.output("concat.y",
               dreamer::vector_of(spaces, graph.inputs("concat."), /*compress=*/true, DType::F32));
}

/// Rows for the fans that the case lists: how wide initial kernels are.
void add_fans(const Run& run) {
  const io::Json* initializers = given(run.c.about(), "initializers");
  for (const io::Json& entry :
       initializers != nullptr ? initializers->at("fans").items() : std::vector<io::Json>()) {
    const std::vector<int64_t> shape = entry.at("shape").as_ints();
    if (shape.size() < 2) {
      continue;  // no kernel
    }
    // trunc_normal_in: 1.1368 sqrt(1 / fan_in)
    const double deviation = nn::truncated_normal_in(shape).scale;
    const double fan = 1.1368 * 1.1368 / (deviation * deviation);
    run.add("fan_in " + to_string(shape), numbers({static_cast<float>(fan)}),
            numbers({static_cast<float>(entry.at("fan_in").as_number())}));
  }
}

}  // namespace

void dreamer_layer_cases(const Run& run) {
  CaseGraph graph(run);
  for (const auto& [name, what] : run.about("layers").members()) {
    if (run.has(name + ".x") && run.has(name + ".y") && name != "pool") {
      add_layer(graph, name, run.options.precision);
    }
  }
  add_activations(graph);
  graph.output("symlog.y", nn::symlog(graph.input("symlog.x")));
  graph.output("symexp.y", nn::symexp(graph.input("symexp.x")));
  add_pooling(graph);
  add_concatenation(graph);
  run.add_expected(graph.run());
  add_fans(run);
}

}  // namespace kinema::verification
