#include "kinema/serve/front.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/serve/api.h"
#include "kinema/serve/datasets.h"
#include "kinema/serve/foreign.h"
#include "kinema/serve/plans.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string host_of(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

/// The values of `Host` that clients send: those that are given as they are, which may be those of
/// a reverse proxy, and all names of this machine with the port.
std::vector<std::string> all_hosts(const FrontOptions& options, uint16_t port) {
  std::vector<std::string> names{"127.0.0.1", "localhost", "[::1]"};
  for (const std::string& address : options.server.addresses) {
    names.push_back(host_of(address));
  }
  names.insert(names.end(), options.hosts.begin(), options.hosts.end());
  std::vector<std::string> out = options.hosts;
  const bool is_default = port == (options.server.tls_cert.empty() ? 80 : 443);
  for (const std::string& name : names) {
    out.push_back(is_default ? name : fmt::format("{}:{}", name, port));
  }
  return out;
}

/// What time makes needless: uploads that were unused for a day, outputs that were long in the bin.
void tidy(Context& context) {
  constexpr double kDay = 24 * 3600;
  std::error_code ignored;
  for (const UploadRecord& upload : context.store.take_unused_uploads(now() - kDay)) {
    fs::remove(upload.path, ignored);
  }
  const double before = now() - static_cast<double>(context.options.bin_days) * kDay;
  for (const OutputRecord& output :
       context.store.outputs({.deleted = true, .limit = 500}).outputs) {
    if (*output.deleted < before) {
      remove_forever(context, output);
    }
  }
}

}  // namespace

std::string folder_token(const fs::path& folder) {
  io::make_folder(folder);
  const fs::path path = folder / "token";
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) {
    const io::Descriptor file =
        io::Descriptor::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    const std::string token = http::random_token() + "\n";
    check(file && io::write_all(file, std::as_bytes(std::span(token))) == 0,
          "[serve] the file {} cannot be made: {}", path.string(), std::strerror(errno));
    return token.substr(0, token.size() - 1);
  }
  check(
      (about.st_mode & 077) == 0,
      "[serve] other users may read the token in {0}\n  chmod 600 {0}, or remove it for a new one",
      path.string());
  std::ifstream in(path);
  std::string token;
  in >> token;
  check(token.size() >= 16, "[serve] {} has a token of {} characters, expected at least 16",
        path.string(), token.size());
  return token;
}

struct Front::State {
  State(FrontOptions given, Catalogue& catalogue)
      : options(std::move(given)),
        store(options.folder),
        events(std::make_shared<http::EventStream>(
            static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                      std::chrono::system_clock::now().time_since_epoch())
                                      .count()))),
        sharing(options.while_training),
        runs({.folder = options.folder / "runs", .command = options.train}, *events),
        plans({.folder = options.folder / "plans", .command = options.plan}, *events),
        looks(options.look, options.folder / "looks"),
        datasets(options.datasets, looks),
        queue(store, catalogue, *events, held_queue()) {
    if (options.fetch) {
      add_downloaded(catalogue);
      downloads.emplace(
          options.fetch,
          [this, &catalogue](const std::string& source) { downloaded(catalogue, source); },
          *events);
    }
  }

  QueueOptions held_queue() {
    QueueOptions out = options.queue;
    out.hold = [this] { return sharing.hold(runs, queue.engine()); };
    return out;
  }
  /// The models that earlier servers have downloaded, one name a line.
  void add_downloaded(Catalogue& catalogue) {
    std::istringstream sources(store.setting("downloaded"));
    for (std::string source; std::getline(sources, source);) {
      try {
        catalogue.add_model(source);
      } catch (const Error& error) {
        events->publish("notice", io::Json::object({{"message", error.what()}}).dump(-1));
      }
    }
  }
  void downloaded(Catalogue& catalogue, const std::string& source) {
    catalogue.add_model(source);
    const std::string known = store.setting("downloaded");
    if (("\n" + known).find("\n" + source + "\n") == std::string::npos) {
      store.set_setting("downloaded", known + source + "\n");
    }
    events->publish("models", models_json(*context).dump(-1));
  }

  FrontOptions options;
  Store store;
  std::shared_ptr<http::EventStream> events;
  Sharing sharing;
  Runs runs;
  Plans plans;
  Looks looks;
  Datasets datasets;
  Queue queue;
  std::optional<http::Gate> gate;
  std::optional<Context> context;
  std::optional<Downloads> downloads;  // uses the context
  std::optional<http::Server> server;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_ending = false;
  std::thread tidying;

  void keep_tidy() {
    std::unique_lock lock(mutex);
    while (!is_ending) {
      lock.unlock();
      try {
        tidy(*context);
      } catch (const std::exception& error) {
        events->publish("notice", io::Json::object({{"message", error.what()}}).dump(-1));
      }
      lock.lock();
      changed.wait_for(lock, std::chrono::hours(1), [&] { return is_ending; });
    }
  }
};

Front::Front(FrontOptions options, Catalogue& catalogue) {
  for (const std::string& address : options.server.addresses) {
    check(is_loopback(address) || !options.token.empty(),
          "[serve] {} can be reached from other machines, which needs a token\n  leave out "
          "serve_token=none",
          address);
  }
  state_ = std::make_unique<State>(std::move(options), catalogue);
  FrontOptions& own = state_->options;
  own.server.upload_folder = own.folder / "receiving";
  std::error_code ignored;
  fs::remove_all(own.server.upload_folder, ignored);  // of a server that was killed
  own.server.headers = {{"X-Content-Type-Options", "nosniff"},
                        {"Cross-Origin-Resource-Policy", "same-origin"},
                        {"Referrer-Policy", "no-referrer"},
                        {"X-Frame-Options", "DENY"}};
  own.server.error = error_response;
  check(own.server.port != 0, "[serve] the port is 0, expected 1 to 65535");
  state_->gate.emplace(http::GateOptions{.hosts = all_hosts(own, own.server.port),
                                         .origins = own.origins,
                                         .token = own.token,
                                         .cookie = fmt::format("kinema_{}", own.server.port)});
  state_->context.emplace(Context{own, state_->store, state_->queue, catalogue, state_->runs,
                                  state_->plans, state_->datasets, state_->looks, state_->sharing,
                                  state_->downloads ? &*state_->downloads : nullptr,
                                  *state_->events, state_->events, *state_->gate});
  Api api;
  add_state_routes(api, *state_->context);
  add_job_routes(api, *state_->context);
  add_output_routes(api, *state_->context);
  add_upload_routes(api, *state_->context);
  add_openai_routes(api, *state_->context);
  add_video_routes(api, *state_->context);
  add_a1111_routes(api, *state_->context);
  add_metrics_routes(api, *state_->context);
  add_run_routes(api, *state_->context);
  add_model_routes(api, *state_->context);
  add_plan_routes(api, *state_->context);
  add_dataset_routes(api, *state_->context);
  add_mcp_routes(api, *state_->context);
  add_page_routes(api, *state_->context);
  const auto document = std::make_shared<std::string>();
  api.add(
      {.method = "GET",
       .pattern = "/api/openapi.json",
       .summary = "This document",
       .access = http::Access::OPEN},
      [document](http::Request&) {
        return http::Response{.headers = {{"Content-Type", "application/json"}}, .body = *document};
      });
  *document = api.openapi(own.version).dump(-1);
  state_->server.emplace(own.server, *state_->gate, api.take_router());
  state_->tidying = std::thread([state = state_.get()] { state->keep_tidy(); });
}

Front::~Front() { stop(std::chrono::milliseconds(0)); }

uint16_t Front::port() const { return state_->server->port(); }

std::string Front::link() const {
  const FrontOptions& options = state_->options;
  return fmt::format("http{}://{}:{}/{}", options.server.tls_cert.empty() ? "" : "s",
                     host_of(options.server.addresses.front()), port(),
                     options.token.empty() ? "" : "?token=" + options.token);
}

void Front::stop(std::chrono::milliseconds grace) {
  if (!state_ || !state_->server) {
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ending = true;
  }
  state_->changed.notify_all();
  state_->events->publish("bye", "{}");
  state_->events->end();
  state_->server->stop(grace);
  state_->server.reset();
  if (state_->tidying.joinable()) {
    state_->tidying.join();
  }
}

Queue& Front::queue() { return state_->queue; }

}  // namespace kinema::serve
