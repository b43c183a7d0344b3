#include "kinema/media/frame_to_rgb.h"

#include <cstring>

#include "kinema/core/error.h"
#include "kinema/media/png_chunk.h"
#include "kinema/media/video_stream.h"

namespace kinema::media {
namespace {

/// swscale's table for the frame's colour matrix; without a description, BT.601.
const int* coefficients(const AVFrame& frame) {
  switch (frame.colorspace) {
    case AVCOL_SPC_BT709:
      return sws_getCoefficients(SWS_CS_ITU709);
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return sws_getCoefficients(SWS_CS_BT2020);
    case AVCOL_SPC_SMPTE240M:
      return sws_getCoefficients(SWS_CS_SMPTE240M);
    default:
      return sws_getCoefficients(SWS_CS_ITU601);
  }
}

bool is_grey(AVPixelFormat format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(format);
  constexpr uint64_t kOther = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM;
  return about != nullptr && about->nb_components <= 2 && (about->flags & kOther) == 0;
}

bool is_deeper_than_8_bits(int format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(format));
  return about != nullptr && about->comp[0].depth > 8;
}

/// In cd/m2: the file's maximum light level, else the peak of the mastering display; 0: neither is
/// stated. Either block may be missing.
double stated_peak(const AVContentLightMetadata* content,
                   const AVMasteringDisplayMetadata* display) {
  if (content != nullptr && content->MaxCLL > 0) {
    return content->MaxCLL;
  }
  return display != nullptr && display->has_luminance != 0 ? av_q2d(display->max_luminance) : 0;
}

bool is_full_range(const AVFrame& frame) {
  switch (frame.format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P:
      return true;
    default:
      // Grey is full range by default.
      return frame.color_range == AVCOL_RANGE_JPEG ||
             (frame.color_range == AVCOL_RANGE_UNSPECIFIED &&
              is_grey(static_cast<AVPixelFormat>(frame.format)));
  }
}

}  // namespace

void FrameToRgb::choose_tone_map(const AVFrame& frame, const AVStream& stream,
                                 std::span<const std::byte> bytes) {
  const Cicp png = png_cicp(bytes);  // libav does not read this chunk
  const Transfer transfer = transfer_of(png.transfer > 0 ? png.transfer : frame.color_trc);
  if (transfer == Transfer::Standard) {
    return;
  }
  const auto of_frame = [&](AVFrameSideDataType type) -> const void* {
    const AVFrameSideData* data = av_frame_get_side_data(&frame, type);
    return data == nullptr ? nullptr : data->data;
  };
  const auto of_stream = [&](AVPacketSideDataType type) -> const void* {
    return av_stream_get_side_data(&stream, type, nullptr);
  };
  const void* content = of_frame(AV_FRAME_DATA_CONTENT_LIGHT_LEVEL);
  const void* display = of_frame(AV_FRAME_DATA_MASTERING_DISPLAY_METADATA);
  content = content != nullptr ? content : of_stream(AV_PKT_DATA_CONTENT_LIGHT_LEVEL);
  display = display != nullptr ? display : of_stream(AV_PKT_DATA_MASTERING_DISPLAY_METADATA);
  map_.emplace(transfer, png.transfer > 0 ? png.primaries : frame.color_primaries,
               stated_peak(static_cast<const AVContentLightMetadata*>(content),
                           static_cast<const AVMasteringDisplayMetadata*>(display)));
}

/// The format to which a frame is converted before it is blended with the background or
/// tone-mapped.
AVPixelFormat FrameToRgb::wanted_format(const AVFrame& frame) const {
  if (map_) {
    return AV_PIX_FMT_RGB48;
  }
  if (!may_be_transparent(frame.format) || background_.drop) {
    return AV_PIX_FMT_RGB24;
  }
  return is_deeper_than_8_bits(frame.format) ? AV_PIX_FMT_RGBA64 : AV_PIX_FMT_RGBA;
}

/// Converts a row to RGB with 8 bits per channel.
void FrameToRgb::finish_row(AVPixelFormat format, const uint8_t* from,
                            std::span<uint8_t> rgb) const {
  const size_t pixels = rgb.size() / 3;
  switch (format) {
    case AV_PIX_FMT_RGB48:
      (*map_)({reinterpret_cast<const uint16_t*>(from), pixels * 3}, rgb);
      break;
    case AV_PIX_FMT_RGBA64:
      put_over(background_, {reinterpret_cast<const uint16_t*>(from), pixels * 4}, rgb);
      break;
    case AV_PIX_FMT_RGBA:
      put_over(background_, {from, pixels * 4}, rgb);
      break;
    default:
      std::memcpy(rgb.data(), from, rgb.size());
  }
}

void FrameToRgb::convert(const AVFrame& frame, int64_t index, std::span<std::byte> rgb) {
  // Each chroma sample is used for its 2x2 block, as in the usual readers of training data;
  // interpolation would change colours at edges by tens of levels.
  const AVPixelFormat format = wanted_format(frame);
  SwsContext* scaler = scaler_.release();
  scaler_.reset(sws_getCachedContext(
      scaler, frame.width, frame.height, static_cast<AVPixelFormat>(frame.format), frame.width,
      frame.height, format, SWS_POINT | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, nullptr, nullptr,
      nullptr));
  check(scaler_ != nullptr, "[video] {} has a pixel format that cannot be converted", path_);
  const int* matrix = coefficients(frame);
  sws_setColorspaceDetails(scaler_.get(), matrix, is_full_range(frame) ? 1 : 0, matrix, 1, 0,
                           1 << 16, 1 << 16);
  // swscale writes whole vectors: separate padded rows keep it inside the memory.
  constexpr int64_t kWidestPixel = 8;
  const int64_t pixel_bytes = format == AV_PIX_FMT_RGB24  ? 3
                              : format == AV_PIX_FMT_RGBA ? 4
                                                          : kWidestPixel;
  const int64_t stride = (frame.width * pixel_bytes + 127) / 64 * 64;
  rows_.resize(static_cast<size_t>(stride * frame.height + 64));
  uint8_t* planes[4] = {rows_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {static_cast<int>(stride), 0, 0, 0};
  const int rows =
      sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, planes, strides);
  check(rows == frame.height, "[video] frame {} of {} cannot be converted", index, path_);
  const auto row_bytes = static_cast<size_t>(frame.width) * 3;
  for (int64_t y = 0; y < frame.height; ++y) {
    auto* to = reinterpret_cast<uint8_t*>(rgb.data()) + static_cast<size_t>(y) * row_bytes;
    finish_row(format, rows_.data() + y * stride, {to, row_bytes});
  }
}

}  // namespace kinema::media
