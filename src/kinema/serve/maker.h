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

/// How long a request took, all of its pictures or videos together.
struct MadeTimes {
  double setup = 0;   // seconds of loading and compiling
  double steps = 0;   // of denoising
  double others = 0;  // of text, given images and decoding
  int64_t count = 0;  // steps of all batches
};

/// The device of an engine.
struct EngineDevice {
  std::string name;      // `NVIDIA H200`; empty: unknown
  std::string platform;  // `cpu`, `cuda` or `tpu`
  int64_t count = 0;
  int64_t bytes = 0;  // in use on the first one
  int64_t limit = 0;  // of these; 0: unknown
};

struct Made {
  std::vector<MadeFile> files;
  MadeTimes times = {};
  EngineDevice device = {};
};

/// Receives what a Maker tells while it works.
class Progress {
 public:
  virtual ~Progress() = default;
  /// `loading`, `compiling`, `text`, `sampling`, `decoding` or `writing`.
  virtual void phase(const std::string& phase) = 0;
  virtual void step(int64_t done, int64_t total) = 0;
  virtual void notice(const std::string& text) = 0;
  /// The memory that the request needs, before it is loaded.
  virtual void memory(int64_t bytes) = 0;
  /// A small picture of what is being made, as the bytes of a PNG, JPEG or WebP.
  virtual void preview(const std::string& picture) = 0;
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
