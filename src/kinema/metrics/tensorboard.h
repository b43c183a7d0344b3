#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"

namespace kinema::metrics {

/// A scalar of an event.
struct Scalar {
  std::string name;
  double value;
};

/// A picture of an event.
struct EventImage {
  std::string name;
  int64_t height = 0;
  int64_t width = 0;
  std::string encoded;  // a complete PNG, JPEG or GIF file
};

/// TensorBoard event files: the scalars of metrics.jsonl, under the same names, texts and pictures.
class EventFile {
 public:
  /// Starts a new file in the folder (created if missing); steps from `first_step` in earlier files
  /// are hidden. Throws an Error if the file cannot be written.
  EventFile(const std::filesystem::path& folder, int64_t first_step);

  void write(const training::StepRecord& record);
  void write(int64_t step, const training::Evaluation& evaluation);
  void write(int64_t step, const std::vector<Scalar>& scalars);
  /// A picture or animation, PNG, JPEG or GIF, for TensorBoard's image page.
  void write_image(int64_t step, const EventImage& image);
  /// A text about the whole run, shown unformatted on TensorBoard's text page.
  void write_text(const std::string& name, const std::string& text);
  /// Flushes the file, so that TensorBoard sees the events.
  void flush();

 private:
  std::string path_;
  std::ofstream file_;
};

/// A serialized `tensorflow.Event` with a text, which TensorBoard reads as Markdown.
std::string text_event(double wall_seconds, const std::string& name, const std::string& markdown);

/// A serialized `tensorflow.Event` with a picture.
std::string image_event(double wall_seconds, int64_t step, const EventImage& image);

/// A serialized `tensorflow.Event` with scalars.
std::string scalar_event(double wall_seconds, int64_t step, const std::vector<Scalar>& scalars);

}  // namespace kinema::metrics
