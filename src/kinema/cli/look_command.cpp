// The process of `kinema serve` that looks at pictures and videos of others.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "kinema/cli/commands.h"
#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 320;                         // of a thumbnail
constexpr int64_t kMostPixels = int64_t{8192} * 8192;  // of a frame

/// Frame 0 of u8 [f, h, w, 3].
HostArray first_frame(HostArray frames) {
  frames.shape.dims.erase(frames.shape.dims.begin());
  frames.bytes.resize(static_cast<size_t>(frames.shape.elements()));
  return frames;
}

io::Json look_at(const fs::path& file, const fs::path& thumb) {
  io::Json out = io::Json::object({{"is_video", false},
                                   {"width", int64_t{0}},
                                   {"height", int64_t{0}},
                                   {"frames", int64_t{1}},
                                   {"seconds", 0.0},
                                   {"thumb", ""},
                                   {"problem", ""}});
  try {
    const io::MappedFile mapped = io::MappedFile::open(file);
    const std::string name = file.filename().string();
    HostArray picture = mapped.parsed([&](std::span<const std::byte> bytes) {
      if (media::is_image(bytes)) {
        const media::ImageSize size = media::measure_image(bytes, name);
        check(size.width * size.height <= kMostPixels, "[look] {} has {} x {} pixels", name,
              size.width, size.height);
        out.set("width", size.width).set("height", size.height);
        return media::read_image(bytes, name);
      }
      const media::VideoProbe probe = media::probe_video(bytes, name);
      out.set("is_video", true)
          .set("width", probe.width)
          .set("height", probe.height)
          .set("frames", probe.frames)
          .set("seconds", probe.seconds);
      return first_frame(
          media::read_video(bytes, name, {.max_frames = 1, .max_pixels = kMostPixels}).frames);
    });
    const double scale = std::min(
        1.0, static_cast<double>(kSide) /
                 static_cast<double>(std::max(picture.shape.dims[0], picture.shape.dims[1])));
    const auto scaled = [&](int64_t side) {
      return std::max<int64_t>(1, std::llround(scale * static_cast<double>(side)));
    };
    if (scale < 1) {
      picture = media::resize_image(picture, scaled(picture.shape.dims[0]),
                                    scaled(picture.shape.dims[1]));
    }
    media::write_image(thumb, picture, media::ImageFormat::JPEG, 85);
    out.set("thumb", thumb.string());
  } catch (const Error& error) {
    out.set("problem", error.what());
  } catch (const std::bad_alloc&) {
    out.set("problem", "it needs too much memory");
  }
  return out;
}

}  // namespace

void add_look(Program& program) {
  Command command = program.add("look", "says what pictures and videos are, for `kinema serve`");
  command.hide();
  const auto words = std::make_shared<std::vector<std::string>>();
  command.option("FOLDER FILE...", *words, "for thumbnails, and files").required();
  command.run([words]() -> int {
    // A hostile file may ask for more than a machine has.
    const rlimit memory{rlim_t{6} << 30U, rlim_t{6} << 30U};
    const rlimit seconds{60, 60};
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CPU, &seconds);
    static std::atomic<int64_t> number = 0;
    for (size_t i = 1; i < words->size(); ++i) {
      const fs::path thumb =
          fs::path(words->front()) / fmt::format("{}-{}.jpg", getpid(), number++);
      fmt::print("{}\n", look_at((*words)[i], thumb).dump(-1));
      std::fflush(stdout);
    }
    return 0;
  });
}

}  // namespace kinema::cli
