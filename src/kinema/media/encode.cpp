#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/descriptor.h"
#include "kinema/media/av.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

extern "C" {
#include <libavutil/crc.h>
}

namespace kinema::media {
namespace {

namespace fs = std::filesystem;

// Frame `index` of u8 [f, h, w, 3], each pixel enlarged to a block and padded to `height` x `width`
// by repeating the last row and column.
std::vector<uint8_t> fitted_frame(const HostArray& frames, int64_t index, int enlarge,
                                  int64_t height, int64_t width) {
  const int64_t rows = frames.shape.dims[1];
  const int64_t columns = frames.shape.dims[2];
  const auto* in =
      reinterpret_cast<const uint8_t*>(frames.bytes.data()) + index * rows * columns * 3;
  std::vector<uint8_t> out(static_cast<size_t>(height * width * 3));
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* row = in + std::min(y / enlarge, rows - 1) * columns * 3;
    for (int64_t x = 0; x < width; ++x) {
      std::memcpy(&out[static_cast<size_t>((y * width + x) * 3)],
                  row + std::min(x / enlarge, columns - 1) * 3, 3);
    }
  }
  return out;
}

// A temporary name next to the file; the file is removed unless it was renamed.
struct Temporary {
  fs::path path;

  explicit Temporary(const fs::path& target) : path(target) {
    static std::atomic<uint64_t> counter = 0;
    path.replace_filename(
        fmt::format(".{}.{}-{}.tmp", target.filename().string(), ::getpid(), counter++));
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path.empty()) {
      ::unlink(path.c_str());
    }
  }
};

// An mp4 under a temporary name until it is complete. The muxer goes back to move the index to the
// front, so it needs a real file.
class Mp4Writer {
 public:
  Mp4Writer(fs::path path, int64_t height, int64_t width, const WriteMp4Options& options)
      : path_(std::move(path)), temporary_(path_) {
    av::silence();
    io::check_file_place(path_);
    AVFormatContext* format = nullptr;
    avformat_alloc_output_context2(&format, nullptr, "mp4", nullptr);
    format_.reset(format);
    check(format_ != nullptr, "[video] libavformat has no mp4 muxer");
    format_->flags |= AVFMT_FLAG_BITEXACT;
    open_encoder(height, width, options);
    stream_ = avformat_new_stream(format_.get(), nullptr);
    check(stream_ != nullptr, "[video] out of memory");
    open_filter();
    must(avcodec_parameters_copy(stream_->codecpar, filter_->par_out));
    stream_->time_base = codec_->time_base;
    stream_->avg_frame_rate = codec_->framerate;
    // `file:` prevents a path with a colon from being parsed as a protocol.
    const std::string url = "file:" + temporary_.path.string();
    av_freep(&format_->url);
    format_->url = av_strdup(url.c_str());
    must(avio_open(&format_->pb, url.c_str(), AVIO_FLAG_WRITE));
    AVDictionary* settings = nullptr;
    av_dict_set(&settings, "movflags", "+faststart", 0);
    const int result = avformat_write_header(format_.get(), &settings);
    av_dict_free(&settings);
    must(result);
  }
  void add(const std::vector<uint8_t>& rgb) {
    must(av_frame_make_writable(frame_.get()));
    const uint8_t* planes[4] = {rgb.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {codec_->width * 3, 0, 0, 0};
    sws_scale(scaler_.get(), planes, strides, 0, codec_->height, frame_->data, frame_->linesize);
    frame_->pts = next_++;
    send(frame_.get());
  }

  void finish() {
    send(nullptr);
    must(av_write_trailer(format_.get()));
    must(avio_closep(&format_->pb));
    io::Descriptor written = io::Descriptor::open(temporary_.path, O_RDONLY);
    const bool synced = written && ::fsync(written.get()) == 0;
    const int error = errno;
    written.close();
    check(synced && ::rename(temporary_.path.c_str(), path_.c_str()) == 0,
          "[video] cannot write {}: {}", path_.string(), errno_text(synced ? errno : error));
    temporary_.path.clear();
  }

 private:
  void must(int result) const {
    check(result >= 0, "[video] cannot write {}: {}", path_.string(), av::reason(result));
  }

  void open_encoder(int64_t height, int64_t width, const WriteMp4Options& options) {
    const AVCodec* encoder = avcodec_find_encoder_by_name("libx264");
    check(encoder != nullptr,
          "[video] this libavcodec has no libx264 encoder\n  install a libavcodec built with it");
    const AVPixelFormat format = av_get_pix_fmt(options.pixel_format.c_str());
    check(format == AV_PIX_FMT_YUV420P || format == AV_PIX_FMT_YUV444P,
          "[video] pixel_format is `{}` but must be yuv420p or yuv444p", options.pixel_format);
    codec_.reset(avcodec_alloc_context3(encoder));
    check(codec_ != nullptr, "[video] out of memory");
    codec_->width = static_cast<int>(width);
    codec_->height = static_cast<int>(height);
    codec_->pix_fmt = format;
    codec_->framerate = av_d2q(options.fps, 100'000);
    codec_->time_base = av_inv_q(codec_->framerate);
    codec_->colorspace = AVCOL_SPC_SMPTE170M;  // BT.601, the default of readers without metadata
    codec_->color_range = AVCOL_RANGE_MPEG;
    codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER | AV_CODEC_FLAG_BITEXACT;
    // One thread for small frames, because x264's output depends on the number of threads.
    codec_->thread_count = height * width <= int64_t{256} * 256 ? 1 : 0;
    AVDictionary* settings = nullptr;
    av_dict_set_int(&settings, "crf", options.crf, 0);
    av_dict_set(&settings, "preset", options.preset.c_str(), 0);
#ifdef __x86_64__
    // x264's AVX-512 code for macroblock trees reads uninitialised memory: the same frames would
    // give different files.
    if (__builtin_cpu_supports("avx512bw")) {
      av_dict_set(&settings, "x264-params", "asm=avx2", 0);
    }
#endif
    const int result = avcodec_open2(codec_.get(), encoder, &settings);
    av_dict_free(&settings);
    must(result);

    frame_.reset(av_frame_alloc());
    check(frame_ != nullptr, "[video] out of memory");
    frame_->format = format;
    frame_->width = codec_->width;
    frame_->height = codec_->height;
    must(av_frame_get_buffer(frame_.get(), 0));
    scaler_.reset(sws_getContext(
        codec_->width, codec_->height, AV_PIX_FMT_RGB24, codec_->width, codec_->height, format,
        SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, nullptr, nullptr, nullptr));
    check(scaler_ != nullptr, "[video] frames of {}x{} (height x width) cannot be converted",
          height, width);
    const int* matrix = sws_getCoefficients(SWS_CS_ITU601);
    sws_setColorspaceDetails(scaler_.get(), matrix, 1, matrix, 0, 0, 1 << 16, 1 << 16);
  }

  // x264 writes 700 bytes of its settings, as text, into every file (SEI, NAL type 6): as much as a
  // tiny clip.
  void open_filter() {
    AVBSFContext* filter = nullptr;
    const AVBitStreamFilter* kind = av_bsf_get_by_name("filter_units");
    check(kind != nullptr, "[video] this libavcodec has no filter_units");
    must(av_bsf_alloc(kind, &filter));
    filter_.reset(filter);
    must(avcodec_parameters_from_context(filter->par_in, codec_.get()));
    filter->time_base_in = codec_->time_base;
    must(av_opt_set(filter->priv_data, "remove_types", "6", 0));
    must(av_bsf_init(filter));
  }

  void send(const AVFrame* frame) {
    must(avcodec_send_frame(codec_.get(), frame));
    const av::Packet packet(av_packet_alloc());
    check(packet != nullptr, "[video] out of memory");
    for (;;) {
      const int result = avcodec_receive_packet(codec_.get(), packet.get());
      if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
        return;
      }
      must(result);
      must(av_bsf_send_packet(filter_.get(), packet.get()));
      must(av_bsf_receive_packet(filter_.get(), packet.get()));
      packet->duration = 1;
      av_packet_rescale_ts(packet.get(), codec_->time_base, stream_->time_base);
      packet->stream_index = stream_->index;
      must(av_interleaved_write_frame(format_.get(), packet.get()));
    }
  }

  fs::path path_;
  Temporary temporary_;
  av::Output format_;
  AVStream* stream_ = nullptr;
  av::Codec codec_;
  av::Filter filter_;
  av::Frame frame_;
  av::Scaler scaler_;
  int64_t next_ = 0;
};

}  // namespace

WrittenMp4 write_mp4(const fs::path& path, const HostArray& frames,
                     const WriteMp4Options& options) {
  const Shape& shape = frames.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 4 && shape.dims[3] == 3 && shape.elements() > 0,
        "[video] write_mp4 was given {}, u8 [f, h, w, 3] was expected", to_string(shape));
  check(options.fps > 0 && options.fps <= 1000, "[video] fps is {} but must be in (0, 1000]",
        options.fps);
  check(options.crf >= 0 && options.crf <= 51, "[video] crf is {} but must be in 0..51",
        options.crf);
  check(options.enlarge >= 1 && options.enlarge <= 64, "[video] enlarge is {} but must be in 1..64",
        options.enlarge);
  check(shape.dims[1] * options.enlarge <= 16384 && shape.dims[2] * options.enlarge <= 16384,
        "[video] frames of {} are larger than H.264 allows", to_string(shape));
  const int64_t height = shape.dims[1] * options.enlarge;
  const int64_t width = shape.dims[2] * options.enlarge;
  WrittenMp4 written{height + height % 2, width + width % 2, height % 2 != 0 || width % 2 != 0};
  Mp4Writer writer(path, written.height, written.width, options);
  for (int64_t f = 0; f < shape.dims[0]; ++f) {
    writer.add(fitted_frame(frames, f, options.enlarge, written.height, written.width));
  }
  writer.finish();
  return written;
}

namespace {

void append_u32(std::vector<std::byte>& to, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) {
    to.push_back(static_cast<std::byte>(value >> shift));
  }
}

/// The chunk of a text, neither compressed nor translated (ISO/IEC 15948, 11.3.3.4).
std::vector<std::byte> text_chunk(const PngText& text) {
  constexpr std::string_view kPlain("\0\0\0\0\0", 5);  // ends the keyword; flags; no languages
  const std::string body = "iTXt" + text.keyword + std::string(kPlain) + text.text;
  std::vector<std::byte> out;
  append_u32(out, static_cast<uint32_t>(body.size() - 4));
  const auto bytes = std::as_bytes(std::span(body));
  out.insert(out.end(), bytes.begin(), bytes.end());
  const uint32_t crc = av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), 0xFFFFFFFFU,
                              reinterpret_cast<const uint8_t*>(body.data()), body.size());
  append_u32(out, ~crc);
  return out;
}

}  // namespace

void write_png(const fs::path& path, const HostArray& image, std::span<const PngText> texts) {
  const Shape& shape = image.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 3 && shape.dims[2] == 3 && shape.elements() > 0,
        "[image] write_png was given {}, u8 [h, w, 3] was expected", to_string(shape));
  av::silence();
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_PNG);
  const av::Codec codec(encoder != nullptr ? avcodec_alloc_context3(encoder) : nullptr);
  const av::Frame frame(av_frame_alloc());
  const av::Packet packet(av_packet_alloc());
  check(codec != nullptr && frame != nullptr && packet != nullptr,
        "[image] this libavcodec has no PNG encoder");
  codec->height = frame->height = static_cast<int>(shape.dims[0]);
  codec->width = frame->width = static_cast<int>(shape.dims[1]);
  codec->pix_fmt = AV_PIX_FMT_RGB24;
  codec->time_base = {1, 25};
  codec->sample_aspect_ratio = frame->sample_aspect_ratio = {1, 1};
  codec->thread_count = 1;
  frame->format = AV_PIX_FMT_RGB24;
  const auto must = [&](int result) {
    check(result >= 0, "[image] cannot write {}: {}", path.string(), av::reason(result));
  };
  must(avcodec_open2(codec.get(), encoder, nullptr));
  must(av_frame_get_buffer(frame.get(), 0));
  const int64_t row = shape.dims[1] * 3;
  for (int64_t y = 0; y < shape.dims[0]; ++y) {
    std::memcpy(frame->data[0] + y * frame->linesize[0], image.bytes.data() + y * row,
                static_cast<size_t>(row));
  }
  must(avcodec_send_frame(codec.get(), frame.get()));
  must(avcodec_send_frame(codec.get(), nullptr));
  must(avcodec_receive_packet(codec.get(), packet.get()));
  const auto bytes = std::as_bytes(std::span(packet->data, static_cast<size_t>(packet->size)));
  constexpr size_t kHeader = 8 + 25;  // signature and the chunk IHDR, which is always first
  io::AtomicFile file(path);
  file.write(bytes.first(kHeader));
  for (const PngText& text : texts) {
    file.write(text_chunk(text));
  }
  file.write(bytes.subspan(kHeader));
  file.commit();
}

}  // namespace kinema::media
