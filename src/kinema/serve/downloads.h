#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kinema/http/events.h"
#include "kinema/io/json.h"

namespace kinema::serve {

/// Downloads a model of the hub. It calls `progress` with the bytes so far and of all files, which
/// throws to end it. Throws an Error for a model that is not there.
using Fetch = std::function<void(const std::string& source,
                                 const std::function<void(int64_t done, int64_t total)>& progress)>;

/// Into the cache of this user, as the environment says (remote::fetch_from_hub).
void fetch_from_hub(const std::string& source,
                    const std::function<void(int64_t done, int64_t total)>& progress);

/// Downloads of models, one after the other. What is there when the server ends is not fetched
/// again. Safe to use from several threads.
class Downloads {
 public:
  /// `done` is called with the source of each that is complete.
  Downloads(Fetch fetch, std::function<void(const std::string& source)> done,
            http::EventStream& events);
  Downloads(const Downloads&) = delete;
  Downloads& operator=(const Downloads&) = delete;
  /// Ends the one that is running.
  ~Downloads();

  /// Throws an http::Refusal of status 422 for a source that is no `owner/name`, 429 if eight wait.
  io::Json start(const std::string& source);
  io::Json list();
  /// 404 for an unknown one, 409 if it has ended.
  io::Json cancel(const std::string& id);

 private:
  struct Download {
    std::string id;
    std::string source;
    std::string state = "running";  // or `done`, `failed`, `cancelled`
    int64_t bytes = 0;
    int64_t total = 0;  // 0: unknown
    std::string error;
    bool is_cancelled = false;
    bool has_begun = false;
  };
  static io::Json to_json(const Download& download);
  void run(const std::stop_token& stop);
  void change(size_t index, const std::function<void(Download&)>& change, bool tells = true);

  Fetch fetch_;
  std::function<void(const std::string&)> done_;
  http::EventStream& events_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Download> downloads_;
  std::jthread thread_;
};

}  // namespace kinema::serve
