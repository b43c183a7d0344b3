#include "kinema/http/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::http {
namespace {

bool is_name(std::string_view segment) { return segment.starts_with('{'); }

std::vector<std::string> split_pattern(const std::string& pattern) {
  check(pattern.starts_with('/'), "[http] the route `{}` does not start with `/`", pattern);
  std::vector<std::string> out;
  for (size_t at = 1; at <= pattern.size();) {
    const size_t end = std::min(pattern.find('/', at), pattern.size());
    out.push_back(pattern.substr(at, end - at));
    const std::string& segment = out.back();
    check(is_name(segment) == segment.ends_with('}') && segment != "{}",
          "[http] the route `{}` has the segment `{}`, expected a literal or {{name}}", pattern,
          segment);
    at = end + 1;
  }
  return out;
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& segments) {
  return std::ranges::equal(pattern, segments, [](const auto& wanted, const auto& given) {
    return is_name(wanted) ? !given.empty() : wanted == given;
  });
}

/// Patterns of one length, those with an earlier literal first.
bool is_before(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::lexicographical_compare(
      a, b, [](const auto& x, const auto& y) { return !is_name(x) && is_name(y); });
}

}  // namespace

Route::Handler answering(std::function<Response(Request&)> handler) {
  return [handler = std::move(handler)](Request& request, const Reply& reply) {
    reply.send(handler(request));
  };
}

void Router::add(Route route) {
  std::vector<std::string> segments = split_pattern(route.pattern);
  for (const Entry& entry : entries_) {
    check(entry.route->method != route.method || entry.route->pattern != route.pattern,
          "[http] the route {} {} exists twice", route.method, route.pattern);
  }
  const auto place = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return is_before(segments, entry.segments); });
  entries_.insert(place, Entry{std::make_unique<const Route>(std::move(route)), segments});
}

Router::Match Router::find(std::string_view method,
                           const std::vector<std::string>& segments) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  Match out;
  std::vector<std::string> methods;
  for (const Entry& entry : entries_) {
    if (!matches(entry.segments, segments)) {
      continue;
    }
    if (entry.route->method != wanted) {
      methods.push_back(entry.route->method);
      continue;
    }
    out.route = entry.route.get();
    for (size_t i = 0; i < segments.size(); ++i) {
      if (is_name(entry.segments[i])) {
        out.params.emplace(entry.segments[i].substr(1, entry.segments[i].size() - 2), segments[i]);
      }
    }
    return out;
  }
  std::ranges::sort(methods);
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  out.allowed = fmt::format("{}", fmt::join(methods, ", "));
  return out;
}

}  // namespace kinema::http
