#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What threads do and when, recorded while somebody asks for it.
namespace kinema::trace {

/// A stretch of a thread's time. Those of a thread lie within or behind one another.
struct Span {
  std::string name;
  uint64_t thread = 0;   // see Recording::threads
  int64_t begin_ns = 0;  // since the epoch
  int64_t end_ns = 0;
  int64_t step = -1;  // of a training step: its number
};

struct Recording {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<Span> spans;           // in the order in which they ended
  std::vector<std::string> threads;  // by Span::thread
};

/// Begins to record, in all threads; throws an Error where a recording is under way.
void start();
/// Ends it. Spans that are still open are left out.
Recording stop();
bool is_recording();

/// Names the calling thread in recordings; without a name it is `thread N`.
void name_thread(std::string_view name);

/// A number that stands for a name, the same in every process: for what only carries numbers.
struct Label {
  int64_t number = 0;
};
Label label(std::string_view name);

/// Records its scope under `name`. Costs a load from memory while nothing is recorded.
class Scope {
 public:
  explicit Scope(std::string_view name, int64_t step = -1);
  /// Under the name that `label` was asked for in this process.
  explicit Scope(Label label);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  std::string name_;
  int64_t begin_ns_ = 0;  // 0: not recorded
  int64_t step_ = -1;
};

/// Records a span that is no thread's, on a line called `line`: what a device did.
void add(std::string_view line, std::string_view name, int64_t begin_ns, int64_t end_ns,
         int64_t step = -1);
/// The clock of spans.
int64_t now_ns();

}  // namespace kinema::trace
