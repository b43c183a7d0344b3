#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kinema/core/host_array.h"

/// Images that an agent sees, as pictures that files show.
namespace kinema::agents {

/// U8 [rows, columns, channels] in three channels: grey is repeated, others are cut or filled up.
HostArray in_colour(const HostArray& image);
/// The same of frames [f, rows, columns, channels].
HostArray in_colours(const HostArray& frames);
/// Frames of one shape as [f, ...].
HostArray stacked(const std::vector<HostArray>& frames);

/// An mp4 file of frames U8 [f, rows, columns, 3]; `picture_rows`: of one picture, where a frame
/// has several.
void write_video(const std::filesystem::path& file, const HostArray& frames, int64_t picture_rows,
                 double fps);

}  // namespace kinema::agents
