// Measures videos, or pictures, of moving shapes against their captions: colour, shape, direction,
// one coherent shape a frame. Where metadata.jsonl names a `control` video, the path is compared
// with the control's; where it names a `source` and a `control_mask`, what the mask keeps.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "kinema/command/command.h"
#include "kinema/core/error.h"
#include "kinema/data/video_source.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"
#include "kinema/media/video.h"
#include "shapes.h"

namespace kinema::shapes {
namespace {

struct Options {
  std::string folder;
  std::string held_out;
  bool json = false;
  bool quiet = false;
  double max_distance = 2;  // of a control video's path, in pixels
  double min_colour = 0, min_shape = 0, min_direction = 0, min_coherent = 0, min_path = 0,
         min_kept = 0;  // percent
};

// How many of those asked were right.
struct Count {
  int right = 0;
  int asked = 0;

  void add(std::optional<bool> ok) {
    asked += ok ? 1 : 0;
    right += ok.value_or(false) ? 1 : 0;
  }
  double percent() const { return asked == 0 ? 0 : 100.0 * right / asked; }
  std::string text() const {
    return asked == 0 ? "not asked" : fmt::format("{:.1f} % ({} of {})", percent(), right, asked);
  }
  io::Json json() const {
    return io::Json::object({{"right", right}, {"asked", asked}, {"percent", percent()}});
  }
};

struct Totals {
  Count colour, shape, direction, coherent, path, kept;

  void add(const Score& s) {
    colour.add(s.colour);
    shape.add(s.shape);
    direction.add(s.direction);
    coherent.add(s.coherent);
    path.add(s.path);
    kept.add(s.kept);
  }
  io::Json json() const {
    return io::Json::object({{"colour", colour.json()},
                             {"shape", shape.json()},
                             {"direction", direction.json()},
                             {"coherent", coherent.json()},
                             {"path", path.json()},
                             {"kept", kept.json()}});
  }
};

template <typename List>
std::string word(const List& list, std::optional<int> i) {
  return i && *i >= 0 ? list[static_cast<size_t>(*i)] : "-";
}

std::set<std::string> read_lines(const std::string& path) {
  std::set<std::string> lines;
  const std::string text = io::read_text(path);
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.insert(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// u8 [f, h, w, 3]; of a picture, one frame.
HostArray frames_of(const std::filesystem::path& path) {
  if (media::is_video_name(path.filename().string())) {
    return media::read_video(path).frames;
  }
  HostArray image = media::read_image(path);
  image.shape.dims.insert(image.shape.dims.begin(), 1);
  return image;
}

/// Scores an edit against the files that it was made from, if the metadata names them.
void score_edit(const data::CaptionedClip& clip, const HostArray& frames, const Seen& seen,
                double max_distance, Score& s) {
  if (clip.control.empty()) {
    return;
  }
  const HostArray control = frames_of(clip.control);
  if (clip.control_mask.empty()) {
    s.path = distance(seen, measure(control), frames.shape.dims[2]) <= max_distance;
  } else {
    s.kept = changed_values(frames, control, frames_of(clip.control_mask)) == 0;
  }
}

bool run(const Options& o) {
  const auto clips = data::list_clips(o.folder);
  const std::set<std::string> held =
      o.held_out.empty() ? std::set<std::string>() : read_lines(o.held_out);
  Totals all;
  Totals unseen;
  io::Json videos = io::Json::array();
  for (const auto& clip : clips) {
    const HostArray frames = frames_of(clip.path);
    const Seen seen = measure(frames);
    Score s = score(parse_caption(clip.caption), seen);
    score_edit(clip, frames, seen, o.max_distance, s);
    all.add(s);
    if (held.contains(clip.caption)) {
      unseen.add(s);
    }
    const auto mark = [](std::optional<bool> ok) { return ok ? (*ok ? "ok" : "NO") : "-"; };
    if (o.json) {
      videos.append(io::Json::object({{"file", clip.path.filename().string()},
                                      {"caption", clip.caption},
                                      {"held_out", held.contains(clip.caption)},
                                      {"colour", word(kColours, seen.colour)},
                                      {"shape", word(kShapes, seen.shape)},
                                      {"direction", word(kDirections, seen.direction)},
                                      {"moved", seen.moved},
                                      {"coherent_frames", seen.coherent_frames},
                                      {"follows_path", mark(s.path)},
                                      {"keeps", mark(s.kept)}}));
    } else if (!o.quiet) {
      fmt::print(
          "{:20} {:40} saw {:6} {:8} {:5}  colour {} shape {} direction {} coherent {} path {} "
          "kept {}\n",
          clip.path.filename().string(), clip.caption, word(kColours, seen.colour),
          word(kShapes, seen.shape), word(kDirections, seen.direction), mark(s.colour),
          mark(s.shape), mark(s.direction), mark(s.coherent), mark(s.path), mark(s.kept));
    }
  }
  if (o.json) {
    io::Json report = io::Json::object({{"videos", videos}, {"all", all.json()}});
    if (!held.empty()) {
      report.set("held_out", unseen.json());
    }
    fmt::print("{}\n", report.dump());
  } else {
    const auto print = [](const char* name, const Totals& t) {
      fmt::print("{}: colour {}, shape {}, direction {}, coherent {}", name, t.colour.text(),
                 t.shape.text(), t.direction.text(), t.coherent.text());
      if (t.path.asked + t.kept.asked > 0) {
        fmt::print(", path followed {}, kept pixels equal {}", t.path.text(), t.kept.text());
      }
      fmt::print("\n");
    };
    print("all", all);
    if (!held.empty()) {
      print("held out", unseen);
    }
  }
  const auto reaches = [](const Count& count, double least) {
    return count.asked == 0 || count.percent() >= least;
  };
  return reaches(all.colour, o.min_colour) && reaches(all.shape, o.min_shape) &&
         reaches(all.direction, o.min_direction) && reaches(all.coherent, o.min_coherent) &&
         reaches(all.path, o.min_path) && reaches(all.kept, o.min_kept);
}

}  // namespace
}  // namespace kinema::shapes

int main(int argc, char** argv) {
  kinema::shapes::Options o;
  kinema::command::Program program("shapes_score", "",
                                   "Measures videos and pictures of shapes against their captions");
  kinema::command::Command command = program.itself();
  command
      .option("folder", o.folder,
              "videos or pictures with metadata.jsonl, metadata.csv or .txt files")
      .required();
  command.option("--held-out", o.held_out, "file of captions to count on their own as well");
  command.flag("--json", o.json, "one JSON report");
  command.flag("--quiet", o.quiet, "totals only");
  command.option("--min-colour", o.min_colour, "exit 1 below this percentage");
  command.option("--min-shape", o.min_shape, "likewise");
  command.option("--min-direction", o.min_direction, "likewise");
  command.option("--min-coherent", o.min_coherent, "likewise");
  command.option("--min-path", o.min_path, "likewise");
  command.option("--min-kept", o.min_kept, "likewise");
  command.option("--max-distance", o.max_distance, "of a followed path, in pixels").shows_default();
  command.run([&o] { return kinema::shapes::run(o) ? 0 : 1; });
  try {
    return program.run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
