#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/http/message.h"

namespace kinema::http {

/// The answer to one request, which may be given later and from any thread. Copies share it; the
/// first `send` counts. When the last copy is destroyed without one, the client gets status 500.
class Reply {
 public:
  class Channel {
   public:
    virtual ~Channel() = default;
    virtual void send(Response response) = 0;
    virtual bool is_gone() const = 0;
  };

  explicit Reply(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  void send(Response response) const { channel_->send(std::move(response)); }
  /// True if the client has closed the connection, as far as that is known.
  bool is_gone() const { return channel_->is_gone(); }

 private:
  std::shared_ptr<Channel> channel_;
};

/// Who may call a route.
enum class Access : uint8_t {
  OPEN,   ///< everyone whose request passes the lists of hosts and origins
  TOKEN,  ///< who also has the token
};

/// The body that a route takes.
struct BodyRule {
  int64_t limit = 1 << 20;  ///< bytes; more is refused with 413, before it is read where possible
  /// Media types; `image/*` is any image. Others are refused with 415, no body is always accepted.
  std::vector<std::string> types = {"application/json"};
  bool to_file = false;  ///< into Request::file, as it arrives
};

struct Route {
  /// Called from a worker thread. It sends the answer, or keeps the Reply and sends it later; an
  /// exception becomes an answer by the server's `error` function.
  using Handler = std::function<void(Request& request, const Reply& reply)>;

  std::string method;
  std::string pattern;  // `/api/jobs/{id}`: a name in braces stands for one non-empty segment
  Access access = Access::TOKEN;
  BodyRule body = {};
  Handler handler;
};

/// A handler that returns its answer.
Route::Handler answering(std::function<Response(Request&)> handler);

/// A table of routes. Where several match, the one with an earlier literal segment counts.
class Router {
 public:
  struct Match {
    const Route* route = nullptr;  // null: none
    std::map<std::string, std::string> params;
    std::string allowed;  // without a route, the methods of this path: `GET, POST`; empty: none
  };

  /// Throws an Error for a route that is already there or whose pattern is malformed.
  void add(Route route);
  /// HEAD is answered by the routes of GET.
  Match find(std::string_view method, const std::vector<std::string>& segments) const;

 private:
  struct Entry {
    std::unique_ptr<const Route> route;  // at a fixed address
    std::vector<std::string> segments;
  };
  std::vector<Entry> entries_;
};

}  // namespace kinema::http
