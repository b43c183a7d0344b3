#include "kinema/preparation/encode_once.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/picture_sizes.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using io::write_file;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A folder of three clips; captions `a`, `a` and `b`.
class Folder {
 public:
  Folder() {
    for (const auto& [name, caption] : {std::pair{"0", "a"}, {"1", "a"}, {"2", "b"}}) {
      fs::copy_file(golden("dataset/videos") / (std::string("clip_0") + name + ".mp4"),
                    clips() / (std::string(name) + ".mp4"));
      write_file(clips() / (std::string(name) + ".txt"), caption);
    }
  }
  const fs::path& clips() const { return clips_.path(); }
  fs::path kept() const { return kept_ / "kept"; }
  std::shared_ptr<const data::ClipSet> list() const {
    return data::folder_clips(clips(), "text", /*keep_bad=*/true);
  }

 private:
  Scratch clips_;
  Scratch kept_;
};

/// Encoders that count their inputs and return the first pixel value, and the caption's length
/// followed by two rows of zeros.
struct Counting {
  int pixels = 0;
  int captions = 0;

  ClipEncodeFunctions with() {
    return {.pixels =
                [this](const HostArray& given, const data::ClipControl&) {
                  ++pixels;
                  return data::Sample{.latents = given};
                },
            .text =
                [this](std::span<const std::string> given) {
                  captions += static_cast<int>(given.size());
                  std::vector<float> states;
                  for (const std::string& caption : given) {
                    states.insert(states.end(), {static_cast<float>(caption.size()) + 1.F, 0, 0});
                  }
                  const auto n = static_cast<int64_t>(given.size());
                  return encoders::TextStates{.states = HostArray::f32({n, 3, 1}, states)};
                }};
  }
};

EncodeOnceOptions options() {
  return {.format = {.height = 16, .width = 24, .num_frames = 5},
          .pixels_settings = {{"model", "one"}},
          .text_settings = {{"words", "one"}}};
}

/// Encodes what is missing; returns the numbers of encoded clips and captions.
std::pair<int, int> encode(const Folder& folder, const EncodeOnceOptions& how) {
  Counting counting;
  EncodedClips clips(folder.list(), folder.kept(), how);
  clips.encode(counting.with());
  return {counting.pixels, counting.captions};
}

TEST(EncodedClips, StoreTheEncodersOutput) {
  const Folder folder;
  Counting counting;
  EncodedClips clips(folder.list(), folder.kept(), options());
  const EncodeCounts now = clips.encode(counting.with());

  EXPECT_EQ(now.encoded, 3);
  EXPECT_EQ(now.captions, 2);
  const data::Sample found = clips.find(1, options().format, false);
  EXPECT_EQ(found.latents.bytes, data::read_clip(folder.clips() / "1.mp4", options().format).bytes);
  // The rows of zeros, which are not stored, are restored.
  EXPECT_EQ(found.encoder_hidden_states.bytes,
            HostArray::f32({3, 1}, std::vector{2.F, 0.F, 0.F}).bytes);
  EXPECT_EQ(found.encoder_hidden_states.shape, (Shape{DType::F32, {3, 1}}));
}

TEST(EncodedClips, StoreEachVariantOfACaptionOnce) {
  const Folder folder;
  write_file(folder.clips() / "0.txt", "{a|bb}");
  write_file(folder.clips() / "1.txt", "{a|bb}");
  EncodeOnceOptions how = options();
  how.captions = {.wildcards = true, .variants = 20};
  // `a`, `bb` (each variant is one of them) and `b`.
  EXPECT_EQ(encode(folder, how), std::pair(3, 3));
  EXPECT_EQ(encode(folder, how), std::pair(0, 0));
  EncodedClips clips(folder.list(), folder.kept(), how);
  for (int64_t variant = 0; variant < 20; ++variant) {
    const data::Sample found = clips.find(0, how.format, false, variant);
    EXPECT_EQ(found.encoder_hidden_states.as<float>()[0],
              static_cast<float>(data::varied_caption("{a|bb}", how.captions, variant).size()) + 1);
  }
}

TEST(EncodedClips, EncodeAClipThatIsRepeatedOnce) {
  const Folder folder;
  fs::create_directories(folder.clips() / "5_fox");
  fs::rename(folder.clips() / "0.mp4", folder.clips() / "5_fox/0.mp4");
  EXPECT_EQ(folder.list()->size(), 7);
  EXPECT_EQ(encode(folder, options()), std::pair(3, 3));

  // A clip that cannot be read is a problem for all its repeats.
  write_file(folder.clips() / "5_fox/0.mp4", "not a video");
  EncodeOnceOptions skips = options();
  skips.bad_clip = data::BadClip::Skip;
  Counting counting;
  EncodedClips clips(folder.list(), folder.kept(), skips);
  int skipped = 0;
  clips.encode(counting.with(), {.on_skip = [&](int64_t, const std::string&) { ++skipped; }});
  EXPECT_EQ(skipped, 1);
  for (int64_t clip = 0; clip < 7; ++clip) {
    if (folder.list()->name(clip) == "0.mp4") {
      EXPECT_THAT([&] { clips.find(clip, skips.format, false); },
                  ThrowsMessage<Error>(HasSubstr("0.mp4")));
    }
  }
}

TEST(EncodedClips, StoreInputsOfImageModelsToo) {
  const Folder folder;
  Counting counting;
  ClipEncodeFunctions with = counting.with();
  with.pixels = [](const HostArray& given, const data::ClipControl&) {
    return data::Sample{.latents = given,
                        .condition = HostArray::f32({1, 1, 1, 1}, std::vector{4.F}),
                        .image_states = HostArray::f32({1, 2}, std::vector{5.F, 6.F})};
  };
  EncodedClips clips(folder.list(), folder.kept(), options());
  clips.encode(with);

  const data::Sample found = clips.find(2, options().format, false);
  EXPECT_EQ(found.condition.as<float>()[0], 4.F);
  EXPECT_EQ(found.image_states.as<float>()[1], 6.F);
}

TEST(EncodedClips, StorePooledTextAndSizesInAnyDtype) {
  const Folder folder;
  Counting counting;
  ClipEncodeFunctions with = counting.with();
  with.text = [text = with.text](std::span<const std::string> given) {
    encoders::TextStates out = text(given);
    out.pooled =
        HostArray::f32({std::ssize(given), 2}, std::vector<float>(2 * given.size(), 0.25F));
    return out;
  };
  EncodeOnceOptions how = options();
  how.sizes = true;
  how.flips = true;
  how.dtype = DType::BF16;
  EncodedClips clips(folder.list(), folder.kept(), how);
  clips.encode(with);

  const data::Sample found = clips.find(2, how.format, true);
  EXPECT_EQ(found.pooled.bytes,
            convert(HostArray::f32({2}, std::vector{0.25F, 0.25F}), DType::BF16).bytes);
  EXPECT_EQ(found.latents.shape.dtype, DType::BF16);
  const data::ClipSize size = folder.list()->measure(2);
  EXPECT_EQ(found.size_ids.bytes, data::size_ids(size, how.format, {}, true).bytes);
  // Without them it is another entry.
  EXPECT_EQ(encode(folder, options()).first, 3);
}

TEST(EncodedClips, StoreMasksThatFollowTheMaskFiles) {
  const Folder folder;
  const auto write_masks = [&](uint8_t level) {
    HostArray pixels(Shape{DType::U8, {16, 16, 3}});
    std::fill(pixels.bytes.begin(), pixels.bytes.end(), std::byte{level});
    for (const char* name : {"0.png", "1.png", "2.png"}) {
      media::write_png(folder.kept() / "masks" / name, pixels);
    }
  };
  const auto list = [&]() -> std::shared_ptr<const data::ClipSet> {
    return data::folder_clips(folder.clips(),
                              data::ListOptions{.mask_folder = folder.kept() / "masks"});
  };
  fs::create_directories(folder.kept() / "masks");
  write_masks(51);
  EncodeOnceOptions how = options();
  how.flips = true;
  how.dtype = DType::BF16;
  const auto weight_of = [&](int64_t clip, bool flipped) {
    Counting counting;
    EncodedClips clips(list(), folder.kept(), how);
    clips.encode(counting.with());
    return clips.find(clip, how.format, flipped).loss_weights.as<float>()[0];
  };
  EXPECT_NEAR(weight_of(1, true), 0.2F, 1e-6);  // in float, also if latents are bfloat16
  write_masks(255);
  EXPECT_EQ(weight_of(1, true), 1);
  EXPECT_EQ(weight_of(2, false), 1);
  // Without masks it is another entry.
  EXPECT_EQ(encode(folder, options()).first, 3);
}

TEST(EncodedClips, AreEncodedOnce) {
  const Folder folder;
  EXPECT_EQ(encode(folder, options()), (std::pair{3, 2}));
  EXPECT_EQ(encode(folder, options()), (std::pair{0, 0}));
}

TEST(EncodedClips, AreEncodedAgainAfterChangesThatAffectThem) {
  const Folder folder;
  encode(folder, options());
  EncodeOnceOptions other = options();
  other.pixels_settings["model"] = "two";
  EXPECT_EQ(encode(folder, other), (std::pair{3, 0}));
  other = options();
  other.text_settings["words"] = "two";
  EXPECT_EQ(encode(folder, other), (std::pair{0, 2}));
  other = options();
  other.format.width = 16;
  EXPECT_EQ(encode(folder, other), (std::pair{3, 0}));
  other = options();
  other.dtype = DType::BF16;
  EXPECT_EQ(encode(folder, other), (std::pair{3, 2}));
  other = options();
  other.flips = true;  // the unflipped clips are already there
  EXPECT_EQ(encode(folder, other), (std::pair{3, 0}));
}

TEST(EncodedClips, AreFoundByContentAndNotByName) {
  const Folder folder;
  encode(folder, options());
  fs::rename(folder.clips() / "0.mp4", folder.clips() / "9.mp4");
  fs::rename(folder.clips() / "0.txt", folder.clips() / "9.txt");
  EXPECT_EQ(encode(folder, options()), (std::pair{0, 0}));
  write_file(folder.clips() / "1.txt", "c");
  EXPECT_EQ(encode(folder, options()), (std::pair{0, 1}));
  fs::copy_file(golden("dataset/videos/clip_05.mp4"), folder.clips() / "1.mp4",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(encode(folder, options()), (std::pair{1, 0}));
}

TEST(EncodedClips, ResumeAfterTheLastCompleteOne) {
  const Folder folder;
  Counting counting;
  EncodedClips clips(folder.list(), folder.kept(), options());
  const EncodeCounts now =
      clips.encode(counting.with(), {.stop_requested = [&] { return counting.pixels == 2; }});
  EXPECT_TRUE(now.stopped);
  EXPECT_THAT([&] { clips.find(2, options().format, false); },
              ThrowsMessage<Error>(HasSubstr("2.mp4")));

  EXPECT_EQ(encode(folder, options()), (std::pair{1, 0}));
}

TEST(EncodedClips, NameAClipThatCannotBeUsed) {
  const Folder folder;
  write_file(folder.clips() / "1.mp4", "no video");
  fs::remove(folder.clips() / "2.txt");
  EncodeOnceOptions how = options();
  EXPECT_THROW(encode(folder, how), Error);

  how.bad_clip = data::BadClip::Skip;
  std::vector<std::string> skipped;
  Counting counting;
  EncodedClips clips(folder.list(), folder.kept(), how);
  clips.encode(counting.with(),
               {.on_skip = [&](int64_t, const std::string& why) { skipped.push_back(why); }});
  ASSERT_EQ(skipped.size(), 2U);
  EXPECT_THAT(skipped[0], HasSubstr("2.mp4"));  // found while the folder is listed
  EXPECT_THAT(skipped[1], HasSubstr("1.mp4"));
  EXPECT_THAT([&] { clips.find(1, how.format, false); }, ThrowsMessage<Error>(HasSubstr("1.mp4")));
  EXPECT_EQ(clips.find(0, how.format, false).latents.shape.dims[0], 3);
}

TEST(EncodedClips, RefuseLatentsThatAreNotFinite) {
  const Folder folder;
  Counting counting;
  ClipEncodeFunctions with = counting.with();
  with.pixels = [](const HostArray&, const data::ClipControl&) {
    return data::Sample{
        .latents = HostArray::f32({1}, std::vector{std::numeric_limits<float>::infinity()})};
  };
  EncodedClips clips(folder.list(), folder.kept(), options());
  EXPECT_THAT([&] { clips.encode(with); },
              ThrowsMessage<Error>(HasSubstr("0.mp4: its latents are not finite")));
}

TEST(EncodedClips, DetectCorruption) {
  const Folder folder;
  EncodedClips clips(folder.list(), folder.kept(), options());
  Counting counting;
  clips.encode(counting.with());
  for (const auto& entry : fs::recursive_directory_iterator(folder.kept() / "latents")) {
    if (entry.is_regular_file()) {
      std::string bytes = io::read_text(entry.path());
      bytes[bytes.size() - 7] ^= 1;
      std::ofstream(entry.path(), std::ios::binary) << bytes;
    }
  }
  EXPECT_THAT([&] { clips.find(0, options().format, false); },
              ThrowsMessage<Error>(HasSubstr("is corrupt")));
}

/// Truncates every cached file of a kind to `bytes`.
void cut(const fs::path& kept, uintmax_t bytes) {
  for (const auto& entry : fs::recursive_directory_iterator(kept)) {
    if (entry.is_regular_file()) {
      fs::resize_file(entry.path(), bytes);
    }
  }
}

TEST(EncodedClips, AreEncodedAgainIfTheirFilesAreTruncated) {
  const Folder folder;
  encode(folder, options());
  for (const uintmax_t bytes : {0, 4, 100, 1000}) {
    SCOPED_TRACE(bytes);
    cut(folder.kept() / "latents", bytes);
    Counting counting;
    std::vector<std::string> said;
    EncodedClips clips(folder.list(), folder.kept(), options());
    clips.encode(counting.with(),
                 {.on_damage = [&](const std::string& damage) { said.push_back(damage); }});
    EXPECT_EQ(counting.pixels, 3);
    EXPECT_EQ(counting.captions, 0);
    EXPECT_THAT(said, ::testing::SizeIs(3));
    EXPECT_THAT(said, ::testing::Each(HasSubstr("safetensors is corrupt: ")));
    EXPECT_EQ(clips.find(0, options().format, false).latents.shape.dims[0], 3);
  }
  cut(folder.kept() / "text", 20);
  EXPECT_EQ(encode(folder, options()), (std::pair{0, 2}));
}

// Damage that only the checksum shows is found on reading, and the next run encodes again.
TEST(EncodedClips, AreEncodedAgainAfterCorruptionFoundLate) {
  const Folder folder;
  encode(folder, options());
  for (const auto& entry : fs::recursive_directory_iterator(folder.kept() / "latents")) {
    if (entry.is_regular_file()) {
      std::string bytes = io::read_text(entry.path());
      bytes.back() ^= 1;
      std::ofstream(entry.path(), std::ios::binary) << bytes;
    }
  }
  Counting counting;
  EncodedClips clips(folder.list(), folder.kept(), options());
  clips.encode(counting.with());
  EXPECT_EQ(counting.pixels, 0);
  EXPECT_THAT([&] { clips.find(0, options().format, false); },
              ThrowsMessage<Error>(HasSubstr("the same command, run again, makes")));
  EXPECT_EQ(encode(folder, options()), (std::pair{1, 0}));
}

TEST(EncodedText, IsEncodedAgainIfCorrupt) {
  const Scratch scratch;
  const EncodedText text(scratch / "text", {}, DType::F32);
  int made = 0;
  const auto read = [&] {
    return text.read_or("a", [&](const std::string&) {
      ++made;
      return encoders::TextStates{.states = HostArray::f32({1, 1}, std::vector{2.F})};
    });
  };
  for (const int damage : {0, 1, 2}) {
    EXPECT_EQ(read().states.as<float>()[0], 2.F);
    EXPECT_EQ(read().states.as<float>()[0], 2.F);
    EXPECT_EQ(made, damage + 1);
    for (const auto& entry : fs::recursive_directory_iterator(scratch / "text")) {
      if (entry.is_regular_file() && damage == 0) {
        fs::resize_file(entry.path(), 30);
      } else if (entry.is_regular_file()) {
        std::string bytes = io::read_text(entry.path());
        bytes.back() ^= 1;
        std::ofstream(entry.path(), std::ios::binary) << bytes;
      }
    }
  }
}

TEST(EncodedClips, IdentifyKnownClipsWithoutReadingThem) {
  const Folder folder;
  const auto hashed = [&] { return io::read_text(folder.kept() / "contents.json"); };
  encode(folder, options());
  const std::string known = hashed();
  EXPECT_EQ(encode(folder, options()), (std::pair{0, 0}));
  EXPECT_EQ(hashed(), known) << "nothing was hashed again";
  // Neither size nor time of this file changed, but a sample of its bytes did.
  const fs::path clip = folder.clips() / "0.mp4";
  const auto time = fs::last_write_time(clip);
  std::string bytes = io::read_text(clip);
  bytes.back() ^= 1;
  std::ofstream(clip, std::ios::binary) << bytes;
  fs::last_write_time(clip, time);
  EXPECT_EQ(encode(folder, options()).first, 1);
  // The stored contents may be lost or invalid.
  write_file(folder.kept() / "contents.json", "{");
  EXPECT_EQ(encode(folder, options()), (std::pair{0, 0}));
}

}  // namespace
}  // namespace kinema::preparation
