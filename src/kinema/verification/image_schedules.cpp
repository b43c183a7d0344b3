#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/schedulers/schedule.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/verification/trajectory.h"

// Samplers of images: FlowMatchEuler with its dynamic shift, Euler, DDIM.
namespace kinema::verification {
namespace {

using schedulers::Schedule;
using schedulers::ScheduleConfig;

HostArray as_f32(const std::vector<float>& values) {
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

/// The whole number behind `word` in a dotted name.
std::optional<int64_t> number_after(const std::string& key, std::string_view word) {
  const size_t at = key.find(word);
  return at == std::string::npos
             ? std::nullopt
             : std::optional(std::strtoll(key.c_str() + at + word.size(), nullptr, 10));
}

/// Everything before the last point of each name that ends with `end`.
std::set<std::string> keys_ending(const Case& c, std::string_view end) {
  std::set<std::string> out;
  for (const std::string& name : c.names("")) {
    if (name.ends_with(end)) {
      out.insert(name.substr(0, name.size() - end.size()));
    }
  }
  return out;
}

class Rows {
 public:
  explicit Rows(const Case& c) : case_(c), limits_(c.about(), Limits::Which::LONGEST) {}

  void add(const std::string& tensor, const HostArray& value) {
    if (case_.has(tensor)) {
      rows_.push_back(
          compare(case_.name(), tensor, value, case_.tensor(tensor), limits_.of(tensor)));
    }
  }
  void add(const std::string& key, const Schedule& schedule, const HostArray& start) {
    add(key + ".sigmas", as_f32(schedule.sigmas));
    add(key + ".timesteps", as_f32(schedule.timesteps));
    const Followed followed = follow(schedule, start, case_.tensor("cond"));
    add(key + ".samples", followed.samples);
    add(key + ".model_inputs", followed.inputs);
    add(key + ".model_outputs", followed.outputs);
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  const Case& case_;
  Limits limits_;
  std::vector<Row> rows_;
};

HostArray scaled(HostArray x, float factor) {
  for (float& value : x.as<float>()) {
    value *= factor;
  }
  return x;
}

}  // namespace

std::vector<Row> flux_schedule_rows(const Case& c, Session& /*session*/) {
  Rows rows(c);
  for (const std::string& key : keys_ending(c, ".sigmas")) {
    ScheduleConfig config{
        .sampler = schedulers::Sampler::FLOW_MATCH_EULER, .shift = 1.0, .even_sigmas = true};
    const int64_t tokens = number_after(key, ".tokens").value_or(0);
    if (!key.starts_with("schnell")) {
      config.dynamic_shift = schedulers::DynamicShift{};
      // MaxDiffusion's line begins at the text's length.
      config.dynamic_shift->base_tokens =
          number_after(key, ".length").value_or(config.dynamic_shift->base_tokens);
    }
    const int64_t steps = c.tensor(key + ".sigmas").shape.dims.at(0) - 1;
    rows.add(key, schedulers::make_schedule(config, steps, tokens), c.tensor("initial_sample"));
  }
  return rows.take();
}

std::vector<Row> sdxl_schedule_rows(const Case& c, Session& /*session*/) {
  Rows rows(c);
  for (const bool zero_snr : {false, true}) {
    schedulers::Diffusion diffusion;
    diffusion.rescale_betas_zero_snr = zero_snr;
    const std::string tensor = zero_snr ? "alphas_cumprod_zero_snr" : "alphas_cumprod";
    rows.add(tensor, as_f32(schedulers::alphas_cumprod(diffusion)));
  }
  for (const auto& [key, about] : c.about().at("cases").members()) {
    const auto sampler = schedulers::sampler_from_string(key.substr(0, key.find('.')), false);
    const ScheduleConfig config = sample::schedule_of(sampler, about.at("config"));
    const Schedule schedule =
        schedulers::make_schedule(config, c.tensor(key + ".timesteps").shape.dims.at(0));
    rows.add(key, schedule, scaled(c.tensor("initial_noise"), schedule.initial_scale));
  }
  return rows.take();
}

}  // namespace kinema::verification
