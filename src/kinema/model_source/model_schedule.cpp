#include "kinema/model_source/model_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/sample/solver_settings.h"

namespace kinema::model_source {

namespace fs = std::filesystem;

fs::path adjacent_scheduler_config(const fs::path& model) {
  std::error_code ignored;
  const fs::path file = model.parent_path() / sample::kSchedulerConfig;
  return fs::is_regular_file(model, ignored) && fs::exists(file, ignored) ? file : fs::path();
}

fs::path scheduler_config_of_checkpoint(const fs::path& network) {
  std::error_code ignored;
  const fs::path file = network.parent_path() / sample::kSchedulerConfig;
  const bool is_checkpoint =
      !network.empty() && fs::exists(network.parent_path() / "train_state.json", ignored);
  return is_checkpoint && fs::exists(file, ignored) ? file : fs::path();
}

ScheduleFile schedule_file_of(const config::Config& config) {
  if (fs::path own = scheduler_config_of_checkpoint(local_transformer(config)); !own.empty()) {
    return {.path = std::move(own), .class_name = ""};
  }
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  if (pipeline && pipeline->schedule) {
    return {.path = pipeline->folder / sample::kSchedulerConfig,
            .class_name = pipeline->scheduler_class};
  }
  return {.path = adjacent_scheduler_config(config.model.pretrained_model_name_or_path),
          .class_name = ""};
}

namespace {

/// The schedule with EDM's levels. The sampler is the file's, if it samples EDM; else Euler's, or
/// DPM++ 2M of models that predict the noise (Playground v2.5).
schedulers::ScheduleConfig edm_schedule(schedulers::ScheduleConfig schedule,
                                        const model_files::ObjectiveMarks& marks, bool is_said) {
  const auto& kinds = schedulers::info_of(schedule.sampler).kinds;
  const bool stays = is_said && std::ranges::find(kinds, schedulers::Noise::EDM) != kinds.end();
  if (!stays) {
    schedule = schedulers::with_sampler(
        std::move(schedule), {.sampler = marks.v_prediction ? schedulers::Sampler::EULER
                                                            : schedulers::Sampler::DPM_MULTISTEP});
  }
  schedule.noise = schedulers::Noise::EDM;
  schedule.diffusion.prediction_type = schedulers::Prediction::EPSILON;
  schedule.edm = {.sigma_min = marks.edm->sigma_min,
                  .sigma_max = marks.edm->sigma_max,
                  .sigma_data = marks.edm->sigma_data};
  return schedule;
}

}  // namespace

schedulers::ScheduleConfig with_marks(schedulers::ScheduleConfig schedule, const fs::path& network,
                                      bool is_said) {
  const model_files::ObjectiveMarks marks = model_files::objective_marks(network);
  if (!marks.any() || schedulers::is_flow(schedule)) {
    return schedule;
  }
  if (marks.edm && schedulers::noise_of(schedule) != schedulers::Noise::EDM) {
    schedule = edm_schedule(std::move(schedule), marks, is_said);
  }
  if (marks.v_prediction) {
    schedule.diffusion.prediction_type = schedulers::Prediction::V_PREDICTION;
  }
  if (marks.zero_terminal_snr) {
    schedule.diffusion.rescale_betas_zero_snr = true;
    if (!is_said) {  // with other spacings no step is at the timestep of pure noise
      schedule.diffusion.timestep_spacing = schedulers::Spacing::TRAILING;
    }
  }
  return schedule;
}

namespace {

/// Throws an Error for a model that is sampled, but whose training has another objective.
void check_trained(const schedulers::ScheduleConfig& schedule, const fs::path& file) {
  const std::string_view reason = schedulers::why_not_trained(schedule);
  check(reason.empty(),
        "[scheduler] {}: models of this kind are sampled, but not trained or converted: {}",
        file.string(), reason);
}

}  // namespace

ModelSchedule read_model_schedule(const ScheduleFile& file, const fs::path& network_file,
                                  const networks::Network& network) {
  ModelSchedule out;
  const bool is_said = !file.path.empty();
  if (is_said) {
    out.schedule = sample::read_scheduler_config(file.path, file.class_name);
    out.file = sample::scheduler_file(file.path, file.class_name);
    check_trained(out.schedule, file.path);
  } else {
    out.schedule = network->learned().sampled;
  }
  const schedulers::ScheduleConfig marked = with_marks(out.schedule, network_file, is_said);
  check_trained(marked, network_file);
  const io::Json written = sample::scheduler_json(marked);
  if (!is_said) {
    out.file = written;
  } else if (!(marked == out.schedule)) {
    for (const char* key : {"prediction_type", "rescale_betas_zero_snr"}) {
      out.file.set(key, written.at(key));
    }
  }
  out.schedule = marked;
  return out;
}

schedulers::ScheduleConfig planned_schedule(const config::Config& config,
                                            const networks::Network& network) {
  if (const ScheduleFile file = schedule_file_of(config); !file.path.empty()) {
    return sample::read_scheduler_config(file.path, file.class_name);
  }
  schedulers::ScheduleConfig out = network->learned().sampled;
  const model_files::Family* family = model_files::family_of_config(network->config());
  const std::string& name = config.model.pretrained_model_name_or_path;
  if (family != nullptr && local_transformer(config).empty()) {
    const model_files::ImageDefaults& defaults = family->pipelines.front().images;
    if (!defaults.distilled_name.empty() && name.find(defaults.distilled_name) != name.npos) {
      out.shift = defaults.distilled_shift;
    }
  }
  return out;
}

schedulers::Prediction prediction(config::PredictionType given) {
  return given == config::PredictionType::EPSILON ? schedulers::Prediction::EPSILON
                                                  : schedulers::Prediction::V_PREDICTION;
}

std::string other_prediction(schedulers::Prediction used, schedulers::Prediction own) {
  return fmt::format(
      "the network is used with prediction_type {}, as requested, but its own files say {}",
      schedulers::name_of(used), schedulers::name_of(own));
}

std::vector<std::string> file_notices(const fs::path& network) {
  std::vector<std::string> out;
  const model_files::ObjectiveMarks marks = model_files::objective_marks(network);
  if (marks.any()) {
    out.push_back(fmt::format("{} has a marker of its network's training: {}", network.string(),
                              to_string(marks)));
  }
  const std::vector<std::string> unread = model_files::unused_tensors(network);
  if (!unread.empty()) {
    constexpr size_t kNamed = 3;
    const std::vector<std::string> first(
        unread.begin(),
        unread.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, unread.size())));
    out.push_back(fmt::format("{}: {} of its training that no model reads: {}{}", network.string(),
                              counted(static_cast<int64_t>(unread.size()), "tensor"),
                              fmt::join(first, ", "), unread.size() > kNamed ? ", ..." : ""));
  }
  return out;
}

}  // namespace kinema::model_source
