#include "kinema/sample/latents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/io/safetensors.h"

namespace kinema::sample {
namespace {

Dims with_count(int64_t count, const Dims& dims) {
  Dims out{count};
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

/// The tensor `latents`, `initial_latents`, or the only one.
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

}  // namespace

HostArray initial_noise(uint64_t seed, int64_t index, const Dims& dims, std::string_view name) {
  HostArray out(Shape{DType::F32, dims});
  RandomStream stream(random_key(seed, name, static_cast<uint64_t>(index)));
  for (float& value : out.as<float>()) {
    value = stream.normal();
  }
  return out;
}

HostArray initial_noise(uint64_t seed, int64_t videos, const Dims& video, int64_t first_index,
                        std::string_view name) {
  HostArray out(Shape{DType::F32, with_count(videos, video)});
  for (int64_t i = 0; i < videos; ++i) {
    const HostArray noise = initial_noise(seed, first_index + i, video, name);
    std::ranges::copy(noise.bytes,
                      out.bytes.begin() + i * static_cast<int64_t>(noise.bytes.size()));
  }
  return out;
}

HostArray step_noise(uint64_t seed, const std::vector<int64_t>& indices, int64_t step,
                     const std::vector<double>& correlations, const Dims& batch) {
  const auto stream_of = [&](int64_t of_step, int64_t index) {
    return RandomStream(
        random_key(seed, fmt::format("step_noise/{}", of_step), static_cast<uint64_t>(index)));
  };
  const double r = correlations.empty() ? 0.0 : correlations.at(static_cast<size_t>(step));
  const auto fresh = static_cast<float>(std::sqrt(1.0 - r * r));
  HostArray out(Shape{DType::F32, batch});
  const auto values = out.as<float>();
  const size_t each = values.size() / indices.size();
  for (size_t i = 0; i < values.size(); i += each) {
    RandomStream stream = stream_of(step, indices[i / each]);
    for (float& value : values.subspan(i, each)) {
      value = stream.normal();
    }
    if (r != 0.0) {
      RandomStream last = stream_of(step - 1, indices[i / each]);
      for (float& value : values.subspan(i, each)) {
        value = static_cast<float>(r) * last.normal() + fresh * value;
      }
    }
  }
  return out;
}

bool has_latents(const std::filesystem::path& path, std::string_view name) {
  return io::SafetensorsFile::open(path).find(name) != nullptr;
}

HostArray read_latents(const std::filesystem::path& path, int64_t videos, const Dims& video,
                       std::string_view name) {
  const auto file = io::SafetensorsFile::open(path);
  const io::TensorView& tensor = name.empty() ? latents_tensor(file) : file.at(name);
  Dims dims = tensor.shape.dims;
  // Of one video, or of images without an axis of frames.
  const bool of_images = dims.size() == 4 && video[1] == 1 && dims[1] == video[0] &&
                         dims[2] == video[2] && dims[3] == video[3];
  if (dims.size() == 4) {
    dims.insert(of_images ? dims.begin() + 2 : dims.begin(), 1);
  }
  check(is_float(tensor.shape.dtype) && dims.size() == 5 && (dims[0] == videos || dims[0] == 1) &&
            std::ranges::equal(dims.begin() + 1, dims.end(), video.begin(), video.end()),
        "[sample] `{}` in {} is {}, expected f32{}{}", tensor.name, path.string(),
        to_string(tensor.shape), to_string(with_count(videos, video)),
        videos == 1
            ? ""
            : fmt::format(" or, the same noise for all, f32{}", to_string(with_count(1, video))));
  const HostArray one = convert(tensor.copy(), DType::F32);
  HostArray out(Shape{DType::F32, with_count(videos, video)});
  for (size_t at = 0; at < out.bytes.size(); at += one.bytes.size()) {
    std::ranges::copy(one.bytes, out.bytes.begin() + static_cast<int64_t>(at));
  }
  return out;
}

/// Rows `items` of the first axis, concatenated.
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

}  // namespace kinema::sample
