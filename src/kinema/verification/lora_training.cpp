#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "kinema/graph/autodiff.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/networks/open.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/flow.h"
#include "kinema/verification/forward.h"
#include "kinema/verification/session.h"
#include "kinema/verification/steps.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

constexpr Limit kOfLargest{.of_largest = 1e-3};
constexpr Limit kForward{.absolute = kForwardAbsolute, .relative = kForwardRelative};
constexpr Limit kMerged{.absolute = 1e-5};
// Of bfloat16 arithmetic: what the case's `bf16` says of it, several times over.
constexpr Limit kScalarBf16{.relative = 1e-2};
constexpr double kGradientRmsBf16 = 0.1;  // of the gradient's own

weights::AdapterConfig adapter_of(const Case& c, std::span<const nn::ParamSpec> plain) {
  const io::Json& about = c.about();
  weights::AdapterConfig out{.rank = about.at("rank").as_int(),
                             .alpha = about.at("alpha").as_number(),
                             .use_rslora = about.at("use_rslora").as_bool()};
  std::vector<std::string> targets;
  for (const io::Json& each : about.at("targets").items()) {
    targets.push_back(each.as_string());
  }
  out.modules = weights::adapter_modules(plain, targets, out.rank);
  return out;
}

/// A network with the case's adapter on it.
struct Adapted {
  networks::Network network;
  nn::ModelOptions options;
  weights::AdapterConfig config;
  std::vector<nn::ParamSpec> specs;

  Adapted(const Case& c, const nn::ModelOptions& plain)
      : network(networks::open(c.model())),
        options(plain),
        config(adapter_of(c, network->parameters(plain))) {
    options.low_ranks = config.modules;
    specs = network->parameters(options);
    weights::train_alone(specs, config);
  }
};

/// Tensors `prefixPATH` of a case, layers stacked as the spec has them.
HostArray stacked(const Case& c, const std::string& prefix, const nn::ParamSpec& spec) {
  HostArray out(spec.shape);
  auto at = out.bytes.begin();
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    const HostArray one = convert(c.tensor(prefix + spec.key(layer)), spec.shape.dtype);
    at = std::ranges::copy(one.bytes, at).out;
  }
  return out;
}

/// The network as it is, with the factors of the case under `prefix`.
std::vector<runtime::Array> parameters(const Case& c, const std::string& prefix,
                                       const Adapted& adapted, Session& session) {
  const runtime::Devices devices(session.client());
  const std::vector<nn::ParamSpec> kept = training::state_specs(adapted.specs);
  std::vector<runtime::Array> out =
      weights::load_adapted(c.model(), {}, {}, /*seed=*/0, kept, devices);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].trained) {
      out[i] = devices.upload(stacked(c, prefix, kept[i]));
    }
  }
  return out;
}

/// Loss and gradients of the factors at `params`, on step `i`'s batch.
std::map<std::string, HostArray> loss_and_gradients(const Case& c, int64_t i,
                                                    const Adapted& adapted,
                                                    std::span<const runtime::Array* const> params,
                                                    Session& session) {
  const StepData data(c, i);
  Graph graph;
  const std::vector<Tensor> tensors = parameter_inputs(graph, adapted.specs);
  std::vector<Tensor> in;
  std::vector<HostArray> given;
  for (const char* name : {"latents", "noise", "timestep", "encoder_hidden_states"}) {
    given.push_back(data[name]);
    in.push_back(graph.input(given.back().shape, name));
  }
  training::ObjectiveOptions objective;
  objective.flow.sigma_min = sigma_min_of(data["timestep"], data["sigma"]);
  const training::FlowBatch flow = training::flow_batch(in[0], in[1], in[2], objective);
  const Tensor prediction = training::network_model(adapted.network, adapted.options)(
      tensors, {.noisy = flow.noisy, .timestep = in[2], .text = in[3]});
  const Tensor loss = training::flow_loss(prediction, flow, {});
  std::vector<Tensor> trained;
  std::vector<nn::ParamSpec> specs;
  for (size_t p = 0; p < tensors.size(); ++p) {
    if (adapted.specs[p].trained) {
      trained.push_back(tensors[p]);
      specs.push_back(adapted.specs[p]);
    }
  }
  std::vector<Tensor> outputs = gradients(loss, trained);
  outputs.push_back(loss);
  std::vector<pjrt::Buffer> buffers;
  for (size_t p = 0; p < params.size(); ++p) {
    buffers.push_back(
        session.client().to_device(convert(params[p]->to_host(), adapted.specs[p].shape.dtype)));
  }
  for (const HostArray& array : given) {
    buffers.push_back(session.client().to_device(array));
  }
  const auto results =
      session.program(graph, outputs, "lora_gradients").run(std::span<const pjrt::Buffer>(buffers));
  std::map<std::string, HostArray> out{{"loss", results.back().to_host()}};
  for (size_t p = 0; p < specs.size(); ++p) {
    for (auto& [key, value] : unstack(specs[p], results[p].to_host())) {
      out.emplace(key, std::move(value));
    }
  }
  return out;
}

void add_gradients(std::vector<Row>& rows, const Case& c, const std::string& name,
                   const std::string& prefix, const std::map<std::string, HostArray>& found,
                   const std::function<Limit(const HostArray& expected)>& limit) {
  for (const auto& [key, value] : found) {
    if (c.has(prefix + key) && key != "loss") {
      const HostArray expected = c.tensor(prefix + key);
      rows.push_back(compare(name, prefix + key, value, expected, limit(expected)));
    }
  }
}

double root_mean_square(const HostArray& values) {
  double sum = 0;
  for (const float x : values.as<float>()) {
    sum += static_cast<double>(x) * x;
  }
  return std::sqrt(sum / static_cast<double>(std::max<int64_t>(values.shape.elements(), 1)));
}

/// The parameters' tensors of a state or of arrays, in the network's order.
std::vector<const runtime::Array*> pointers(std::span<const runtime::Array> arrays) {
  return training::pointers_to<runtime::Array>(arrays);
}

/// The output with factors apart, merged, and without: `eval.output.*`.
void add_outputs(std::vector<Row>& rows, const Case& c, const std::string& name,
                 const Adapted& adapted, std::span<const runtime::Array* const> params,
                 Session& session) {
  const auto run = [&](const nn::ModelOptions& options, std::span<const nn::ParamSpec> specs,
                       std::span<const runtime::Array* const> arrays) {
    Graph graph;
    const std::vector<Tensor> tensors = parameter_inputs(graph, specs);
    std::vector<pjrt::Buffer> buffers;
    for (size_t p = 0; p < arrays.size(); ++p) {
      buffers.push_back(
          session.client().to_device(convert(arrays[p]->to_host(), specs[p].shape.dtype)));
    }
    networks::Inputs in;
    for (const auto& [key, to] :
         {std::pair{"eval.hidden_states", &in.latents}, std::pair{"eval.timestep", &in.timestep},
          std::pair{"eval.encoder_hidden_states", &in.text}}) {
      const HostArray value = c.tensor(key);
      *to = graph.input(value.shape, key);
      buffers.push_back(session.client().to_device(value));
    }
    const std::vector<Tensor> outputs{adapted.network->forward(tensors, options, in).prediction};
    return session.program(graph, outputs, "lora_eval")
        .run(std::span<const pjrt::Buffer>(buffers))[0]
        .to_host();
  };
  nn::ModelOptions plain = adapted.options;
  plain.low_ranks = {};
  const std::vector<nn::ParamSpec> base = adapted.network->parameters(plain);
  std::vector<const runtime::Array*> network;
  for (size_t p = 0; p < params.size(); ++p) {
    if (!adapted.specs[p].is_low_rank()) {
      network.push_back(params[p]);
    }
  }
  const auto add = [&](const char* tensor, const HostArray& value) {
    rows.push_back(compare(name, tensor, value, c.tensor(tensor), kForward));
  };
  add("eval.output.unmerged", run(adapted.options, adapted.specs, params));
  add("eval.output.base", run(plain, base, network));
}

/// Writes the trained factors as a run does, reads the file as generate does and merges it.
void add_merged(std::vector<Row>& rows, const Case& c, const std::string& name,
                const Adapted& adapted, const training::StateView& state, Session& session) {
  const io::TemporaryFolder scratch("kinema-verify");
  std::vector<nn::ParamSpec> factors = training::trained_of(training::state_specs(state.specs));
  weights::save_adapter(scratch.path(), adapted.config, factors,
                        [&](size_t i) { return state.parts.trained[i].to_host(); });
  const std::vector<weights::Adapter> file{
      {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(scratch.path()))}};
  nn::ModelOptions plain = adapted.options;
  plain.low_ranks = {};
  const std::vector<nn::ParamSpec> base = adapted.network->parameters(plain);
  ForwardInputs inputs{.hidden_states = c.tensor("eval.hidden_states"),
                       .timestep = c.tensor("eval.timestep"),
                       .encoder_hidden_states = c.tensor("eval.encoder_hidden_states")};
  const auto found = run_forward(c.model(), inputs, {}, plain, session, file);
  rows.push_back(compare(name, "eval.output.merged", found.at("output"),
                         c.tensor("eval.output.merged"), kForward));
  const std::vector<runtime::Array> merged =
      weights::load(c.model(), base, runtime::Devices(session.client()), file);
  for (size_t i = 0; i < base.size(); ++i) {
    for (const auto& [key, value] : unstack(base[i], merged[i].to_host())) {
      if (c.has("merged." + key)) {
        rows.push_back(compare(name, "merged." + key, value, c.tensor("merged." + key), kMerged));
      }
    }
  }
}

std::vector<Row> rows_of(const Case& c, const Session::Form& form, Session& session) {
  const std::string name = c.name() + form.suffix;
  const double learning_rate = c.about().at("optimizer").at("learning_rate").as_number();
  const Adapted adapted(c, form.options);
  std::vector<Row> rows;
  const std::vector<runtime::Array> start = parameters(c, "lora.", adapted, session);
  const auto of_largest = [](const HostArray&) { return kOfLargest; };
  add_gradients(rows, c, name, "grad.", loss_and_gradients(c, 0, adapted, pointers(start), session),
                of_largest);

  training::StepOptions step{.adamw = adamw_of(c.about().at("optimizer")), .given_draw = true};
  const StepData first(c, 0);
  step.objective.flow.sigma_min = sigma_min_of(first["timestep"], first["sigma"]);
  const training::BatchShapes shapes{.latents = first["latents"].shape,
                                     .text = first["encoder_hidden_states"].shape};
  const std::vector<nn::ParamSpec> kept = training::state_specs(adapted.specs);
  training::Trainer trainer(session.client(), adapted.specs,
                            training::network_model(adapted.network, adapted.options), shapes, step,
                            training::fresh_state(parameters(c, "lora.", adapted, session), kept,
                                                  /*ema=*/false, session.client()),
                            {.program = session.program_options()});
  run_steps(rows, c, name, learning_rate, trainer, [&](int64_t i, bool last) {
    if (last) {
      add_gradients(rows, c, name, "grad_last.",
                    loss_and_gradients(c, i, adapted, trainer.state().params(), session),
                    of_largest);
    }
  });
  const training::StateView state = trainer.state();
  const std::vector<nn::ParamSpec> trained = training::trained_of(kept);
  add_state(rows, c, name, "param.", trained,
            training::pointers_to<runtime::Array>(state.parts.trained), after_adam(learning_rate));
  add_state(rows, c, name, "mu.", trained, training::pointers_to<runtime::Array>(state.parts.mu),
            kOfLargest);
  add_state(rows, c, name, "nu.", trained, training::pointers_to<runtime::Array>(state.parts.nu),
            kOfLargest);
  add_outputs(rows, c, name, adapted, state.params(), session);
  add_merged(rows, c, name, adapted, state, session);
  return rows;
}

/// Step 1 in bfloat16 arithmetic.
std::vector<Row> bf16_rows(const Case& c, nn::ModelOptions options, Session& session) {
  options.weights_dtype = DType::BF16;
  options.activations_dtype = DType::BF16;
  const Adapted adapted(c, options);
  const std::vector<runtime::Array> start = parameters(c, "lora.", adapted, session);
  const auto found = loss_and_gradients(c, 0, adapted, pointers(start), session);
  std::vector<Row> rows;
  const HostArray expected = c.tensor("bf16.loss");
  rows.push_back(compare(c.name(), "bf16.loss", found.at("loss"), expected, kScalarBf16));
  add_gradients(rows, c, c.name(), "bf16.grad.", found, [](const HostArray& reference) {
    return Limit{.of_largest = 1.0, .rms = kGradientRmsBf16 * root_mean_square(reference)};
  });
  return rows;
}

}  // namespace

std::vector<Row> lora_training_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    std::ranges::move(rows_of(c, form, session), std::back_inserter(rows));
  }
  if (c.has("bf16.loss")) {
    std::ranges::move(bf16_rows(c, session.model_options(), session), std::back_inserter(rows));
  }
  return rows;
}

std::vector<Row> lora_format_rows(const Case& c, Session& session) {
  const ForwardInputs inputs = ForwardInputs::of(c);
  std::vector<Row> rows;
  for (const io::Json& each : c.about().at("files").items()) {
    const std::string name = each.as_string();
    for (const bool applied : {false, true}) {
      const std::string label = c.name() + " " + name + (applied ? " (applied)" : "");
      try {
        const auto path = c.folder() / "lora" / (name + ".safetensors");
        const std::vector<weights::Adapter> file{
            {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(path))}};
        nn::ModelOptions options = session.model_options();
        if (applied) {
          options.low_ranks =
              weights::low_ranks(file, networks::open(c.model())->parameters(options));
        }
        const auto found = run_forward(c.model(), inputs, {}, options, session, file);
        rows.push_back(compare(label, "output", found.at("output"), c.tensor("output"), kForward));
      } catch (const Error& error) {
        rows.push_back(failed(label, "output", error.what()));
      }
    }
  }
  return rows;
}

}  // namespace kinema::verification
