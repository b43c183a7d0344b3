#include "kinema/agents/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kinema/agents/driver.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/folder.h"
#include "kinema/media/image.h"
#include "kinema/media/sample_sheet.h"
#include "kinema/media/video.h"

namespace kinema::agents {
namespace {

/// The first environment's first episode: its pictures, as U8 [rows, columns, 3].
struct Recording {
  std::vector<HostArray> frames;
  int64_t steps = 0;
  bool is_over = false;
};

/// An image [rows, columns, channels] in three: grey is repeated, others are cut or filled up.
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

/// The values of an action, as text: `2`, `[0.13, -1.02]`.
std::string action_text(const environments::Arrays& actions) {
  std::string out;
  for (const auto& [name, rows] : actions) {
    const HostArray row = row_of(rows, 0);
    std::string values;
    const auto add = [&](const std::string& value) {
      values += (values.empty() ? "" : ", ") + value;
    };
    if (row.shape.dtype == DType::F32) {
      for (const float value : row.as<float>()) {
        add(fmt::format("{:.2f}", value));
      }
    } else {
      const HostArray wide = convert(row, DType::S64);
      for (const int64_t value : wide.as<int64_t>()) {
        add(fmt::format("{}", value));
      }
    }
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name,
                       row.shape.dims.empty() ? values : "[" + values + "]");
  }
  return out;
}

void record(const Transition& now, const EvaluateObserver& observer, const Job& job,
            bool with_frames, Recording& recording) {
  if (recording.is_over) {
    return;
  }
  if (with_frames) {
    for (const auto& [name, rows] : now.observations) {
      if (rows.shape.rank() == 4 && rows.shape.dtype == DType::U8) {
        recording.frames.push_back(in_colour(row_of(rows, 0)));
        break;
      }
    }
  }
  job.tell(observer.on_step, recording.steps, now.is_last[0] != 0 ? "" : action_text(now.actions),
           static_cast<double>(now.reward[0]));
  ++recording.steps;
  recording.is_over = now.is_last[0] != 0;
}

void write_pictures(const EvaluateOptions& options, const Recording& recording) {
  if (options.video.empty() && options.sheet.empty()) {
    return;
  }
  check(!recording.frames.empty(),
        "[agents] no observation of the task is an image, expected one "
        "for a video\n  leave --video out");
  const HostArray frames = stacked(recording.frames);
  if (!options.video.empty()) {
    io::make_folder(options.video.parent_path());
    constexpr int64_t kSide = 256;
    const int64_t rows = frames.shape.dims[1];
    media::write_mp4(options.video, frames,
                     {.fps = options.fps,
                      .pixel_format = "yuv444p",
                      .enlarge = static_cast<int>(std::max<int64_t>(1, kSide / rows))});
  }
  if (!options.sheet.empty()) {
    io::make_folder(options.sheet.parent_path());
    constexpr size_t kMost = 32;
    std::vector<HostArray> shown = recording.frames;
    if (shown.size() > kMost) {
      shown.resize(kMost);
    }
    const media::SheetCell cell{.frames = stacked(shown), .title = U"", .caption = U""};
    media::write_png(options.sheet, media::sample_sheet({&cell, 1}, {.side = 96}));
  }
}

}  // namespace

io::Json EvaluateResult::json() const {
  io::Json all = io::Json::array();
  for (const double score : scores) {
    all.append(score);
  }
  double length = 0.0;
  for (const double each : lengths) {
    length += each / static_cast<double>(lengths.size());
  }
  return io::Json::object({{"step", step},
                           {"episodes", std::ssize(scores)},
                           {"mean_score", mean},
                           {"deviation", deviation},
                           {"mean_length", length},
                           {"seconds", seconds},
                           {"scores", all}});
}

EvaluateResult evaluate(const std::filesystem::path& run, const EvaluateOptions& options,
                        const EvaluateObserver& observer, const JobOptions& job_options) {
  check(options.episodes > 0 && options.environments > 0,
        "[agents] {} episodes in {} environments, expected at least one of each", options.episodes,
        options.environments);
  const Job job(observer, job_options);
  const Settings settings = Settings::read(run / kSettingsFile);
  const std::filesystem::path checkpoint = newest_checkpoint(run);
  const int64_t n = std::min(options.environments, options.episodes);
  const Device device = open_device(settings);
  auto group = open_environments(settings, n, 0, options.seed);
  const dreamer::AgentConfig config =
      agent_config(settings, group->observations(), group->actions());
  std::unique_ptr<Actor> actor;
  if (!settings.flag("random_agent")) {
    actor = std::make_unique<Actor>(device.client, config, device.model, n, options.seed,
                                    device.program);
    actor->set(read_acting_parameters(device.client, config, checkpoint / kAgentFile));
  }
  Driver driver(std::move(group), std::move(actor), nullptr, 0, options.seed);

  const Stopwatch watch;
  EvaluateResult out{.step = io::Json::read(checkpoint / "counts.json").at("step").as_int()};
  Recording recording;
  const bool with_frames = !options.video.empty() || !options.sheet.empty();
  const auto progress = job.task("episodes", options.episodes);
  // Environment i plays its share; further episodes are not counted.
  std::vector<int64_t> left(static_cast<size_t>(n), options.episodes / n);
  for (int64_t i = 0; i < options.episodes % n; ++i) {
    ++left[static_cast<size_t>(i)];
  }
  for (int64_t call = 0; std::ssize(out.scores) < options.episodes; ++call) {
    job.check_stop();
    std::vector<uint8_t> ended;
    const std::vector<Episode> episodes = driver.step(call, [&](const Transition& now) {
      record(now, observer, job, with_frames, recording);
      ended = now.is_last;
    });
    size_t next = 0;
    for (size_t i = 0; i < ended.size(); ++i) {
      if (ended[i] == 0) {
        continue;
      }
      const Episode& episode = episodes[next++];
      if (left[i] > 0) {
        --left[i];
        out.scores.push_back(episode.score);
        out.lengths.push_back(static_cast<double>(episode.length));
      }
    }
    progress->update(std::ssize(out.scores));
  }
  for (const double score : out.scores) {
    out.mean += score / static_cast<double>(options.episodes);
  }
  for (const double score : out.scores) {
    out.deviation +=
        (score - out.mean) * (score - out.mean) / static_cast<double>(options.episodes);
  }
  out.deviation = std::sqrt(out.deviation);
  write_pictures(options, recording);
  out.seconds = watch.seconds();
  return out;
}

}  // namespace kinema::agents
