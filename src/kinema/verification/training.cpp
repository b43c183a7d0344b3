// Training steps of networks, of adapters and of two experts.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/open.h"
#include "kinema/sample/experts.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/training/experts.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/controlnets.h"
#include "kinema/verification/network.h"
#include "kinema/verification/training_case.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

using runtime::Array;

/// Steps of a case on one state, with one program per number of samples; they train a model, or an
/// adapter with the case's rank.
class Training {
 public:
  Training(const Run& run, const std::filesystem::path& model, const nn::ModelOptions& how,
           bool has_factors)
      : network(is_controlled(run.c)
                    ? controlled_network(run.c)
                    : networks::from_config(io::Json::read(model / "config.json"))),
        options(how),
        run_(run) {
    const io::Json& about = run.c.about();
    if (has_factors) {
      adapter = {.rank = about.at("rank").as_int(), .alpha = about.at("alpha").as_number()};
      if (is_evaluated(run.c)) {
        adapter->use_rslora = about.at("use_rslora").as_bool();
      }
      adapter->modules =
          weights::adapter_modules(network->parameters(how), targets_of(run.c), adapter->rank);
      if (about.contains("adapter_type")) {
        const std::map<std::string, nn::AdapterKind> kinds{{"lora", nn::AdapterKind::LORA},
                                                           {"dora", nn::AdapterKind::DORA},
                                                           {"loha", nn::AdapterKind::LOHA},
                                                           {"lokr", nn::AdapterKind::LOKR}};
        adapter->modules.kind = kinds.at(about.at("adapter_type").as_string());
      }
      options.low_ranks = adapter->modules;
    }
    specs = network->parameters(options);
    if (adapter) {
      weights::freeze_base(specs, *adapter);
    } else {
      freeze_others(run.c, specs);
      networks::freeze_controlled(specs);
    }
    const std::vector<nn::ParamSpec> kept = training::state_specs(specs);
    const runtime::Devices devices(run.session.client);
    std::vector<Array> start = adapter ? weights::load_adapted(model, training_adapter(run.c), {},
                                                               /*seed=*/0, kept, devices)
                               : is_controlled(run.c) ? new_control(run.c, kept, devices)
                                                      : weights::load(model, kept, devices);
    for (size_t i = 0; i < kept.size(); ++i) {
      if (adapter && kept[i].trained) {
        start[i] = devices.upload(factor_of(run.c, kept[i]));
      }
    }
    trained = training::trained_specs(kept);
    step_ = step_options(run.c, network.sizes());
    state_ = training::fresh_state(std::move(start), kept, /*ema=*/false, run.session.client);
  }

  networks::Network network;
  nn::ModelOptions options;
  std::vector<nn::ParamSpec> specs;
  std::vector<nn::ParamSpec> trained;  // in the state's dtypes
  std::optional<weights::AdapterConfig> adapter;

  training::StateView state() const { return {specs, state_}; }
  GivenStep given(int64_t i) const { return read_step(run_.c, i, network.sizes()); }

  /// Step `number` on the given batch.
  training::StepResult step(int64_t number, const GivenStep& given, bool learns = true) {
    const double learning_rate = run_.about("optimizer").at("learning_rate").as_number();
    std::unique_ptr<training::Trainer>& trainer = trainers_[given.batch.latents.shape.dims[0]];
    if (trainer == nullptr) {
      trainer = std::make_unique<training::Trainer>(
          run_.session.client, specs, training::network_model(network, options),
          shapes_of(given.batch), step_, training::State(),
          training::TrainerOptions{.program = run_.program()});
    }
    trainer->set_state(std::move(state_));
    const training::StepResult out =
        trainer->run(number, learns ? learning_rate : 0.0, given.batch, given.draw);
    state_ = trainer->take_state();
    return out;
  }

  /// Compares gradients of a first step, `PREFIXgrad.PATH`: from moments of zero, Adam's first ones
  /// are 1 - b1 times the clipped gradients.
  void add_first_gradients(const std::string& prefix, const training::StepResult& first) const {
    const optimizers::AdamWOptions& adam = step_.adamw;
    const double clip = adam.max_norm ? std::max(1.0, first.gradient_norm / *adam.max_norm) : 1.0;
    add_arrays(prefix + "grad.", state_.mu, static_cast<float>(clip / (1.0 - adam.b1)));
  }
  /// Compares `PREFIXparam.PATH`, `PREFIXmu.PATH`, `PREFIXnu.PATH`.
  void add_state(const std::string& prefix) const {
    add_arrays(prefix + "param.", state_.trained);
    add_arrays(prefix + "mu.", state_.mu);
    add_arrays(prefix + "nu.", state_.nu);
  }

 private:
  /// Adds rows for trained parameters, each times `factor`, if the case has them.
  void add_arrays(const std::string& prefix, std::span<const Array> arrays,
                  float factor = 1.0F) const {
    for (size_t i = 0; i < trained.size(); ++i) {
      for (const auto& [key, value] : unstack(trained[i], arrays[i].to_host())) {
        run_.add_known(prefix + without_control_prefix(key),
                       factor == 1.0F ? value : scaled(value, factor));
      }
    }
  }

  const Run& run_;
  training::StepOptions step_;
  training::State state_;
  std::map<int64_t, std::unique_ptr<training::Trainer>> trainers_;
};

/// The loss and the gradients' norm by step.
struct Curves {
  std::vector<float> losses;
  std::vector<float> norms;

  const training::StepResult& add(const training::StepResult& result) {
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
    return result;
  }
};

/// Copies of a network's arrays for a program, in the dtypes of its specs.
std::vector<pjrt::Buffer> copies(const Run& run, std::span<const nn::ParamSpec> specs,
                                 std::span<const Array* const> arrays) {
  std::vector<pjrt::Buffer> out;
  for (size_t i = 0; i < arrays.size(); ++i) {
    out.push_back(
        run.session.client.to_device(convert(arrays[i]->to_host(), specs[i].shape.dtype)));
  }
  return out;
}

/// Compares the factors' gradients `PREFIXPATH` on step i's batch, by name; first the loss, if
/// `loss` names it.
void add_factor_gradients(const Run& run, const Training& what, int64_t i,
                          const std::string& prefix, const std::string& loss = "") {
  NetworkGraph graph(run, what.network, what.options, what.specs,
                     copies(run, what.specs, what.state().params()));
  const FlowLoss step = graph.flow_loss(fmt::format("step{}.", i));
  std::vector<Tensor> factors;
  for (size_t p = 0; p < graph.params.size(); ++p) {
    if (what.specs[p].trained) {
      factors.push_back(graph.params[p]);
    }
  }
  graph.output("loss", step.loss);
  graph.outputs(prefix, training::trained_specs(what.specs), gradients(step.loss, factors));
  Values values = graph.run();
  if (!loss.empty()) {
    run.add(loss, values.front().second);
  }
  values.erase(values.begin());
  std::ranges::sort(values, {}, &Values::value_type::first);
  run.add_known(values);
}

/// Compares the network's `eval.output`s with the adapter applied, without it, and merged: the
/// trained factors are saved like a run's, then loaded and merged like generate's; also
/// `merged.PATH`.
void add_evaluations(const Run& run, const Training& what) {
  const training::StateView state = what.state();
  const std::vector<nn::ParamSpec> base = what.network->parameters(run.options);
  const auto add = [&](const char* tensor, const nn::ModelOptions& options,
                       std::span<const nn::ParamSpec> specs, std::span<const Array* const> arrays) {
    NetworkGraph graph(run, what.network, options, specs, copies(run, specs, arrays));
    run.add(tensor, graph.predicted("eval."));
  };
  const std::vector<const Array*> params = state.params();
  std::vector<const Array*> network;
  for (size_t p = 0; p < params.size(); ++p) {
    if (!what.specs[p].is_low_rank()) {
      network.push_back(params[p]);
    }
  }
  add("eval.output.unmerged", what.options, what.specs, params);
  add("eval.output.base", run.options, base, network);

  const io::TemporaryFolder scratch("verify");
  weights::save_adapter(scratch.path(), *what.adapter, what.trained,
                        [&](size_t i) { return state.parts.trained[i].to_host(); });
  const std::vector<weights::Adapter> file{
      {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(scratch.path()))}};
  const std::vector<Array> merged =
      weights::load(run.c.model(), base, runtime::Devices(run.session.client), file);
  add("eval.output.merged", run.options, base, training::pointers_to<Array>(merged));
  for (size_t i = 0; i < base.size(); ++i) {
    for (const auto& [key, value] : unstack(base[i], merged[i].to_host())) {
      run.add_known("merged." + key, value);
    }
  }
}

/// Compares the loss and the output on batch 0 of the trained factors on the model as published,
/// without the training adapter: `loss_without_adapter`, `output_without_adapter`.
void add_without_adapter(const Run& run, const Training& what) {
  const std::vector<nn::ParamSpec> base = what.network->parameters(run.options);
  const std::vector<Array> published =
      weights::load(run.c.model(), base, runtime::Devices(run.session.client));
  const std::vector<const Array*> trained = what.state().params();
  std::vector<const Array*> params;
  size_t of_base = 0;
  for (size_t p = 0; p < what.specs.size(); ++p) {
    params.push_back(what.specs[p].is_low_rank() ? trained[p] : &published.at(of_base++));
  }
  NetworkGraph graph(run, what.network, what.options, what.specs, copies(run, what.specs, params));
  const Tensor prediction = graph.prediction(graph.given("step0."));
  graph.output("loss_without_adapter", mean(square(prediction - graph.input("step0.target"))));
  graph.output("output_without_adapter", -prediction);
  run.add(graph.run());
}

/// The samples of a video's step that belong to the expert; nothing if there are none.
std::optional<GivenStep> part_of_expert(GivenStep step, int64_t expert, double boundary) {
  const HostArray timesteps = step.draw[1];
  const auto reduce = [&](HostArray& array) {
    std::vector<HostArray> samples;
    for (int64_t i = 0; i < timesteps.shape.elements(); ++i) {
      if (training::expert_at(timesteps.as<float>()[i], boundary) == expert) {
        samples.push_back(part_of(array, i));
      }
    }
    array = samples.empty() ? HostArray() : joined(samples);
  };
  reduce(step.batch.latents);
  reduce(step.batch.encoder_hidden_states);
  std::ranges::for_each(step.draw, reduce);
  return step.batch.latents.bytes.empty() ? std::nullopt : std::optional(std::move(step));
}

/// In a case with outputs after training an adapter, these are compared and gradients are computed
/// directly; else gradients follow from Adam's moments.
void train(const Run& run, bool has_factors) {
  Training training(run, run.c.model(), run.options, has_factors);
  const bool computed = has_factors && is_evaluated(run.c);
  if (computed) {
    add_factor_gradients(run, training, 0, "grad.");
  }
  Curves curves;
  const int64_t steps = run.tensor("loss").shape.elements();
  for (int64_t i = 0; i < steps; ++i) {
    if (computed && i + 1 == steps) {
      add_factor_gradients(run, training, i, "grad_last.");
    }
    const training::StepResult result = curves.add(training.step(i, training.given(i)));
    if (!computed && i == 0) {
      training.add_first_gradients("", result);
    }
  }
  run.add("loss", numbers(curves.losses));
  run.add("grad_norm", numbers(curves.norms));
  training.add_state("");
  if (run.has("loss_after")) {
    const training::StepResult after = training.step(steps, training.given(0), /*learns=*/false);
    run.add("loss_after", numbers({static_cast<float>(after.loss)}));
  }
  if (run.has("loss_without_adapter")) {
    add_without_adapter(run, training);
  }
  if (computed) {
    add_evaluations(run, training);
  }
}

void train_network(const Run& run) {
  // If a gradient is nearly zero, its rounding determines the sign of a whole Adam step.
  const double learning_rate = run.about("optimizer").at("learning_rate").as_number();
  train(run.with(LimitTable{{"param.*", {.absolute = 2.0 * learning_rate, .rms = 1e-4}}}),
        /*has_factors=*/false);
}

void train_adapter(const Run& run) {
  for (const Run& form : run.forms()) {
    train(form, /*has_factors=*/true);
  }
  if (run.has("bf16.loss")) {  // step 1 in bfloat16 arithmetic
    const Training narrow(run, run.c.model(), in_bf16(run.options), /*has_factors=*/true);
    add_factor_gradients(run, narrow, 0, "bf16.grad.", "bf16.loss");
  }
}

void train_by_rank(const Run& run) { train(run, run.c.about().contains("rank")); }

void train_experts(const Run& run) {
  constexpr std::array kPrefixes{"high.", "low."};
  const double boundary = run.about("boundary_timestep").as_number();
  // The expert of each timestep, by the rules of training and of sampling.
  const sample::Experts sampled(run.session.client, sample::read_pipeline_folder(run.path("model")),
                                {});
  const HostArray timesteps = run.tensor("timesteps");
  run.add("expert", mapped(timesteps, [&](double t) { return training::expert_at(t, boundary); }));
  run.with(LimitTable{{"expert (sampling)", kExact}})
      .add("expert (sampling)", mapped(timesteps, [&](double t) { return sampled.at_timestep(t); }),
           run.tensor("expert"));
  std::vector<Training> experts;
  for (const std::string& folder : strings(run.about("models"))) {
    experts.emplace_back(run, run.c.folder() / folder, run.options, /*has_factors=*/false);
  }
  std::vector<float> losses;
  Curves each;
  for (int64_t i = 0; i < run.tensor("loss").shape.elements(); ++i) {
    const GivenStep whole = experts.at(0).given(i);
    double loss = 0;
    for (size_t expert = 0; expert < experts.size(); ++expert) {
      const auto part = part_of_expert(whole, static_cast<int64_t>(expert), boundary);
      training::StepResult result;  // nothing without samples: the expert is not trained
      if (part) {
        result = experts[expert].step(i, *part);
        loss += result.loss * static_cast<double>(part->draw[1].shape.elements()) /
                static_cast<double>(whole.draw[1].shape.elements());
      }
      if (part && i == 0) {
        experts[expert].add_first_gradients(kPrefixes.at(expert), result);
      }
      each.add(result);
    }
    losses.push_back(static_cast<float>(loss));
  }
  run.add("loss", numbers(losses));
  run.add("expert_loss", numbers(each.losses));
  run.add("expert_grad_norm", numbers(each.norms));
  for (size_t expert = 0; expert < experts.size(); ++expert) {
    experts[expert].add_state(kPrefixes.at(expert));
  }
}

}  // namespace

std::vector<Kind> training_kinds() {
  using enum Kind::Forms;
  return {
      {"train train_weighted vace_train vace_train_all",
       train_network,
       EACH,
       {{"loss", kScalar}, {"grad_norm", kScalar}, {"mu.*", kThousandth}, {"nu.*", kThousandth}}},
      {"flux_train flux_train_weighted flux_lora_train sdxl_train sdxl_lora_train sdxl_train_snr "
       "vace_lora_train flux_kontext_lora_train sdxl_controlnet_train zimage_train "
       "zimage_train_weighted zimage_lora_train zimage_adapter_lora_train",
       train_by_rank, EACH},
      // bfloat16 arithmetic: several times the differences in the case's `bf16`.
      {"lora_train lora_train_bf16_base",
       train_adapter,
       ONE,
       {{"bf16.grad.*", {.of_largest = 1.0, .rms_of_rms = 0.1}}}},
      {"experts", train_experts, ONE, {}, Limits::Which::FIRST},
  };
}

}  // namespace kinema::verification
