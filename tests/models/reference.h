#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cpu_isa.h"
#include "io/scratch.h"
#include "kinema/io/safetensors.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::wan {

/// The tensors of a reference case.
inline io::SafetensorsFile reference(const std::string& name) {
  return io::SafetensorsFile::open(io::golden("io/" + name + ".safetensors"));
}

/// Largest difference relative to the largest expected magnitude; infinite for NaN or another
/// shape.
inline double relative_difference(const HostArray& got, const HostArray& want) {
  if (got.shape.dims != want.shape.dims) {
    return INFINITY;
  }
  const HostArray a = convert(got, DType::F32);
  const HostArray b = convert(want, DType::F32);
  double difference = 0.0;
  double magnitude = 0.0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const double d = std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]);
    if (std::isnan(d)) {
      return INFINITY;
    }
    difference = std::max(difference, d);
    magnitude = std::max(magnitude, std::abs(static_cast<double>(b.as<float>()[i])));
  }
  return magnitude > 0.0 ? difference / magnitude : difference;
}

/// One model of the reference set on the device, and a graph with its parameters as inputs.
class Subject {
 public:
  Subject(const std::string& folder, const nn::ModelOptions& options)
      : options_(options),
        config_(wan_config(io::golden(folder))),
        specs_(parameters(config_, options)),
        client_(pjrt::cpu_client()),
        buffers_(weights::load(io::golden(folder), specs_, client_)) {
    for (const nn::ParamSpec& spec : specs_) {
      params_.push_back(graph_.input(spec.shape, spec.name));
    }
  }

  Graph& graph() { return graph_; }
  const TransformerConfig& config() const { return config_; }
  const std::vector<nn::ParamSpec>& specs() const { return specs_; }
  const std::vector<Tensor>& params() const { return params_; }
  pjrt::Client& client() { return client_; }

  /// Adds an input with its value to the program.
  Tensor input(const HostArray& value) {
    buffers_.push_back(client_.to_device(value));
    return graph_.input(value.shape);
  }
  Tensor input(const io::TensorView& view) { return input(view.copy()); }

  /// The inputs under the reference's names; inputs that the case lacks stay empty.
  TransformerInputs inputs(const io::SafetensorsFile& file,
                           const std::string& video = "hidden_states") {
    TransformerInputs in{.hidden_states = input(file.at(video)),
                         .timestep = input(file.at("timestep")),
                         .encoder_hidden_states = input(file.at("encoder_hidden_states"))};
    if (file.find("encoder_hidden_states_image") != nullptr) {
      in.encoder_hidden_states_image = input(file.at("encoder_hidden_states_image"));
    }
    return in;
  }

  Tensor operator()(const TransformerInputs& in) {
    return transformer(params_, config_, options_, in);
  }

  std::vector<HostArray> run(std::span<const Tensor> outputs) {
    const auto program = runtime::Program::compile(client_, graph_, outputs);
    std::vector<HostArray> values;
    for (const pjrt::Buffer& buffer : program.run(buffers_)) {
      values.push_back(buffer.to_host());
    }
    return values;
  }

 private:
  nn::ModelOptions options_;
  TransformerConfig config_;
  std::vector<nn::ParamSpec> specs_;
  pjrt::Client client_;
  std::vector<pjrt::Buffer> buffers_;
  Graph graph_;
  std::vector<Tensor> params_;
};

}  // namespace kinema::wan
