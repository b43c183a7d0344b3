#include "kinema/jobs/previews.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// Changes when the weights do.
std::string name_of_colors(const encoders::Autoencoder& autoencoder, const std::string& about) {
  std::string text = fmt::format("{} {}", autoencoder.name(), about);
  const auto add = [&](const fs::path& file) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) {
      text += fmt::format(" {} {} {}", file.filename().string(), fs::file_size(file, error),
                          fs::last_write_time(file, error).time_since_epoch().count());
    }
  };
  const fs::path weights = about;
  add(weights);
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& each : fs::directory_iterator(weights, error)) {
    files.push_back(each.path());
  }
  std::ranges::sort(files);
  std::ranges::for_each(files, add);
  return fmt::format("{}-{:016x}.json", autoencoder.name(), fingerprint(text));
}

sample::LatentColors kept_or_fitted(const fs::path& file,
                                    const encoders::Autoencoder& autoencoder) {
  try {
    if (!file.empty()) {
      sample::LatentColors kept = sample::read_latent_colors(io::Json::read(file));
      if (kept.channels == autoencoder.layout().channels) {
        return kept;
      }
    }
  } catch (const Error&) {
    // It is not there, or damaged: written anew below.
  }
  const sample::LatentColors out = sample::fit_colors(autoencoder);
  autoencoder.release();  // the request loads it when there is room for it
  if (!file.empty()) {
    io::make_folder(file.parent_path());
    io::write_file(file, sample::to_json(out).dump(-1));
  }
  return out;
}

/// Video 0 of f32 [b, c, f, h, w].
HostArray first_video(HostArray batch) {
  batch.shape.dims.erase(batch.shape.dims.begin());
  batch.bytes.resize(static_cast<size_t>(batch.shape.elements()) * sizeof(float));
  return batch;
}

}  // namespace

Previews::Previews(const PreviewOptions& options, const encoders::Autoencoder& autoencoder,
                   const std::string& about, const Job& job)
    : options_(options), job_(job) {
  if (options.every <= 0 || !options.show) {
    return;
  }
  try {
    const fs::path file =
        options.folder.empty() ? fs::path() : options.folder / name_of_colors(autoencoder, about);
    colors_ = kept_or_fitted(file, autoencoder);
  } catch (const Error& error) {
    job.notice(fmt::format("no previews: {}", error.what()));
  }
}

void Previews::after(const sample::DenoiseStep& step) {
  const bool is_due = (step.index + 1) % std::max<int64_t>(1, options_.every) == 0 &&
                      (!since_ || since_->seconds() >= options_.pause);
  if (!colors_ || !is_due || step.done == step.total) {
    return;
  }
  since_.emplace();
  try {
    const HostArray latents = first_video(step.prediction.to_host());
    options_.show(sample::picture_of(latents, latents.shape.dims[1] / 2, *colors_));
  } catch (const Error& error) {
    job_.notice(fmt::format("no more previews: {}", error.what()));
    colors_.reset();
  }
}

}  // namespace kinema::jobs
