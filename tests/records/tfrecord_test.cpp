#include "kinema/records/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "io/memory_file.h"
#include "io/scratch.h"
#include "kinema/core/bf16.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/gzip.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/check.h"
#include "kinema/records/crc32c.h"
#include "kinema/records/example_proto.h"
#include "kinema/records/tfrecord_ranges.h"

namespace kinema::records {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
  // RFC 3720, B.4.
  std::string counting;
  for (int i = 0; i < 32; ++i) {
    counting += static_cast<char>(i);
  }
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aaU);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43U);
  EXPECT_EQ(crc32c(bytes_of(counting)), 0x46dd794eU);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(TfRecord, RefusesDamageAndNamesFileAndRecord) {
  const auto open_first = [](const char* name) {
    return [name] {
      const TfRecordFile file = TfRecordFile::open(io::golden("dataset/tfrecords/corrupt") / name);
      file.at(0);
    };
  };
  EXPECT_THAT(open_first("bad_crc.tfrec"),
              ThrowsMessage<Error>(AllOf(HasSubstr("bad_crc.tfrec record 0"), HasSubstr("CRC"))));
  EXPECT_THAT(open_first("truncated.tfrec"),
              ThrowsMessage<Error>(AllOf(HasSubstr("truncated.tfrec"), HasSubstr("truncated:"))));
  EXPECT_THAT(open_first("bad_length.tfrec"),
              ThrowsMessage<Error>(AllOf(HasSubstr("bad_length.tfrec"), HasSubstr("record 0"))));
}

// Made with `printf 'kinema' | gzip -n`, shown in hexadecimal.
constexpr unsigned char kCompressed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                         0x03, 0xcb, 0xce, 0xcc, 0x4b, 0xcd, 0x4d, 0x04, 0x00,
                                         0xd9, 0x86, 0xd0, 0x38, 0x06, 0x00, 0x00, 0x00};

TEST(Gzip, DecompressesMembersAndNamesCorruption) {
  const auto bytes = std::as_bytes(std::span(kCompressed));
  std::vector<std::byte> twice(bytes.begin(), bytes.end());
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  const auto text = [](const std::vector<std::byte>& v) {
    return std::string(reinterpret_cast<const char*>(v.data()), v.size());
  };

  EXPECT_EQ(text(io::gunzip(bytes, "f.gz")), "kinema");
  EXPECT_EQ(text(io::gunzip(twice, "f.gz")), "kinemakinema");
  EXPECT_THAT([&] { io::gunzip(bytes.first(bytes.size() - 3), "f.gz"); },
              ThrowsMessage<Error>(HasSubstr("f.gz")));
  EXPECT_THAT([&] { io::gunzip(bytes, "f.gz", 5); },
              ThrowsMessage<Error>(HasSubstr("more than 5")));
}

TEST(Gzip, ReadsWhatItWrote) {
  const std::string text = std::string(100'000, 'k') + std::string("\0end", 4);
  const std::string packed = io::gzip(text);
  EXPECT_LT(packed.size(), 1000U);
  const std::vector<std::byte> read = io::gunzip(std::as_bytes(std::span(packed)), "f.gz");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.data()), read.size()), text);
  const std::string nothing = io::gzip("");
  EXPECT_TRUE(io::gunzip(std::as_bytes(std::span(nothing)), "f.gz").empty());
}

TEST(TfRecord, ReadsCompressedFiles) {
  const io::Scratch scratch;
  // A stored (uncompressed) deflate block around one frame, with gzip's header and trailer.
  const std::string frame = frame_record("abc");
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11);
  file += static_cast<char>(frame.size());
  file += '\0';
  file += static_cast<char>(~frame.size() & 0xff);
  file += '\xff';
  file += frame;
  uint32_t crc = ~0U;  // CRC-32 of RFC 1952, bit by bit
  for (const char c : frame) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
  }
  crc = ~crc;
  for (const uint32_t value : {crc, static_cast<uint32_t>(frame.size())}) {
    for (int k = 0; k < 4; ++k) {
      file += static_cast<char>(value >> (8 * k) & 0xff);
    }
  }
  io::write_file(scratch / "a.tfrec", file);

  const TfRecordFile records = TfRecordFile::open(scratch / "a.tfrec");

  ASSERT_EQ(records.size(), 1);
  EXPECT_TRUE(std::ranges::equal(records.at(0), bytes_of("abc")));
}

TEST(TfRecord, RefusesAbsurdLengthsWithTheRightCrc) {
  std::string frame = frame_record("abc");
  for (size_t i = 0; i < 8; ++i) {
    frame[i] = '\xff';
  }
  const uint32_t crc = masked_crc32c(bytes_of(std::string_view(frame).substr(0, 8)));
  for (size_t i = 0; i < 4; ++i) {
    frame[8 + i] = static_cast<char>(crc >> (8 * i) & 0xff);
  }

  EXPECT_THAT([&] { TfRecordFile::parse(bytes_of(frame), "f.tfrec"); },
              ThrowsMessage<Error>(HasSubstr("claims 18446744073709551615 bytes")));
}

std::shared_ptr<io::MemoryFile> framed(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) {
    bytes += frame_record(payload);
  }
  return std::make_shared<io::MemoryFile>(bytes);
}

TEST(RangedTfRecords, AreThoseOfTheFileAsAWhole) {
  for (const char* name : {"train/file_00-8.tfrec", "eval/file_00-7.tfrec"}) {
    const auto path = io::golden("dataset/tfrecords") / name;
    const TfRecordFile whole = TfRecordFile::open(path);
    const auto file = std::make_shared<io::MemoryFile>(io::read_text(path));

    const RangedTfRecords ranged(file, read_record_lengths(*file));

    ASSERT_EQ(ranged.size(), whole.size());
    for (int64_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(ranged.at(i), whole.at(i))) << whole.where(i);
    }
  }
}

TEST(RangedTfRecords, AreFoundWithoutReadingWhatIsLarge) {
  const std::vector<std::string> payloads(5, std::string(3'000'000, 'x'));
  const auto file = framed(payloads);

  EXPECT_EQ(read_record_lengths(*file), (std::vector<uint64_t>(5, 3'000'000)));
  EXPECT_EQ(file->requests, 5);
  EXPECT_LT(file->bytes_read, 100'000);
  // Its payload and the CRC after it.
  EXPECT_EQ(RangedTfRecords(file, read_record_lengths(*file)).at(3).size(), 3'000'000U);
  EXPECT_EQ(file->requests, 5 + 5 + 1);
}

TEST(RangedTfRecords, AreFoundInBlocksWhereTheyAreSmall) {
  std::vector<std::string> payloads;
  std::vector<uint64_t> lengths;
  for (size_t i = 0; i < 3000; ++i) {
    lengths.push_back(i * 7919 % 9001);  // some are empty, some headers cross block boundaries
    payloads.emplace_back(lengths.back(), static_cast<char>(i));
  }
  const auto file = framed(payloads);

  EXPECT_EQ(read_record_lengths(*file), lengths);
  // 13.5 MB: a first block of 64 KiB, and two of 8 MiB.
  EXPECT_EQ(file->requests, 3);
  const RangedTfRecords ranged(file, lengths);
  for (int64_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(std::ranges::equal(ranged.at(i), bytes_of(payloads[static_cast<size_t>(i)]))) << i;
  }
}

TEST(RangedTfRecords, OfNoBytesAreNone) {
  const auto file = framed({});
  EXPECT_EQ(RangedTfRecords(file, read_record_lengths(*file)).size(), 0);
}

TEST(RangedTfRecords, SayWhatIsDamaged) {
  const auto lengths_of = [](const std::string& bytes) {
    return [bytes] { read_record_lengths(io::MemoryFile(bytes)); };
  };
  const std::string frames = frame_record("abc") + frame_record("defg");
  EXPECT_THAT(lengths_of(frames.substr(0, frames.size() - 1)),
              ThrowsMessage<Error>(HasSubstr("record 1 at byte 19 claims 4 bytes, 3 are left")));
  EXPECT_THAT(lengths_of(frames.substr(0, 25)),
              ThrowsMessage<Error>(HasSubstr("truncated: 6 bytes are left for record 1")));
  std::string other = frames;
  other[19] ^= 1;
  EXPECT_THAT(lengths_of(other),
              ThrowsMessage<Error>(HasSubstr("the length of record 1 at byte 19 is corrupt")));
  EXPECT_THAT(lengths_of(io::gzip(frames)), ThrowsMessage<Error>(HasSubstr("is compressed")));

  std::string damaged = frames;
  damaged[13] ^= 1;
  const RangedTfRecords ranged(std::make_shared<io::MemoryFile>(damaged), {3, 4});
  EXPECT_THAT([&] { ranged.at(0); },
              ThrowsMessage<Error>(HasSubstr("memory.tfrec record 0 at byte 12 is corrupt")));
  EXPECT_EQ(ranged.at(1).size(), 4U);
  EXPECT_THAT([&] { ranged.at(2); }, ThrowsMessage<Error>(HasSubstr("has 2 records")));
}

TEST(RangedTfRecords, MustMakeUpTheFile) {
  const auto file = framed({"abc", "defg"});
  for (const std::vector<uint64_t>& lengths : {std::vector<uint64_t>{3},
                                               {3, 3},
                                               {3, 5},
                                               {3, 4, 0},
                                               {},
                                               {~uint64_t{0} - 15, 3, 4},
                                               {3, 4, ~uint64_t{0} - 15}}) {
    EXPECT_THAT([&] { RangedTfRecords(file, lengths); },
                ThrowsMessage<Error>(HasSubstr("memory.tfrec has 39 bytes, but its records")));
  }
}

TEST(TfRecord, NamesShardsAsMaxDiffusionFindsThem) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(shards_of({"b.tfrec", "a.tfrecord", ".hidden.tfrec", "notes.txt", ""}),
            (Names{"a.tfrecord", "b.tfrec"}));
  EXPECT_EQ(shards_of({"b", ".hidden", "a-00"}), (Names{"a-00", "b"}));
}

TEST(TfRecord, WritesTheSameBytesAsTheReferenceForTheSamePayload) {
  const io::Scratch scratch;
  const auto path = io::golden("dataset/tfrecords/train/file_01-16.tfrec");
  const TfRecordFile file = TfRecordFile::open(path);
  TfRecordWriter writer(scratch / "a.tfrec");
  for (int64_t i = 0; i < file.size(); ++i) {
    const auto payload = file.at(i);
    writer.append({reinterpret_cast<const char*>(payload.data()), payload.size()});
  }
  writer.close();

  EXPECT_EQ(io::read_text(scratch / "a.tfrec"), io::read_text(path));
}

TEST(ExampleProto, ReadsBackWhatItWrites) {
  const Example example{
      {"names", std::vector<std::string>{"a", ""}},
      {"rates", std::vector<float>{0.5F, -2.0F}},
      {"steps", std::vector<int64_t>{-1, int64_t{1} << 40}},
      {"tensor",
       std::vector{serialize_tensor_proto(HostArray::f32({1, 2}, std::vector{1.5F, -2.0F}))}}};
  const std::string bytes = serialize_example(example);

  EXPECT_EQ(parse_example(bytes_of(bytes), "r"), example);
  EXPECT_EQ(serialize_example(example), bytes);
  const auto summary = summarize_example(bytes_of(bytes), "r");
  ASSERT_EQ(summary.size(), 4U);
  EXPECT_EQ(summary[0].name, "names");
  EXPECT_EQ(summary[1].kind, "float");
  EXPECT_EQ(summary[2].count, 2);
  EXPECT_EQ(summary[3].tensor, (Shape{DType::F32, {1, 2}}));
  EXPECT_THAT([] { parse_example(bytes_of("no example"), "r"); },
              ThrowsMessage<Error>(HasSubstr("r is not a tf.train.Example")));
}

TEST(ExampleProto, FindsShapesOfExistingNames) {
  const std::string tensor = serialize_tensor_proto(HostArray(Shape{DType::BF16, {2, 3}}));
  const std::string bytes = serialize_example({{"a", std::vector{tensor}}});
  const std::vector<std::string_view> names{"b", "a"};
  EXPECT_THAT(read_tensor_shapes(bytes_of(bytes), names, "r"),
              ::testing::ElementsAre(std::nullopt, Shape{DType::BF16, {2, 3}}));
}

TEST(ExampleProto, ReadsTypedValuesAndFills) {
  // dtype 1, shape [3], float_val [1.5] (field 5, packed): one value fills the tensor.
  const std::string fill("\x08\x01\x12\x04\x12\x02\x08\x03\x2a\x04\x00\x00\xc0\x3f", 14);
  const HostArray filled = parse_tensor_proto(bytes_of(fill), "t");
  EXPECT_THAT(filled.as<float>(), ::testing::ElementsAre(1.5F, 1.5F, 1.5F));

  // dtype 14 (bfloat16), shape [1], half_val [0x3fc0] (field 13).
  const std::string half("\x08\x0e\x12\x04\x12\x02\x08\x01\x6a\x02\xc0\x7f", 12);
  EXPECT_EQ(bf16_to_f32(parse_tensor_proto(bytes_of(half), "t").as<uint16_t>()[0]), 1.5F);
}

TEST(ExampleProto, RefusesShapesThatDoNotMatch) {
  const std::string huge("\x08\x01\x12\x0c\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 16);
  const std::string few("\x08\x01\x12\x04\x12\x02\x08\x03\x22\x04\x00\x00\xc0\x3f", 14);
  const std::string strings("\x08\x07\x12\x04\x12\x02\x08\x03", 8);
  EXPECT_THROW(parse_tensor_proto(bytes_of(huge), "t"), Error);
  EXPECT_THAT([&] { parse_tensor_proto(bytes_of(few), "t"); },
              ThrowsMessage<Error>(HasSubstr("needs 12 bytes but holds 4")));
  EXPECT_THAT([&] { parse_tensor_proto(bytes_of(strings), "t"); },
              ThrowsMessage<Error>(HasSubstr("dtype 7")));
  EXPECT_THROW(parse_tensor_proto(bytes_of("not a proto"), "t"), Error);
}

TEST(CheckPath, DescribesAPath) {
  EXPECT_EQ(media::check_path(io::golden("dataset/tfrecords/bf16/file_00-2.tfrec")),
            "TFRecord file: 2 records");
  EXPECT_THAT(media::check_path(io::golden("dataset/videos/clip_00.mp4")),
              HasSubstr("17 frames of 64x64"));
  EXPECT_THAT(media::check_path(io::golden("corrupt/good.safetensors")), HasSubstr("3 tensors"));
  EXPECT_THROW(media::check_path(io::golden("dataset/metadata.csv")), Error);
}

}  // namespace
}  // namespace kinema::records
