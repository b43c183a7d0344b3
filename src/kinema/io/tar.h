#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kinema::io {

/// A file inside a tar.
struct TarMember {
  std::string name;                  // including its folders
  std::span<const std::byte> bytes;  // a view into the tar's bytes
};

/// The files of an uncompressed tar (ustar, pax, GNU), in order; folders, links and devices are
/// skipped. Throws an Error that starts with `name` for other or truncated bytes, and for a sparse
/// file.
std::vector<TarMember> list_tar(std::span<const std::byte> bytes, const std::string& name);

}  // namespace kinema::io
