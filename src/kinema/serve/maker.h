#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::serve {

/// What an engine is asked to make.
struct MakeSettings {
  std::string model;                       // its name
  std::vector<std::string> arguments;      // Model::arguments
  io::Json settings = io::Json::object();  // keys over those of the model
  std::map<std::string, std::filesystem::path> inputs{};
  std::vector<std::pair<std::filesystem::path, double>> loras{};  // with their weights
  int64_t count = 1;
  std::filesystem::path folder;  // for the outputs; it exists
};

/// A picture or video that was written.
struct MadeFile {
  std::filesystem::path path;
  std::filesystem::path thumb;  // a picture of at most 320 pixels; empty: none
  bool is_video = false;
  int64_t width = 0;
  int64_t height = 0;
  int64_t frames = 1;
  double fps = 0;
  int64_t index = 0;
};

struct Made {
  std::vector<MadeFile> files;
};

/// Receives what a Maker tells while it works.
class Progress {
 public:
  virtual ~Progress() = default;
  /// `loading`, `compiling`, `text`, `sampling`, `decoding` or `writing`.
  virtual void phase(const std::string& phase) = 0;
  virtual void step(int64_t done, int64_t total) = 0;
  virtual void notice(const std::string& text) = 0;
  /// Asks for an end as soon as possible, by a kinema::Stopped.
  virtual std::stop_token stop() const = 0;
};

/// Makes pictures and videos. It is asked again and again, from one thread.
class Maker {
 public:
  virtual ~Maker() = default;
  /// Throws an Error for what cannot be made, after which it can be asked for other things.
  virtual Made make(const MakeSettings& settings, Progress& progress) = 0;
};

io::Json to_json(const MakeSettings& settings);
MakeSettings read_make_settings(const io::Json& json);
io::Json to_json(const Made& made);
Made read_made(const io::Json& json);

}  // namespace kinema::serve
