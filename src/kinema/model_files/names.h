#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/model_files/naming.h"

/// A model's module names in diffusers (or transformers) and in its original release: one table per
/// model, used to read and write checkpoints and LoRA files.
namespace kinema::model_files {

/// How a diffusers tensor is cut from the original one.
enum class Cut : uint8_t {
  WHOLE,
  HALF,        // rows: part 0 or 1 of two equal parts
  THIRD,       // rows: part 0, 1 or 2 of three equal parts
  SQUARE,      // rows: the i-th block of as many rows as the weight has columns
  REST,        // the rows after `part` such squares
  SWAPPED,     // its two halves of rows exchanged
  TRANSPOSED,  // [a, b] as [b, a]
  CHANNELS,    // [c] that was stored as [1, c, 1, 1]
  LINEAR,      // a linear weight [out, in] that was stored as a convolution [out, in, 1, 1]
};

/// A module in both namings. Diffusers calls its parameters `.weight` and `.bias`; if the original
/// has other names, they are given. A parameter without a module has its whole name here.
struct Name {
  std::string_view original;
  std::string_view diffusers;
  Cut cut = Cut::WHOLE;
  int64_t part = 0;
  std::string_view weight = ".weight";
  std::string_view bias = ".bias";
};

/// Sizes on which the numbers in original names depend.
struct Layout {
  int64_t layers_per_block = 2;                       // of the UNet
  std::vector<bool> up_attention{true, true, false};  // blocks of the UNet that have attention
  int64_t levels = 4;                                 // of the autoencoder
  int64_t motion_blocks = 7;                          // of Wan-Animate's motion encoder
  bool operator==(const Layout&) const = default;
};

using Numbers = std::vector<int64_t>;

/// Conversion of the numbers in a place's names; returns nothing for impossible numbers.
struct Numbering {
  std::optional<Numbers> (*diffusers)(const Numbers& original, const Layout& layout);
  std::optional<Numbers> (*original)(const Numbers& diffusers, const Layout& layout);
};

/// Names with a common prefix. `{}` matches a number, here and in a Name.
struct Place {
  std::string_view original;
  std::string_view diffusers;
  std::span<const Name> names;
  const Numbering* numbering = nullptr;  // null: the same numbers in both
};

struct NameTable {
  std::string_view model;  // the name in messages
  std::span<const Place> places;
  /// Files may contain names of both namings, none of which is ambiguous.
  bool mixed = false;
  /// The sizes from a file's names; null: none.
  Layout (*layout)(std::span<const std::string_view> names) = nullptr;
};

extern const NameTable kWanNames;
extern const NameTable kFluxNames;
extern const NameTable kZImageNames;
extern const NameTable kUNetNames;             // of Stable Diffusion XL
extern const NameTable kStableDiffusionNames;  // of Stable Diffusion 1 and 2, the same
extern const NameTable kControlNetNames;       // of Stable Diffusion 1, 2 and XL
extern const NameTable kAutoencoderNames;      // of Flux and Stable Diffusion
extern const NameTable kWanVaeNames;
extern const NameTable kClipNames;      // the text model, in transformers' names only
extern const NameTable kOpenClipNames;  // the same in open_clip's names
extern const NameTable kQwen3Names;     // the language model, also in llama.cpp's names
extern const NameTable kT5Names;        // the encoder, in transformers' names only
extern const NameTable kT5FileNames;    // the same, also in names of Wan's release and of GGUF

/// A diffusers module or key, and the part of the original's that it is.
struct Piece {
  std::string name;
  Cut cut = Cut::WHOLE;
  int64_t part = 0;
  bool operator==(const Piece&) const = default;
};

/// The meaning of a name: one diffusers module, or the several that the original joins.
struct NamedModule {
  std::vector<Piece> pieces;
  Naming naming;  // the naming of the name; DIFFUSERS if both are equal
  bool operator==(const NamedModule&) const = default;
};

enum class Spelling : uint8_t { DOTS, UNDERSCORES };  // `blocks.0.attn1` or `blocks_0_attn1`

/// Reads a module in either naming; nothing for an unknown name.
std::optional<NamedModule> read_module(const NameTable& table, std::string_view name,
                                       Spelling spelling = Spelling::DOTS,
                                       const Layout& layout = {});

/// The diffusers keys in an original one (`blocks.0.self_attn.q.weight` ->
/// `blocks.0.attn1.to_q.weight`); empty for a key that is not the original's.
std::vector<Piece> diffusers_keys(const NameTable& table, std::string_view original,
                                  const Layout& layout = {});

/// The reverse: the original's key that contains a diffusers key, and which part of it; nothing for
/// a key that is not the model's.
std::optional<Piece> original_key(const NameTable& table, std::string_view diffusers,
                                  const Layout& layout = {});
/// The same for modules.
std::optional<Piece> original_module(const NameTable& table, std::string_view diffusers,
                                     const Layout& layout = {});

/// The sizes of a model from its names, in either naming.
Layout layout_of(const NameTable& table, std::span<const std::string_view> names);

/// The numbers in `name` at the pattern's `{}`; nothing if the pattern does not match. A pattern is
/// `blocks.{}.norm`. With `prefix` the name may be longer.
std::optional<Numbers> match(std::string_view pattern, std::string_view name,
                             Spelling spelling = Spelling::DOTS, bool prefix = false);

}  // namespace kinema::model_files
