// Any bytes as a TFRecord file, and, since a CRC keeps most inputs out of what lies behind it, as a
// record and as a tensor by themselves.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/data/record.h"
#include "kinema/records/example_proto.h"
#include "kinema/records/tfrecord.h"
#include "kinema/records/tfrecord_ranges.h"

namespace {

class BytesElsewhere : public kinema::io::RangedFile {
 public:
  explicit BytesElsewhere(std::span<const std::byte> bytes) : bytes_(bytes) {}
  const std::string& path() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read(int64_t begin, std::span<std::byte> to) const override {
    const auto from = bytes_.subspan(static_cast<size_t>(begin), to.size());
    std::ranges::copy(from, to.begin());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string path_ = "input";
};

void read_records(std::span<const std::byte> bytes) {
  const auto file = kinema::records::TfRecordFile::parse(bytes, "input");
  for (int64_t i = 0; i < file.size(); ++i) {
    kinema::data::parse_record(file.at(i), file.where(i));
  }
}

/// The file is read by ranges exactly where it is read as a whole.
void read_by_ranges(std::span<const std::byte> bytes) {
  const auto file = std::make_shared<BytesElsewhere>(bytes);
  int64_t records = -1;
  try {
    records = kinema::records::TfRecordFile::parse(bytes, "input").size();
  } catch (const kinema::Error&) {
  }
  const kinema::records::RangedTfRecords ranged(file, kinema::records::read_record_lengths(*file));
  if (ranged.size() != records) {
    std::abort();
  }
}

void read_record(std::span<const std::byte> bytes) {
  kinema::records::summarize_example(bytes, "input");
  const auto record = kinema::data::parse_record(bytes, "input");
  if (kinema::data::serialize_record(record).empty()) {
    std::abort();
  }
}

void read_shapes(std::span<const std::byte> bytes) {
  kinema::data::read_record_shapes(bytes, "input");
}

void read_tensor(std::span<const std::byte> bytes) {
  const auto array = kinema::records::parse_tensor_proto(bytes, "input");
  if (static_cast<int64_t>(array.bytes.size()) != array.shape.bytes()) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  for (const auto read : {read_records, read_by_ranges, read_record, read_shapes, read_tensor}) {
    try {
      read(std::as_bytes(std::span(data, size)));
    } catch (const kinema::Error&) {
      continue;
    }
  }
  return 0;
}
