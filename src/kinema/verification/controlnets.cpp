// ControlNets with the UNet that they are attached to: predictions, gradients and training.
#include "kinema/verification/controlnets.h"

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/inner_model.h"
#include "kinema/networks/open.h"
#include "kinema/verification/network.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kControl = "controlnet.";

NetworkGraph graph_of(const Run& run) {
  const networks::Network network = controlled_network(run.c);
  const std::vector<nn::ParamSpec> specs = network->parameters(run.options);
  std::vector<pjrt::Buffer> values;
  const std::vector<networks::ModelSpecs> models = networks::by_model(specs);
  const std::vector<fs::path> folders = controlled_folders(run.c);
  for (size_t i = 0; i < models.size(); ++i) {
    std::ranges::move(weights::load(folders.at(i), models[i].specs, run.session.client),
                      std::back_inserter(values));
  }
  return {run, network, run.options, specs, std::move(values)};
}

/// Names of the ControlNet's values in the case; the UNet's have others.
std::string case_name(const std::string& tap) {
  constexpr std::string_view kStart = "control0.";
  if (tap == "mid") {
    return "tap.unet_mid";
  }
  if (!tap.starts_with(kStart)) {
    return {};
  }
  const std::string name = tap.substr(kStart.size());
  return name.find("_residual") != std::string::npos ? name : "tap." + name;
}

void predict_controlled(const Run& run) {
  NetworkGraph graph = graph_of(run);
  NetworkInputs inputs = graph.given();
  inputs.inputs.tap = [&](const std::string& tap, Tensor value) {
    if (const std::string name = case_name(tap); !name.empty() && run.has(name)) {
      graph.output(name, value);
    }
  };
  graph.output("output", graph.prediction(inputs));
  const Values values = graph.run();
  run.add("output", value_of(values, "output"));
  for (const char* prefix : {"down_residual", "mid_residual"}) {
    run.add_all(prefix, values, failed("", "", "the model offers no such value"));
  }
  run.add_all("tap.", values, run.fails());
}

void differentiate_control(const Run& run) {
  NetworkGraph graph = graph_of(run);
  const Tensor prediction = graph.prediction(graph.given());
  const Tensor loss = mean(square(prediction - graph.input("target")));
  std::vector<Tensor> control;
  std::vector<nn::ParamSpec> specs;
  for (size_t i = 0; i < graph.specs.size(); ++i) {
    if (graph.specs[i].name.starts_with(kControl)) {
      control.push_back(graph.params[i]);
      specs.push_back(graph.specs[i]);
      specs.back().name = specs.back().name.substr(kControl.size());
    }
  }
  const std::vector<Tensor> grads = gradients(loss, control);
  Tensor squares = sum(square(grads.at(0)));
  for (size_t i = 1; i < grads.size(); ++i) {
    squares = squares + sum(square(grads[i]));
  }
  graph.output("loss", loss);
  graph.output("grad_norm", sqrt(squares));
  graph.outputs("grad.", specs, grads);
  const Values values = graph.run();
  run.add("loss", value_of(values, "loss"));
  run.add("grad_norm", value_of(values, "grad_norm"));
  run.add_all("grad.", values, failed("", "", "the model has no such parameter"));
}

}  // namespace

std::vector<fs::path> controlled_folders(const Case& c) {
  return {c.folder() / c.about().at("unet").as_string(), c.model()};
}

networks::Network controlled_network(const Case& c) {
  const std::vector<fs::path> folders = controlled_folders(c);
  networks::AttachedControl control{.network = networks::open_control(folders[1])};
  if (const io::Json* types = given(c.about(), "types")) {  // of a union ControlNet
    control.types = types->as_ints();
  }
  return networks::controlled(networks::open(folders[0]), {std::move(control)});
}

std::vector<Kind> controlnet_kinds() {
  using enum Kind::Forms;
  return {
      {"sdxl_controlnet sdxl_controlnet_guess sdxl_controlnet_union*", predict_controlled, EACH},
      {"sdxl_controlnet_grad", differentiate_control, EACH}};
}

}  // namespace kinema::verification
