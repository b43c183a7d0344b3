#pragma once

#include <cstdint>
#include <string>

#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// What a request writes, and how many videos or pictures it makes.
struct OutputConfig {
  std::string video_folder;
  int64_t video_enlarge = 1;
  int64_t contact_sheet_columns = 4;
  bool contact_sheet = true;
  bool save_frames = false;
  std::string image_format = "png";
  int64_t image_quality = 90;
  Given<int64_t> num_videos_per_prompt = 1;
  Given<int64_t> num_images_per_prompt = 1;
  int64_t first_video_index = 0;
  Given<int64_t> generate_batch_size = 1;

  bool operator==(const OutputConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("video_folder", self.video_folder, UNRELATED,
          {.help = "output folder; empty: samples/STEP in the run folder",
           .in_store = true,
           .reload = Reload::NOTHING});
    visit("video_enlarge", self.video_enlarge, UNRELATED,
          {.help = "integer upscaling factor of the mp4 and contact sheet (nearest neighbour)",
           .min = 1,
           .max = 64,
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("contact_sheet_columns", self.contact_sheet_columns, UNRELATED,
          {.help = "columns of the contact sheet",
           .min = 1,
           .max = 100,
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("contact_sheet", self.contact_sheet, UNRELATED,
          {.help = "write contact_sheet.png with some frames of every video",
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("save_frames", self.save_frames, UNRELATED,
          {.help = "also write every frame as a PNG",
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("image_format", self.image_format, UNRELATED,
          {.help = "format of images; each has its settings inside",
           .one_of = "png | jpeg | webp",
           .needs = {Needs::IMAGES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("image_quality", self.image_quality, UNRELATED,
          {.help = "quality of a JPEG or WebP; webp: 100 is lossless",
           .min = 1,
           .max = 100,
           .with = "image_format=jpeg | webp",
           .needs = {Needs::IMAGES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("num_images_per_prompt", self.num_images_per_prompt, UNRELATED,
          {.help = "flux, sdxl: images per prompt",
           .min = 1,
           .max = 100000,
           .needs = {Needs::IMAGES},
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("num_videos_per_prompt", self.num_videos_per_prompt, UNRELATED,
          {.help = "videos per prompt, each with its own noise",
           .min = 1,
           .max = 100000,
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("first_video_index", self.first_video_index, UNRELATED,
          {.help = "index of the first video; seed and index determine its noise, so a single "
                   "video can be generated again",
           .min = 0,
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
    visit("generate_batch_size", self.generate_batch_size, UNRELATED,
          {.help = "videos per denoising batch",
           .min = 1,
           .max = 4096,
           .share = Share::YES,
           .reload = Reload::NOTHING,
           .by_server = true});
  }
};

}  // namespace kinema::config
