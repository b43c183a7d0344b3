#include "kinema/metrics/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/records/tfrecord.h"

namespace kinema::metrics {

namespace {

// The few protobuf fields of tensorflow/core/util/event.proto and framework/summary.proto that
// scalars and texts need, in wire format: a key is field * 8 + type (0 varint, 1 8 bytes, 2 length,
// 5 4 bytes).
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}

template <typename Word>
void put_fixed(std::string& out, Word word) {
  for (size_t i = 0; i < sizeof(Word); ++i) {
    out += static_cast<char>(word >> (8 * i));
  }
}

void put_bytes(std::string& out, int field, const std::string& bytes) {
  put_varint(out, static_cast<uint64_t>(field) * 8 + 2);
  put_varint(out, bytes.size());
  out += bytes;
}

/// Event.wall_time = 1, Event.step = 2.
std::string event_head(double wall_seconds, int64_t step) {
  std::string out;
  put_varint(out, 1 * 8 + 1);
  put_fixed(out, std::bit_cast<uint64_t>(wall_seconds));
  put_varint(out, 2 * 8 + 0);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string scalar_event(double wall_seconds, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;  // Summary.Value.tag = 1, simple_value = 2
    put_bytes(value, 1, scalar.name);
    put_varint(value, 2 * 8 + 5);
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);
  }
  std::string event = event_head(wall_seconds, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string text_event(double wall_seconds, const std::string& name, const std::string& markdown) {
  const auto varint = [](int field, uint64_t number) {
    std::string out;
    put_varint(out, static_cast<uint64_t>(field) * 8);
    put_varint(out, number);
    return out;
  };
  constexpr uint64_t kString = 7;  // DataType.DT_STRING
  std::string dim;                 // TensorShapeProto.dim = 2 with Dim.size = 1
  put_bytes(dim, 2, varint(1, 1));
  std::string tensor = varint(1, kString);  // TensorProto.dtype = 1
  put_bytes(tensor, 2, dim);                // tensor_shape = 2
  put_bytes(tensor, 8, markdown);           // string_val = 8
  std::string plugin;                       // SummaryMetadata.PluginData.plugin_name = 1
  put_bytes(plugin, 1, "text");
  std::string metadata;  // SummaryMetadata.plugin_data = 1
  put_bytes(metadata, 1, plugin);
  std::string value;  // Summary.Value.tag = 1, tensor = 8, metadata = 9
  put_bytes(value, 1, name);
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata);
  std::string summary;
  put_bytes(summary, 1, value);
  std::string event = event_head(wall_seconds, 0);
  put_bytes(event, 5, summary);
  return event;
}

std::string image_event(double wall_seconds, int64_t step, const EventImage& image) {
  const auto number = [](std::string& out, int field, int64_t value) {
    put_varint(out, static_cast<uint64_t>(field) * 8);
    put_varint(out, static_cast<uint64_t>(value));
  };
  constexpr int64_t kRgb = 3;  // Summary.Image.colorspace
  std::string picture;         // height = 1, width = 2, colorspace = 3, encoded_image_string = 4
  number(picture, 1, image.height);
  number(picture, 2, image.width);
  number(picture, 3, kRgb);
  put_bytes(picture, 4, image.encoded);
  std::string value;  // Summary.Value.tag = 1, image = 4
  put_bytes(value, 1, image.name);
  put_bytes(value, 4, picture);
  std::string summary;
  put_bytes(summary, 1, value);
  std::string event = event_head(wall_seconds, step);
  put_bytes(event, 5, summary);
  return event;
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto stamp = std::chrono::system_clock::now().time_since_epoch();
  path_ =
      (folder / fmt::format("events.out.tfevents.{}.{}",
                            std::chrono::duration_cast<std::chrono::microseconds>(stamp).count(),
                            ::getpid()))
          .string();
  file_.open(path_, std::ios::binary);
  check(file_.is_open(), "[train] {} cannot be written: {}", path_, errno_text(errno));
  std::string version = event_head(now(), 0);
  put_bytes(version, 3, "brain.Event:2");  // Event.file_version
  file_ << records::frame_record(version);
  if (first_step > 0) {
    // Event.session_log = 7 with SessionLog.status = START, which makes TensorBoard hide later
    // steps of older files.
    std::string restart = event_head(now(), first_step);
    put_bytes(restart, 7, std::string("\x08\x01", 2));
    file_ << records::frame_record(restart);
  }
  flush();
}

void EventFile::write(const training::StepRecord& record) {
  std::vector<Scalar> scalars = {{"learning/current_learning_rate", record.learning_rate},
                                 {"perf/step_time_seconds", record.seconds},
                                 {"perf/per_device_tflops", record.tflops},
                                 {"perf/per_device_tflops_per_sec",
                                  record.seconds > 0 ? record.tflops / record.seconds : 0.0}};
  if (const double used = model_flops_utilization(record); used > 0) {
    scalars.push_back({"perf/mfu", used});
  }
  if (record.expected_seconds > 0) {
    scalars.push_back({"perf/expected_step_time_seconds", record.expected_seconds});
  }
  if (record.estimate) {
    scalars.push_back({"learning/d", *record.estimate});
    scalars.push_back({"learning/d_times_learning_rate", *record.estimate * record.learning_rate});
  }
  if (record.epoch) {
    scalars.push_back({"learning/epoch", *record.epoch});
  }
  for (const auto& [name, bytes] : memory_figures(record)) {
    scalars.push_back({name, static_cast<double>(bytes)});
  }
  if (record.finite) {
    scalars.push_back({"learning/loss", record.loss});
    if (!record.expert.empty()) {  // one curve per expert
      scalars.push_back({"learning/loss_" + record.expert, record.loss});
    }
    scalars.push_back({"learning/max_grad_norm", record.gradient_norm});
    scalars.push_back({"learning/grad_norm", record.gradient_norm});
    scalars.push_back({"learning/max_abs_grad", record.max_abs_gradient});
  }
  file_ << records::frame_record(scalar_event(now(), record.step, scalars));
}

void EventFile::write(int64_t step, const training::Evaluation& evaluation) {
  std::vector<Scalar> scalars = {{"learning/eval_loss", evaluation.loss}};
  for (const auto& [timestep, loss] : evaluation.by_timestep) {
    scalars.push_back({fmt::format("eval/loss_t{}", timestep), loss});
  }
  write(step, scalars);
}

void EventFile::write(int64_t step, const std::vector<Scalar>& scalars) {
  file_ << records::frame_record(scalar_event(now(), step, scalars));
  flush();
}

void EventFile::write_image(int64_t step, const EventImage& image) {
  file_ << records::frame_record(image_event(now(), step, image));
  flush();
}

void EventFile::write_text(const std::string& name, const std::string& text) {
  // Four leading spaces make Markdown show the line unchanged.
  std::string markdown = "    ";
  for (const char c : text) {
    markdown += c;
    markdown += c == '\n' ? "    " : "";
  }
  file_ << records::frame_record(text_event(now(), name, markdown));
}

void EventFile::flush() {
  file_.flush();
  check(file_.good(), "[train] {} cannot be written: {}", path_, errno_text(errno));
}

}  // namespace kinema::metrics
