#include "kinema/verification/network.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/networks/open.h"
#include "kinema/training/network_model.h"
#include "kinema/weights/folder.h"

namespace kinema::verification {
namespace {

constexpr double kTimesteps = 1000.0;

/// 1 + the maximum of a column of positions [s, 3].
int64_t extent(const HostArray& ids, size_t column) {
  const HostArray wide = convert(ids, DType::F64);
  double largest = 0.0;
  const auto values = wide.as<double>();
  for (size_t i = column; i < values.size(); i += 3) {
    largest = std::max(largest, values[i]);
  }
  return static_cast<int64_t>(std::lround(largest)) + 1;
}

/// Text states [b, t, d] with zeros behind each sample's length.
Tensor kept_rows(Tensor text, Tensor lengths) {
  const Dims rows{text.dim(0), text.dim(1)};
  const Tensor is_token =
      compare(iota(text.graph(), {lengths.dtype(), rows}, Axis(1)), Comparison::LT,
              broadcast_to(reshape(lengths, {rows[0], 1}), rows));
  return text * convert(reshape(is_token, {rows[0], rows[1], 1}), text.dtype());
}

/// The network of the files, by its configuration alone: those that no command takes are compared
/// too.
networks::Network network_of(const model_files::Checkpoint& files) {
  const bool is_plain =
      files.config().is_object() && !model_files::is_original_config(files.config());
  return is_plain ? networks::from_config(files.config()) : networks::from_shapes(files);
}

/// The case's `scale`, one for all pictures or one for each.
Tensor control_scale(Graph& graph, const Case& c, int64_t pictures) {
  std::vector<float> values(static_cast<size_t>(pictures), 1.0F);
  if (const io::Json* scale = given(c.about(), "scale")) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] =
          static_cast<float>((scale->is_array() ? scale->items().at(i) : *scale).as_number());
    }
  }
  return constant_f32(graph, {pictures}, values);
}

/// Rays of pictures [b, 6, 4 (f - 1) + 1, h, w] as channels of latent frames [b, 24, f, h, w]: the
/// first picture four times, then groups of four.
Tensor grouped_rays(Tensor rays) {
  constexpr int64_t kGroup = 4;
  const Tensor first = slice(rays, Axis(2), 0, 1);
  const Tensor all = concatenate({first, first, first, rays}, Axis(2));
  const int64_t b = all.dim(0);
  const int64_t f = all.dim(2) / kGroup;
  const Tensor groups = transpose(reshape(all, {b, all.dim(1), f, kGroup, all.dim(3), all.dim(4)}),
                                  {0, 1, 3, 2, 4, 5});
  return reshape(groups, {b, all.dim(1) * kGroup, f, all.dim(3), all.dim(4)});
}

}  // namespace

nn::ModelOptions in_bf16(nn::ModelOptions options) {
  options.weights_dtype = DType::BF16;
  options.activations_dtype = DType::BF16;
  return options;
}

NetworkGraph::NetworkGraph(const Run& run, networks::Network which, const nn::ModelOptions& how,
                           std::span<const nn::ParamSpec> of, std::vector<pjrt::Buffer> values)
    : CaseGraph(run),
      network(std::move(which)),
      options(how),
      specs(of.begin(), of.end()),
      params(parameters(specs, std::move(values))) {}

NetworkGraph::NetworkGraph(const Run& run, const networks::Network& which,
                           const nn::ModelOptions& how, const model_files::Checkpoint& files,
                           std::span<const weights::Adapter> adapters)
    : CaseGraph(run), network(which), options(how), specs(network->parameters(options)) {
  weights::check_tensors(files, specs);
  params = parameters(specs, files, adapters);
}

NetworkGraph::NetworkGraph(const Run& run, const nn::ModelOptions& how,
                           const model_files::Checkpoint& files)
    : NetworkGraph(run, network_of(files), how, files) {}

NetworkInputs NetworkGraph::given(const std::string& prefix, bool all) {
  const Case& c = run_.c;
  const networks::Sizes& sizes = network.sizes();
  NetworkInputs out;
  const auto take = [&](const std::string& name) {
    const HostArray value = c.tensor(all || c.has(prefix + name) ? prefix + name : name);
    out.named.emplace_back(name, input(value, name));
    return out.named.back().second;
  };
  if (c.has(prefix + "cap_feats") || c.has("cap_feats")) {
    out.inputs.latents = expand_dims(take("x"), Axis(2));
    out.inputs.timestep = (1.0 - take("t")) * kTimesteps;
    out.inputs.text = kept_rows(take("cap_feats"), take("cap_lengths"));
    out.negated = true;
    return out;
  }
  const bool packed = sizes.makes_images && c.has("img_ids");
  if (packed) {
    const HostArray ids = c.tensor("img_ids");
    check(ids.shape.rank() == 2 && ids.shape.dims[1] == 3,
          "[verify] img_ids is {} but must be [s, 3]", to_string(ids.shape));
    out.rows = extent(ids, 1);
    out.columns = extent(ids, 2);
    const int64_t h = sizes.patch_size[1];
    const int64_t w = sizes.patch_size[2];
    const Tensor tokens = take("hidden_states");
    const Dims split{tokens.dim(0), out.rows, out.columns, sizes.in_channels, h, w};
    out.inputs.latents =
        reshape(transpose(reshape(tokens, split), {0, 3, 1, 4, 2, 5}),
                {tokens.dim(0), sizes.in_channels, 1, out.rows * h, out.columns * w});
    out.inputs.timestep = take("timestep") * kTimesteps;
  } else {
    out.inputs.latents =
        sizes.makes_images ? expand_dims(take("sample"), Axis(2)) : take("hidden_states");
    out.inputs.timestep = take("timestep");
  }
  out.inputs.text = take("encoder_hidden_states");
  if (!sizes.makes_images && c.has(prefix + "encoder_hidden_states_image")) {
    const Tensor images = take("encoder_hidden_states_image");  // [images of a video b, n, d]
    const Dims& d = images.shape().dims;
    const int64_t b = out.inputs.latents.dim(0);
    out.inputs.image = d[0] == b ? images : reshape(images, {b, d[0] / b * d[1], d[2]});
  }
  if (networks::find_entry(sizes.named, networks::Entry::PICTURES) != nullptr) {
    out.inputs.control = expand_dims(take("controlnet_cond"), Axis(2));
    out.inputs.control_scale = control_scale(graph(), c, sizes.control_layers);
    const io::Json* guess = kinema::verification::given(c.about(), "guess_mode");
    out.inputs.guess_mode = guess != nullptr && guess->as_bool();
  } else if (networks::find_entry(sizes.named, networks::Entry::BRANCH) != nullptr) {
    out.inputs.control = take("control_hidden_states");
    if (c.has(prefix + "control_hidden_states_scale")) {
      out.inputs.control_scale = take("control_hidden_states_scale");
    }
  }
  if (networks::find_entry(sizes.named, networks::Entry::FRONT) != nullptr) {
    out.inputs.reference = expand_dims(take("full_ref"), Axis(2));
  }
  if (networks::find_entry(sizes.named, networks::Entry::FACES) != nullptr) {
    out.inputs.poses = take("pose_hidden_states");
    out.inputs.faces = take("face_pixel_values");
  }
  if (networks::find_entry(sizes.named, networks::Entry::CAMERA) != nullptr) {
    out.inputs.camera = grouped_rays(take("rays"));
  }
  if (sizes.pooled_dim > 0) {
    out.inputs.pooled = take(packed ? "pooled_projections" : "text_embeds");
  }
  if (sizes.size_ids > 0) {
    out.inputs.size_ids = take("time_ids");
  }
  if (sizes.takes_guidance) {
    out.inputs.guidance = take("guidance");
  }
  return out;
}

Tensor NetworkGraph::prediction(const NetworkInputs& given) {
  const networks::Sizes& sizes = network.sizes();
  const Tensor latents = network->forward(params, options, given.inputs).prediction;
  if (given.rows == 0) {
    return sizes.makes_images ? squeeze(latents, Axis(2)) : latents;
  }
  const int64_t b = latents.dim(0);
  const int64_t c = latents.dim(1);
  const int64_t h = sizes.patch_size[1];
  const int64_t w = sizes.patch_size[2];
  const Tensor split = reshape(latents, {b, c, given.rows, h, given.columns, w});
  return reshape(transpose(split, {0, 2, 4, 1, 3, 5}), {b, given.rows * given.columns, c * h * w});
}

Tensor NetworkGraph::network_output(const NetworkInputs& given) {
  return given.negated ? -prediction(given) : prediction(given);
}

Values NetworkGraph::predict() {
  NetworkInputs inputs = given();
  const auto offer = tap("tap.");
  inputs.inputs.tap = [&](const std::string& name, Tensor value) {
    offer(name, value);
    for (int64_t i = 0; name == "pos_ids" && i < inputs.inputs.latents.dim(0); ++i) {
      const std::string own = fmt::format("pos_ids.{}", i);
      if (run_.has("tap." + own)) {
        const Tensor sample = slice(value, Axis(0), std::min(i, value.dim(0) - 1), 1);
        offer(own,
              slice(squeeze(sample, Axis(0)), Axis(0), 0, run_.tensor("tap." + own).shape.dims[0]));
      }
    }
  };
  output("output", network_output(inputs));
  return run();
}

HostArray NetworkGraph::predicted(const std::string& prefix, bool all) {
  output("output", network_output(given(prefix, all)));
  return run().front().second;
}

FlowLoss NetworkGraph::flow_loss(const std::string& prefix) {
  const Tensor latents = input(prefix + "latents");
  const Tensor noise = input(prefix + "noise");
  const Tensor timestep = input(prefix + "timestep");
  FlowLoss out{.text = input(prefix + "encoder_hidden_states")};
  if (networks::find_entry(network.sizes().named, networks::Entry::BRANCH) != nullptr) {
    out.control = input(prefix + "control_hidden_states");
  }
  training::ObjectiveOptions objective;
  objective.flow.sigma_min = sigma_min_of(run_.c, prefix);
  out.flow = training::flow_batch(latents, noise, timestep, objective);
  out.prediction = training::network_model(network, options)(
      params,
      {.noisy = out.flow.noisy, .timestep = timestep, .text = out.text, .condition = out.control});
  out.loss = training::flow_loss(out.prediction, out.flow, {});
  return out;
}

void NetworkGraph::output_gradients(const std::string& prefix, Tensor prediction, Tensor loss,
                                    const Named& others) {
  std::vector<Tensor> wrt = params;
  for (const auto& [name, tensor] : others) {
    wrt.push_back(tensor);
  }
  const std::vector<Tensor> grads = gradients(loss, wrt);
  Tensor squares = sum(square(grads.at(0)));
  for (size_t i = 1; i < params.size(); ++i) {
    squares = squares + sum(square(grads[i]));
  }
  output(prefix + "prediction", prediction);
  output(prefix + "loss", loss);
  output(prefix + "grad_norm", sqrt(squares));
  outputs(prefix + "grad.", specs, grads);
  for (size_t i = 0; i < others.size(); ++i) {
    output(others[i].first, grads[params.size() + i]);
  }
}

double sigma_min_of(const Case& c, const std::string& prefix) {
  const HostArray t = convert(c.tensor(prefix + "timestep"), DType::F64);
  const HostArray s = convert(c.tensor(prefix + "sigma"), DType::F64);
  // sigma = (1 - t') m + t': the smallest t' determines m best.
  const auto times = t.as<double>();
  const auto smallest = std::ranges::min_element(times) - times.begin();
  const double part = times[smallest] / kTimesteps;
  const double m = (s.as<double>()[smallest] - part) / (1.0 - part);
  // sigma and t are float32: m is replaced by a known value within the rounding.
  constexpr double kRounding = 1e-6;
  for (const double known : {0.0, schedulers::FlowMatch().sigma_min}) {
    if (std::abs(m - known) < kRounding) {
      return known;
    }
  }
  return m;
}

}  // namespace kinema::verification
