#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "kinema/io/json_text.h"

namespace kinema::config {

/// What a run that goes on from a checkpoint does where a key has another value than the run had
/// then. It stands between member and Field in each `visit`: a key that does not say has no
/// meaning.
enum class OnResume : uint8_t {
  MUST_MATCH,  ///< refused: which samples saved positions mean, the model, what its input means
  MAY_CHANGE,  ///< told, old -> new: how the run goes on from here
  UNRELATED,   ///< nothing: paths, logging, memory, other commands
};
using enum OnResume;

/// Whether the `.json` beside a video, which may come from others, sets a key.
enum class Share : uint8_t {
  NO,     ///< it does not: paths, plugins, devices, and whatever is not said to be one of the below
  YES,    ///< it does
  MODEL,  ///< the video was made of it: an id of the model hub is taken, a path must be given anew
  FILE,   ///< the video was made of it: it must be given anew
};

/// What a key's value belongs to.
enum class Of : uint8_t {
  RUN,      ///< the run: it is kept with it, and with what it makes
  START,    ///< how its processes were started this time
  PROCESS,  ///< the same, and each process has its own
};

/// What of a model a key is about: with a model that has none of it, the key does nothing.
enum class Needs : uint8_t {
  NOTHING,
  VIDEOS,         ///< several frames
  IMAGES,         ///< one frame
  FLOW,           ///< a rectified flow was learned
  DIFFUSION,      ///< a diffusion was
  GUIDANCE,       ///< a guidance scale, told or of two passes
  TOLD_GUIDANCE,  ///< the scale is an input of the network
  TRUE_GUIDANCE,  ///< a second scale, of passes with and without the prompt
  TWO_PASSES,     ///< what is made is guided away from a negative prompt
  SECOND_TEXT,    ///< two text encoders
  INNER_CLIP,     ///< states of an inner layer of CLIP's text side
  TEXT_LENGTH,    ///< text of any number of tokens
  PICTURE_SIZES,  ///< the picture's sizes are an input of the network
  EXPERTS,        ///< two experts
};
/// What a model, or what is asked of it, has not got, and why keys that need it do nothing.
using Lacks = std::map<Needs, std::string>;

/// What is known of a key beside its name, type and default: said once, in the `fields` of its
/// struct, and used by reading, checking, the saved record and docs/reference/config.md.
struct Field {
  std::string_view help;                                    ///< one line
  double min = -std::numeric_limits<double>::infinity();    ///< smallest number allowed
  double max = std::numeric_limits<double>::infinity();     ///< largest number allowed
  double above = -std::numeric_limits<double>::infinity();  ///< numbers must exceed this
  bool not_zero = false;    ///< a number below 0 means something, 0 does not
  int64_t multiple_of = 1;  ///< integers above 0 are multiples of this
  int64_t items = 0;        ///< of a list, when there can be no other number of them
  int64_t min_items = 0;    ///< of a list, at least
  bool distinct = false;    ///< no item of a list comes twice
  bool or_item = false;     ///< of a list: a single value is read as a list of one
  bool prose = false;       ///< text that is read by a model: any blanks and line breaks
  /// Words allowed, "a | b | c"; empty: any. `#rrggbb` allows any colour in hex.
  std::string_view one_of = "";
  std::string_view later = "";  ///< not built yet: what another value than the default asks for
  std::string_view refused_by = "";  ///< commands whose result that would change: "train generate"
  /// The key without which this one has no effect, or KEY=VALUE.
  std::string_view with = "";
  std::string_view without = "";  ///< keys beside any of which, given, this one has no effect
  std::array<Needs, 2> needs{};   ///< what a model must have
  bool any_case = false;          ///< `one_of` is compared without regard to case
  bool null_is_default = false;   ///< `null` stands for the default
  Of of = Of::RUN;
  Share share = Share::NO;
};

/// A value that is kept as it was given (sharding rules, block sizes).
using Tree = io::JsonText;

}  // namespace kinema::config
