#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/agents/evaluate.h"
#include "kinema/agents/settings.h"
#include "kinema/agents/train.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/stopping.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/io/folder.h"

namespace kinema::cli {
namespace {

void announce(const agents::TrainStart& start) {
  print_line("run folder: " + start.run_folder);
  print_line(fmt::format("task: {}, {}", start.task, counted(start.environments, "environment")));
  for (const std::string& space : start.spaces) {
    print_line("  " + space);
  }
  if (start.parameters > 0) {
    print_line(
        fmt::format("agent: {} parameters, step of training compiled in {:.1f} s, {:.1f} MB "
                    "of temporaries",
                    count_text(start.parameters), start.compile_seconds,
                    static_cast<double>(start.temporary_bytes) / 1e6));
  }
  print_line(start.replay);
  print_line(fmt::format("steps of the environments: {} to {}", start.first_step, start.steps));
  if (start.new_episodes) {
    print_line("the environments could not save their episodes, so new ones begin");
  }
}

std::string losses_text(const agents::TrainProgress& now) {
  std::string out;
  for (const auto& [name, loss] : now.losses) {
    out += fmt::format("{}{} {:.3g}", out.empty() ? "" : " ", name, loss);
  }
  return out;
}

std::string score_text(double score) {
  return std::isnan(score) ? "no episode yet" : fmt::format("score {:.2f}", score);
}

std::string progress_line(const agents::TrainProgress& now) {
  std::string out = fmt::format("step {}: {}", now.step, score_text(now.score));
  if (!std::isnan(now.length)) {
    out += fmt::format(", length {:.1f}", now.length);
  }
  out += fmt::format(", {:.0f} steps/s", now.steps_per_second);
  if (!std::isnan(now.train_ratio)) {
    out += fmt::format(", ratio {:.1f}", now.train_ratio);
  }
  out += fmt::format(", {} trained", counted(now.updates, "step"));
  return now.losses.empty() ? out : out + "; losses " + losses_text(now);
}

struct AgentTrainWords {
  std::string config;
  std::vector<std::string> words;
  bool json = false;
};

int train_agent(const AgentTrainWords& given) {
  const std::stop_source stop;
  std::optional<Stopping> stopping;
  std::optional<Progress> progress;
  agents::TrainObserver observer;
  show_on_console(observer, !given.json);
  observer.on_begin = [&] { stopping.emplace("the step of training, with a checkpoint", stop); };
  observer.on_start = [&](const agents::TrainStart& start) {
    if (!given.json) {
      announce(start);
    }
    progress.emplace("training", start.steps, Progress::WithoutTerminal::NOTHING);
  };
  observer.on_progress = [&](const agents::TrainProgress& now) {
    progress->update(
        now.step, fmt::format("{}, {:.0f} steps/s", score_text(now.score), now.steps_per_second));
    if (now.is_logged && !given.json) {
      print_line(progress_line(now));
    }
  };
  const agents::Settings settings = agents::Settings::read(given.config, given.words);
  const agents::TrainResult result =
      agents::train(settings, observer, job_options(stop.get_token()));
  progress.reset();
  if (given.json) {
    print_line(result.json().dump());
    return 0;
  }
  print_line(fmt::format("{} at step {} after {} of training and {}: {}",
                         result.stopped ? "stopped" : "done", result.step,
                         counted(result.updates, "step"), counted(result.episodes, "episode"),
                         score_text(result.score)));
  print_line(fmt::format("{}, of which {} in steps of training: {}", clock_text(result.seconds),
                         clock_text(result.train_seconds), result.run_folder));
  if (result.stopped) {
    print_line("the same command resumes");
  }
  return 0;
}

struct AgentEvalWords {
  std::string run;
  int64_t episodes = 200;
  int64_t envs = 8;
  int64_t seed = 1'000'003;
  bool video = false;
  bool json = false;
};

int evaluate_agent(const AgentEvalWords& given) {
  const std::filesystem::path run = given.run;
  agents::EvaluateObserver observer;
  show_on_console(observer, !given.json);
  agents::EvaluateOptions options{.episodes = given.episodes,
                                  .environments = given.envs,
                                  .seed = static_cast<uint64_t>(given.seed)};
  if (given.video) {
    options.video = run / "episode.mp4";
    options.sheet = run / "episode.png";
    options.open_loop = run / "open_loop.mp4";
  }
  const std::stop_source stop;
  const Stopping stopping("", stop);
  const agents::EvaluateResult result =
      agents::evaluate(run, options, observer, job_options(stop.get_token()));
  if (given.json) {
    print_line(result.json().dump());
    return 0;
  }
  print_line(fmt::format("score {:.3f} (deviation {:.3f}) over {} after step {}, {:.1f} s",
                         result.mean, result.deviation,
                         counted(std::ssize(result.scores), "episode"), result.step,
                         result.seconds));
  if (given.video) {
    print_line("first episode: " + options.video.string() + ", " + options.sheet.string() +
               "; predicted: " + options.open_loop.string());
  }
  return 0;
}

struct AgentPlayWords {
  std::string run;
  int64_t seed = 1'000'003;
  std::string video;
  std::string sheet;
};

int play_agent(const AgentPlayWords& given) {
  for (const std::string& file : {given.video, given.sheet}) {
    io::check_new_file(file);
  }
  agents::EvaluateObserver observer;
  show_on_console(observer, true);
  observer.on_step = [](int64_t step, const std::string& action, double reward) {
    print_line(
        fmt::format("{:4}  reward {:6.2f}  {}", step, reward, action.empty() ? "the end" : action));
  };
  const std::stop_source stop;
  const Stopping stopping("", stop);
  const agents::EvaluateResult result = agents::evaluate(given.run,
                                                         {.episodes = 1,
                                                          .environments = 1,
                                                          .seed = static_cast<uint64_t>(given.seed),
                                                          .video = given.video,
                                                          .sheet = given.sheet},
                                                         observer, job_options(stop.get_token()));
  print_line(fmt::format("score {:.3f}", result.mean));
  for (const std::string& file : {given.video, given.sheet}) {
    if (!file.empty()) {
      print_line("pictures: " + file);
    }
  }
  return 0;
}

}  // namespace

void add_agent(Program& program) {
  Command command = program.add("agent", "Train an agent (DreamerV3) that acts, and watch it");

  Command training =
      command.add("train", "Train an agent, or resume the run if its folder has a checkpoint");
  const auto train = std::make_shared<AgentTrainWords>();
  training.option("CONFIG", train->config, "a file such as configs/dreamer.yml").required();
  training.option("key=value", train->words,
                  "keys that override it: task, run_name, preset=a,b, run.steps, "
                  "agent.opt.lr, ...");
  training.flag("--json", train->json, "print JSON about the run at its end, and no lines");
  training.run([train] { return train_agent(*train); });

  Command evaluating = command.add("eval", "Print the score of a run's agent over new episodes");
  const auto eval = std::make_shared<AgentEvalWords>();
  evaluating.option("RUN", eval->run, "the folder of a run").required();
  evaluating.option("--episodes", eval->episodes, "how many").one_value().shows_default();
  evaluating.option("--envs", eval->envs, "environments that are stepped together")
      .one_value()
      .shows_default();
  evaluating.option("--seed", eval->seed, "of environments and actions")
      .one_value()
      .shows_default();
  evaluating.flag("--video", eval->video,
                  "write the first episode's pictures to RUN/episode.mp4 and episode.png");
  evaluating.flag("--json", eval->json, "print JSON with every score");
  evaluating.run([eval] { return evaluate_agent(*eval); });

  Command playing = command.add("play", "Show one episode of a run's agent, a line a step");
  const auto play = std::make_shared<AgentPlayWords>();
  playing.option("RUN", play->run, "the folder of a run").required();
  playing.option("--seed", play->seed, "of the environment and actions")
      .one_value()
      .shows_default();
  playing.option("--video", play->video, "an mp4 file for its pictures").one_value();
  playing.option("--sheet", play->sheet, "a PNG file with its pictures in rows").one_value();
  playing.run([play] { return play_agent(*play); });
}

}  // namespace kinema::cli
