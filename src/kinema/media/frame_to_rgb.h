#pragma once

// Private to the module: pixels of libav's frames as RGB with 8 bits per channel.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/media/av.h"
#include "kinema/media/background.h"
#include "kinema/media/tone_map.h"

namespace kinema::media {

/// Converts the frames of one video.
class FrameToRgb {
 public:
  /// `path` is the video's name in messages. It and the background must outlive the converter.
  FrameToRgb(const std::string& path, const Background& background)
      : path_(path), background_(background) {}

  /// For HDR, chooses the tone map of all frames from the first frame's metadata, that of its
  /// stream, and the bytes of the file.
  void choose_tone_map(const AVFrame& frame, const AVStream& stream,
                       std::span<const std::byte> bytes);
  bool is_hdr() const { return map_.has_value(); }

  /// Writes the pixels of frame number `index` to `rgb`, [height, width, 3]. Throws an Error for
  /// pixel formats that cannot be converted.
  void convert(const AVFrame& frame, int64_t index, std::span<std::byte> rgb);

 private:
  AVPixelFormat wanted_format(const AVFrame& frame) const;
  void finish_row(AVPixelFormat format, const uint8_t* from, std::span<uint8_t> rgb) const;

  const std::string& path_;
  const Background& background_;
  av::Scaler scaler_;
  std::vector<uint8_t> rows_;
  std::optional<ToneMap> map_;
};

}  // namespace kinema::media
