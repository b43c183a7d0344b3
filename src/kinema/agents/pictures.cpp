#include "kinema/agents/pictures.h"

#include <algorithm>

#include "kinema/agents/spaces.h"
#include "kinema/io/folder.h"
#include "kinema/media/video.h"

namespace kinema::agents {

HostArray in_colour(const HostArray& image) {
  const int64_t channels = image.shape.dims[2];
  HostArray out(Shape{DType::U8, {image.shape.dims[0], image.shape.dims[1], 3}});
  const auto from = image.as<uint8_t>();
  const auto to = out.as<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t pixel = static_cast<int64_t>(i) / 3;
    const int64_t channel = channels == 1 ? 0 : static_cast<int64_t>(i) % 3;
    to[i] = channel < channels ? from[static_cast<size_t>(pixel * channels + channel)] : 0;
  }
  return out;
}

HostArray stacked(const std::vector<HostArray>& frames) {
  Dims dims = frames[0].shape.dims;
  dims.insert(dims.begin(), std::ssize(frames));
  HostArray out(Shape{DType::U8, dims});
  auto place = out.bytes.begin();
  for (const HostArray& frame : frames) {
    place = std::ranges::copy(frame.bytes, place).out;
  }
  return out;
}

HostArray in_colours(const HostArray& frames) {
  std::vector<HostArray> out;
  for (int64_t i = 0; i < frames.shape.dims[0]; ++i) {
    out.push_back(in_colour(row_of(frames, i)));
  }
  return stacked(out);
}

void write_video(const std::filesystem::path& file, const HostArray& frames, int64_t picture_rows,
                 double fps) {
  // Small pictures are enlarged to about so many pixels.
  constexpr int64_t kSide = 256;
  io::make_folder(file.parent_path());
  media::write_mp4(file, frames,
                   {.fps = fps,
                    .pixel_format = "yuv444p",
                    .enlarge = static_cast<int>(std::max<int64_t>(1, kSide / picture_rows))});
}

}  // namespace kinema::agents
