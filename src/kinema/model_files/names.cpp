#include "kinema/model_files/names.h"

#include <algorithm>
#include <charconv>

namespace kinema::model_files {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";
constexpr std::string_view kHole = "{}";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes the number at the start of `text`: at most four digits, without leading zeros.
std::optional<int64_t> take_number(std::string_view& text) {
  size_t size = 0;
  while (size < text.size() && is_digit(text[size])) {
    ++size;
  }
  if (size == 0 || size > 4 || (size > 1 && text[0] == '0')) {
    return std::nullopt;
  }
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + size, value);
  text.remove_prefix(size);
  return value;
}

/// Matches and removes the start of `text`, and appends the numbers.
bool take(std::string_view pattern, std::string_view& text, Spelling spelling, Numbers& numbers) {
  while (!pattern.empty()) {
    if (pattern.starts_with(kHole)) {
      const auto number = take_number(text);
      if (!number) {
        return false;
      }
      numbers.push_back(*number);
      pattern.remove_prefix(kHole.size());
      continue;
    }
    const char wanted = pattern[0] == '.' && spelling == Spelling::UNDERSCORES ? '_' : pattern[0];
    if (text.empty() || text[0] != wanted) {
      return false;
    }
    pattern.remove_prefix(1);
    text.remove_prefix(1);
  }
  return true;
}

/// Appends the pattern with its numbers, from index `next` on.
void append(std::string& out, std::string_view pattern, const Numbers& numbers, size_t& next) {
  while (!pattern.empty()) {
    const size_t at = pattern.find(kHole);
    out += pattern.substr(0, at);
    if (at == std::string_view::npos) {
      return;
    }
    out += std::to_string(numbers.at(next++));
    pattern.remove_prefix(at + kHole.size());
  }
}

/// One side of the table: the naming that is read, or that is written.
struct Side {
  std::string_view Place::*place;
  std::string_view Name::*name;
  std::optional<Numbers> (*Numbering::*numbering)(const Numbers&, const Layout&);
};
constexpr Side kOriginal{&Place::original, &Name::original, &Numbering::original};
constexpr Side kDiffusers{&Place::diffusers, &Name::diffusers, &Numbering::diffusers};

/// A line of the table that matches the start of a name.
struct Found {
  const Place* place;
  const Name* name;
  Numbers own;            // in the naming that was read
  Numbers other;          // in the other naming
  std::string_view rest;  // of the name
};

std::vector<Found> find(const NameTable& table, std::string_view text, const Side& from,
                        const Side& to, Spelling spelling, const Layout& layout) {
  std::vector<Found> out;
  for (const Place& place : table.places) {
    std::string_view inside = text;
    Numbers own;
    if (!take(place.*from.place, inside, spelling, own)) {
      continue;
    }
    Numbers other = own;
    if (place.numbering != nullptr) {
      auto counted = (place.numbering->*to.numbering)(own, layout);
      if (!counted) {
        continue;
      }
      other = std::move(*counted);
    }
    for (const Name& name : place.names) {
      Found found{&place, &name, own, {}, inside};
      if (take(name.*from.name, found.rest, spelling, found.own)) {
        found.other = other;
        found.other.insert(found.other.end(), found.own.begin() + static_cast<int64_t>(own.size()),
                           found.own.end());
        out.push_back(std::move(found));
      }
    }
  }
  return out;
}

std::string written(const Found& found, const Side& side, const Numbers& numbers,
                    std::string_view end = "") {
  std::string out;
  size_t next = 0;
  append(out, found.place->*side.place, numbers, next);
  append(out, found.name->*side.name, numbers, next);
  return out + std::string(end);
}

/// The end of the diffusers key for the end of an original one.
std::optional<std::string_view> diffusers_end(const Name& name, std::string_view original) {
  return original == name.weight ? std::optional(kWeight)
         : original == name.bias ? std::optional(kBias)
         : original.empty()      ? std::optional(original)
                                 : std::nullopt;
}

std::optional<std::string_view> original_end(const Name& name, std::string_view diffusers) {
  return diffusers == kWeight ? std::optional(name.weight)
         : diffusers == kBias ? std::optional(name.bias)
         : diffusers.empty()  ? std::optional(diffusers)
                              : std::nullopt;
}

}  // namespace

std::optional<Numbers> match(std::string_view pattern, std::string_view name, Spelling spelling,
                             bool prefix) {
  Numbers numbers;
  return take(pattern, name, spelling, numbers) && (prefix || name.empty())
             ? std::optional(std::move(numbers))
             : std::nullopt;
}

std::optional<NamedModule> read_module(const NameTable& table, std::string_view name,
                                       Spelling spelling, const Layout& layout) {
  // Diffusers' names first: Wan's `norm2` is a module with parameters only there.
  for (const Found& each : find(table, name, kDiffusers, kOriginal, spelling, layout)) {
    if (each.rest.empty()) {
      return NamedModule{{{written(each, kDiffusers, each.own)}}, Naming::DIFFUSERS};
    }
  }
  NamedModule out{{}, Naming::ORIGINAL};
  for (const Found& each : find(table, name, kOriginal, kDiffusers, spelling, layout)) {
    if (each.rest.empty()) {
      out.pieces.push_back(
          {written(each, kDiffusers, each.other), each.name->cut, each.name->part});
    }
  }
  return out.pieces.empty() ? std::nullopt : std::optional(std::move(out));
}

std::vector<Piece> diffusers_keys(const NameTable& table, std::string_view original,
                                  const Layout& layout) {
  std::vector<Piece> out;
  for (const Found& each : find(table, original, kOriginal, kDiffusers, Spelling::DOTS, layout)) {
    if (const auto end = diffusers_end(*each.name, each.rest)) {
      out.push_back({written(each, kDiffusers, each.other, *end), each.name->cut, each.name->part});
    }
  }
  return out;
}

std::optional<Piece> original_key(const NameTable& table, std::string_view diffusers,
                                  const Layout& layout) {
  for (const Found& each : find(table, diffusers, kDiffusers, kOriginal, Spelling::DOTS, layout)) {
    if (const auto end = original_end(*each.name, each.rest)) {
      return Piece{written(each, kOriginal, each.other, *end), each.name->cut, each.name->part};
    }
  }
  return std::nullopt;
}

std::optional<Piece> original_module(const NameTable& table, std::string_view diffusers,
                                     const Layout& layout) {
  for (const Found& each : find(table, diffusers, kDiffusers, kOriginal, Spelling::DOTS, layout)) {
    if (each.rest.empty()) {
      return Piece{written(each, kOriginal, each.other), each.name->cut, each.name->part};
    }
  }
  return std::nullopt;
}

Layout layout_of(const NameTable& table, std::span<const std::string_view> names) {
  return table.layout == nullptr ? Layout() : table.layout(names);
}

}  // namespace kinema::model_files
