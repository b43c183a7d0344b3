#include "kinema/environments/record_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/core/shape.h"

namespace kinema::environments {
namespace {

constexpr size_t kMostEntries = 1000;
constexpr size_t kMostAxes = 16;
constexpr int64_t kMostBytes = int64_t{1} << 30;

double limit_of(const io::Json& limit, double otherwise) {
  return limit.is_null() ? otherwise : limit.as_number();
}

Space read_space(const io::Json& entry, const std::string& task, const std::string& name) {
  Space out;
  const auto dtype = dtype_from_string(entry.at("dtype").as_string());
  check(dtype == DType::F32 || dtype == DType::U8 || dtype == DType::S32,
        "[environments] {}: `{}` is {}, expected float32, uint8 or int32", task, name,
        printable_line(entry.at("dtype").as_string()));
  out.dtype = *dtype;
  out.shape = entry.at("shape").as_ints();
  check(out.shape.size() <= kMostAxes, "[environments] {}: `{}` has {} axes, expected at most {}",
        task, name, out.shape.size(), kMostAxes);
  out.low = limit_of(entry.at("low"), -std::numeric_limits<double>::infinity());
  out.high = limit_of(entry.at("high"), std::numeric_limits<double>::infinity());
  check(out.low <= out.high, "[environments] {}: the limits of `{}` are {} and {}", task, name,
        out.low, out.high);
  check(out.dtype == DType::F32 || (std::isfinite(out.low) && std::isfinite(out.high)),
        "[environments] {}: the integers of `{}` have no limits", task, name);
  return out;
}

Spaces read_spaces(const io::Json& entries, const std::string& task) {
  check(entries.members().size() <= kMostEntries,
        "[environments] {} has {} observations or actions, expected at most {}", task,
        entries.members().size(), kMostEntries);
  Spaces out;
  for (const auto& [name, entry] : entries.members()) {
    out[name] = read_space(entry, task, printable_line(name));
  }
  return out;
}

/// Hands out places in a record.
class Places {
 public:
  explicit Places(int64_t count) : count_(count) {}

  int64_t add(int64_t bytes_of_each) {
    constexpr int64_t kAlignment = 64;
    const int64_t at = next_;
    next_ += (count_ * bytes_of_each + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  int64_t next() const { return next_; }

 private:
  int64_t count_;
  int64_t next_ = 0;
};

/// The bytes of a space; throws an Error where `count` of them are too many.
int64_t checked_bytes(const std::string& name, const Space& space, int64_t count,
                      const std::string& task) {
  const int64_t elements = checked_elements(space.shape);
  check(elements <= kMostBytes / count / byte_size(space.dtype),
        "[environments] {}: `{}` {} of {} environments has more than 1 GiB\n  return a smaller one",
        task, printable_line(name), to_string(Shape{space.dtype, space.shape}), count);
  return elements * byte_size(space.dtype);
}

io::Json offsets(const std::map<std::string, int64_t>& of) {
  io::Json out = io::Json::object();
  for (const auto& [name, offset] : of) {
    out.set(name, offset);
  }
  return out;
}

}  // namespace

ServedSpaces ServedSpaces::read(const io::Json& reply, const std::string& task) {
  ServedSpaces out;
  out.observations = read_spaces(reply.at("observations"), task);
  out.actions = read_spaces(reply.at("actions"), task);
  check(!out.observations.empty() && !out.actions.empty(),
        "[environments] {} has {} observations and {} actions, expected at least one of each", task,
        out.observations.size(), out.actions.size());
  for (const io::Json& name : reply.at("log").items()) {
    out.log.push_back(name.as_string());
  }
  check(out.log.size() <= kMostEntries, "[environments] {} has {} log values, expected at most {}",
        task, out.log.size(), kMostEntries);
  out.repeat = reply.at("repeat").as_int();
  check(out.repeat > 0, "[environments] {} repeats each action {} times", task, out.repeat);
  return out;
}

std::string log_name(const std::string& served) {
  constexpr size_t kPrefix = 4;
  return served.starts_with("log/") || served.starts_with("log_") ? served.substr(kPrefix) : served;
}

RecordLayout::RecordLayout(const ServedSpaces& spaces, int64_t count, const std::string& task) {
  Places places(count);
  for (const auto& [name, space] : spaces.actions) {
    actions[name] = places.add(checked_bytes(name, space, count, task));
  }
  reset = places.add(1);
  replies = places.next();
  for (const auto& [name, space] : spaces.observations) {
    observations[name] = places.add(checked_bytes(name, space, count, task));
    check(places.next() <= kMostBytes,
          "[environments] {}: a step of {} environments has more than 1 GiB, `{}` {} among them",
          task, count, printable_line(name), to_string(Shape{space.dtype, space.shape}));
  }
  reward = places.add(sizeof(float));
  is_first = places.add(1);
  is_last = places.add(1);
  is_terminal = places.add(1);
  restarted = places.add(1);
  for (const std::string& name : spaces.log) {
    log[name] = places.add(sizeof(float));
  }
  bytes = places.next();
}

io::Json RecordLayout::json() const {
  return io::Json::object({{"actions", offsets(actions)},
                           {"reset", reset},
                           {"replies", replies},
                           {"observations", offsets(observations)},
                           {"reward", reward},
                           {"is_first", is_first},
                           {"is_last", is_last},
                           {"is_terminal", is_terminal},
                           {"restarted", restarted},
                           {"log", offsets(log)},
                           {"bytes", bytes}});
}

}  // namespace kinema::environments
