#include "kinema/resolve/two_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/io/json.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/networks/open.h"
#include "kinema/resolve/objective.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

std::string_view name_of(int64_t expert) {
  return config::word_of(expert == 0 ? config::TrainExpert::HIGH_NOISE
                                     : config::TrainExpert::LOW_NOISE);
}

/// Throws an Error unless two networks can share one program.
void check_consistent(const fs::path& high, const fs::path& low) {
  const io::Json first = networks::open(high)->config();
  const io::Json second = networks::open(low)->config();
  for (const auto& [key, value] : first.members()) {
    const io::Json* other = second.find(key);
    const std::string theirs = other == nullptr ? "none" : other->dump(-1);
    check(value.dump(-1) == theirs,
          "[train] train_expert=both: {} is {} in {}, but {} in {}\n"
          "  train experts of different sizes in separate runs",
          key, value.dump(-1), high.string(), theirs, low.string());
  }
}

}  // namespace

std::vector<fs::path> pretrained_networks(const config::Config& config,
                                          const model_source::Expert& expert) {
  std::vector<fs::path> out;
  for (const model_source::Expert& one : expert.each()) {
    out.push_back(
        model_source::with_module(config, model_source::pretrained_transformer(config, one.part()),
                                  one.is_low_noise() ? 1 : 0));
  }
  if (!expert.is_both() || out[0].empty()) {
    return out;
  }
  check(out[0] != out[1],
        "[config] train_expert is both, but {} is one transformer\n"
        "  give a folder with transformer/ and transformer_2/",
        out[0].string());
  check_consistent(out[0], out[1]);
  return out;
}

std::optional<training::TwoExperts> two_experts(const config::Config& config,
                                                const networks::Network& network,
                                                const model_source::Expert& expert) {
  if (!expert.is_both()) {
    return std::nullopt;
  }
  const config::OptimizerConfig& o = config.optimizer;
  return training::TwoExperts{
      .schedule = {.seed = static_cast<uint64_t>(config.run.seed),
                   .high_noise_probability = training::high_noise_probability(
                       training_objective(config, network, expert)),
                   .length = o.expert_steps},
      .idle_on_host = o.idle_expert == config::IdleExpert::HOST};
}

std::vector<optimizers::Schedule> expert_schedules(const optimizers::Schedule& whole,
                                                   const std::optional<training::TwoExperts>& two) {
  std::vector<optimizers::Schedule> out{whole};
  if (two) {
    out.push_back(whole);
    for (size_t e = 0; e < out.size(); ++e) {
      out[e].steps = two->schedule.count(static_cast<int64_t>(e), whole.steps);
    }
  }
  return out;
}

std::string describe(const std::vector<optimizers::Schedule>& schedules,
                     const std::optional<training::TwoExperts>& two, int64_t max_steps) {
  if (!two) {
    return optimizers::describe(schedules.front());
  }
  std::vector<std::string> out;
  for (int64_t e = 0; e < 2; ++e) {
    out.push_back(fmt::format("{} {}, {}", name_of(e),
                              counted(two->schedule.count(e, max_steps), "step"),
                              optimizers::describe(schedules[static_cast<size_t>(e)])));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

std::vector<std::string> expert_notices(const std::optional<training::TwoExperts>& two,
                                        int64_t max_steps) {
  std::vector<std::string> out;
  for (int64_t e = 0; two && e < 2; ++e) {
    if (two->schedule.count(e, max_steps) == 0) {
      out.push_back(fmt::format("none of the {} trains the {} expert: it does not change",
                                counted(max_steps, "step"), name_of(e)));
    }
  }
  return out;
}

std::vector<training::EvaluatedPart> evaluated_parts(
    const model_source::Expert& expert,
    const std::function<std::vector<const runtime::Array*>(int64_t place)>& params) {
  std::vector<training::EvaluatedPart> out(expert.each().size());
  for (size_t place = 0; place < out.size(); ++place) {
    out[place].params = [params, place] { return params(static_cast<int64_t>(place)); };
  }
  if (expert.is_both()) {
    out[0].from = out[1].below = expert.boundary();
  }
  return out;
}

int64_t expert_weights_part(const fs::path& checkpoint, const model_source::Expert& one,
                            bool both) {
  const std::vector<std::string> parts = training::weights_parts(checkpoint);
  check(!both || parts.size() == 2,
        "[train] init_from: {} contains only {}/, but both experts are trained\n"
        "  train_expert={} starts with it; or name a run of both experts",
        checkpoint.string(), parts.front(),
        training::read_train_state(checkpoint).setting("train_expert"));
  return parts.size() == 2 && one.is_low_noise() ? 1 : 0;
}

}  // namespace kinema::resolve
