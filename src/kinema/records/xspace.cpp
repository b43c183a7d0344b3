#include "kinema/records/xspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "kinema/core/error.h"
#include "records/xspace.pb.h"

namespace kinema::records {
namespace {

constexpr int64_t kPicosecondsPerNanosecond = 1000;
constexpr double kPicosecondsPerMicrosecond = 1e6;

wire::XSpace parse(std::string_view bytes) {
  check(bytes.size() <= std::numeric_limits<int>::max(),
        "[profile] a recording of {} bytes is too long: profile fewer steps (profiler_steps)",
        bytes.size());
  wire::XSpace out;
  // Some plugins count a terminating zero, which is not a field.
  const bool read = out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
                    (!bytes.empty() && bytes.back() == '\0' &&
                     out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size() - 1)));
  check(read, "[profile] {} bytes are not a recording (XSpace)", bytes.size());
  return out;
}

/// A plane under construction, which assigns unused numbers to names.
class Plane {
 public:
  explicit Plane(wire::XPlane& plane) : plane_(plane) {
    for (const auto& [id, metadata] : plane.event_metadata()) {
      next_event_ = std::max(next_event_, id + 1);
    }
    for (const auto& [id, metadata] : plane.stat_metadata()) {
      stats_.emplace(metadata.name(), id);
      next_stat_ = std::max(next_stat_, id + 1);
    }
    for (const wire::XLine& line : plane.lines()) {
      next_line_ = std::max(next_line_, line.id() + 1);
    }
  }

  int64_t event(const std::string& name) {
    const auto [found, is_new] = events_.emplace(name, next_event_);
    if (is_new) {
      wire::XEventMetadata& metadata = (*plane_.mutable_event_metadata())[next_event_];
      metadata.set_id(next_event_++);
      metadata.set_name(name);
    }
    return found->second;
  }
  int64_t stat(const std::string& name) {
    const auto [found, is_new] = stats_.emplace(name, next_stat_);
    if (is_new) {
      wire::XStatMetadata& metadata = (*plane_.mutable_stat_metadata())[next_stat_];
      metadata.set_id(next_stat_++);
      metadata.set_name(name);
    }
    return found->second;
  }
  wire::XLine& line(const std::string& name) {
    wire::XLine& line = *plane_.add_lines();
    line.set_id(next_line_++);
    line.set_name(name);
    return line;
  }

 private:
  wire::XPlane& plane_;
  std::map<std::string, int64_t> events_, stats_;
  int64_t next_event_ = 1, next_stat_ = 1, next_line_ = 1;
};

wire::XPlane& plane_named(wire::XSpace& space, const std::string& name) {
  int64_t id = 1;
  for (wire::XPlane& plane : *space.mutable_planes()) {
    if (plane.name() == name) {
      return plane;
    }
    id = std::max(id, plane.id() + 1);
  }
  wire::XPlane& plane = *space.add_planes();
  plane.set_id(id);
  plane.set_name(name);
  return plane;
}

void add_spans(const trace::Recording& host, wire::XPlane& to) {
  Plane plane(to);
  for (size_t thread = 0; thread < host.threads.size(); ++thread) {
    wire::XLine& line = plane.line(host.threads[thread]);
    std::vector<const trace::Span*> spans;
    for (const trace::Span& span : host.spans) {
      if (span.thread == thread) {
        spans.push_back(&span);
      }
    }
    // Spans are ordered by their ends; readers need the order of their starts, outer ones first.
    std::ranges::stable_sort(spans, [](const trace::Span* a, const trace::Span* b) {
      return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns > b->end_ns;
    });
    for (const trace::Span* span : spans) {
      wire::XEvent& event = *line.add_events();
      event.set_metadata_id(plane.event(span->name));
      event.set_offset_ps((span->begin_ns - host.begin_ns) * kPicosecondsPerNanosecond);
      event.set_duration_ps((span->end_ns - span->begin_ns) * kPicosecondsPerNanosecond);
      if (span->step >= 0) {
        // The profile page finds steps by their number, and expects them outermost.
        wire::XStat& number = *event.add_stats();
        number.set_metadata_id(plane.stat("step_num"));
        number.set_int64_value(span->step);
        wire::XStat& root = *event.add_stats();
        root.set_metadata_id(plane.stat("_r"));
        root.set_int64_value(1);
      }
    }
  }
}

/// Start and end of the recording, where readers expect them.
void add_times(const trace::Recording& host, wire::XPlane& to) {
  Plane plane(to);
  for (const auto& [name, time] : {std::pair{"profile_start_time", host.begin_ns},
                                   std::pair{"profile_stop_time", host.end_ns}}) {
    wire::XStat& stat = *to.add_stats();
    stat.set_metadata_id(plane.stat(name));
    stat.set_uint64_value(static_cast<uint64_t>(time));
  }
}

/// A JSON string; characters outside ASCII are replaced, because some readers reject them.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += byte < 0x80 ? c : '?';
    }
  }
  return out + '"';
}

std::string value_text(const wire::XStat& stat, const wire::XPlane& plane) {
  switch (stat.value_case()) {
    case wire::XStat::kDoubleValue:
      return in_quotes(
          fmt::format("{}", stat.double_value()));  // may be a number that JSON does not have
    case wire::XStat::kUint64Value:
      return fmt::format("{}", stat.uint64_value());
    case wire::XStat::kInt64Value:
      return fmt::format("{}", stat.int64_value());
    case wire::XStat::kStrValue:
      return in_quotes(stat.str_value());
    case wire::XStat::kBytesValue:
      return in_quotes(fmt::format("{} bytes", stat.bytes_value().size()));
    case wire::XStat::kRefValue: {
      const auto found = plane.stat_metadata().find(static_cast<int64_t>(stat.ref_value()));
      return in_quotes(found == plane.stat_metadata().end() ? "" : found->second.name());
    }
    case wire::XStat::VALUE_NOT_SET:
      break;
  }
  return "null";
}

/// `"name": value` for each, without duplicate names.
std::string args_text(const google::protobuf::RepeatedPtrField<wire::XStat>& own,
                      const google::protobuf::RepeatedPtrField<wire::XStat>* shared,
                      const wire::XPlane& plane) {
  std::map<std::string, std::string> args;
  for (const auto* stats : {&own, shared}) {
    if (stats == nullptr) {
      continue;
    }
    for (const wire::XStat& stat : *stats) {
      const auto found = plane.stat_metadata().find(stat.metadata_id());
      if (found != plane.stat_metadata().end()) {
        args.emplace(in_quotes(found->second.name()), value_text(stat, plane));
      }
    }
  }
  std::string out;
  for (const auto& [name, value] : args) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", name, value);
  }
  return out;
}

}  // namespace

std::string merge_recordings(std::string_view plugin, const trace::Recording& host,
                             const std::string& host_name) {
  wire::XSpace space = parse(plugin);
  for (wire::XPlane& plane : *space.mutable_planes()) {
    for (wire::XLine& line : *plane.mutable_lines()) {
      if (line.timestamp_ns() >= host.begin_ns) {  // since the epoch, not since the start
        line.set_timestamp_ns(line.timestamp_ns() - host.begin_ns);
      }
    }
  }
  add_spans(host, plane_named(space, "/host:CPU"));
  add_times(host, plane_named(space, "Task Environment"));
  if (space.hostnames_size() == 0) {
    space.add_hostnames(host_name);
  }
  return space.SerializeAsString();
}

std::string chrome_trace(std::string_view xspace) {
  const wire::XSpace space = parse(xspace);
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  auto add = [&, first = true](const std::string& event) mutable {
    out += first ? "\n" : ",\n";
    out += event;
    first = false;
  };
  for (int p = 0; p < space.planes_size(); ++p) {
    const wire::XPlane& plane = space.planes(p);
    if (plane.lines().empty()) {
      continue;
    }
    const auto name_of = [&](const char* what, int64_t thread, const std::string& name) {
      return fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})",
                         p + 1, thread, what, in_quotes(name));
    };
    add(name_of("process_name", 0, plane.name()));
    for (int l = 0; l < plane.lines_size(); ++l) {
      const wire::XLine& line = plane.lines(l);
      add(name_of("thread_name", l + 1,
                  line.display_name().empty() ? line.name() : line.display_name()));
      for (const wire::XEvent& event : line.events()) {
        const auto found = plane.event_metadata().find(event.metadata_id());
        if (found == plane.event_metadata().end()) {
          continue;
        }
        const wire::XEventMetadata& metadata = found->second;
        const double begin = static_cast<double>(line.timestamp_ns()) / 1e3 +
                             static_cast<double>(event.offset_ps()) / kPicosecondsPerMicrosecond;
        const double duration =
            static_cast<double>(event.duration_ps()) / kPicosecondsPerMicrosecond;
        add(fmt::format(
            R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{:.6f},"dur":{:.6f},"args":{{{}}}}})",
            p + 1, l + 1,
            in_quotes(metadata.display_name().empty() ? metadata.name() : metadata.display_name()),
            begin, duration, args_text(event.stats(), &metadata.stats(), plane)));
      }
    }
  }
  return out + "\n]}\n";
}

}  // namespace kinema::records
