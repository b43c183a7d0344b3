#include "kinema/agents/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kinema/agents/pictures.h"
#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "kinema/models/dreamer/encoder.h"
#include "kinema/replay/slices.h"

namespace kinema::agents {
namespace fs = std::filesystem;
namespace {

// The score that is shown is a mean over the episodes of this many steps of the environments. Of
// short episodes there are enough of them in it, and long ones do not show what the agent did long
// ago.
constexpr int64_t kScoredSteps = 1000;
constexpr size_t kFewestScored = 5;
constexpr size_t kMostScored = 100;

std::string space_line(const std::string& name, const environments::Space& space) {
  std::string out = fmt::format("{} {}", name, to_string(Shape{space.dtype, space.shape}));
  if (space.is_discrete()) {
    out += fmt::format(", {} classes", space.classes());
  }
  return out;
}

/// Throws an Error that names the losses that are not finite: nothing of the step is saved.
void check_finite(const Learner::Result& result, int64_t number) {
  std::string names;
  for (const auto& [name, value] : result.metrics) {
    if ((name.starts_with("loss/") || name == "opt/loss" || name == "opt/grad_norm") &&
        !std::isfinite(value)) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  check(names.empty(),
        "[agents] step {} of training is not finite: {}\n  nothing of it is saved; the run goes on "
        "from its last checkpoint, with a lower agent.opt.lr or jax.compute_dtype=float32",
        number, names);
}

}  // namespace

TrainRun::TrainRun(const Settings& settings, const TrainObserver& observer, const Job& job,
                   std::filesystem::path folder)
    : settings_(settings),
      observer_(observer),
      job_(job),
      folder_(std::move(folder)),
      device_(open_device(settings)),
      batch_(batch_size(settings)),
      ratio_(settings.number("run.train_ratio") / static_cast<double>(batch_.rows * batch_.length)),
      checkpoints_(folder_ / kCheckpoints, {.newest = 1}) {
  job_.notice(device_.flags.warnings);
  if (!device_.flags.line.empty()) {
    job_.line(device_.flags.line);
  }
  open_drivers();
}

void TrainRun::open_drivers() {
  const int64_t count = settings_.whole("run.envs");
  const int64_t groups = settings_.whole("run.env_groups");
  check(count > 0 && groups > 0 && count % groups == 0,
        "[settings] {} environments (run.envs) cannot be {} equal groups (run.env_groups)", count,
        groups);
  const auto seed = static_cast<uint64_t>(settings_.whole("seed"));
  const bool is_random = settings_.flag("random_agent");
  std::vector<std::unique_ptr<environments::Group>> opened;
  {
    const auto task = job_.task("opening the environments");
    for (int64_t i = 0; i < groups; ++i) {
      opened.push_back(open_environments(settings_, count / groups, i * (count / groups), seed));
    }
  }
  config_ = agent_config(settings_, opened[0]->observations(), opened[0]->actions());
  replay_ = make_replay(settings_, config_, folder_);
  repeat_ = opened[0]->repeat();
  for (const auto* spaces : {&opened[0]->observations(), &opened[0]->actions()}) {
    for (const auto& [name, space] : *spaces) {
      spaces_.push_back(space_line(name, space));
    }
  }
  if (!is_random) {
    const auto compiling = job_.task("compiling the training step");
    learner_ = std::make_unique<Learner>(train_devices(settings_, device_.client), config_,
                                         learner_options(settings_), device_.program);
  }
  for (int64_t i = 0; i < groups; ++i) {
    auto& group = opened[static_cast<size_t>(i)];
    const int64_t size = group->size();
    std::unique_ptr<Actor> actor;
    if (learner_) {
      actor = std::make_unique<Actor>(device_.client, config_, device_.model, size, seed,
                                      device_.program);
    }
    drivers_.push_back(
        std::make_unique<Driver>(std::move(group), std::move(actor), replay_, i * size, seed));
  }
}

TrainStart TrainRun::start() {
  TrainStart out{.run_folder = folder_.string(),
                 .task = settings_.text("task"),
                 .environments = settings_.whole("run.envs"),
                 .spaces = spaces_,
                 .steps = settings_.whole("run.steps")};
  const ReplaySize size = replay_size(settings_, config_);
  out.replay = replay_text(size, folder_);
  std::error_code unknown;
  if (const fs::space_info space = fs::space(folder_, unknown);
      size.is_on_disk() && !unknown && static_cast<double>(space.available) < size.bytes()) {
    job_.notice(fmt::format(
        "the disk of {} has space for {} steps of replay, not for {}\n  replay.size={} fits",
        folder_.string(), space.available / static_cast<uint64_t>(size.step_bytes), size.steps,
        space.available / static_cast<uint64_t>(size.step_bytes) * 9 / 10));
  }
  checkpoints_.clean();
  const checkpoints::Found found = checkpoints_.newest();
  for (const checkpoints::CorruptCheckpoint& corrupt : found.corrupt) {
    job_.notice(
        fmt::format("{} is corrupt and was skipped: {}", corrupt.folder.string(), corrupt.reason));
  }
  if (found.step) {
    const auto reading = job_.task("reading the checkpoint");
    out.new_episodes = !restore(found.folder);
    saved_step_ = counts_.step;
  } else {
    replay_->clear_folder();
    if (const std::string& from = settings_.text("run.from_checkpoint");
        !from.empty() && learner_) {
      learner_->restore(agent_file(from));
    }
  }
  if (learner_) {
    for (const auto& driver : drivers_) {
      driver->actor()->set(learner_->acting());
    }
    out.parameters = learner_->parameter_count();
    out.compile_seconds = learner_->report().compile_seconds;
    out.temporary_bytes = learner_->report().memory.temporary;
    logged_updates_ = learner_->updates();
  }
  out.first_step = first_step_ = logged_step_ = counts_.step;
  const auto outputs = settings_.tree("logger").at("outputs");
  const auto writes = [&](const char* name) {
    return std::ranges::any_of(outputs.items(),
                               [&](const io::Json& item) { return item.as_string() == name; });
  };
  logs_ = std::make_unique<RunLogs>(folder_, frames(), writes("jsonl"), writes("tensorboard"));
  return out;
}

TrainResult TrainRun::run() {
  const int64_t steps = settings_.whole("run.steps");
  since_start_.restart();
  bool is_stopped = false;
  for (;;) {
    while (counts_.due > 0 && !is_stopped) {
      end_training();
      is_stopped = pause();
      if (!is_stopped) {
        evaluate_if_due();
        begin_training();
        --counts_.due;
      }
    }
    const bool is_idle = learner_ == nullptr || !learner_->is_busy();
    if (is_stopped || counts_.step >= steps || (is_idle && pause())) {
      break;
    }
    act();
    log_if_due();
  }
  end_training();
  log();
  save();
  TrainResult out{.run_folder = folder_.string(),
                  .stopped = counts_.step < steps,
                  .step = counts_.step,
                  .updates = learner_ ? learner_->updates() : 0,
                  .episodes = counts_.episodes,
                  .score = progress().score,
                  .seconds = since_start_.seconds(),
                  .train_seconds = train_seconds_};
  return out;
}

bool TrainRun::pause() {
  if (job_.stop_requested()) {
    return true;
  }
  const double every = settings_.number("run.save_every");
  if (every != 0.0 && since_save_.seconds() >= every && counts_.part == 0) {
    try {
      save();
    } catch (const Error& error) {
      job_.notice(
          fmt::format("the checkpoint of step {} could not be written, and the one before it "
                      "is kept: {}",
                      counts_.step, error.what()));
    }
  }
  return false;
}

void TrainRun::act() {
  Driver& driver = *drivers_[static_cast<size_t>(counts_.next_driver)];
  counts_.next_driver = (counts_.next_driver + 1) % std::ssize(drivers_);
  const std::vector<Episode> episodes = driver.step(counts_.calls++);
  job_.notice(replay_->take_notices());
  const int64_t least = batch_.rows * batch_.length;
  for (int64_t i = 0; i < driver.size(); ++i) {
    ++counts_.step;
    if (learner_ && replay_->windows() >= std::max(least, int64_t{1})) {
      counts_.due += ratio_(counts_.step);
    }
  }
  for (const Episode& episode : episodes) {
    ++counts_.episodes;
    last_episodes_.push_back({counts_.step, episode.score, static_cast<double>(episode.length)});
    while (last_episodes_.size() > kMostScored ||
           (last_episodes_.size() > kFewestScored &&
            last_episodes_.front().step < counts_.step - kScoredSteps)) {
      last_episodes_.pop_front();
    }
    for (const auto& [name, value] : episode.statistics) {
      episode_means_.add(name, value);
    }
    logs_->episode(frames(), episode);
  }
}

replay::Arrays TrainRun::next_batch() {
  const int64_t parts = settings_.whole("consec_train");
  if (counts_.part == 0) {
    windows_ = replay_->sample(batch_.rows);
  }
  replay::Arrays batch = replay::window_part(windows_, counts_.part, batch_.length, batch_.context);
  counts_.part = (counts_.part + 1) % parts;
  return batch;
}

void TrainRun::begin_training() {
  replay::Arrays batch = next_batch();
  if (report_is_due()) {
    reported_ = batch;
  }
  learner_->begin(std::move(batch));
}

void TrainRun::evaluate_if_due() {
  const double every = settings_.number("run.report_every");
  if (settings_.text("script") != "train_eval" || every == 0.0 ||
      (evaluation_ && since_evaluation_.seconds() < every)) {
    return;
  }
  // Neither the seeds of the run nor its episodes depend on it.
  constexpr uint64_t kOtherSeed = 1'000'003;
  const uint64_t seed = static_cast<uint64_t>(settings_.whole("seed")) + kOtherSeed;
  const int64_t n = settings_.whole("run.eval_envs");
  const int64_t episodes = settings_.whole("run.eval_eps");
  check(n > 0 && episodes > 0,
        "[settings] {} environments (run.eval_envs) and {} episodes (run.eval_eps): at least 1 of "
        "each is needed",
        n, episodes);
  if (!evaluation_) {
    evaluation_ = std::make_unique<EpisodePlayer>(std::make_unique<Driver>(
        open_environments(settings_, n, 0, seed),
        std::make_unique<Actor>(device_.client, config_, device_.model, n, seed, device_.program),
        nullptr, 0, seed));
  }
  evaluation_->set(learner_->acting());
  const auto task = job_.task("evaluating", episodes);
  const std::vector<Episode> played = evaluation_->play(
      episodes, [&] { return job_.stop_requested(); },
      [&](const Transition&, int64_t done) { task->update(done); });
  Means means;
  for (const Episode& episode : played) {
    means.add("score", episode.score);
    means.add("length", static_cast<double>(episode.length));
    for (const auto& [name, value] : episode.statistics) {
      means.add(name, value);
    }
  }
  if (!played.empty()) {
    job_.line(fmt::format("step {}: evaluated, score {:.2f} over {} episodes", counts_.step,
                          means.mean("score"), played.size()));
    logs_->write(frames(), means.take("eval/"));
  }
  since_evaluation_.restart();
}

bool TrainRun::report_is_due() const {
  const double every = settings_.number("run.report_every");
  return every != 0.0 && since_report_.seconds() >= every && settings_.flag("agent.report") &&
         !dreamer::images_of(config_).empty();
}

void TrainRun::report() {
  constexpr int64_t kRows = 6;
  if (!open_loop_) {
    const BatchSize size{.rows = std::min(batch_.rows, kRows),
                         .length = std::min(batch_.length, settings_.whole("report_length")),
                         .context = batch_.context};
    open_loop_ =
        std::make_unique<OpenLoop>(device_.client, config_, device_.model, size, device_.program);
  }
  std::map<size_t, pjrt::Buffer> copies;  // of parameters that several devices share
  const OpenLoop::Result result = (*open_loop_)(
      [&](size_t i) -> const pjrt::Buffer& {
        const runtime::Array& parameter = learner_->parameter(i);
        if (parameter.shards().size() == 1) {
          return parameter.shards()[0];
        }
        return copies[i] = device_.client.to_device(parameter.to_host());
      },
      reported_);
  reported_.clear();
  write_video(folder_ / "open_loop" / fmt::format("{}.mp4", frames()), in_colours(result.video),
              result.truth.shape.dims[2], settings_.number("logger.fps"));
  since_report_.restart();
}

void TrainRun::end_training() {
  if (!learner_ || !learner_->is_busy()) {
    return;
  }
  const Learner::Result result = learner_->end();
  train_seconds_ += result.seconds;
  check_finite(result, learner_->updates());
  replay_->update(result.stepid, result.latents);
  for (const auto& driver : drivers_) {
    driver->actor()->set(learner_->acting());
  }
  for (const auto& [name, value] : result.metrics) {
    train_means_.add(name, value);
  }
  if (!reported_.empty()) {
    report();
  }
}

TrainProgress TrainRun::progress() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  TrainProgress out{.step = counts_.step,
                    .updates = learner_ ? learner_->updates() : 0,
                    .episodes = counts_.episodes,
                    .score = kNone,
                    .length = kNone};
  if (!last_episodes_.empty()) {
    out.score = out.length = 0.0;
    for (const Scored& episode : last_episodes_) {
      out.score += episode.score / static_cast<double>(last_episodes_.size());
      out.length += episode.length / static_cast<double>(last_episodes_.size());
    }
  }
  const auto steps = static_cast<double>(counts_.step - logged_step_);
  out.steps_per_second = steps / std::max(since_log_.seconds(), 1e-9);
  out.train_ratio =
      steps == 0.0
          ? kNone
          : static_cast<double>((out.updates - logged_updates_) * batch_.rows * batch_.length) /
                steps;
  for (const char* name : {"image", "dyn", "rep", "rew", "con", "policy", "value"}) {
    if (const double loss = train_means_.mean(std::string("loss/") + name); !std::isnan(loss)) {
      out.losses.emplace_back(name, loss);
    }
  }
  return out;
}

void TrainRun::log_if_due() {
  const double every = settings_.number("run.log_every");
  constexpr double kProgress = 0.25;  // seconds
  if (every != 0.0 && since_log_.seconds() >= every) {
    log();
  } else if (observer_.on_progress && since_progress_.seconds() >= kProgress) {
    job_.tell(observer_.on_progress, progress());
    since_progress_.restart();
  }
}

void TrainRun::log() {
  TrainProgress now = progress();
  now.is_logged = true;
  const double seconds = std::max(since_log_.seconds(), 1e-9);
  std::vector<metrics::Scalar> scalars = train_means_.take("train/");
  for (const metrics::Scalar& scalar : episode_means_.take("epstats/")) {
    scalars.push_back(scalar);
  }
  scalars.push_back({"replay/items", static_cast<double>(replay_->windows())});
  scalars.push_back({"replay/chunks", static_cast<double>(replay_->chunks())});
  if (!std::isnan(now.train_ratio)) {
    scalars.push_back({"replay/replay_ratio", now.train_ratio});
  }
  scalars.push_back({"fps/policy", now.steps_per_second * static_cast<double>(repeat_)});
  scalars.push_back({"fps/train", static_cast<double>((now.updates - logged_updates_) *
                                                      batch_.rows * batch_.length) /
                                      seconds});
  logs_->write(frames(), scalars);
  job_.tell(observer_.on_progress, now);
  logged_step_ = counts_.step;
  logged_updates_ = now.updates;
  since_log_.restart();
  since_progress_.restart();
}

}  // namespace kinema::agents
