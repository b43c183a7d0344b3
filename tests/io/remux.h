#pragma once

// Copies a video's packets into another container with libav, to make files like other programs'.

extern "C" {
#include <libavformat/avformat.h>
}

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

namespace kinema::io {

struct RemuxOptions {
  /// Presentation time in seconds of packet number `packet` (from 0, in decoding order); empty:
  /// unchanged. Packets must be presented in decoding order.
  std::function<double(int64_t packet)> time;
  int pixel_width = 1;  // pixel aspect ratio, width to height
  int pixel_height = 1;
  bool audio_only = false;  // a silent audio stream and no video
};

inline void remux(const std::filesystem::path& from, const std::filesystem::path& to,
                  const RemuxOptions& options = {}) {
  const auto ok = [](bool good, const char* what) {
    if (!good) {
      throw std::runtime_error(std::string("remux: ") + what);
    }
  };
  AVFormatContext* in = nullptr;
  ok(avformat_open_input(&in, from.c_str(), nullptr, nullptr) >= 0, "open");
  ok(avformat_find_stream_info(in, nullptr) >= 0, "streams");
  AVFormatContext* out = nullptr;
  ok(avformat_alloc_output_context2(&out, nullptr, nullptr, to.c_str()) >= 0, "format");
  AVStream* source = in->streams[0];
  AVStream* stream = avformat_new_stream(out, nullptr);
  if (options.audio_only) {
    stream->codecpar->codec_type = AVMEDIA_TYPE_AUDIO;
    stream->codecpar->codec_id = AV_CODEC_ID_PCM_S16LE;
    stream->codecpar->sample_rate = 8000;
    av_channel_layout_default(&stream->codecpar->ch_layout, 1);
    stream->codecpar->bits_per_coded_sample = 16;
    stream->codecpar->block_align = 2;
  } else {
    ok(avcodec_parameters_copy(stream->codecpar, source->codecpar) >= 0, "parameters");
    stream->codecpar->codec_tag = 0;
    if (!options.time) {
      stream->avg_frame_rate = source->avg_frame_rate;
    }
    const AVRational pixel{options.pixel_width, options.pixel_height};
    stream->sample_aspect_ratio = pixel;
    stream->codecpar->sample_aspect_ratio = pixel;
  }
  stream->time_base = options.time ? AVRational{1, 1000} : av_inv_q(source->avg_frame_rate);
  ok(avio_open(&out->pb, to.c_str(), AVIO_FLAG_WRITE) >= 0, "write");
  ok(avformat_write_header(out, nullptr) >= 0, "header");
  AVPacket* packet = av_packet_alloc();
  int64_t number = 0;
  while (av_read_frame(in, packet) >= 0) {
    if (options.audio_only) {
      av_packet_unref(packet);
      av_new_packet(packet, 160);
      std::fill(packet->data, packet->data + 160, uint8_t{0});
      packet->pts = packet->dts = number * 80;
      packet->duration = 80;
    } else if (options.time) {
      const auto ticks = [&](int64_t i) {
        return av_rescale_q(static_cast<int64_t>(options.time(i) * 1000), AVRational{1, 1000},
                            stream->time_base);
      };
      packet->pts = packet->dts = ticks(number);
      packet->duration = ticks(number + 1) - ticks(number);
    } else {
      av_packet_rescale_ts(packet, source->time_base, stream->time_base);
    }
    packet->stream_index = 0;
    packet->pos = -1;
    ++number;
    ok(av_interleaved_write_frame(out, packet) >= 0, to.c_str());
  }
  av_packet_free(&packet);
  ok(av_write_trailer(out) >= 0, "trailer");
  avio_closep(&out->pb);
  avformat_free_context(out);
  avformat_close_input(&in);
}

}  // namespace kinema::io
