// Figures for Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats).
#include <fmt/format.h>

#include "kinema/serve/foreign.h"

namespace kinema::serve {
namespace {

std::string metrics_text(Context& context) {
  const JobCounts counts = context.store.counts();
  std::string out;
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
  };
  add("kinema_jobs_waiting", "gauge", "Jobs that wait.", counts.waiting);
  add("kinema_jobs_running", "gauge", "Jobs that are made.", counts.running);
  out +=
      "# HELP kinema_jobs_ended Jobs in the database that ended, by state.\n"
      "# TYPE kinema_jobs_ended gauge\n";
  out += fmt::format("kinema_jobs_ended{{state=\"done\"}} {}\n", counts.done);
  out += fmt::format("kinema_jobs_ended{{state=\"failed\"}} {}\n", counts.failed);
  out += fmt::format("kinema_jobs_ended{{state=\"cancelled\"}} {}\n", counts.cancelled);
  add("kinema_job_seconds_sum", "counter", "Seconds in which the done jobs were made.",
      counts.seconds);
  add("kinema_job_wait_seconds_sum", "counter", "Seconds that the done jobs waited.",
      counts.wait_seconds);
  add("kinema_outputs", "gauge", "Pictures and videos in the gallery.",
      context.store.outputs({.limit = 1}).total);
  add("kinema_engine_deaths_total", "counter", "Engines that ended while they worked.",
      context.queue.deaths());
  const MadeTimes times = context.queue.times();
  out +=
      "# HELP kinema_stage_seconds_total Seconds of the engine, by what it did.\n"
      "# TYPE kinema_stage_seconds_total counter\n";
  out += fmt::format("kinema_stage_seconds_total{{stage=\"load and compile\"}} {}\n", times.setup);
  out += fmt::format("kinema_stage_seconds_total{{stage=\"steps\"}} {}\n", times.steps);
  out += fmt::format("kinema_stage_seconds_total{{stage=\"text, images and decoding\"}} {}\n",
                     times.others);
  add("kinema_steps_total", "counter", "Steps of the sampler.", times.count);
  const EngineState engine = context.queue.engine();
  add("kinema_engine_memory_bytes", "gauge",
      "Memory of a device: what the running job needs, else what is in use; 0: unknown.",
      engine.bytes);
  add("kinema_engine_memory_limit_bytes", "gauge", "The limit of that; 0: unknown.",
      engine.bytes_limit);
  add("kinema_queue_paused", "gauge", "1: nothing is started.", context.queue.is_paused() ? 1 : 0);
  return out;
}

}  // namespace

void add_metrics_routes(Api& api, Context& context) {
  api.add({.method = "GET", .pattern = "/metrics", .summary = "Figures for Prometheus"},
          [&context](http::Request&) {
            return http::Response{
                .headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"},
                            {"Cache-Control", "no-store"}},
                .body = metrics_text(context)};
          });
}

}  // namespace kinema::serve
