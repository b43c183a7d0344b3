#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// Wan-Animate: a character that moves as a person in a video.
struct AnimateConfig {
  std::string pose_video;
  std::string face_video;
  std::string background_video;
  std::string mask_video;
  std::string animate_folder;
  std::string mode = "auto";
  int64_t segment_frame_length = 77;
  int64_t prev_segment_conditioning_frames = 1;
  Given<double> animate_guidance_scale = 1.0;
  // As MaxDiffusion has them.
  int64_t motion_encode_batch_size = 0;
  std::string reference_image_path;
  std::string pose_video_path;
  std::string face_video_path;
  std::string background_video_path;
  std::string mask_video_path;

  bool operator==(const AnimateConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit(
        "pose_video", self.pose_video, UNRELATED,
        {.help = "Wan-Animate: video of drawn poses (src_pose.mp4 of Wan2.2's preprocess_data.py), "
                 "which the character of image follows; the result has its frames",
         .needs = {Needs::VIDEOS},
         .share = Share::FILE,
         .reload = Reload::NOTHING});
    visit(
        "face_video", self.face_video, UNRELATED,
        {.help = "Wan-Animate: video of the face alone (src_face.mp4), which the character's face "
                 "follows",
         .needs = {Needs::VIDEOS},
         .share = Share::FILE,
         .reload = Reload::NOTHING});
    visit("background_video", self.background_video, UNRELATED,
          {.help = "Wan-Animate: video in which the character replaces a person (src_bg.mp4); not "
                   "given: the background of image",
           .needs = {Needs::VIDEOS},
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("mask_video", self.mask_video, UNRELATED,
          {.help = "Wan-Animate: masks of that person, white where the result is made "
                   "(src_mask.mp4)",
           .with = "background_video",
           .needs = {Needs::VIDEOS},
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("animate_folder", self.animate_folder, UNRELATED,
          {.help = "Wan-Animate: folder written by Wan2.2's preprocess_data.py, whose src_ref.png, "
                   "src_pose.mp4, src_face.mp4, src_bg.mp4 and src_mask.mp4 are image and the four "
                   "videos where these are not given",
           .needs = {Needs::VIDEOS},
           .reload = Reload::NOTHING});
    visit("mode", self.mode, UNRELATED,
          {.help = "Wan-Animate: animate (the background of image is kept) or replace (that of "
                   "background_video); auto: replace if there is a background_video",
           .one_of = "auto | animate | replace",
           .needs = {Needs::VIDEOS},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit(
        "segment_frame_length", self.segment_frame_length, UNRELATED,
        {.help = "Wan-Animate: longer videos are made in segments of so many frames, one more than "
                 "a multiple of 4",
         .min = 5,
         .max = 65536,
         .needs = {Needs::VIDEOS},
         .share = Share::YES,
         .reload = Reload::NOTHING});
    visit("prev_segment_conditioning_frames", self.prev_segment_conditioning_frames, UNRELATED,
          {.help = "Wan-Animate: frames of a segment with which the next one begins, 1 or 5",
           .min = 1,
           .max = 65536,
           .needs = {Needs::VIDEOS},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("animate_guidance_scale", self.animate_guidance_scale, UNRELATED,
          {.help = "Wan-Animate: MaxDiffusion's name of guidance_scale",
           .min = 0,
           .reload = Reload::NOTHING});
    visit("motion_encode_batch_size", self.motion_encode_batch_size, UNRELATED,
          {.help = "Wan-Animate: accepted without effect; faces are encoded one after another",
           .min = 0,
           .null_is_default = true});
    visit("reference_image_path", self.reference_image_path, UNRELATED,
          {.help = "Wan-Animate: MaxDiffusion's name of image"});
    visit("pose_video_path", self.pose_video_path, UNRELATED,
          {.help = "Wan-Animate: MaxDiffusion's name of pose_video"});
    visit("face_video_path", self.face_video_path, UNRELATED,
          {.help = "Wan-Animate: MaxDiffusion's name of face_video"});
    visit("background_video_path", self.background_video_path, UNRELATED,
          {.help = "Wan-Animate: MaxDiffusion's name of background_video"});
    visit("mask_video_path", self.mask_video_path, UNRELATED,
          {.help = "Wan-Animate: MaxDiffusion's name of mask_video"});
  }
};

}  // namespace kinema::config
