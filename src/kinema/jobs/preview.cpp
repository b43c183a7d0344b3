#include "kinema/jobs/preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/video_source.h"
#include "kinema/datasets/clip_report.h"
#include "kinema/datasets/clips.h"
#include "kinema/media/sample_sheet.h"
#include "kinema/model_source/network.h"
#include "kinema/model_source/pictures.h"
#include "kinema/resolve/dataset.h"
#include "kinema/stores/local_copies.h"
#include "kinema/text/unicode.h"

namespace kinema::jobs {
namespace {

/// Per clip, from its first frame to its last.
constexpr int64_t kFramesShown = 4;

/// Selects frames of f32 [3, f, h, w] in [-1, 1]; returns u8 [n, h, w, 3].
HostArray frames_to_show(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  const int64_t count = std::min(dims[1], kFramesShown);
  const int64_t plane = dims[2] * dims[3];
  HostArray out(Shape{DType::U8, {count, dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  uint8_t* to = out.as<uint8_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t frame = count == 1 ? 0 : i * (dims[1] - 1) / (count - 1);
    for (int64_t p = 0; p < plane; ++p) {
      for (int64_t c = 0; c < 3; ++c) {
        const float level = from[static_cast<size_t>((c * dims[1] + frame) * plane + p)];
        *to++ = static_cast<uint8_t>(std::lround(std::clamp((level + 1) * 127.5F, 0.0F, 255.0F)));
      }
    }
  }
  return out;
}

std::u32string decoded(std::string text) {
  for (size_t bad = 0; (bad = text::invalid_utf8_at(text)) != std::string::npos;) {
    text[bad] = '?';
  }
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' '; }, ' ');
  return text::decode_utf8(text);
}

/// `480x832 of 1080x1920, 81 of 120 frames`: the sizes of the sample and of its clip.
std::string title_of(const std::string& where, const Shape& pixels, const data::ClipSize& clip) {
  std::string out = fmt::format("{}: {}x{} of {}x{}", where, pixels.dims[2], pixels.dims[3],
                                clip.height, clip.width);
  if (clip.frames > 1) {
    out += fmt::format(", {} of {} frames", pixels.dims[1], clip.frames);
  }
  return out;
}

/// The configuration with the sizes of an image model. Of a model that is not on this machine, its
/// name must be that of a release; for other names the configuration is unchanged.
resolve::Settings with_sizes(const resolve::Settings& loaded, const Job& job) {
  try {
    return model_source::with_image_keys(loaded, model_source::picture_settings(loaded));
  } catch (const Error& error) {
    const std::string why = error.what();
    try {
      return model_source::with_image_keys(
          loaded, model_source::picture_settings(model_source::planned_network(loaded)));
    } catch (const Error&) {
      job.notice("sizes are the configuration's, because the model is not here: " +
                 why.substr(0, why.find('\n')));
      return loaded;
    }
  }
}

}  // namespace

Preview preview(const resolve::Settings& given, const std::string& path, int64_t samples,
                const Observer& observer) {
  const Job job(observer, {});
  const resolve::Settings settings =
      with_sizes(resolve::with_clips(given, stores::local_copy(path, job)), job);
  const datasets::ClipSettings clip_settings =
      resolve::clip_settings(settings, data::Split::Part::TRAINED);
  const std::shared_ptr<const data::ClipSet> clips = datasets::open_clips(clip_settings, job);
  data::Survey survey = datasets::survey_dataset(clip_settings, *clips, job);
  job.notice(datasets::report_lines(clip_settings, *clips, survey, {}, ""));
  data::VideoOptions options = clip_settings.order;
  options.buckets = std::move(survey.buckets);
  options.batch = resolve::samples_per_device(settings);
  options.bad_clip = data::BadClip::Skip;
  options.cache_bytes = 0;
  int64_t bad = survey.bad();
  options.problems = std::move(survey.problems);
  options.on_skip = [&](int64_t /*clip*/, const std::string& why) {
    ++bad;
    job.notice("skipped: " + why);
  };
  std::vector<media::SheetCell> cells;
  const auto source = data::video_source(clips, options, [&](const data::Clip& clip) {
    cells.push_back({.frames = frames_to_show(clip.pixels),
                     .title = decoded(title_of(clips->where(clip.number), clip.pixels.shape,
                                               clips->measure(clip.number))),
                     .caption = clip.caption.empty() ? U"(no caption)" : decoded(clip.caption)});
    return data::Sample{};
  });
  const int64_t count = std::min(samples, source->size());
  for (int64_t position = 0; position < count; ++position) {
    source->at(position);
  }
  return {.sheet = media::sample_sheet(cells),
          .samples = std::ssize(cells),
          .of = source->size(),
          .bad_clips = clip_settings.skips_bad() ? 0 : bad};
}

}  // namespace kinema::jobs
