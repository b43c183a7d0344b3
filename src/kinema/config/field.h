#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "kinema/io/json_text.h"

namespace kinema::config {

/// What a resumed run does if a key has another value than in its checkpoint. Each `visit` has it
/// between member and Field; it has no default.
enum class OnResume : uint8_t {
  MUST_MATCH,  ///< error: keys of the model, the data's order, the meaning of inputs
  MAY_CHANGE,  ///< log line `old -> new`: keys of the training from here on
  UNRELATED,   ///< nothing: paths, logging, memory, other commands
};
using enum OnResume;

/// Whether the `.json` of a video, which may be from another user, sets a key.
enum class Share : uint8_t {
  NO,     ///< no: paths, plugins, devices, and every key without another value
  YES,    ///< yes
  MODEL,  ///< an input of the video: a hub id is used, a path must be given again
  FILE,   ///< an input of the video: it must be given again
};

/// The owner of a key's value.
enum class Of : uint8_t {
  RUN,      ///< the run: saved with it and with its videos
  START,    ///< one start of its processes
  PROCESS,  ///< one process of a start
};

/// What a loaded model must load again for another value of the key.
enum class Reload : uint8_t {
  MODEL,    ///< all of it: what the programs or their devices are made of
  WEIGHTS,  ///< files of weights; shapes and dtypes are part of a program's description
  NOTHING,  ///< only a request, its output or its log lines read it
};

/// The model feature that a key needs: without it, the key has no effect.
enum class Needs : uint8_t {
  NOTHING,
  VIDEOS,             ///< several frames
  IMAGES,             ///< one frame
  FLOW,               ///< trained as a rectified flow
  DIFFUSION,          ///< trained as a diffusion
  GUIDANCE,           ///< a guidance scale, as an input or for two passes
  EMBEDDED_GUIDANCE,  ///< the scale is an input of the network
  TRUE_GUIDANCE,      ///< a second scale, for passes with and without the prompt
  TWO_PASSES,         ///< a pass with the negative prompt
  SECOND_TEXT,        ///< two text encoders
  INNER_CLIP,         ///< states of an inner layer of CLIP's text encoder
  TEXT_LENGTH,        ///< text with any number of tokens
  PICTURE_SIZES,      ///< picture sizes are an input of the network
  EXPERTS,            ///< two experts
};
/// Features that a model or request lacks, with the reason why keys that need them have no effect.
using MissingFeatures = std::map<Needs, std::string>;

/// A key's properties in addition to name, type and default. They are declared once, in the
/// `fields` of its struct, and used for parsing, checks, the saved record and
/// docs/reference/config.md.
struct Field {
  std::string_view help;                                    ///< one line
  double min = -std::numeric_limits<double>::infinity();    ///< smallest number allowed
  double max = std::numeric_limits<double>::infinity();     ///< largest number allowed
  double above = -std::numeric_limits<double>::infinity();  ///< numbers must exceed this
  bool not_zero = false;    ///< negative numbers are valid, 0 is not
  int64_t multiple_of = 1;  ///< integers above 0 are multiples of this
  int64_t items = 0;        ///< exact length of a list; 0: any
  int64_t min_items = 0;    ///< minimum length of a list
  bool distinct = false;    ///< no item of a list occurs twice
  bool or_item = false;     ///< a single value is a list of one
  bool prose = false;       ///< text for a model: may contain blanks and line breaks
  /// Allowed values, "a | b | c"; empty: any. `#rrggbb` allows any hexadecimal color.
  std::string_view one_of = "";
  std::string_view later = "";  ///< not built yet: the feature of other values than the default
  std::string_view refused_by = "";  ///< commands that reject these values: "train generate"
  /// The key (or KEY=VALUE, KEY=VALUE | OTHER) without which this one has no effect.
  std::string_view with = "";
  std::string_view without = "";  ///< if one of these keys is given, this one has no effect
  std::array<Needs, 2> needs{};   ///< features that the model must have
  bool any_case = false;          ///< `one_of` ignores case
  bool null_is_default = false;   ///< `null` is the default
  Of of = Of::RUN;
  Share share = Share::NO;
  bool in_store = false;  ///< also accepts a path in a store (gs://, s3://)
  Reload reload = Reload::MODEL;
  bool by_server = false;  ///< a server sets it, its clients may not
};

/// A value that is stored as given (sharding rules, block sizes).
using Tree = io::JsonText;

}  // namespace kinema::config
