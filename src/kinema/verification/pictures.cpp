// Pixels to latents and tokens, and back; data sets of clips.
#include <algorithm>
#include <set>

#include "kinema/core/error.h"
#include "kinema/data/record.h"
#include "kinema/encoders/clip_encoder.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/media/video.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/records/tfrecord.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/kinds.h"
#include "kinema/weights/folder.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;
namespace kl = kl_autoencoder;

encoders::WanAutoencoder wan_autoencoder(const Run& run, const fs::path& folder) {
  return {run.session.client,
          folder,
          {.model = {.precision = run.options.precision}, .program = run.program()}};
}

/// f of each element of the first axis.
HostArray each_of(const HostArray& batch, const std::function<HostArray(const HostArray&)>& f) {
  std::vector<HostArray> out;
  for (int64_t i = 0; i < batch.shape.dims.at(0); ++i) {
    out.push_back(f(part_of(batch, i)));
  }
  return joined(out);
}

/// The taps of Wan's encoder or decoder on the single frame of case 0: `tap.encoder.NAME`.
void add_video_taps(const Run& run, bool encodes) {
  const std::string prefix = encodes ? "tap.encoder." : "tap.decoder.";
  if (run.c.names(prefix).empty()) {
    return;
  }
  const vae::Config config = model_files::read_vae_config(run.c.model());
  const vae::Options options{.precision = run.options.precision};
  CaseGraph graph(run);
  const std::vector<Tensor> params = graph.parameters(
      encodes ? vae::encoder_parameters(config, options) : vae::decoder_parameters(config, options),
      io::ModelFolder::open(run.c.model()));
  const Tensor x = graph.input(encodes ? "case0.video" : "case0.mean");
  const vae::Tap tap = graph.tap(prefix);
  encodes ? vae::encode(params, config, options, x, {}, tap)
          : vae::decode(params, config, options, x, {}, tap);
  run.add_all(prefix, graph.run(), failed("", "", "the model offers no such value"));
}

/// All results for the case's tensors `PREFIXimage` and `PREFIXlatents`; for `case0.` with taps.
Values code_image(const Run& run, const kl::AutoencoderConfig& config, const std::string& prefix) {
  const bool tapped = prefix == "case0.";
  const io::ModelFolder files = io::ModelFolder::open(run.c.model());
  kl::CoderOptions options{.precision = run.options.precision};
  CaseGraph encoding(run);
  std::vector<Tensor> params = encoding.parameters(kl::encoder_parameters(config, {}), files);
  options.tap = tapped ? encoding.tap("tap.encoder.") : nullptr;
  const kl::Moments moments = kl::encode(params, config, options, encoding.input(prefix + "image"));
  encoding.output(prefix + "mean", moments.mean);
  encoding.output(prefix + "logvar", moments.log_variance);
  encoding.output(prefix + "scaled_mean", kl::scaled(moments.mean, config));
  const Tensor noise = encoding.input(prefix + "eps");
  encoding.output(prefix + "scaled_sample", kl::scaled(kl::sample(moments, noise), config));
  Values values = encoding.run();

  CaseGraph decoding(run);
  params = decoding.parameters(kl::decoder_parameters(config, {}), files);
  options.tap = {};
  const Tensor latents = kl::unscaled(decoding.input(prefix + "latents"), config);
  decoding.output(prefix + "unscaled_latents", latents);
  decoding.output(prefix + "decoded", kl::decode(params, config, options, latents));
  if (tapped) {
    options.tap = decoding.tap("tap.decoder.");
    const Tensor mean = decoding.input(value_of(values, prefix + "mean"));
    decoding.output(prefix + "reconstruction", kl::decode(params, config, options, mean));
  }
  std::ranges::move(decoding.run(), std::back_inserter(values));
  return values;
}

/// Frames u8 [f, h, w, 3] as pixels f32 [3, f, h, w] in [-1, 1], by the reference's x / 127.5 - 1.
HostArray pixels_of_frames(const HostArray& frames) {
  const Dims& d = frames.shape.dims;
  check(frames.shape.dtype == DType::U8 && d.size() == 4 && d[3] == 3,
        "[verify] frames are {}, expected u8[f,h,w,3]", to_string(frames.shape));
  HostArray out(Shape{DType::F32, {3, d[0], d[1], d[2]}});
  const auto from = frames.as<uint8_t>();
  const auto to = out.as<float>();
  const size_t plane = to.size() / 3;
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(from[i % plane * 3 + i / plane]) / 127.5F - 1.0F;
  }
  return out;
}

/// Records of every shard of a folder, sorted by name.
std::vector<data::Sample> read_records(const fs::path& folder) {
  std::set<fs::path> shards;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tfrec") {
      shards.insert(entry.path());
    }
  }
  check(!shards.empty(), "[verify] {} holds no .tfrec file", folder.string());
  std::vector<data::Sample> records;
  for (const fs::path& shard : shards) {
    const auto file = records::TfRecordFile::open(shard);
    for (int64_t i = 0; i < file.size(); ++i) {
      records.push_back(data::parse_record(file.at(i), file.where(i)));
    }
  }
  return records;
}

/// Compares records of `dataset/tfrecords/SET` with the latents of the same clips, in order.
void add_records(const Run& run, const std::string& set, bool complete) {
  const std::string name = "tfrecords/" + set;
  run.attempt(name, [&] {
    const HostArray all = run.tensor("latents");
    const std::vector<data::Sample> records = read_records(run.c.folder() / "dataset" / name);
    const auto count = std::ssize(records);
    check(count > 0 && count <= all.shape.dims.at(0) && (!complete || count == all.shape.dims[0]),
          "[verify] {} records, the reference has latents of {} clips", count, all.shape.dims[0]);
    std::vector<HostArray> got;
    std::vector<HostArray> want;
    for (int64_t i = 0; i < count; ++i) {
      got.push_back(records[i].latents);
      want.push_back(part_of(all, i));
    }
    run.add_worst(name + " latents", got, want);
    run.add(name + " encoder_hidden_states", records[0].encoder_hidden_states,
            run.tensor("clip_00.encoder_hidden_states"));
  });
}

void code_videos(const Run& run) {
  const encoders::WanAutoencoder vae = wan_autoencoder(run, run.c.model());
  const auto normalised = [&](const HostArray& x) { return vae.normalise(x); };
  const auto denormalised = [&](const HostArray& x) { return vae.denormalise(x); };
  const auto decoded = [&](const HostArray& x) { return vae.decode(x); };
  for (const auto& [name, about] : run.about("cases").members()) {
    const std::string prefix = name + ".";
    std::vector<HostArray> logvars;
    const HostArray means = each_of(run.tensor(prefix + "video"), [&](const HostArray& video) {
      auto moments = vae.moments(video);
      logvars.push_back(std::move(moments.logvar));
      return std::move(moments.mean);
    });
    run.add(prefix + "mean", means);
    run.add(prefix + "logvar", joined(logvars));
    run.add(prefix + "normalised_mean", each_of(means, normalised));
    const HostArray latents = run.tensor(prefix + "latents");
    run.add(prefix + "denormalised_latents", each_of(latents, denormalised));
    run.add(prefix + "decoded", each_of(latents, decoded));
    if (run.has(prefix + "reconstruction")) {
      const HostArray given = each_of(run.tensor(prefix + "mean"), normalised);
      run.add(prefix + "reconstruction", each_of(given, decoded));
    }
  }
  add_video_taps(run, /*encodes=*/true);
  add_video_taps(run, /*encodes=*/false);
}

void code_images(const Run& run) {
  const kl::AutoencoderConfig config =
      kl::parse_config(io::Json::read(run.c.model() / "config.json"));
  std::set<std::string> prefixes;  // `case0.` of every `case0.image`
  for (const std::string& name : run.c.names("case")) {
    prefixes.insert(name.substr(0, name.find('.') + 1));
  }
  Values values;
  for (const std::string& prefix : prefixes) {
    std::ranges::move(code_image(run, config, prefix), std::back_inserter(values));
  }
  run.add_all("case", values, {});
  run.add_all("tap.", values, failed("", "", "the model offers no such value"));
}

void encode_clip_image(const Run& run) {
  const io::Json& model = run.about("model");  // "image_encoder, image_processor"
  const std::string& text = model.as_string();
  const size_t comma = text.find(", ");
  check(comma != std::string::npos, "[verify] {} is `{}`, expected two folders", model.where(),
        text);
  const encoders::ClipEncoder encoder(run.session.client, run.c.folder() / text.substr(0, comma),
                                      run.c.folder() / text.substr(comma + 2),
                                      {.program = run.program()});
  for (const std::string& size : run.c.names_before(".image")) {
    const HostArray image = run.tensor(size + ".image");
    const HostArray pixels = encoder.processor()(image);
    const auto tokens = encoder.run(pixels);
    run.add(size + ".vae_input", encoders::autoencoder_pixels(image, run.about("height").as_int(),
                                                              run.about("width").as_int()));
    run.add(size + ".clip_pixels", pixels);
    run.add(size + ".tap.embeddings", tokens.embeddings);
    run.add(size + ".image_embeds", tokens.tokens);
  }
}

void read_dataset(const Run& run) {
  add_records(run, "train", /*complete=*/true);
  add_records(run, "eval", /*complete=*/false);
  add_records(run, "bf16", /*complete=*/false);
  const std::vector<std::string> clips = run.c.names_before(".rgb", "clip_");
  for (const std::string& clip : clips) {
    run.attempt(clip + ".rgb", [&] {
      run.add(clip + ".rgb",
              media::read_video(run.c.folder() / "dataset" / "videos" / (clip + ".mp4")).frames);
    });
  }
  // Latents of the clips with the case's frames: kinema's decoding may differ by one level.
  run.attempt("latents", [&] {
    const std::string& models = run.about("model").as_string();
    const encoders::WanAutoencoder vae =
        wan_autoencoder(run, run.c.folder() / models.substr(0, models.find(',')));
    const HostArray latents = run.tensor("latents");
    for (const std::string& clip : clips) {
      const int64_t i = std::stoll(clip.substr(std::string_view("clip_").size()));
      check(i < latents.shape.dims.at(0), "[verify] there are latents of {} clips, not of {}",
            latents.shape.dims[0], clip);
      run.add(fmt::format("latents[{}]", i),
              vae.encode(pixels_of_frames(run.tensor(clip + ".rgb"))), part_of(latents, i));
    }
  });
  run.attempt("encoder_hidden_states", [&] { encode_captions(run); });
}

}  // namespace

std::vector<Kind> picture_kinds() {
  using enum Kind::Forms;
  return {
      // The preprocessing is bit-identical, so only the last arithmetic may differ.
      {"image",
       encode_clip_image,
       ONE,
       {{"*.vae_input", {.absolute = 1e-5}},
        {"*.clip_pixels", {.absolute = 1e-5}},
        {"*", kStates}}},
      {"vae vae22", code_videos, ONE, {{"*", kStates}}},
      {"flux_vae sdxl_vae", code_images},
      // Records contain the exact bits; bfloat16 may be off by half a unit of the last of 8 bits.
      // Decoded frames: swscale's rounding against a plain BT.601 conversion.
      {"dataset",
       read_dataset,
       ONE,
       {{"tfrecords/bf16 *", {.absolute = 1e-30, .relative = 0x1p-8}},
        {"tfrecords/*", kExact},
        {"*.rgb", {.absolute = 3.0}},
        {"*", kStates}}},
  };
}

}  // namespace kinema::verification
