#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kinema/http/events.h"
#include "kinema/io/json.h"

namespace kinema::serve {

struct PlansOptions {
  std::filesystem::path folder;
  std::vector<std::string> command;  // gets CONFIG.yml mode=... target=..., and prints JSON
};

/// Plans of requests and runs for devices that need not be here, one after the other, each in a
/// process of its own. Plans of equal configurations are made once. Safe to use from several
/// threads.
class Plans {
 public:
  Plans(PlansOptions options, http::EventStream& events);
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  /// Ends the process that plans.
  ~Plans();

  /// Begins a plan of a configuration (YAML) with `mode`, `train` or `generate`, or finds the one
  /// that was made. Throws an http::Refusal of status 429 if eight wait. Returns it as clients see
  /// it.
  io::Json start(const std::string& config, const std::string& mode, const std::string& device);
  /// Each throws a Refusal of status 404 for an unknown plan.
  io::Json get(const std::string& id);
  /// 409 if it has ended.
  io::Json cancel(const std::string& id);

 private:
  struct Plan {
    std::string id;
    std::string key;  // of what is planned
    std::string config;
    std::string mode;
    std::string device;
    std::string state = "running";  // or `done`, `failed`, `cancelled`
    io::Json report;                // of a done one
    std::string error;
    bool is_cancelled = false;
  };

  static io::Json to_json(const Plan& plan);
  Plan& find(const std::string& id);
  void run(const std::stop_token& stop);
  void make(Plan plan, const std::stop_token& stop);
  void end(const std::string& id, const std::string& state, io::Json report,
           const std::string& error);

  PlansOptions options_;
  http::EventStream& events_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Plan> plans_;
  std::deque<std::string> waiting_;  // ids
  std::deque<std::string> made_;     // ids, oldest first
  std::jthread thread_;
};

}  // namespace kinema::serve
