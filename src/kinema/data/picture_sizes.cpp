#include "kinema/data/picture_sizes.h"

#include <utility>
#include <vector>

#include "kinema/data/clip_file.h"

namespace kinema::data {
namespace {

class WithSizes : public Source {
 public:
  WithSizes(std::unique_ptr<Source> source, int64_t pixels)
      : source_(std::move(source)), pixels_(pixels) {}

  int64_t size() const override { return source_->size(); }
  Sample at(int64_t position) const override { return sized(source_->at(position)); }
  std::vector<Sample> examples() const override {
    std::vector<Sample> out = source_->examples();
    for (Sample& each : out) {
      each = sized(std::move(each));
    }
    return out;
  }

 private:
  Sample sized(Sample sample) const {
    if (const Dims& dims = sample.latents.shape.dims;
        sample.size_ids.bytes.empty() && dims.size() == 4) {
      sample.size_ids = size_ids(PictureSizes{}, dims[2] * pixels_, dims[3] * pixels_);
    }
    return sample;
  }

  std::unique_ptr<Source> source_;
  int64_t pixels_;
};

}  // namespace

HostArray size_ids(const PictureSizes& sizes, int64_t height, int64_t width) {
  const std::array<int64_t, 2> made{height, width};
  std::vector<float> values;
  for (const std::array<int64_t, 2>& pair :
       {sizes.original.value_or(made), sizes.crop, sizes.target.value_or(made)}) {
    values.push_back(static_cast<float>(pair[0]));
    values.push_back(static_cast<float>(pair[1]));
  }
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

HostArray size_ids(const ClipSize& clip, const ClipFormat& format, std::optional<float> crop,
                   bool flipped) {
  const Fit fit = fit_to_size(static_cast<double>(clip.height), static_cast<double>(clip.width),
                              format.height, format.width, crop);
  const int64_t left = flipped ? fit.width - format.width - fit.left : fit.left;
  return size_ids(
      {.original = std::array<int64_t, 2>{clip.height, clip.width}, .crop = {fit.top, left}},
      format.height, format.width);
}

std::unique_ptr<Source> with_sizes(std::unique_ptr<Source> source, int64_t pixels) {
  return std::make_unique<WithSizes>(std::move(source), pixels);
}

}  // namespace kinema::data
