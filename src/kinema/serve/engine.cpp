#include "kinema/serve/engine.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/http/gate.h"
#include "kinema/serve/channel.h"

namespace kinema::serve {
namespace {

/// Sends a maker's progress; steps at most ten times a second.
class SentProgress : public Progress {
 public:
  SentProgress(Channel& channel, std::stop_token stop)
      : channel_(channel), stop_(std::move(stop)) {}

  void phase(const std::string& phase) override {
    channel_.send(io::Json::object({{"phase", phase}}));
  }
  void step(int64_t done, int64_t total) override {
    const auto now = std::chrono::steady_clock::now();
    if (done == total || now - last_ >= std::chrono::milliseconds(100)) {
      last_ = now;
      channel_.send(io::Json::object({{"step", done}, {"steps", total}}));
    }
  }
  void notice(const std::string& text) override {
    channel_.send(io::Json::object({{"notice", text}}));
  }
  void memory(int64_t bytes) override { channel_.send(io::Json::object({{"memory", bytes}})); }
  void preview(const std::string& picture) override {
    channel_.send(io::Json::object({{"preview", http::base64(picture)}}));
  }
  std::stop_token stop() const override { return stop_; }

 private:
  Channel& channel_;
  std::stop_token stop_;
  std::chrono::steady_clock::time_point last_{};
};

/// Requests that were read and not begun, and the way to stop the one that was.
struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<io::Json> requests;
  std::stop_source stop;
  bool is_closed = false;
};

void read_messages(Channel& channel, Inbox& inbox) {
  while (!channel.is_ended()) {
    const auto message = channel.receive(std::chrono::hours(1));
    if (!message) {
      continue;
    }
    const std::lock_guard lock(inbox.mutex);
    if (const io::Json* make = message->is_object() ? message->find("make") : nullptr) {
      inbox.requests.push_back(*make);
      inbox.changed.notify_one();
    } else if (inbox.requests.empty()) {
      inbox.stop.request_stop();
    } else {
      inbox.requests.clear();  // it was not begun
      channel.send(io::Json::object({{"stopped", true}}));
    }
  }
  // Nobody wants the result any more, and a compiler cannot be stopped.
  _exit(0);
}

io::Json answer(Maker& maker, const io::Json& request, Progress& progress) {
  try {
    return io::Json::object({{"made", to_json(maker.make(read_make_settings(request), progress))}});
  } catch (const Stopped&) {
    return io::Json::object({{"stopped", true}});
  } catch (const std::bad_alloc&) {
    return io::Json::object({{"failed", "out of memory"}});
  } catch (const std::exception& error) {
    return io::Json::object({{"failed", error.what()}});
  }
}

}  // namespace

void run_engine(int socket, Maker& maker, const std::string& device) {
  Channel channel{io::Descriptor(socket)};
  Inbox inbox;
  channel.send(io::Json::object({{"ready", device}}));
  const std::jthread reader([&] { read_messages(channel, inbox); });
  while (true) {
    io::Json request;
    std::stop_token stop;
    {
      std::unique_lock lock(inbox.mutex);
      inbox.changed.wait(lock, [&] { return !inbox.requests.empty(); });
      request = std::move(inbox.requests.front());
      inbox.requests.pop_front();
      inbox.stop = std::stop_source();
      stop = inbox.stop.get_token();
    }
    SentProgress progress(channel, stop);
    channel.send(answer(maker, request, progress));
  }
}

}  // namespace kinema::serve
