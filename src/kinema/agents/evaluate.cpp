#include "kinema/agents/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kinema/agents/episode_player.h"
#include "kinema/agents/open_loop.h"
#include "kinema/agents/pictures.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/folder.h"
#include "kinema/media/image.h"
#include "kinema/media/sample_sheet.h"
#include "kinema/models/dreamer/encoder.h"

namespace kinema::agents {
namespace {

/// More pictures of an episode do not fit on a sheet.
constexpr int64_t kMostShown = 32;

/// The first environment's first episode: its pictures, as U8 [rows, columns, 3], and what the
/// world model needs of its first steps.
struct Recording {
  std::vector<HostArray> frames;
  std::optional<EpisodeBatch> batch;
  int64_t steps = 0;
  bool is_over = false;
};

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
    if (recording.batch && recording.batch->length() < kMostShown) {
      recording.batch->add(now, 0);
    }
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

/// What the world model predicts of the recorded steps.
std::optional<OpenLoop::Result> predicted(const Device& device, const dreamer::AgentConfig& config,
                                          const std::filesystem::path& agent,
                                          const Recording& recording) {
  constexpr int64_t kFewest = 2;
  if (!recording.batch || recording.batch->length() < kFewest) {
    return std::nullopt;
  }
  const OpenLoop program(device.client, config, device.model,
                         {.rows = 1, .length = recording.batch->length(), .context = 1},
                         device.program);
  const std::vector<size_t>& positions = program.parameters();
  const std::vector<pjrt::Buffer> values = read_parameters(device.client, config, agent, positions);
  return program(
      [&](size_t i) -> const pjrt::Buffer& {
        const auto at = std::ranges::find(positions, i) - positions.begin();
        return values.at(static_cast<size_t>(at));
      },
      recording.batch->batch());
}

/// The recorded pictures in a row and, where there is a prediction, that below.
void write_sheet(const std::filesystem::path& file, const Recording& recording,
                 const std::optional<OpenLoop::Result>& prediction) {
  io::make_folder(file.parent_path());
  std::vector<HostArray> shown = recording.frames;
  if (std::ssize(shown) > kMostShown) {
    shown.resize(kMostShown);
  }
  std::vector<media::SheetCell> cells{
      {.frames = stacked(shown), .title = prediction ? U"The episode" : U"", .caption = U""}};
  if (prediction) {
    cells.push_back({.frames = in_colours(row_of(prediction->prediction, 0)),
                     .title = U"The model: half observed, half imagined",
                     .caption = U""});
  }
  // One cell in a row: pictures of a step are below each other.
  constexpr int64_t kSide = 192;
  media::write_png(file, media::sample_sheet(cells, {.side = kSide, .most_width = 1}));
}

void write_pictures(const EvaluateOptions& options, const Recording& recording,
                    const Device& device, const dreamer::AgentConfig& config,
                    const std::filesystem::path& agent) {
  const HostArray frames = stacked(recording.frames);
  const int64_t rows = frames.shape.dims[1];
  if (!options.video.empty()) {
    write_video(options.video, frames, rows, options.fps);
  }
  if (options.sheet.empty() && options.open_loop.empty()) {
    return;
  }
  const std::optional<OpenLoop::Result> prediction = predicted(device, config, agent, recording);
  if (!options.sheet.empty()) {
    write_sheet(options.sheet, recording, prediction);
  }
  if (!options.open_loop.empty() && prediction) {
    write_video(options.open_loop, in_colours(prediction->video), rows, options.fps);
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
  const bool is_random = settings.flag("random_agent");
  if (!is_random) {
    actor = std::make_unique<Actor>(device.client, config, device.model, n, options.seed,
                                    device.program);
    actor->set(read_acting_parameters(device.client, config, checkpoint / kAgentFile));
  }
  EpisodePlayer player(
      std::make_unique<Driver>(std::move(group), std::move(actor), nullptr, 0, options.seed));

  const Stopwatch watch;
  EvaluateResult out{.step = io::Json::read(checkpoint / "counts.json").at("step").as_int()};
  Recording recording;
  const bool with_frames =
      !options.video.empty() || !options.sheet.empty() || !options.open_loop.empty();
  const bool predicts = !options.sheet.empty() || !options.open_loop.empty();
  if (predicts && !is_random && !dreamer::images_of(config).empty()) {
    recording.batch.emplace(config, device.model.activations_dtype);
  }
  const auto progress = job.task("episodes", options.episodes);
  const auto stops = [&] {
    job.check_stop();
    return false;
  };
  const auto on_step = [&](const Transition& now, int64_t done) {
    record(now, observer, job, with_frames, recording);
    progress->update(done);
  };
  for (const Episode& episode : player.play(options.episodes, stops, on_step)) {
    out.scores.push_back(episode.score);
    out.lengths.push_back(static_cast<double>(episode.length));
  }
  for (const double score : out.scores) {
    out.mean += score / static_cast<double>(options.episodes);
  }
  for (const double score : out.scores) {
    out.deviation +=
        (score - out.mean) * (score - out.mean) / static_cast<double>(options.episodes);
  }
  out.deviation = std::sqrt(out.deviation);
  if (with_frames) {
    check(!recording.frames.empty(),
          "[agents] no observation of the task is an image, expected one "
          "for a video\n  leave --video out");
    write_pictures(options, recording, device, config, checkpoint / kAgentFile);
  }
  out.seconds = watch.seconds();
  return out;
}

}  // namespace kinema::agents
