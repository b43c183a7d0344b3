#include "kinema/serve/runs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <fstream>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/http/message.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/reports/run_overview.h"
#include "kinema/serve/child.h"
#include "kinema/serve/store.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;
using metrics::MetricsRow;

constexpr size_t kRecentSteps = 100;
constexpr int64_t kLogBytes = 65536;

void check_run_name(const std::string& name) {
  const bool is_name = !name.empty() && name.size() <= 64 && !name.starts_with('.') &&
                       std::ranges::all_of(name, [](unsigned char c) {
                         return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
                       });
  if (!is_name) {
    throw Refusal(422, "a run's name has 1 to 64 letters, digits, `.`, `_` and `-`", "name");
  }
}

/// The process that has locked a run, if it runs this program; 0 otherwise.
pid_t training_process(const fs::path& run) {
  std::ifstream in(run / ".lock");
  pid_t pid = 0;
  std::error_code error;
  if (!(in >> pid) || pid <= 0 || !checkpoints::is_training(run)) {
    return 0;
  }
  const fs::path theirs = fs::read_symlink(fmt::format("/proc/{}/exe", pid), error);
  return !error && theirs == fs::read_symlink("/proc/self/exe", error) ? pid : 0;
}

std::string tail_of(const fs::path& file, int64_t bytes) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const int64_t size = in.tellg();
  if (size <= 0) {
    return "";
  }
  in.seekg(std::max<int64_t>(0, size - bytes));
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The last error line that the program printed.
std::string last_error(const fs::path& log) {
  std::string text = tail_of(log, 4096);
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  const size_t at = text.rfind("kinema: ");
  return printable(at == std::string::npos ? text.substr(text.rfind('\n') + 1)
                                           : text.substr(at + 8));
}

io::Json finite_number(double value) { return std::isfinite(value) ? io::Json(value) : io::Json(); }

double file_time(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? 0
               : std::chrono::duration<double>(
                     std::chrono::file_clock::to_sys(time).time_since_epoch())
                     .count();
}

double recent_mean_of(const std::vector<MetricsRow>& rows, double MetricsRow::*which) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = rows.size() - std::min(rows.size(), kRecentSteps); i < rows.size(); ++i) {
    if (std::isfinite(rows[i].*which)) {
      sum += rows[i].*which;
      ++count;
    }
  }
  return count == 0 ? std::nan("") : sum / static_cast<double>(count);
}

}  // namespace

Runs::Runs(RunsOptions options, http::EventStream& events)
    : options_(std::move(options)), events_(events) {
  io::make_folder(options_.folder / ".configs");
  io::make_folder(options_.folder / ".logs");
  thread_ = std::jthread([this](std::stop_token stop) {
    std::mutex idle;
    std::condition_variable_any wake;
    while (!stop.stop_requested()) {
      try {
        poll();
      } catch (const std::exception& error) {
        events_.publish("notice", io::Json::object({{"message", error.what()}}).dump(-1));
      }
      std::unique_lock lock(idle);
      wake.wait_for(lock, stop, options_.poll, [] { return false; });
    }
  });
}

Runs::~Runs() = default;

fs::path Runs::run_folder(const std::string& name) const { return options_.folder / name; }
fs::path Runs::config_file(const std::string& name) const {
  return options_.folder / ".configs" / (name + ".yml");
}
fs::path Runs::log_file(const std::string& name) const {
  return options_.folder / ".logs" / (name + ".txt");
}

std::vector<std::string> Runs::names() const {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.folder / ".configs", error)) {
    if (entry.path().extension() == ".yml") {
      out.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(out);
  return out;
}

Runs::Run& Runs::find(const std::string& name) {
  check_run_name(name);
  std::error_code error;
  if (!fs::exists(config_file(name), error)) {
    throw Refusal(404, fmt::format("there is no run `{}`", name), "", "run_not_found");
  }
  Run& out = runs_.try_emplace(name, run_folder(name) / "metrics.jsonl").first->second;
  reap(name, out);
  return out;
}

/// Notices the end of a process that this server started.
void Runs::reap(const std::string& name, Run& run) {
  int how = 0;
  if (run.child == 0 || waitpid(run.child, &how, WNOHANG) != run.child) {
    return;
  }
  run.child = 0;
  run.is_stopping = false;
  const bool is_success = WIFEXITED(how) && WEXITSTATUS(how) == 0;
  run.error = is_success         ? ""
              : WIFSIGNALED(how) ? fmt::format("the process ended by signal {}", WTERMSIG(how))
                                 : last_error(log_file(name));
}

io::Json Runs::json(const std::string& name, Run& run) {
  const fs::path folder = run_folder(name);
  run.reader.poll();
  const std::vector<MetricsRow>& rows = run.reader.rows();
  const bool is_running = training_process(folder) != 0;
  int64_t steps = 0;
  std::vector<int64_t> saved;
  try {
    std::error_code error;
    if (fs::exists(folder / "config.yml", error)) {
      const reports::RunFiles files(folder);
      steps = files.max_steps;
      saved = checkpoints::CheckpointFolder(files.checkpoints).steps();
    }
  } catch (const Error&) {
    // Files that somebody has changed: the run is listed with what can be read.
  }
  const int64_t step = rows.empty() ? 0 : rows.back().step + 1;
  const char* state = is_running && run.is_stopping   ? "stopping"
                      : is_running                    ? "running"
                      : run.child != 0                ? "starting"
                      : !run.error.empty()            ? "failed"
                      : steps > 0 && step >= steps    ? "done"
                      : rows.empty() && saved.empty() ? "created"
                                                      : "stopped";
  const double seconds = recent_mean_of(rows, &MetricsRow::seconds);
  const auto last = [&](double MetricsRow::*which) {
    return rows.empty() ? io::Json() : finite_number(rows.back().*which);
  };
  const double bytes = rows.empty() ? std::nan("") : rows.back().bytes;
  io::Json checkpoints = io::Json::array();
  for (const int64_t each : saved) {
    checkpoints.append(each);
  }
  io::Json failure;
  if (!run.error.empty()) {
    failure = io::Json::object({{"message", run.error},
                                {"type", "server_error"},
                                {"param", io::Json()},
                                {"code", io::Json()}});
  }
  const bool has_end = is_running && steps > step && std::isfinite(seconds);
  return io::Json::object(
      {{"name", name},
       {"state", state},
       {"step", step},
       {"steps", steps},
       {"epoch", last(&MetricsRow::epoch)},
       {"loss", last(&MetricsRow::loss)},
       {"recent_loss", finite_number(recent_mean_of(rows, &MetricsRow::loss))},
       {"learning_rate", last(&MetricsRow::learning_rate)},
       {"step_seconds", finite_number(seconds)},
       {"planned_step_seconds", last(&MetricsRow::expected_seconds)},
       {"bytes", std::isfinite(bytes) ? io::Json(static_cast<int64_t>(bytes)) : io::Json()},
       {"planned_bytes", io::Json()},
       {"bytes_limit", io::Json()},
       {"seconds_left",
        has_end ? io::Json(seconds * static_cast<double>(steps - step)) : io::Json()},
       {"started", run.started > 0 ? io::Json(run.started) : io::Json()},
       {"changed", std::max(file_time(config_file(name)), file_time(folder / "metrics.jsonl"))},
       {"checkpoints", std::move(checkpoints)},
       {"error", std::move(failure)}});
}

io::Json Runs::list() {
  const std::lock_guard lock(mutex_);
  io::Json out = io::Json::array();
  for (const std::string& name : names()) {
    out.append(json(name, find(name)));
  }
  return out;
}

io::Json Runs::run(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return json(name, find(name));
}

io::Json Runs::details(const std::string& name) {
  io::Json out = run(name);
  std::ifstream in(config_file(name));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return out.set("config", text).set("plan", io::Json());
}

void Runs::create(const std::string& name, const std::string& config) {
  check_run_name(name);
  const std::lock_guard lock(mutex_);
  std::error_code error;
  if (fs::exists(config_file(name), error) || fs::exists(run_folder(name), error)) {
    throw Refusal(409, fmt::format("there is a run `{}` already", name), "name");
  }
  io::write_file(config_file(name), config);
}

void Runs::start(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Run& run = find(name);
  if (run.child != 0 || training_process(run_folder(name)) != 0) {
    throw Refusal(409, fmt::format("the run `{}` is running", name));
  }
  std::vector<std::string> command = options_.command;
  command.push_back(fs::absolute(config_file(name)).string());
  command.push_back("run_name=" + name);
  command.push_back("output_dir=" + fs::absolute(options_.folder).string());
  run.error.clear();
  run.started = now();
  run.child = start_child({.command = command, .log = log_file(name), .ends_with_parent = false});
}

void Runs::stop(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Run& run = find(name);
  const pid_t pid = run.child != 0 ? run.child : training_process(run_folder(name));
  if (pid == 0) {
    throw Refusal(409, fmt::format("the run `{}` is not running", name));
  }
  run.is_stopping = true;
  kill(pid, SIGTERM);
}

void Runs::ask(const std::string& name, const std::string& what) {
  const std::lock_guard lock(mutex_);
  find(name);
  if (training_process(run_folder(name)) == 0) {
    throw Refusal(409, fmt::format("the run `{}` is not running", name));
  }
  const fs::path requests = run_folder(name) / "requests";
  io::make_folder(requests);
  io::write_file(requests / what, "");
}

std::vector<std::string> Runs::running() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out = names();
  std::erase_if(out, [&](const std::string& name) {
    return find(name).child == 0 && training_process(run_folder(name)) == 0;
  });
  return out;
}

void Runs::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const Run& run = find(name);
  if (run.child != 0 || training_process(run_folder(name)) != 0) {
    throw Refusal(409, fmt::format("the run `{}` is running: stop it first", name));
  }
  std::error_code error;
  fs::remove_all(run_folder(name), error);
  kinema::check(!error, "[serve] the run {} cannot be removed: {}", name, error.message());
  fs::remove(log_file(name), error);
  fs::remove(config_file(name), error);
  runs_.erase(name);
  events_.publish("removed", io::Json::object({{"run", name}}).dump(-1));
}

io::Json Runs::metrics(const std::string& name, int64_t after, int64_t buckets) {
  const std::lock_guard lock(mutex_);
  Run& run = find(name);
  run.reader.poll();
  return metrics_json(run.reader, after, buckets);
}

io::Json Runs::log(const std::string& name, std::optional<int64_t> after) {
  const std::lock_guard lock(mutex_);
  find(name);
  std::ifstream in(log_file(name), std::ios::binary);
  in.seekg(0, std::ios::end);
  const int64_t size = std::max<int64_t>(0, in.tellg());
  const int64_t from = std::clamp<int64_t>(after.value_or(size - kLogBytes), 0, size);
  std::string text(static_cast<size_t>(std::min(size - from, kLogBytes)), '\0');
  in.seekg(from);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return io::Json::object(
      {{"text", printable(text)}, {"next", from + static_cast<int64_t>(text.size())}});
}

/// Tells clients of samples that are new since the last look.
void Runs::tell_samples(const std::string& name, Run& run, bool is_first) {
  const io::Json samples = samples_json(name, run_folder(name), run.told_sample_step);
  for (const io::Json& sample : samples.items()) {
    const int64_t step = sample.at("step").as_int();
    if (step > run.told_sample_step) {
      run.told_sample_step = step;
      run.told_samples.clear();
    }
    if (run.told_samples.insert(sample.at("url").as_string()).second && !is_first) {
      events_.publish("sample", io::Json::object({{"run", name}, {"sample", sample}}).dump(-1));
    }
  }
}

void Runs::poll() {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names()) {
    Run& run = find(name);
    const io::Json now = json(name, run);
    const std::string text = now.dump(-1);
    const std::vector<MetricsRow>& rows = run.reader.rows();
    const bool is_first = run.told.empty();  // before this server: clients ask for it
    if (is_first) {
      run.told_step = rows.empty() ? -1 : rows.back().step;
    }
    if (is_first || text != run.told) {  // a run that makes samples has other figures soon
      tell_samples(name, run, is_first);
    }
    if (text != run.told) {
      run.told = text;
      events_.publish("run", text);
    }
    if (!rows.empty() && rows.back().step != run.told_step) {
      events_.publish(
          "points", io::Json::object(
                        {{"run", name}, {"metrics", metrics_json(run.reader, run.told_step, 1000)}})
                        .dump(-1));
      run.told_step = rows.back().step;
    }
  }
}

}  // namespace kinema::serve
