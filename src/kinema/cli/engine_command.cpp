// The process of `kinema serve` that has the compiler and the device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/jobs/generate.h"
#include "kinema/media/image.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/served_model.h"
#include "kinema/runtime/client.h"
#include "kinema/serve/engine.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// The middle frame of a video, u8 [h, w, 3].
HostArray middle_frame(const HostArray& frames) {
  const Dims& dims = frames.shape.dims;
  HostArray out(Shape{DType::U8, {dims[1], dims[2], dims[3]}});
  const auto begin =
      frames.bytes.begin() +
      static_cast<std::ptrdiff_t>(dims[0] / 2 * static_cast<int64_t>(out.bytes.size()));
  std::copy_n(begin, out.bytes.size(), out.bytes.begin());
  return out;
}

/// A picture of at most 320 pixels a side, beside the output.
fs::path write_thumb(const fs::path& output, const HostArray& frames) {
  constexpr double kSide = 320;
  HostArray image = middle_frame(frames);
  const double height = static_cast<double>(image.shape.dims[0]);
  const double width = static_cast<double>(image.shape.dims[1]);
  const double scale = std::min(1.0, kSide / std::max(height, width));
  if (scale < 1) {
    image = media::resize_image(image, std::max<int64_t>(1, std::llround(height * scale)),
                                std::max<int64_t>(1, std::llround(width * scale)));
  }
  const fs::path out = output.parent_path() / (output.stem().string() + ".thumb.png");
  media::write_png(out, image);
  return out;
}

/// A preview has a pixel for each latent cell: twice as large, at least 64 pixels a side.
HostArray visible(const HostArray& picture) {
  const Dims& dims = picture.shape.dims;
  const int64_t scale = std::max<int64_t>(2, 64 / std::max<int64_t>(1, std::min(dims[0], dims[1])));
  return media::resize_image(picture, dims[0] * scale, dims[1] * scale);
}

/// A task that tells its name as a phase.
std::string phase_of(const std::string& task) {
  if (task.find("compil") != std::string::npos) {
    return "compiling";
  }
  if (task.find("text") != std::string::npos || task.find("prompt") != std::string::npos) {
    return "text";
  }
  if (task.find("decod") != std::string::npos) {
    return "decoding";
  }
  return task.find("load") != std::string::npos ? "loading" : "";
}

/// Makes what is asked as `kinema generate` does.
class JobMaker : public serve::Maker {
 public:
  serve::Made make(const serve::MakeSettings& settings, serve::Progress& progress) override {
    const config::Loaded loaded = configuration(settings, progress);
    if (!generator_) {
      generator_ = std::make_unique<jobs::Generator>(loaded.config.serve.serve_keep_models);
    }
    jobs::GenerateObserver observer;
    observer.on_memory = [&](int64_t bytes, int64_t /*limit*/) { progress.memory(bytes); };
    observer.previews = {
        .every = loaded.config.serve.serve_preview_steps,
        .folder = fs::path(runtime::cache_folder()) / "previews",
        .show = [&](const HostArray& picture) {
          progress.preview(media::encode_image(visible(picture), media::ImageFormat::JPEG, 80));
        }};
    observer.on_notice = [&](const std::string& line) { progress.notice(line); };
    observer.on_task = [&](const std::string& what, int64_t) {
      if (const std::string phase = phase_of(what); !phase.empty()) {
        progress.phase(phase);
      }
      return std::make_unique<Task>();
    };
    observer.on_start = [&](const jobs::GenerateStart&) { progress.phase("compiling"); };
    observer.on_step = [&](int64_t done, int64_t total) {
      progress.step(done, total);
      if (done == total) {
        progress.phase("decoding");
      }
    };
    const jobs::GenerateResult result =
        generator_->generate(loaded, observer, job_options(progress.stop()));
    serve::Made out = made(result, loaded);
    const jobs::DeviceUse use = generator_->device();
    out.device = {.name = use.kind,
                  .platform = use.platform,
                  .count = use.count,
                  .bytes = use.bytes,
                  .limit = use.limit};
    return out;
  }

 private:
  static config::Loaded configuration(const serve::MakeSettings& settings,
                                      serve::Progress& progress) {
    Observer observer;
    observer.on_notice = [&](const std::string& line) { progress.notice(line); };
    config::Loaded out =
        resolve::load_generation(settings.arguments, variables(), Job(observer, {}));
    for (const auto& [key, value] : settings.settings.members()) {
      if (!value.is_null()) {
        out = resolve::with_client_key(std::move(out), key,
                                       value.is_string() ? value.as_string() : value.dump(-1));
      }
    }
    const auto set = [&](const std::string& key, const std::string& value) {
      config::set(out, key, value);
    };
    for (const auto& [input, path] : settings.inputs) {
      set(resolve::input_key(input), path.string());
    }
    if (!settings.loras.empty()) {
      io::Json files = io::Json::array();
      io::Json scales = io::Json::array();
      for (const auto& [path, scale] : settings.loras) {
        files.append(path.string());
        scales.append(scale);
      }
      set("enable_lora", "true");
      set("lora_config", io::Json::object({{"lora_model_name_or_path", std::move(files)},
                                           {"scale", std::move(scales)}})
                             .dump(-1));
    }
    const bool makes_images = resolve::served_model(out).makes_images;
    set(makes_images ? "num_images_per_prompt" : "num_videos_per_prompt",
        std::to_string(settings.count));
    set("video_folder", settings.folder.string());
    set("contact_sheet", "false");
    return out;
  }

  static serve::Made made(const jobs::GenerateResult& result, const config::Loaded& loaded) {
    const sample::Timings& t = result.made.timings;
    serve::Made out{.times = {.setup = t.load + t.compile,
                              .steps = t.denoise,
                              .others = t.text + t.image + t.decode,
                              .count = result.made.steps}};
    for (const auto& video : result.videos) {
      const Dims& dims = video.frames.shape.dims;
      const bool is_video = fs::path(video.path).extension() == ".mp4";
      out.files.push_back({.path = video.path,
                           .thumb = write_thumb(video.path, video.frames),
                           .is_video = is_video,
                           .width = dims.at(2),
                           .height = dims.at(1),
                           .frames = dims.at(0),
                           .fps = is_video ? static_cast<double>(loaded.config.generate.fps) : 0,
                           .index = video.index});
    }
    return out;
  }

  std::unique_ptr<jobs::Generator> generator_;  // models stay loaded for the next request
};

}  // namespace

void add_engine(Program& program) {
  Command command = program.add("engine", "makes what `kinema serve` asks for");
  command.hide();
  command.run([]() -> int {
    JobMaker maker;
    serve::run_engine(serve::kEngineSocket, maker, "");
  });
}

}  // namespace kinema::cli
