// Any bytes as a tar: an Error, or files that lie inside of it, grouped into samples.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/data/tar_clips.h"
#include "kinema/io/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const AllocationLimit limit(size);
    const std::vector<io::TarMember> members = io::list_tar(bytes, "input");
    for (const io::TarMember& member : members) {
      const bool inside = member.bytes.empty() ||
                          (member.bytes.data() >= bytes.data() &&
                           member.bytes.data() + member.bytes.size() <= bytes.data() + size);
      if (!inside) {
        std::abort();
      }
    }
    size_t parts = 0;
    for (const data::TarSample& sample : data::group_samples(members, "input")) {
      parts += sample.parts.size();
    }
    if (parts > members.size()) {
      std::abort();
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
