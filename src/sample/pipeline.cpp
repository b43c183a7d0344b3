#include "sample/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "core/threefry.h"
#include "io/safetensors.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;

/// Adds the seconds it lives to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Dims with_count(int64_t count, const Dims& dims) {
  Dims out{count};
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

/// The tensor `latents`, `initial_latents`, or the only one there is.
const io::TensorView& latents_tensor(const io::SafetensorsFile& file) {
  for (const char* name : {"latents", "initial_latents"}) {
    if (const io::TensorView* tensor = file.find(name)) {
      return *tensor;
    }
  }
  check(file.tensors().size() == 1,
        "[sample] {} has {} tensors and none of them is called `latents`", file.path(),
        file.tensors().size());
  return file.tensors().front();
}

/// f32 [n, c, f, h, w]: the file's latents, one set for each prompt.
HostArray read_initial_latents(const fs::path& path, int64_t prompts, const Dims& video) {
  const auto file = io::SafetensorsFile::open(path);
  const io::TensorView& tensor = latents_tensor(file);
  Dims dims = tensor.shape.dims;
  if (dims.size() == 4) {
    dims.insert(dims.begin(), 1);
  }
  check(is_float(tensor.shape.dtype) && dims.size() == 5 && (dims[0] == prompts || dims[0] == 1) &&
            std::ranges::equal(dims.begin() + 1, dims.end(), video.begin(), video.end()),
        "[sample] `{}` in {} is {}, expected f32{}{}", tensor.name, path.string(),
        to_string(tensor.shape), to_string(with_count(prompts, video)),
        prompts == 1 ? ""
                     : fmt::format(" or, the same noise for every prompt, f32{}",
                                   to_string(with_count(1, video))));
  const HostArray one = convert(tensor.copy(), DType::F32);
  HostArray out(Shape{DType::F32, with_count(prompts, video)});
  for (size_t at = 0; at < out.bytes.size(); at += one.bytes.size()) {
    std::ranges::copy(one.bytes, out.bytes.begin() + static_cast<int64_t>(at));
  }
  return out;
}

HostArray starting_latents(const GenerateRequest& request, const Dims& video) {
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  if (!request.initial_latents.empty()) {
    return read_initial_latents(request.initial_latents, prompts, video);
  }
  HostArray out(Shape{DType::F32, with_count(prompts, video)});
  for (int64_t i = 0; i < prompts; ++i) {
    const HostArray noise = initial_noise(request.seed, i, video);
    std::ranges::copy(noise.bytes,
                      out.bytes.begin() + i * static_cast<int64_t>(noise.bytes.size()));
  }
  return out;
}

/// Rows `items` of the first axis, one after the other.
HostArray take_rows(const HostArray& x, const std::vector<int64_t>& items) {
  Shape shape = x.shape;
  const int64_t row = shape.bytes() / shape.dims[0];
  shape.dims[0] = static_cast<int64_t>(items.size());
  HostArray out(shape);
  for (size_t i = 0; i < items.size(); ++i) {
    std::copy_n(x.bytes.begin() + items[i] * row, row,
                out.bytes.begin() + static_cast<int64_t>(i) * row);
  }
  return out;
}

/// Which videos each batch holds; the last one is filled up with its last video, so that every
/// batch runs the same program.
std::vector<std::vector<int64_t>> batches_of(int64_t videos, int64_t batch_size) {
  std::vector<std::vector<int64_t>> batches;
  const int64_t size = std::min(batch_size, videos);
  for (int64_t first = 0; first < videos; first += size) {
    std::vector<int64_t> items;
    for (int64_t i = 0; i < size; ++i) {
      items.push_back(std::min(first + i, videos - 1));
    }
    batches.push_back(std::move(items));
  }
  return batches;
}

void check_request(const GenerateRequest& request) {
  check(!request.prompts.empty(), "[sample] there is no prompt");
  check(request.batch_size >= 1, "[sample] the batch size is {}, expected 1 or more",
        request.batch_size);
}

}  // namespace

HostArray initial_noise(uint64_t seed, int64_t index, const Dims& dims) {
  HostArray out(Shape{DType::F32, dims});
  RandomStream stream(random_key(seed, "initial_latents", static_cast<uint64_t>(index)));
  for (float& value : out.as<float>()) {
    value = stream.normal();
  }
  return out;
}

Pipeline::Pipeline(const pjrt::Client& client, PipelineFolder folder,
                   const wan::ModelOptions& options,
                   std::unique_ptr<encoders::Autoencoder> autoencoder,
                   std::unique_ptr<encoders::TextEncoder> text_encoder,
                   runtime::ProgramOptions program_options)
    : experts_(client, std::move(folder), options),
      programs_(client, std::move(program_options)),
      autoencoder_(std::move(autoencoder)),
      text_encoder_(std::move(text_encoder)) {
  const int64_t channels = experts_.config(0).in_channels;
  check(autoencoder_->layout().channels == channels,
        "[sample] the autoencoder {} makes {} channels but the transformer in {} takes {}",
        autoencoder_->name(), autoencoder_->layout().channels,
        experts_.folder().transformer.string(), channels);
}

std::vector<DenoiseBatch> Pipeline::make_batches(const GenerateRequest& request,
                                                 const VideoSizes& sizes) {
  const HostArray latents = starting_latents(request, sizes.latents);
  // All at once, so that an encoder may take prompts and negative prompt as one batch.
  std::vector<std::string> prompts = request.prompts;
  prompts.push_back(request.negative_prompt);
  const HostArray text = text_encoder_->encode(prompts);
  const auto negative = static_cast<int64_t>(request.prompts.size());
  std::vector<DenoiseBatch> batches;
  for (const auto& items : batches_of(negative, request.batch_size)) {
    batches.push_back(
        {.latents = take_rows(latents, items),
         .text = take_rows(text, items),
         .negative_text = take_rows(text, std::vector<int64_t>(items.size(), negative))});
  }
  return batches;
}

Generated Pipeline::generate(const GenerateRequest& request, const DenoiseObserver& observer) {
  check_request(request);
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  Generated out;
  out.schedule = request.schedule.value_or(experts_.folder().schedule);
  out.sizes = video_sizes(request.num_frames, request.height, request.width, autoencoder_->layout(),
                          experts_.config(0).patch_size);
  if (out.sizes.num_frames != request.num_frames) {
    out.notes.push_back(fmt::format("num_frames {} is made {}: what the autoencoder {} has",
                                    request.num_frames, out.sizes.num_frames,
                                    autoencoder_->name()));
  }
  const DenoiseSettings settings{
      .schedule = schedulers::make_schedule(out.schedule, request.num_inference_steps),
      .guidance_scale = request.guidance_scale,
      .guidance_scale_2 = request.guidance_scale_2.value_or(request.guidance_scale),
      .two_passes = request.two_passes};

  std::vector<DenoiseBatch> batches;
  {
    const Stopwatch watch(out.timings.text);
    batches = make_batches(request, out.sizes);
  }
  const double loaded = experts_.load_seconds();
  const double compiled = programs_.compile_seconds();
  std::vector<HostArray> latents;
  {
    const Stopwatch watch(out.timings.denoise);
    latents = denoise(experts_, programs_, batches, settings, observer);
  }
  out.timings.load = experts_.load_seconds() - loaded;
  out.timings.compile = programs_.compile_seconds() - compiled;
  out.timings.denoise -= out.timings.load + out.timings.compile;

  const Stopwatch watch(out.timings.decode);
  HostArray all(Shape{DType::F32, with_count(prompts, out.sizes.latents)});
  const int64_t bytes = all.shape.bytes() / prompts;
  const int64_t per_batch = std::min(request.batch_size, prompts);
  for (int64_t i = 0; i < prompts; ++i) {
    HostArray one(Shape{DType::F32, out.sizes.latents});
    std::copy_n(latents[i / per_batch].bytes.begin() + (i % per_batch) * bytes, bytes,
                one.bytes.begin());
    std::ranges::copy(one.bytes, all.bytes.begin() + i * bytes);
    out.videos.push_back(
        {.prompt = request.prompts[i], .frames = encoders::to_frames(autoencoder_->decode(one))});
  }
  if (!request.save_latents.empty()) {
    const std::vector<io::TensorEntry> entries{io::TensorEntry::of("latents", all)};
    io::write_safetensors(request.save_latents, entries);
  }
  return out;
}

}  // namespace kinema::sample
