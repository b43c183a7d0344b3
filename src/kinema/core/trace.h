#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Timelines of what the threads do, while a recording runs.
namespace kinema::trace {

/// A stretch of a thread's time. Spans of one thread nest or follow each other.
struct Span {
  std::string name;
  uint64_t thread = 0;   // see Recording::threads
  int64_t begin_ns = 0;  // since the epoch
  int64_t end_ns = 0;
  int64_t step = -1;  // of a training step: its number; -1: none
};

struct Recording {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<Span> spans;           // in the order in which they ended
  std::vector<std::string> threads;  // by Span::thread
};

/// Starts recording in all threads; throws an Error if a recording is running.
void start();
/// Ends the recording. Spans that are still open are dropped.
Recording stop();
bool is_recording();

/// Names the calling thread in recordings; without a name it is `thread N`.
void name_thread(std::string_view name);

/// A number for a name, the same in every process, where only numbers can be passed on.
struct Label {
  int64_t number = 0;
};
Label label(std::string_view name);

/// Records its scope as a span called `name`. Costs one load from memory while nothing is recorded.
class Scope {
 public:
  explicit Scope(std::string_view name, int64_t step = -1);
  /// Under the name that `label` was made from in this process.
  explicit Scope(Label label);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  std::string name_;
  int64_t begin_ns_ = 0;  // 0: not recorded
  int64_t step_ = -1;
};

/// Records a span that belongs to no thread, on a line called `line`: what a device did.
void add(std::string_view line, std::string_view name, int64_t begin_ns, int64_t end_ns,
         int64_t step = -1);
/// The clock of the spans, in nanoseconds.
int64_t now_ns();

}  // namespace kinema::trace
