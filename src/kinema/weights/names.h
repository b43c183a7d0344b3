#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/weights/naming.h"

/// A model's modules under the names of diffusers (or transformers) and of its original release:
/// one table a model, from which checkpoints and LoRA files are read and written.
namespace kinema::weights {

/// What a diffusers tensor is of the original one that holds it.
enum class Cut : uint8_t {
  WHOLE,
  THIRD,       // rows: part 0, 1 or 2 of three as long ones, one behind the other
  SQUARE,      // rows: part i of those with as many rows as the weight has columns
  REST,        // the rows behind `part` such squares
  SWAPPED,     // its two halves of rows in the other order
  TRANSPOSED,  // [a, b] as [b, a]
  LINEAR,      // a linear [out, in] that was written as a convolution [out, in, 1, 1]
};

/// A module in both names. Its parameters are called `.weight` and `.bias` by diffusers; where the
/// original has other ends, they are said. A parameter that is no module's has its whole name here.
struct Name {
  std::string_view original;
  std::string_view diffusers;
  Cut cut = Cut::WHOLE;
  int64_t part = 0;
  std::string_view weight = ".weight";
  std::string_view bias = ".bias";
};

/// Sizes that original names count by.
struct Layout {
  int64_t layers_per_block = 2;                       // of the UNet
  std::vector<bool> up_attention{true, true, false};  // blocks of the UNet that have attention
  int64_t levels = 4;                                 // of the autoencoder
  bool operator==(const Layout&) const = default;
};

using Numbers = std::vector<int64_t>;

/// How the numbers in a place's name change, where they do; nothing for numbers that cannot be.
struct Numbering {
  std::optional<Numbers> (*diffusers)(const Numbers& original, const Layout& layout);
  std::optional<Numbers> (*original)(const Numbers& diffusers, const Layout& layout);
};

/// Names that begin alike. `{}` stands for a number, here and in a Name.
struct Place {
  std::string_view original;
  std::string_view diffusers;
  std::span<const Name> names;
  const Numbering* numbering = nullptr;  // null: the same numbers in both
};

struct NameTable {
  std::string_view model;  // as messages call it
  std::span<const Place> places;
  /// Files may have names of both kinds beside each other, none of which means two things.
  bool mixed = false;
  /// What a file's names say of the sizes that they count by; null: none.
  Layout (*layout)(std::span<const std::string_view> names) = nullptr;
};

extern const NameTable kWanNames;
extern const NameTable kFluxNames;
extern const NameTable kUNetNames;
extern const NameTable kAutoencoderNames;  // of Flux and Stable Diffusion XL
extern const NameTable kClipNames;         // the text side, in transformers' names only
extern const NameTable kOpenClipNames;     // the same in the names of open_clip
extern const NameTable kT5Names;           // the encoder, in transformers' names only

/// A diffusers module, or key, and what it is of the original's.
struct Piece {
  std::string name;
  Cut cut = Cut::WHOLE;
  int64_t part = 0;
  bool operator==(const Piece&) const = default;
};

/// What a name means: one module of diffusers, or the several that the original joins in one.
struct NamedModule {
  std::vector<Piece> pieces;
  Naming naming;  // what it was written in; DIFFUSERS where both call it the same
  bool operator==(const NamedModule&) const = default;
};

enum class Spelling : uint8_t { DOTS, UNDERSCORES };  // `blocks.0.attn1` or `blocks_0_attn1`

/// Reads a module in either naming; nothing for a name of neither.
std::optional<NamedModule> read_module(const NameTable& table, std::string_view name,
                                       Spelling spelling = Spelling::DOTS,
                                       const Layout& layout = {});

/// The diffusers keys in an original one (`blocks.0.self_attn.q.weight` ->
/// `blocks.0.attn1.to_q.weight`); none for a key that is not the original's.
std::vector<Piece> diffusers_keys(const NameTable& table, std::string_view original,
                                  const Layout& layout = {});

/// The reverse: the original's key that holds a diffusers key, and which part of it that is;
/// nothing for a key that is not the model's.
std::optional<Piece> original_key(const NameTable& table, std::string_view diffusers,
                                  const Layout& layout = {});
/// The same of modules.
std::optional<Piece> original_module(const NameTable& table, std::string_view diffusers,
                                     const Layout& layout = {});

/// Sizes of a model by its names, in either naming.
Layout layout_of(const NameTable& table, std::span<const std::string_view> names);

/// The numbers in `name` where the pattern has `{}`; nothing where the pattern does not match.
/// `blocks.{}.norm` is a pattern. With `prefix` the name may go on behind it.
std::optional<Numbers> match(std::string_view pattern, std::string_view name,
                             Spelling spelling = Spelling::DOTS, bool prefix = false);

}  // namespace kinema::weights
