// Any bytes as the index that is kept of a shard in a store, and, since a CRC keeps most inputs out
// of what lies behind it, as the record of such a file: nothing, or records that make up the shard.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/records/tfrecord.h"
#include "kinema/remote/store_records.h"

namespace {

using namespace kinema;

/// Zeros, of which no record holds.
class Zeros : public io::RangedFile {
 public:
  explicit Zeros(int64_t size) : size_(size) {}
  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  void read(int64_t begin, std::span<std::byte> to) const override {
    if (begin < 0 || begin > size_ || std::ssize(to) > size_ - begin) {
      std::abort();
    }
    std::memset(to.data(), 0, to.size());
  }

 private:
  int64_t size_;
  std::string path_ = "shard";
};

void read(const std::filesystem::path& index, const remote::StoredFile& shard) {
  const auto records =
      remote::records_by_index(index, shard, std::make_shared<const Zeros>(shard.size));
  constexpr int64_t kSmall = 1 << 16;  // what is read is as large as the shard, not as the index
  for (int64_t i = 0; records && shard.size <= kSmall && i < records->size(); ++i) {
    try {
      records->at(i);
    } catch (const Error&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The shard is as the index has it: another one is refused at once.
  remote::StoredFile shard{.name = "shard", .size = 32};
  uint64_t words[2] = {};
  if (size >= sizeof(words)) {
    std::memcpy(words, data, sizeof(words));
    shard.size = static_cast<int64_t>(words[0] >> 1);
    words[0] = static_cast<uint64_t>(shard.size);
    shard.modified_ns = static_cast<int64_t>(words[1]);
  }
  std::string record(reinterpret_cast<const char*>(data), size);
  std::memcpy(record.data(), words, std::min(size, sizeof(words)));
  const std::string framed = records::frame_record(record);
  const AllocationLimit limit(size);
  read(input_file("raw.index", data, size), shard);
  read(input_file("framed.index", reinterpret_cast<const uint8_t*>(framed.data()), framed.size()),
       shard);
  return 0;
}
