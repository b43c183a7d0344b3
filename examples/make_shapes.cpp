// Writes the clips of examples/shapes: H.264 videos of one moving shape each, their captions, and
// the prompts that the demo samples.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "kinema/command/command.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"
#include "kinema/text/hashed.h"
#include "shapes.h"

namespace kinema::shapes {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string out;
  int64_t size = 20;
  int64_t scale = 2;
  int64_t frames = 9;
  int64_t clips = 504;
  int64_t prompts = 24;
  double fps = 8;
  bool paths = false, stills = false;
  int64_t crf = 10;
  int64_t seed = 0;
  // In pixels of a canvas of 24; scaled with it.
  double radius_min = 5.0, radius_max = 5.8;
  double edge = 1.0;    // the path ends at most so far from the canvas's edge
  double spread = 3.0;  // and lies at most so far from its middle
  std::string caption = "a {colour} {shape} moving {direction}";
  std::string hold_out =
      "red circle up, green square left, blue triangle right, yellow circle down, red triangle "
      "left, "
      "blue square up";
};

/// Of one frame, which does not move.
constexpr const char* kStillCaption = "a {colour} {shape}";

/// Around a shape in its mask: any other shape has room in it. In pixels of a canvas of 24.
constexpr double kMaskMargin = 2.5;

std::string caption_of(const Combination& c, const std::string& form) {
  std::string out = form;
  const std::pair<const char*, const char*> parts[] = {
      {"{colour}", kColours[static_cast<size_t>(c.colour)]},
      {"{shape}", kShapes[static_cast<size_t>(c.shape)]},
      {"{direction}", kDirections[static_cast<size_t>(c.direction)]}};
  for (const auto& [name, word] : parts) {
    if (const size_t at = out.find(name); at != std::string::npos) {
      out.replace(at, std::string_view(name).size(), word);
    }
  }
  return out;
}

// `red circle up` holds out one combination; `red circle` all its directions.
std::vector<Asked> parse_hold_out(const std::string& text) {
  std::vector<Asked> out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const Asked asked = parse_caption(part);
    check(asked.colour && asked.shape, "[make_shapes] `{}` in --hold-out names no colour and shape",
          part);
    out.push_back(asked);
    at = end + 1;
  }
  return out;
}

bool matches(const Asked& asked, const Combination& c) {
  return asked.colour == c.colour && asked.shape == c.shape &&
         (!asked.direction || asked.direction == c.direction);
}

Scene random_scene(const Combination& what, const Options& o, RandomStream& random) {
  const auto between = [&](double low, double high) {
    return low + random.uniform() * (high - low);
  };
  const double unit = static_cast<double>(o.size) / 24;
  Scene scene;
  scene.what = what;
  scene.radius = between(o.radius_min, o.radius_max) * unit;
  const Reach r = reach(what.shape, scene.radius);
  const auto side = static_cast<double>(o.size);
  const bool across = what.direction < 2;
  const bool backwards = what.direction % 2 == 0;
  // Along the motion: from one edge to the other but for small gaps. What moves left begins where
  // what moves right ends.
  const double low = across ? r.side : r.up;
  const double high = side - (across ? r.side : r.down);
  const double first_gap = between(0, o.edge * unit);
  const double last_gap = between(0, o.edge * unit);
  scene.travel = std::max(0.0, high - low - first_gap - last_gap);
  const double start = backwards ? high - first_gap : low + first_gap;
  // Beside it: near the middle.
  const double inner_low = std::max(across ? r.up : r.side, side / 2 - o.spread * unit);
  const double inner_high = std::min(side - (across ? r.down : r.side), side / 2 + o.spread * unit);
  const double beside = between(inner_low, std::max(inner_low, inner_high));
  scene.x = across ? start : beside;
  scene.y = across ? beside : start;
  return scene;
}

// Half of the prompts' places go to held-out combinations while there are some, the rest to seen
// ones spread over all colours and shapes.
std::string prompt_lines(const std::vector<Combination>& seen, const std::vector<Combination>& held,
                         const Options& o) {
  std::vector<std::string> prompts;
  for (const Combination& c : held) {
    if (static_cast<int64_t>(prompts.size()) < o.prompts / 2) {
      prompts.push_back(caption_of(c, o.caption));
    }
  }
  // Every colour and shape in turn, each time with another direction.
  for (int round = 0; static_cast<int64_t>(prompts.size()) < o.prompts; ++round) {
    for (int i = 0; i < 12 && static_cast<int64_t>(prompts.size()) < o.prompts; ++i) {
      const Combination c{i % 4, i / 4, (i + round) % 4};
      if (std::ranges::find(seen, c) != seen.end()) {
        prompts.push_back(caption_of(c, o.caption));
      }
    }
  }
  std::string out;
  for (const std::string& prompt : prompts) {
    out += prompt + "\n";
  }
  return out;
}

/// The frame in the middle, and a mask over its shape.
void write_still(const fs::path& folder, const std::string& name, const Scene& scene,
                 const Options& o) {
  const HostArray three = render(scene, o.size, 3);
  HostArray still(Shape{DType::U8, {o.size, o.size, 3}});
  std::ranges::copy(three.as<uint8_t>().subspan(still.bytes.size(), still.bytes.size()),
                    still.as<uint8_t>().begin());
  media::write_png(folder / "stills" / name, still);
  const double margin = kMaskMargin * static_cast<double>(o.size) / 24;
  media::write_png(folder / "masks" / name, render_mask(scene, o.size, margin));
}

void run(const Options& o) {
  check(o.size > 0 && o.scale > 0 && o.frames > 0 && o.clips > 0 && o.prompts >= 0,
        "[make_shapes] --size, --scale, --frames and --clips must be positive");
  const std::vector<Asked> hold_out = parse_hold_out(o.hold_out);
  std::vector<Combination> seen;
  std::vector<Combination> held;
  for (int i = 0; i < 48; ++i) {
    const Combination c{i % 4, i / 4 % 3, i / 12};
    const bool out = std::ranges::any_of(hold_out, [&](const Asked& a) { return matches(a, c); });
    (out ? held : seen).push_back(c);
  }
  check(!seen.empty(), "[make_shapes] --hold-out leaves nothing to show");
  const fs::path folder = o.out;
  fs::create_directories(folder / "videos");
  for (const auto& [each, asked] :
       {std::pair("paths", o.paths), std::pair("stills", o.stills), std::pair("masks", o.stills)}) {
    if (asked) {
      fs::create_directories(folder / each);
    }
  }
  std::string metadata;
  for (int64_t i = 0; i < o.clips; ++i) {
    const Combination& c = seen[static_cast<size_t>(i) % seen.size()];
    RandomStream random(random_key(o.seed, "shapes", static_cast<uint64_t>(i)));
    const Scene scene = random_scene(c, o, random);
    const std::string name = fmt::format("videos/clip_{:04}.mp4", i);
    const media::WriteMp4Options mp4{.fps = o.fps, .crf = static_cast<int>(o.crf)};
    media::write_mp4(folder / name, render(scene, o.size, o.frames, o.scale), mp4);
    io::Json row = io::Json::object({{"file_name", name},
                                     {"text", caption_of(c, o.caption)},
                                     {"still", caption_of(c, kStillCaption)}});
    if (o.paths) {
      const std::string path = fmt::format("paths/clip_{:04}.mp4", i);
      media::write_mp4(folder / path, render_path(scene, o.size, o.frames, o.scale), mp4);
      row.set("control", path);
    }
    if (o.stills) {
      write_still(folder, fmt::format("clip_{:04}.png", i), scene, o);
    }
    metadata += row.dump(-1) + "\n";
  }
  io::write_file(folder / "metadata.jsonl", metadata);
  io::write_file(folder / "prompts.txt", prompt_lines(seen, held, o));
  std::string list;
  std::set<std::string> captions;
  for (const Combination& c : held) {
    if (captions.insert(caption_of(c, o.caption)).second) {
      list += caption_of(c, o.caption) + "\n";
    }
  }
  io::write_file(folder / "held_out.txt", list);
  fmt::print("{} clips of {} combinations in {}; {} held out\n", o.clips, seen.size(),
             folder.string(), held.size());
}

}  // namespace
}  // namespace kinema::shapes

int main(int argc, char** argv) {
  kinema::shapes::Options o;
  kinema::command::Program program("make_shapes", "",
                                   "Writes mp4 clips of one moving shape each, with captions");
  kinema::command::Command command = program.itself();
  command.option("out", o.out, "folder to write").required();
  command.option("--size", o.size, "canvas, in pixels a side").shows_default();
  command.option("--scale", o.scale, "video pixels a canvas pixel, a side").shows_default();
  command.option("--frames", o.frames).shows_default();
  command.option("--clips", o.clips).shows_default();
  command.option("--prompts", o.prompts, "lines of prompts.txt").shows_default();
  command.option("--fps", o.fps).shows_default();
  command.option("--crf", o.crf, "x264 quality, 0 lossless").shows_default();
  command.option("--seed", o.seed).shows_default();
  command.option("--radius-min", o.radius_min, "at size 24").shows_default();
  command.option("--radius-max", o.radius_max, "at size 24").shows_default();
  command.option("--edge", o.edge, "largest gap at a path's ends, at size 24").shows_default();
  command.option("--spread", o.spread, "largest distance from the middle, at size 24")
      .shows_default();
  command.flag("--paths", o.paths, "also the path of each clip, as a control video: paths/");
  command.flag("--stills", o.stills,
               "also the frame in the middle, and a mask over its shape: stills/, masks/");
  command.option("--caption", o.caption, "form of the captions").shows_default();
  command.option("--hold-out", o.hold_out, "combinations kept out").shows_default();
  command.run([&o] {
    kinema::shapes::run(o);
    return 0;
  });
  try {
    return program.run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
