#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "kinema/io/json.h"

namespace kinema::environments {

/// The settings of a task, read by name.
class Settings {
 public:
  /// From the text of a JSON object, or empty text. Throws an Error with the task for other text.
  Settings(const std::string& json, std::string task);

  const std::string& task() const { return task_; }
  const io::Json& json() const { return json_; }

  /// The value, or `otherwise` where it is not given. Throws an Error for a value of another type
  /// or outside of least..most.
  int64_t whole(std::string_view name, int64_t otherwise, int64_t least, int64_t most);
  double number(std::string_view name, double otherwise, double least, double most);

  /// Throws an Error for a setting that was not read, with the nearest one that was.
  void check_all_read() const;

 private:
  const io::Json* find(std::string_view name);

  std::string task_;
  io::Json json_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace kinema::environments
