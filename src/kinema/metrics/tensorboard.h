#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"

namespace kinema::metrics {

/// A number of an event.
struct Scalar {
  std::string name;
  double value;
};

/// A picture of an event.
struct EventImage {
  std::string name;
  int64_t height = 0;
  int64_t width = 0;
  std::string encoded;  // a whole PNG, JPEG or GIF file
};

/// TensorBoard event files: the scalars of metrics.jsonl, under the same names, texts and pictures.
class EventFile {
 public:
  /// Begins a new file in the folder (made when missing); steps from `first_step` on in earlier
  /// files are no longer shown. Throws an Error when the file cannot be written.
  EventFile(const std::filesystem::path& folder, int64_t first_step);

  void write(const training::StepRecord& record);
  void write(int64_t step, const training::Evaluation& evaluation);
  void write(int64_t step, const std::vector<Scalar>& scalars);
  /// A picture or animation, PNG, JPEG or GIF, on TensorBoard's page of images.
  void write_image(int64_t step, const EventImage& image);
  /// A text of the run as a whole, shown as it is on TensorBoard's page of texts.
  void write_text(const std::string& name, const std::string& text);
  /// Hands what was written to the system, so that TensorBoard sees it.
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
