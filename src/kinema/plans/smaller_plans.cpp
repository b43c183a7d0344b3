#include "kinema/plans/smaller_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/resolve/variations.h"

namespace kinema::plans {
namespace {

int64_t axis_size(const PlannedStep& step, std::string_view name) {
  for (const auto& [axis, size] : step.place.active()
                                      ? step.place.mesh().axes.axes
                                      : std::vector<std::pair<std::string, int64_t>>()) {
    if (axis == name) {
      return size;
    }
  }
  return 1;
}

/// The free memory of a device without the arguments, divided by the memory of the rest of the
/// step; 1 if there is no rest.
double room(const planning::Report& report, const planning::MinimumMemory& least) {
  const auto rest = static_cast<double>(report.total() - least.arguments);
  const auto free = static_cast<double>(report.limit() - least.arguments);
  return rest <= 0 ? 1 : free / rest;
}

/// Compiles changes one by one, and stores their results.
class Search {
 public:
  Search(const resolve::Settings& settings, const PlanOptions& options, const PlannedStep& step,
         const Job& job, const std::function<planning::Report(const resolve::Settings&)>& plan,
         planning::Report& report)
      : settings_(settings),
        options_(options),
        job_(job),
        plan_(plan),
        report_(report),
        first_(minimum_memory(step)) {}

  /// Compiles the change if it may fit; returns true if it does.
  bool fits(const resolve::Change& change) {
    if (std::ssize(report_.tried) >= kMost || !may_fit(change)) {
      return false;
    }
    planning::Remedy remedy{.change = change.text()};
    try {
      const planning::Report made = plan_(change.on(settings_));
      remedy.total = made.total();
      remedy.fits = made.fits();
    } catch (const Stopped&) {
      throw;
    } catch (const Error&) {
      return false;  // a mesh that does not divide the devices, or keys that exclude each other
    }
    report_.tried.push_back(remedy);
    return remedy.fits;
  }

  static constexpr int64_t kMost = 3;  // compilations

 private:
  /// Estimates from the arguments, which are exact, and from the rest of the first step, in
  /// proportion to the loops' stacked values.
  bool may_fit(const resolve::Change& change) const {
    try {
      const planning::MinimumMemory least = minimum_memory(
          build_planned_step(change.on(settings_), options_.target, options_.mode, job_));
      const auto rest = static_cast<double>(report_.total() - first_.arguments);
      const double kept = first_.stacks == 0 ? 1.0
                                             : static_cast<double>(least.stacks) /
                                                   static_cast<double>(first_.stacks);
      const double expected = static_cast<double>(least.arguments) + kept * rest;
      return report_.limit() == 0 || expected <= static_cast<double>(report_.limit());
    } catch (const Error&) {
      return false;
    }
  }

  const resolve::Settings& settings_;
  const PlanOptions& options_;
  const Job& job_;
  const std::function<planning::Report(const resolve::Settings&)>& plan_;
  planning::Report& report_;
  planning::MinimumMemory first_;
};

}  // namespace

planning::MinimumMemory minimum_memory(const PlannedStep& step) {
  return planning::minimum_memory(*step.graph, step.outputs,
                                  step.place.active() ? step.place.mesh().axes : MeshAxes(),
                                  runtime::has_device_memory(step.target.platform));
}

void find_smaller_plan(const resolve::Settings& settings, const PlanOptions& options,
                       const PlannedStep& step, const Job& job,
                       const std::function<planning::Report(const resolve::Settings&)>& plan,
                       planning::Report& report) {
  const resolve::LargeStep large{.devices = options.target.devices,
                                 .data = axis_size(step, "data"),
                                 .fsdp = axis_size(step, "fsdp"),
                                 .accelerator = options.target.chip.family != planning::Family::CPU,
                                 .idle_on_device = step.idle.device > 0,
                                 .guided = step.inputs.find("guidance") != std::string::npos,
                                 .share = room(report, minimum_memory(step))};
  const std::vector<resolve::Change> changes = options.mode == PlanMode::TRAIN
                                                   ? resolve::smaller_training(settings, large)
                                                   : resolve::smaller_generation(settings, large);
  if (!plan) {
    for (const resolve::Change& change : changes) {
      report.untried.push_back(change.text());
    }
    return;
  }
  job.notice(
      fmt::format("{} does not fit {}: up to {} changes that need less memory are compiled, each "
                  "for about as long as this took; --no-remedies skips that",
                  report.what, options.target.name, Search::kMost));
  Search search(settings, options, step, job, plan, report);
  for (const resolve::Change& change : changes) {  // each change alone
    if (search.fits(change)) {
      return;
    }
  }
  resolve::Change all;
  for (const resolve::Change& change : changes) {  // changes added one after the other
    const bool set_before = std::ranges::any_of(
        all.keys, [&](const auto& key) { return key.first == change.keys.front().first; });
    all = set_before ? all : all.with(change);
    if (all.keys.size() > change.keys.size() && search.fits(all)) {
      return;
    }
  }
}

}  // namespace kinema::plans
