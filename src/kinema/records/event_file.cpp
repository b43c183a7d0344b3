#include "kinema/records/event_file.h"

#include <limits>

#include "kinema/core/error.h"
#include "kinema/records/tfrecord.h"
#include "kinema/records/wire_lengths.h"
#include "records/event.pb.h"

namespace kinema::records {
namespace {

// Event.summary, Summary.value, Value.image and tensor.
constexpr WireMessage kLeaf{};
constexpr WireMessage::Field kValueFields[] = {{4, &kLeaf}, {8, &kLeaf}};
constexpr WireMessage kValue{kValueFields};
constexpr WireMessage::Field kSummaryFields[] = {{1, &kValue}};
constexpr WireMessage kSummary{kSummaryFields};
constexpr WireMessage::Field kEventFields[] = {{5, &kSummary}};
constexpr WireMessage kEvent{kEventFields};

EventValue value_of(const wire::Summary::Value& value) {
  EventValue out{.tag = value.tag()};
  switch (value.value_case()) {
    case wire::Summary::Value::kSimpleValue:
      out.kind = EventValue::Kind::SCALAR;
      out.scalar = value.simple_value();
      break;
    case wire::Summary::Value::kImage:
      out.kind = EventValue::Kind::IMAGE;
      out.bytes = value.image().encoded_image_string();
      break;
    case wire::Summary::Value::kTensor:
      if (value.tensor().string_val_size() > 0) {
        out.kind = EventValue::Kind::TEXT;
        out.bytes = value.tensor().string_val(0);
      }
      break;
    case wire::Summary::Value::VALUE_NOT_SET:
      break;
  }
  return out;
}

}  // namespace

std::vector<EventValue> parse_event(std::span<const std::byte> bytes, const std::string& where) {
  wire::Event event;
  check(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
            lengths_fit(bytes, kEvent) &&
            event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
        "[events] {} is not a TensorBoard event", where);
  std::vector<EventValue> out;
  for (const wire::Summary::Value& value : event.summary().value()) {
    out.push_back(value_of(value));
    out.back().step = event.step();
    out.back().wall_seconds = event.wall_time();
  }
  return out;
}

bool is_event_file(const std::filesystem::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

std::vector<EventValue> read_event_file(const std::filesystem::path& path) {
  const TfRecordFile file = TfRecordFile::open(path);
  std::vector<EventValue> out;
  for (int64_t i = 0; i < file.size(); ++i) {
    for (EventValue& each : parse_event(file.at(i), file.where(i))) {
      out.push_back(std::move(each));
    }
  }
  return out;
}

}  // namespace kinema::records
