#include "kinema/serve/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/http/gate.h"
#include "kinema/http/message.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/serve/child.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;

constexpr size_t kMostWaiting = 8;
constexpr size_t kMostKept = 64;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What the program said last, without its name.
std::string problem_in(const fs::path& log, const std::string& how) {
  std::string text = text_of(log);
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  constexpr std::string_view kName = "kinema: ";
  const size_t at = text.rfind(kName);
  return at == std::string::npos ? fmt::format("the process that plans ended: {}", how)
                                 : printable_message(text.substr(at + kName.size()));
}

io::Json or_null(const io::Json& json, const char* name) {
  const io::Json* found = json.is_object() ? json.find(name) : nullptr;
  return found == nullptr ? io::Json() : *found;
}

/// The longest of a report's roofline.
io::Json bound_of(const io::Json& report) {
  const io::Json& roofline = report.at("roofline");
  std::string out;
  double longest = 0;
  for (const char* name : {"compute", "hbm", "interconnect", "host"}) {
    const double seconds = roofline.at(name).as_number();
    if (seconds > longest) {
      longest = seconds;
      out = name;
    }
  }
  return out.empty() ? io::Json() : io::Json(out == "hbm" ? "memory" : out);
}

/// The change that fits, or those that nobody has tried.
io::Json remedy_of(const io::Json& report) {
  for (const io::Json& tried : report.at("tried").items()) {
    if (tried.at("fits").as_bool()) {
      return tried.at("change").as_string() + " fits";
    }
  }
  const auto& untried = report.at("not_tried").items();
  return untried.empty() ? io::Json() : io::Json("try " + untried.front().as_string());
}

}  // namespace

Plans::Plans(PlansOptions options, http::EventStream& events)
    : options_(std::move(options)), events_(events) {
  std::error_code ignored;
  fs::remove_all(options_.folder, ignored);  // of a server that was killed
  io::make_folder(options_.folder);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Plans::~Plans() = default;

io::Json Plans::to_json(const Plan& plan) {
  const io::Json& report = plan.report;
  const bool has_report = report.is_object();
  const double expected = has_report ? report.at("expected").at("busy_seconds").as_number() +
                                           report.at("expected").at("waiting_seconds").as_number()
                                     : 0;
  const double roofline = has_report ? report.at("roofline").at("seconds").as_number() : 0;
  const double seconds = expected > 0 ? expected : roofline;
  io::Json lines = io::Json::array();
  for (const char* name : {"program", "model", "inputs", "batch", "compiler"}) {
    if (const io::Json line = or_null(report, name); line.is_string() && line.as_string() != "") {
      lines.append(line);
    }
  }
  io::Json error;
  if (!plan.error.empty()) {
    error = io::Json::object({{"message", plan.error},
                              {"type", "invalid_request_error"},
                              {"param", io::Json()},
                              {"code", io::Json()}});
  }
  return io::Json::object(
      {{"id", plan.id},
       {"device", plan.device},
       {"state", plan.state},
       {"fits", or_null(report, "fits")},
       {"bytes", has_report ? report.at("bytes").at("total") : io::Json()},
       {"bytes_limit", has_report ? report.at("bytes").at("limit") : io::Json()},
       {"step_seconds", seconds > 0 ? io::Json(seconds) : io::Json()},
       {"bound_by", has_report ? bound_of(report) : io::Json()},
       {"remedy", has_report ? remedy_of(report) : io::Json()},
       {"lines", std::move(lines)},
       {"error", std::move(error)}});
}

Plans::Plan& Plans::find(const std::string& id) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) {
    throw Refusal(404, "there is no such plan", "", "plan_not_found");
  }
  return found->second;
}

io::Json Plans::start(const std::string& config, const std::string& mode,
                      const std::string& device) {
  const std::lock_guard lock(mutex_);
  const std::string key = fmt::format("{} {}\n{}", mode, device, config);
  for (const auto& [id, plan] : plans_) {
    if (plan.key == key && (plan.state == "running" || plan.state == "done")) {
      return to_json(plan);
    }
  }
  if (waiting_.size() >= kMostWaiting) {
    throw Refusal(429, fmt::format("{} plans wait already", kMostWaiting), "", "queue_full");
  }
  const std::string id = "p_" + http::random_id();
  const Plan plan{.id = id, .key = key, .config = config, .mode = mode, .device = device};
  plans_.emplace(id, plan);
  waiting_.push_back(id);
  changed_.notify_all();
  return to_json(plan);
}

io::Json Plans::get(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return to_json(find(id));
}

io::Json Plans::cancel(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    Plan& plan = find(id);
    if (plan.state != "running") {
      throw Refusal(409, fmt::format("the plan is {}", plan.state));
    }
    plan.is_cancelled = true;
    if (std::erase(waiting_, id) == 0) {
      return to_json(plan);  // the thread ends it
    }
  }
  end(id, "cancelled", {}, "");
  return get(id);
}

void Plans::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Plan next;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
        return;
      }
      next = find(waiting_.front());
      waiting_.pop_front();
    }
    try {
      make(next, stop);
    } catch (const std::exception& error) {
      end(next.id, "failed", {}, error.what());
    }
  }
}

void Plans::make(Plan plan, const std::stop_token& stop) {
  const auto file = [&](const char* ending) { return options_.folder / (plan.id + ending); };
  io::write_file(file(".yml"), plan.config);
  std::vector<std::string> command = options_.command;
  command.insert(command.end(), {fs::absolute(file(".yml")).string(), "mode=" + plan.mode,
                                 "target=" + plan.device, "--json"});
  std::string how;
  bool is_cancelled = false;
  {
    Child child({.command = command, .log = file(".txt"), .out = file(".json")});
    while (!child.ended() && !stop.stop_requested() && !is_cancelled) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::lock_guard lock(mutex_);
      is_cancelled = find(plan.id).is_cancelled;
    }
    if (!child.ended()) {  // it removes its files when it is asked to end
      child.signal(SIGTERM);
      for (int i = 0; i < 40 && !child.ended(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
    how = child.ended().value_or("it was killed");
  }
  io::Json report;
  std::string error;
  try {
    report = io::Json::parse(text_of(file(".json")), "the plan");
    (void)to_json({.report = report});  // throws for a report in another form
  } catch (const Error&) {
    report = {};
    error = problem_in(file(".txt"), how);
  }
  std::error_code ignored;
  for (const char* ending : {".yml", ".txt", ".json"}) {
    fs::remove(file(ending), ignored);
  }
  if (is_cancelled) {
    end(plan.id, "cancelled", {}, "");
  } else {
    end(plan.id, error.empty() ? "done" : "failed", std::move(report), error);
  }
}

void Plans::end(const std::string& id, const std::string& state, io::Json report,
                const std::string& error) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    Plan& plan = find(id);
    plan.state = state;
    plan.report = std::move(report);
    plan.error = error;
    text = to_json(plan).dump(-1);
    made_.push_back(id);
    if (made_.size() > kMostKept) {
      plans_.erase(made_.front());
      made_.pop_front();
    }
  }
  events_.publish("plan", text);
}

}  // namespace kinema::serve
