#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/served_models.h"
#include "kinema/cli/stop_signal.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/resolve/load.h"
#include "kinema/serve/front.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// serve_folder, or kinema/serve below the folder of this user's data.
fs::path data_folder(const config::ServeConfig& config) {
  if (!config.serve_folder.empty()) {
    return config.serve_folder;
  }
  const char* data = std::getenv("XDG_DATA_HOME");
  const fs::path base = data != nullptr && fs::path(data).is_absolute()
                            ? fs::path(data)
                            : user_home() / ".local/share";
  check(base.is_absolute(),
        "[serve] HOME is not set, so there is no place for outputs\n  give "
        "serve_folder=PATH");
  return base / "kinema/serve";
}

serve::FrontOptions front_options(const config::ServeConfig& config) {
  serve::FrontOptions out{.folder = data_folder(config),
                          .hosts = config.serve_hosts,
                          .origins = config.serve_origins,
                          .upload_bytes = config.serve_upload_megabytes << 20,
                          .bin_days = config.serve_bin_days,
                          .page = config.serve_page,
                          .version = KINEMA_VERSION};
  out.server.addresses = config.serve_address;
  out.server.port = static_cast<uint16_t>(config.serve_port);
  out.server.tls_cert = config.tls_cert;
  out.server.tls_key = config.tls_key;
  out.server.on_problem = [](const std::string& line) { warn(line); };
  // A path that stays when the program is replaced: processes of training are recognised by it.
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  out.queue.engine = {program, "engine"};
  out.train = {program, "train"};
  out.plan = {program, "plan"};
  out.look = {program, "look"};
  out.datasets = config.serve_datasets;
  out.while_training = config.serve_training == "share"       ? serve::WhileTraining::SHARE
                       : config.serve_training == "exclusive" ? serve::WhileTraining::EXCLUSIVE
                                                              : serve::WhileTraining::AUTO;
  if (config.serve_downloads) {
    out.fetch = serve::fetch_from_hub;
  }
  out.queue.most_waiting = config.serve_queue;
  out.queue.unload_time = std::chrono::seconds(config.serve_unload_seconds);
  if (config.serve_token == "file") {
    out.token = serve::folder_token(out.folder);
  }
  return out;
}

int serve_models(const std::vector<std::string>& words) {
  const config::Loaded first = resolve::load_generation(words, variables(), console_job());
  ServedModels models(words, first.config.serve.serve_models);
  const config::ServeConfig& config = models.first().loaded.config.serve;
  const StopSignal signal;
  serve::Front front(front_options(config), models);
  print_line(fmt::format("serving {} on {}", models.models().front().name, front.link()));
  if (config.serve_token == "none") {
    warn("no token is asked for: every user of this machine can use the server");
  }
  while (!StopSignal::requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  warn("stopping; a job that runs goes on at the next start");
  constexpr auto kGrace = std::chrono::seconds(5);
  front.stop(kGrace);
  return 0;
}

}  // namespace

void add_serve(Program& program) {
  Command command = program.add(
      "serve", "Serve a page and APIs on which people and programs make videos and images");
  const auto words = std::make_shared<std::vector<std::string>>();
  command
      .option("CONFIG key=value", *words,
              "a YAML file, the folder or hub id of a pipeline, and keys that override it: "
              "serve_port, serve_address, serve_folder, serve_models, lora_folder, tls_cert, ...")
      .required();
  command.run([words] { return serve_models(*words); });
}

}  // namespace kinema::cli
