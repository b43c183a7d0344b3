#include <algorithm>
#include <map>
#include <set>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/weights/folder.h"

// The autoencoder of images: what encoding and decoding make of the case's images and latents.
namespace kinema::verification {
namespace {

namespace kl = kl_autoencoder;

/// One direction for one case: a graph with its inputs' values, and the results by name.
class Direction {
 public:
  Direction(const Case& c, Session& session, const kl::AutoencoderConfig& config, bool encodes)
      : session_(session),
        specs_(encodes ? kl::encoder_parameters(config, {}) : kl::decoder_parameters(config, {})) {
    for (const nn::ParamSpec& spec : specs_) {
      params_.push_back(graph_.input(spec.shape, spec.name));
    }
    buffers_ = weights::load_tensors(io::ModelFolder::open(c.model()), specs_, session.client());
  }

  Tensor input(const HostArray& value) {
    buffers_.push_back(session_.client().to_device(value));
    return graph_.input(value.shape);
  }
  std::span<const Tensor> params() const { return params_; }
  void output(const std::string& name, Tensor value) {
    names_.push_back(name);
    outputs_.push_back(value);
  }
  void run(std::map<std::string, HostArray>& values) {
    const auto results = session_.program(graph_, outputs_, "autoencoder")
                             .run(std::span<const pjrt::Buffer>(buffers_));
    for (size_t i = 0; i < names_.size(); ++i) {
      values.emplace(names_[i], results[i].to_host());
    }
  }

 private:
  Session& session_;
  std::vector<nn::ParamSpec> specs_;
  Graph graph_;
  std::vector<Tensor> params_;
  std::vector<pjrt::Buffer> buffers_;
  std::vector<std::string> names_;
  std::vector<Tensor> outputs_;
};

/// `case0.` of every `case0.image`.
std::set<std::string> prefixes(const Case& c) {
  std::set<std::string> out;
  for (const std::string& name : c.names("case")) {
    out.insert(name.substr(0, name.find('.') + 1));
  }
  return out;
}

}  // namespace

std::vector<Row> kl_autoencoder_rows(const Case& c, Session& session) {
  const kl::AutoencoderConfig config = kl::parse_config(io::Json::read(c.model() / "config.json"));
  const Limits limits(c.about(), Limits::Which::LONGEST);
  const Precision precision = session.model_options().precision;
  std::map<std::string, HostArray> values;
  for (const std::string& prefix : prefixes(c)) {
    const bool tapped = prefix == "case0.";
    Direction encoding(c, session, config, true);
    kl::CoderOptions options{.precision = precision};
    if (tapped) {
      options.tap = [&](const std::string& name, Tensor value) {
        encoding.output("tap.encoder." + name, value);
      };
    }
    const kl::Moments moments =
        kl::encode(encoding.params(), config, options, encoding.input(c.tensor(prefix + "image")));
    encoding.output(prefix + "mean", moments.mean);
    encoding.output(prefix + "logvar", moments.log_variance);
    encoding.output(prefix + "scaled_mean", kl::scaled(moments.mean, config));
    const Tensor noise = encoding.input(c.tensor(prefix + "eps"));
    encoding.output(prefix + "scaled_sample", kl::scaled(kl::sample(moments, noise), config));
    encoding.run(values);

    Direction decoding(c, session, config, false);
    options.tap = {};
    const Tensor latents = kl::unscaled(decoding.input(c.tensor(prefix + "latents")), config);
    decoding.output(prefix + "unscaled_latents", latents);
    decoding.output(prefix + "decoded", kl::decode(decoding.params(), config, options, latents));
    if (tapped) {
      options.tap = [&](const std::string& name, Tensor value) {
        decoding.output("tap.decoder." + name, value);
      };
      decoding.output(prefix + "reconstruction",
                      kl::decode(decoding.params(), config, options,
                                 decoding.input(values.at(prefix + "mean"))));
    }
    decoding.run(values);
  }
  std::vector<Row> rows;
  for (const std::string& tensor : c.names("")) {
    if (const auto value = values.find(tensor); value != values.end()) {
      rows.push_back(compare(c.name(), tensor, value->second, c.tensor(tensor), limits.of(tensor)));
    } else if (tensor.starts_with("tap.")) {
      rows.push_back(failed(c.name(), tensor, "the autoencoder offers no such value"));
    }
  }
  return rows;
}

}  // namespace kinema::verification
