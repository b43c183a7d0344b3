#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kinema::io {

/// A file inside of a tar.
struct TarMember {
  std::string name;                  // with its folders
  std::span<const std::byte> bytes;  // part of the tar's
};

/// The files of a tar that is not compressed (ustar, pax, GNU), in their order; folders, links and
/// devices are skipped. Throws an Error that begins with `name` for bytes that are none, are
/// cut off, or hold a file with holes.
std::vector<TarMember> list_tar(std::span<const std::byte> bytes, const std::string& name);

}  // namespace kinema::io
