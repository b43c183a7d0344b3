#include "kinema/preparation/remote_records.h"

#include <span>

#include "kinema/core/error.h"
#include "kinema/core/read_ahead.h"
#include "kinema/data/record.h"
#include "kinema/io/json.h"

namespace kinema::preparation {
namespace {

// Messages of process 0.
constexpr const char* kNext = "next";
constexpr const char* kEnd = "end";

/// The heartbeat ends a process that hangs; a clip may take long.
world::Wait for_what(const char* what) { return {.what = what, .seconds = 4 * 3600}; }

int64_t first_of_all(world::World& world, int64_t first) {
  return std::stoll(
      world.communicator().broadcast(std::to_string(first), for_what("the first clip")));
}

void send(const EncodedRecord& made, bool stop, world::World& world) {
  const io::Json about = io::Json::object({{"place", made.place},
                                           {"problem", made.problem},
                                           {"stop", stop},
                                           {"latents", made.seconds.latents},
                                           {"text", made.seconds.text},
                                           {"image", made.seconds.image},
                                           {"writing", made.seconds.writing}});
  const world::Wait wait = for_what("a record");
  world.communicator().send(about.dump(-1), 0, wait);
  world.communicator().send(made.problem.empty() ? data::serialize_record(made.record) : "", 0,
                            wait);
}

}  // namespace

RemoteRecords::RemoteRecords(world::World& world, int64_t first)
    : world_(world), first_(first_of_all(world, first)) {}

EncodedRecord RemoteRecords::take(int64_t from) {
  const world::Wait wait = for_what("a record");
  world_.communicator().send(kNext, from, wait);
  const std::string text = world_.communicator().receive(from, wait);
  const std::string record = world_.communicator().receive(from, wait);
  const std::string name = world_.name_of(from);
  const io::Json about = io::Json::parse(text, name);
  EncodedRecord out{.place = about.at("place").as_int(),
                    .problem = about.at("problem").as_string(),
                    .seconds = {.latents = about.at("latents").as_number(),
                                .text = about.at("text").as_number(),
                                .image = about.at("image").as_number(),
                                .writing = about.at("writing").as_number()}};
  if (out.problem.empty()) {
    out.record = data::parse_record(std::as_bytes(std::span(record)), name);
  }
  stop_ = stop_ || about.at("stop").as_bool();
  return out;
}

void RemoteRecords::finish(const Prepared& made) {
  for (int64_t other = 1; other < world_.size(); ++other) {
    world_.communicator().send(kEnd, other, for_what("the end"));
  }
  const io::Json end = io::Json::object({{"end_clip", made.end_clip}, {"stopped", made.stopped}});
  world_.communicator().broadcast(end.dump(-1), for_what("the end"));
}

Prepared make_records_for_first(world::World& world, const Options& options,
                                const Encoders& encoders, const Hooks& hooks,
                                const ListedClips& clips) {
  const int64_t first = first_of_all(world, 0);
  {
    std::optional<RecordMaker> maker;
    std::optional<ReadAhead<EncodedRecord>> made;
    if (first >= 0 && first + world.rank() < clips.end()) {
      maker.emplace(options, encoders, clips,
                    RecordMaker::Places{.first = first + world.rank(), .stride = world.size()},
                    clips.end());
      // Encoded one record ahead, because process 0 writes a record before it requests the next.
      made.emplace(
          ReadAheadOptions{.end = maker->count_before(clips.end()), .threads = 1, .depth = 2},
          [&](int64_t) { return maker->next(clips.end()).value(); });
    }
    while (world.communicator().receive(0, for_what("process 0")) == kNext) {
      check(made.has_value(), "[prepare] process 0 requests clips beyond the last one");
      const std::optional<EncodedRecord> next = made->next();
      check(next.has_value(), "[prepare] process 0 requests clips beyond the last one");
      send(*next, hooks.stop_requested && hooks.stop_requested(), world);
    }
  }
  const io::Json end =
      io::Json::parse(world.communicator().broadcast("", for_what("the end")), "the end");
  Prepared out;
  out.end_clip = end.at("end_clip").as_int();
  out.stopped = end.at("stopped").as_bool();
  return out;
}

}  // namespace kinema::preparation
