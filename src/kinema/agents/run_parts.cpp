#include "kinema/agents/run_parts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/core/trimmed.h"
#include "kinema/io/mapped_file.h"

namespace kinema::agents {
namespace fs = std::filesystem;
namespace {

optimizers::AnnealedRate::Kind schedule_of(const std::string& name) {
  using Kind = optimizers::AnnealedRate::Kind;
  if (name == "linear") {
    return Kind::LINEAR;
  }
  if (name == "cosine") {
    return Kind::COSINE;
  }
  check(name == "const",
        "[settings] `agent.opt.schedule` is {} but must be const, linear or cosine", name);
  return Kind::CONST;
}

}  // namespace

fs::path run_folder(const Settings& settings) {
  if (const std::string& name = settings.text("run_name"); !name.empty()) {
    return fs::path(settings.text("output_dir")) / name;
  }
  std::string folder = settings.text("logdir");
  constexpr std::string_view kTime = "{timestamp}";
  if (const size_t at = folder.find(kTime); at != std::string::npos) {
    folder.replace(at, kTime.size(),
                   fmt::format("{:%Y%m%dT%H%M%S}", fmt::localtime(std::time(nullptr))));
  }
  if (folder.starts_with("~/")) {
    folder = (user_home() / folder.substr(2)).string();
  }
  check(!folder.empty(), "[settings] neither `run_name` nor `logdir` names the folder of the run");
  return folder;
}

std::unique_ptr<environments::Group> open_environments(const Settings& settings, int64_t count,
                                                       int64_t first, uint64_t seed) {
  const std::string& task = settings.text("task");
  const std::string suite = task.substr(0, task.find_first_of("_:"));
  environments::GroupOptions options{.task = task,
                                     .count = count,
                                     .first = first,
                                     .seed = seed,
                                     .python = settings.text("python"),
                                     .address = settings.text("run.env_addr"),
                                     .token = settings.text("run.env_token")};
  io::Json given = io::Json::object();
  const io::Json all = settings.tree("env." + suite);
  for (const auto& [name, value] : all.members()) {
    const bool is_own = value.kind() == io::Json::Kind::Integer && value.as_int() == 0;
    if (!is_own) {
      given.set(name, value);
    }
  }
  options.settings = given.members().empty() ? "" : given.dump(-1);
  return environments::open_group(options);
}

BatchSize batch_size(const Settings& settings) {
  const BatchSize out{.rows = settings.whole("batch_size"),
                      .length = settings.whole("batch_length"),
                      .context = settings.whole("replay_context")};
  check(out.rows > 0 && out.length > 1 && out.context > 0,
        "[settings] batch_size {}, batch_length {} and replay_context {} must be at least 1, 2 and "
        "1",
        out.rows, out.length, out.context);
  return out;
}

LearnerOptions learner_options(const Settings& settings) {
  LearnerOptions out{.batch = batch_size(settings)};
  out.step.model = model_options(settings);
  out.step.optimizer = {.b1 = settings.number("agent.opt.beta1"),
                        .b2 = settings.number("agent.opt.beta2"),
                        .eps = settings.number("agent.opt.eps"),
                        .agc = settings.number("agent.opt.agc"),
                        .weight_decay = settings.number("agent.opt.wd")};
  out.step.optimizer.decays = [](const nn::ParamSpec& spec) {
    return spec.name.ends_with("/kernel");
  };
  out.rate = {.learning_rate = settings.number("agent.opt.lr"),
              .warmup = settings.whole("agent.opt.warmup"),
              .anneal = settings.whole("agent.opt.anneal"),
              .kind = schedule_of(settings.text("agent.opt.schedule"))};
  out.seed = static_cast<uint64_t>(settings.whole("seed"));
  return out;
}

ReplaySize replay_size(const Settings& settings, const dreamer::AgentConfig& config) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const double memory = settings.number("replay.memory_gib");
  check(memory > 0.0 && memory < kGiB, "[settings] `replay.memory_gib` is {} but must be positive",
        memory);
  const int64_t run = settings.whole("run.steps");
  const int64_t windows = settings.whole("replay.size");
  ReplaySize out{.steps = windows == 0 ? run : std::min(windows, run), .memory = memory * kGiB};
  for (const auto& [name, shape] : step_shapes(config, model_options(settings).activations_dtype)) {
    out.step_bytes += name == "consec" ? 0 : shape.bytes();
  }
  return out;
}

std::string replay_text(const ReplaySize& size, const fs::path& run) {
  constexpr double kKilo = 1e3;
  constexpr double kGiga = 1e9;
  return fmt::format("replay: at most {} steps of {:.3g} kB, {:.3g} GB{}", size.steps,
                     static_cast<double>(size.step_bytes) / kKilo, size.bytes() / kGiga,
                     size.is_on_disk()
                         ? fmt::format(" in {}, of which {:.3g} GB are mapped into memory",
                                       (run / kReplay).string(), size.memory / kGiga)
                         : " in memory");
}

std::shared_ptr<replay::Replay> make_replay(const Settings& settings,
                                            const dreamer::AgentConfig& config,
                                            const fs::path& run) {
  const BatchSize batch = batch_size(settings);
  const auto seed = static_cast<uint64_t>(settings.whole("seed"));
  const ReplaySize size = replay_size(settings, config);
  replay::ReplayOptions options{
      .length = settings.whole("consec_train") * batch.length + batch.context,
      .capacity = settings.whole("replay.size"),
      .chunk_size = settings.whole("replay.chunksize"),
      .online = settings.flag("replay.online"),
      .seed = seed,
      .memory = static_cast<int64_t>(size.memory)};
  if (size.is_on_disk() || fs::exists(run / kReplay)) {  // or was when the run began
    options.folder = run / kReplay;
  }
  for (const auto& [name, shape] : latents(config, model_options(settings).activations_dtype)) {
    options.updated.insert(name);
  }
  const double uniform = settings.number("replay.fracs.uniform");
  const double recency = settings.number("replay.fracs.recency");
  if (recency == 0.0) {
    return std::make_shared<replay::Replay>(options);
  }
  std::vector<std::pair<double, std::unique_ptr<replay::Selector>>> parts;
  parts.emplace_back(uniform, std::make_unique<replay::Uniform>(seed));
  parts.emplace_back(recency, std::make_unique<replay::Recency>(
                                  options.capacity, settings.number("replay.recexp"), seed));
  return std::make_shared<replay::Replay>(
      options, std::make_unique<replay::Mixture>(std::move(parts), seed));
}

fs::path newest_checkpoint(const fs::path& run) {
  const checkpoints::Found found = checkpoints::CheckpointFolder(run / kCheckpoints).newest();
  check(found.step.has_value(), "[agents] {} has no checkpoint of an agent", run.string());
  return found.folder;
}

fs::path agent_file(const fs::path& from) {
  if (fs::is_regular_file(from)) {
    return from;
  }
  constexpr const char* kOriginal = "agent.pkl";
  constexpr size_t kMostText = 4096;
  std::vector<fs::path> folders{from};
  for (const fs::path& folder : {from, from / kCheckpoints}) {
    if (fs::is_regular_file(folder / "latest") && fs::file_size(folder / "latest") < kMostText) {
      folders.push_back(folder / trimmed(io::read_text(folder / "latest", kMostText)));
    }
  }
  for (const fs::path& folder : folders) {
    for (const char* name : {kAgentFile, kOriginal}) {
      if (fs::is_regular_file(folder / name)) {
        return folder / name;
      }
    }
  }
  check(fs::is_directory(from / kCheckpoints),
        "[agents] {} is neither a file, nor a folder with {} or {}, nor a run", from.string(),
        kAgentFile, kOriginal);
  return newest_checkpoint(from) / kAgentFile;
}

}  // namespace kinema::agents
