#include <algorithm>
#include <filesystem>

#include "kinema/data/record.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/io/tfrecord.h"
#include "kinema/media/video.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"
#include "kinema/verification/vae.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;

/// Records of every shard of a folder, in order of name.
std::vector<data::Sample> read_records(const fs::path& folder) {
  std::vector<fs::path> shards;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tfrec") {
      shards.push_back(entry.path());
    }
  }
  std::ranges::sort(shards);
  check(!shards.empty(), "[verify] {} holds no .tfrec file", folder.string());
  std::vector<data::Sample> records;
  for (const fs::path& shard : shards) {
    const auto file = io::TfRecordFile::open(shard);
    for (int64_t i = 0; i < file.size(); ++i) {
      records.push_back(data::parse_record(file.at(i), file.where(i)));
    }
  }
  return records;
}

/// Row i of the first axis.
HostArray row_of(const HostArray& x, int64_t i) {
  Shape shape = x.shape;
  shape.dims.erase(shape.dims.begin());
  HostArray out(shape);
  std::copy_n(x.bytes.begin() + i * shape.bytes(), shape.bytes(), out.bytes.begin());
  return out;
}

/// The worst of several rows for one tensor, with the differences of all.
Row worst(const std::vector<Row>& rows) {
  Row out = *std::ranges::max_element(rows, {}, &Row::max_diff);
  if (const auto bad = std::ranges::find(rows, false, &Row::ok); bad != rows.end()) {
    out = *bad;
  }
  return out;
}

/// Records of `dataset/tfrecords/SET` against the latents of the same clips, in order.
void add_records(std::vector<Row>& rows, const Case& c, const std::string& set, bool complete,
                 const Limit& limit) {
  const std::string name = "tfrecords/" + set;
  try {
    const HostArray latents = c.tensor("latents");
    const std::vector<data::Sample> records =
        read_records(c.folder() / "dataset" / "tfrecords" / set);
    const auto count = static_cast<int64_t>(records.size());
    check(count <= latents.shape.dims.at(0) && (!complete || count == latents.shape.dims[0]),
          "[verify] {} records, the reference has latents of {} clips", count,
          latents.shape.dims[0]);
    std::vector<Row> each;
    for (int64_t i = 0; i < count; ++i) {
      each.push_back(
          compare(c.name(), name + " latents", records[i].latents, row_of(latents, i), limit));
    }
    rows.push_back(worst(each));
    rows.push_back(compare(c.name(), name + " encoder_hidden_states",
                           records[0].encoder_hidden_states,
                           c.tensor("clip_00.encoder_hidden_states"), limit));
  } catch (const Error& error) {
    rows.push_back(failed(c.name(), name, error.what()));
  }
}

/// u8 [f, h, w, 3] as f32 [3, f, h, w] in [-1, 1], by the reference's x / 127.5 - 1.
HostArray to_pixels(const HostArray& frames) {
  const Dims& d = frames.shape.dims;
  check(frames.shape.dtype == DType::U8 && d.size() == 4 && d[3] == 3,
        "[verify] frames are {}, expected u8[f,h,w,3]", to_string(frames.shape));
  HostArray out(Shape{DType::F32, {3, d[0], d[1], d[2]}});
  const auto from = frames.as<uint8_t>();
  const auto to = out.as<float>();
  const size_t plane = to.size() / 3;
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(from[i % plane * 3 + i / plane]) / 127.5F - 1.0F;
  }
  return out;
}

/// Latents of the clips whose frames are in the case: our own decoding may differ by a level.
void add_latents(std::vector<Row>& rows, const Case& c, Session& session) {
  try {
    const std::string& models = c.about().at("model").as_string();
    const encoders::WanAutoencoder vae(
        session.client(), c.folder() / models.substr(0, models.find(',')),
        {.model = vae_options(session), .program = session.program_options()});
    const HostArray latents = c.tensor("latents");
    constexpr std::string_view kClip = "clip_";
    for (const std::string& tensor : c.names(kClip)) {
      if (tensor.ends_with(".rgb")) {
        const int64_t clip = std::stoll(tensor.substr(kClip.size()));
        check(clip < latents.shape.dims.at(0), "[verify] there are latents of {} clips, not of {}",
              latents.shape.dims[0], tensor);
        rows.push_back(compare(c.name(), fmt::format("latents[{}]", clip),
                               vae.encode(to_pixels(c.tensor(tensor))), row_of(latents, clip),
                               {.absolute = kVaeAbsolute}));
      }
    }
  } catch (const std::exception& error) {
    rows.push_back(failed(c.name(), "latents", error.what()));
  }
}

}  // namespace

std::vector<Row> dataset_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  // The records hold the very bits; bfloat16 keeps 8 bits, half a unit of the last is 2^-9.
  add_records(rows, c, "train", /*complete=*/true, {});
  add_records(rows, c, "eval", /*complete=*/false, {});
  add_records(rows, c, "bf16", /*complete=*/false, {.absolute = 1e-30, .relative = 0x1p-8});
  // swscale's rounding against a plain BT.601 conversion.
  const Limit levels{.absolute = 3.0};
  for (const std::string& tensor : c.names("clip_")) {
    if (!tensor.ends_with(".rgb")) {
      continue;
    }
    const fs::path clip =
        c.folder() / "dataset" / "videos" / (tensor.substr(0, tensor.find('.')) + ".mp4");
    try {
      rows.push_back(
          compare(c.name(), tensor, media::read_video(clip).frames, c.tensor(tensor), levels));
    } catch (const Error& error) {
      rows.push_back(failed(c.name(), tensor, error.what()));
    }
  }
  add_latents(rows, c, session);
  try {
    std::ranges::move(caption_rows(c, session), std::back_inserter(rows));
  } catch (const Error& error) {
    rows.push_back(failed(c.name(), "encoder_hidden_states", error.what()));
  }
  return rows;
}

}  // namespace kinema::verification
