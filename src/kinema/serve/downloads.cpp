#include "kinema/serve/downloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "kinema/core/error.h"
#include "kinema/http/gate.h"
#include "kinema/http/message.h"
#include "kinema/remote/hub.h"

namespace kinema::serve {
namespace {

using http::Refusal;

constexpr int64_t kMostWaiting = 8;

}  // namespace

void fetch_from_hub(const std::string& source,
                    const std::function<void(int64_t done, int64_t total)>& progress) {
  const auto id = remote::read_hub_id(source);
  check(id.has_value(), "[serve] `{}` is no model of the hub", source);
  remote::fetch_from_hub(*id, {}, remote::HubOptions::from_environment(), progress);
}

Downloads::Downloads(Fetch fetch, std::function<void(const std::string&)> done,
                     http::EventStream& events)
    : fetch_(std::move(fetch)), done_(std::move(done)), events_(events) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Downloads::~Downloads() = default;

io::Json Downloads::to_json(const Download& download) {
  io::Json error;
  if (!download.error.empty()) {
    error = io::Json::object({{"message", download.error},
                              {"type", "server_error"},
                              {"param", io::Json()},
                              {"code", io::Json()}});
  }
  return io::Json::object({{"id", download.id},
                           {"source", download.source},
                           {"state", download.state},
                           {"bytes", download.bytes},
                           {"total", download.total > 0 ? io::Json(download.total) : io::Json()},
                           {"error", std::move(error)}});
}

io::Json Downloads::start(const std::string& source) {
  const auto id = remote::read_hub_id(source);
  if (!id || !id->file.empty() || id->dataset || source.size() > 200) {
    throw Refusal(422, fmt::format("`{}` is no model of the hub: expected owner/name", source),
                  "source");
  }
  const std::lock_guard lock(mutex_);
  const auto same = std::ranges::find_if(downloads_, [&](const Download& each) {
    return each.source == source && each.state == "running";
  });
  if (same != downloads_.end()) {
    return to_json(*same);
  }
  if (std::ranges::count(downloads_, "running", &Download::state) >= kMostWaiting) {
    throw Refusal(429, fmt::format("{} downloads wait already", kMostWaiting), "", "queue_full");
  }
  downloads_.push_back({.id = "d_" + http::random_id(), .source = source});
  changed_.notify_all();
  return to_json(downloads_.back());
}

io::Json Downloads::list() {
  const std::lock_guard lock(mutex_);
  io::Json out = io::Json::array();
  for (const Download& each : downloads_) {
    out.append(to_json(each));
  }
  return out;
}

io::Json Downloads::cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(downloads_, id, &Download::id);
  if (found == downloads_.end()) {
    throw Refusal(404, "there is no such download", "", "download_not_found");
  }
  if (found->state != "running") {
    throw Refusal(409, fmt::format("the download is {}", found->state));
  }
  found->is_cancelled = true;
  if (!found->has_begun) {
    found->state = "cancelled";
    events_.publish("download", to_json(*found).dump(-1));
  }
  return to_json(*found);
}

/// Changes a download and tells clients of it.
void Downloads::change(size_t index, const std::function<void(Download&)>& change, bool tells) {
  const std::lock_guard lock(mutex_);
  change(downloads_[index]);
  if (tells) {
    events_.publish("download", to_json(downloads_[index]).dump(-1));
  }
}

void Downloads::run(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  while (!stop.stop_requested()) {
    size_t index = 0;
    std::string source;
    {
      std::unique_lock lock(mutex_);
      const auto next = [this] {
        return std::ranges::find_if(downloads_, [](const Download& each) {
          return each.state == "running" && !each.has_begun;
        });
      };
      if (!changed_.wait(lock, stop, [&] { return next() != downloads_.end(); })) {
        return;
      }
      const auto found = next();
      found->has_begun = true;
      index = static_cast<size_t>(found - downloads_.begin());
      source = found->source;
    }
    bool is_cancelled = false;
    Clock::time_point told{};
    const auto progress = [&](int64_t done, int64_t total) {
      const bool tells = Clock::now() - told > std::chrono::milliseconds(500);
      told = tells ? Clock::now() : told;
      change(
          index,
          [&](Download& each) {
            each.bytes = done;
            each.total = total;
            is_cancelled = each.is_cancelled;
          },
          tells);
      if (is_cancelled || stop.stop_requested()) {
        throw Stopped();
      }
    };
    try {
      fetch_(source, progress);
      done_(source);
      change(index, [](Download& each) { each.state = "done"; });
    } catch (const Stopped&) {
      change(index, [](Download& each) { each.state = "cancelled"; });
    } catch (const std::exception& error) {
      change(index, [&](Download& each) {
        each.state = is_cancelled ? "cancelled" : "failed";
        each.error = is_cancelled ? "" : error.what();
      });
    }
  }
}

}  // namespace kinema::serve
