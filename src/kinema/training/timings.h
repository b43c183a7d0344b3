#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"

namespace kinema::training {

/// Seconds of a run by phase, in the order in which phases first started. Phases are not nested.
/// Not thread-safe.
class Timings {
 public:
  struct Phase {
    std::string name;
    double seconds = 0;
    int64_t times = 0;
  };

  /// Adds the time of its lifetime to a phase.
  class Span {
   public:
    Span(Timings& timings, std::string name);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Timings& timings_;
    std::string name_;
    Stopwatch watch_;
  };

  [[nodiscard]] Span measure(std::string name) { return {*this, std::move(name)}; }
  /// Returns the result of `work` and adds its time to a phase.
  template <typename Work>
  auto measure(std::string name, Work&& work) {
    const Span span(*this, std::move(name));
    return work();
  }
  void add(const std::string& name, double seconds);
  const std::vector<Phase>& phases() const { return phases_; }

  /// Writes one line of JSON per phase: {"phase": ..., "seconds": ..., "times": ...}. Throws an
  /// Error if the file cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  std::vector<Phase> phases_;
};

}  // namespace kinema::training
