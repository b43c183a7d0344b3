#include "kinema/training/timings.h"

#include <algorithm>
#include <utility>

#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"

namespace kinema::training {

Timings::Span::Span(Timings& timings, std::string name)
    : timings_(timings), name_(std::move(name)) {}

Timings::Span::~Span() { timings_.add(name_, watch_.seconds()); }

void Timings::add(const std::string& name, double seconds) {
  auto phase = std::ranges::find(phases_, name, &Phase::name);
  if (phase == phases_.end()) {
    phase = phases_.insert(phase, {.name = name});
  }
  phase->seconds += seconds;
  ++phase->times;
}

void Timings::write(const std::filesystem::path& path) const {
  std::string text;
  for (const Phase& phase : phases_) {
    const io::Json line = io::Json::object(
        {{"phase", phase.name}, {"seconds", phase.seconds}, {"times", phase.times}});
    text += line.dump(-1) + "\n";
  }
  io::write_file(path, text);
}

}  // namespace kinema::training
