#include "kinema/planning/overlap.h"

#include <string_view>
#include <utility>

#include "kinema/planning/expected.h"
#include "kinema/planning/traffic.h"

namespace kinema::planning {
namespace {

using pjrt::HloInstruction;
using pjrt::HloModule;

/// True for instructions that keep the cores busy: not for copies, and not for calls that only
/// rename memory.
bool computes(const HloInstruction& one) {
  if (one.opcode == "custom-call") {
    return one.target != "ConcatBitcast" && one.target != "AllocateBuffer";
  }
  return one.opcode == "fusion" || one.opcode == "dot" || one.opcode == "convolution" ||
         one.opcode == "reduce";
}

/// Collectives that have started and not ended.
struct UnderWay {
  std::map<std::string, CollectiveOverlap::Part> sent;
  bool attention = false;
  bool other = false;
};

class Reader {
 public:
  explicit Reader(const Chip& chip) : chip_(chip) {}

  void run(const Place& at) {
    if (const std::string_view kind = collective_kind(at.instruction().opcode); !kind.empty()) {
      add(at, std::string(kind));
    } else if (const HloInstruction* start = awaited(at)) {
      finish(start);
    } else if (at.inside == nullptr && !at.fused) {
      work(at);
    }
  }

  Overlap take() {
    while (!under_way_.empty()) {  // collectives without a wait are awaited at the end
      finish(under_way_.begin()->first);
    }
    return std::move(out_);
  }

 private:
  void add(const Place& at, const std::string& kind) {
    const CollectiveOverlap::Part one{.count = at.times, .bytes = at.times * collective(at).bytes};
    if (const HloInstruction* start = start_of(at)) {
      add(one, under_way_[start].sent[kind]);
    } else {
      add(one, out_[kind].exposed);
    }
  }

  void work(const Place& at) {
    if (under_way_.empty()) {
      return;
    }
    const bool attention = is_attention_kernel(at, chip_);
    const bool other = !attention && computes(at.instruction());
    for (auto& [start, each] : under_way_) {
      each.attention |= attention;
      each.other |= other;
    }
  }

  void finish(const HloInstruction* start) {
    const auto found = under_way_.find(start);
    if (found == under_way_.end()) {
      return;
    }
    const UnderWay& done = found->second;
    for (const auto& [kind, part] : done.sent) {
      CollectiveOverlap& sum = out_[kind];
      add(part, done.attention ? sum.attention : done.other ? sum.other : sum.exposed);
    }
    under_way_.erase(found);
  }

  static void add(const CollectiveOverlap::Part& one, CollectiveOverlap::Part& sum) {
    sum.count += one.count;
    sum.bytes += one.bytes;
  }

  const Chip& chip_;
  std::map<const HloInstruction*, UnderWay> under_way_;
  Overlap out_;
};

io::Json to_json(const CollectiveOverlap::Part& part) {
  return io::Json::object().set("count", part.count).set("bytes", part.bytes);
}

CollectiveOverlap::Part read_part(const io::Json& json) {
  return {.count = json.at("count").as_number(), .bytes = json.at("bytes").as_number()};
}

}  // namespace

Overlap overlap(const HloModule& program, const Chip& chip) {
  Reader reader(chip);
  walk(program, [&](const Place& at) { reader.run(at); });
  return reader.take();
}

io::Json to_json(const Overlap& overlap) {
  io::Json out = io::Json::object();
  for (const auto& [kind, sum] : overlap) {
    out.set(kind, io::Json::object()
                      .set("attention", to_json(sum.attention))
                      .set("other", to_json(sum.other))
                      .set("exposed", to_json(sum.exposed)));
  }
  return out;
}

Overlap read_overlap(const io::Json& json) {
  Overlap out;
  for (const auto& [kind, sum] : json.members()) {
    out[kind] = {.attention = read_part(sum.at("attention")),
                 .other = read_part(sum.at("other")),
                 .exposed = read_part(sum.at("exposed"))};
  }
  return out;
}

}  // namespace kinema::planning
