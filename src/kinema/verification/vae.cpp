#include "kinema/verification/vae.h"

#include <algorithm>

#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/vae_config.h"

namespace kinema::verification {
namespace {

constexpr Limit kLimit{.absolute = kVaeAbsolute};

/// Video i of a batch.
HostArray video_of(const HostArray& batch, int64_t i) {
  Shape shape = batch.shape;
  shape.dims.erase(shape.dims.begin());
  HostArray out(shape);
  std::copy_n(batch.bytes.begin() + i * shape.bytes(), shape.bytes(), out.bytes.begin());
  return out;
}

/// One result per video, [b, ...].
class Batch {
 public:
  void add(const HostArray& video) {
    shape_ = video.shape;
    bytes_.insert(bytes_.end(), video.bytes.begin(), video.bytes.end());
    ++count_;
  }
  HostArray take() {
    shape_.dims.insert(shape_.dims.begin(), count_);
    HostArray out(shape_);
    out.bytes = std::move(bytes_);
    return out;
  }

 private:
  Shape shape_;
  std::vector<std::byte> bytes_;
  int64_t count_ = 0;
};

/// The whole video that decoding hands out in pieces.
HostArray decode_denormalised(const encoders::WanAutoencoder& vae, const HostArray& latents) {
  return vae.decode(vae.normalise(latents));
}

void add_encoding(std::vector<Row>& rows, const Case& c, const std::string& prefix,
                  const encoders::WanAutoencoder& vae) {
  const HostArray videos = c.tensor(prefix + "video");
  Batch mean;
  Batch logvar;
  Batch normalised;
  for (int64_t i = 0; i < videos.shape.dims.at(0); ++i) {
    const auto moments = vae.moments(video_of(videos, i));
    mean.add(moments.mean);
    logvar.add(moments.logvar);
    normalised.add(vae.normalise(moments.mean));
  }
  const auto add = [&](const char* name, Batch& batch) {
    rows.push_back(compare(c.name(), prefix + name, batch.take(), c.tensor(prefix + name), kLimit));
  };
  add("mean", mean);
  add("logvar", logvar);
  add("normalised_mean", normalised);
}

void add_decoding(std::vector<Row>& rows, const Case& c, const std::string& prefix,
                  const encoders::WanAutoencoder& vae) {
  const HostArray latents = c.tensor(prefix + "latents");
  Batch denormalised;
  Batch decoded;
  for (int64_t i = 0; i < latents.shape.dims.at(0); ++i) {
    const HostArray video = video_of(latents, i);
    denormalised.add(vae.denormalise(video));
    decoded.add(vae.decode(video));
  }
  rows.push_back(compare(c.name(), prefix + "denormalised_latents", denormalised.take(),
                         c.tensor(prefix + "denormalised_latents"), kLimit));
  rows.push_back(
      compare(c.name(), prefix + "decoded", decoded.take(), c.tensor(prefix + "decoded"), kLimit));
  if (c.has(prefix + "reconstruction")) {
    Batch reconstruction;
    const HostArray mean = c.tensor(prefix + "mean");
    for (int64_t i = 0; i < mean.shape.dims.at(0); ++i) {
      reconstruction.add(decode_denormalised(vae, video_of(mean, i)));
    }
    rows.push_back(compare(c.name(), prefix + "reconstruction", reconstruction.take(),
                           c.tensor(prefix + "reconstruction"), kLimit));
  }
}

/// The parts of one side on the one frame of case 0.
void add_taps(std::vector<Row>& rows, const Case& c, bool encoder, const vae::Options& options,
              Session& session) {
  const std::string prefix = encoder ? "tap.encoder." : "tap.decoder.";
  const std::vector<std::string> wanted = c.names(prefix);
  if (wanted.empty()) {
    return;
  }
  const vae::Config config = weights::read_vae_config(c.model());
  const auto specs =
      encoder ? vae::encoder_parameters(config, options) : vae::decoder_parameters(config, options);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  const HostArray input = c.tensor(encoder ? "case0.video" : "case0.mean");
  std::map<std::string, Tensor> offered;
  const auto tap = [&](const std::string& name, Tensor value) { offered[prefix + name] = value; };
  const Tensor x = graph.input(input.shape, "x");
  encoder ? vae::encode(params, config, options, x, {}, tap)
          : vae::decode(params, config, options, x, {}, tap);

  std::vector<std::string> names;
  std::vector<Tensor> outputs;
  for (const std::string& name : wanted) {
    if (const auto found = offered.find(name); found != offered.end()) {
      names.push_back(name);
      outputs.push_back(found->second);
    } else {
      rows.push_back(failed(c.name(), name, "the network has no part of this name"));
    }
  }
  std::vector<pjrt::Buffer> buffers =
      weights::load_tensors(io::ModelFolder::open(c.model()), specs, session.client());
  buffers.push_back(session.client().to_device(input));
  const std::vector<pjrt::Buffer> values =
      session.program(graph, outputs, "vae_taps").run(std::span<const pjrt::Buffer>(buffers));
  for (size_t i = 0; i < names.size(); ++i) {
    rows.push_back(compare(c.name(), names[i], values[i].to_host(), c.tensor(names[i]), kLimit));
  }
}

}  // namespace

vae::Options vae_options(const Session& session) {
  return {.precision = session.model_options().precision};
}

std::vector<Row> vae_rows(const Case& c, Session& session) {
  const vae::Options options = vae_options(session);
  const encoders::WanAutoencoder vae(session.client(), c.model(),
                                     {.model = options, .program = session.program_options()});
  std::vector<Row> rows;
  for (const auto& [name, about] : c.about().at("cases").members()) {
    add_encoding(rows, c, name + ".", vae);
    add_decoding(rows, c, name + ".", vae);
  }
  add_taps(rows, c, /*encoder=*/true, options, session);
  add_taps(rows, c, /*encoder=*/false, options, session);
  return rows;
}

}  // namespace kinema::verification
