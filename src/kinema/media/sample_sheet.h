#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// A sample on a sheet.
struct SheetCell {
  HostArray frames;        // u8 [f, h, w, 3], beside each other
  std::u32string title;    // a line under them
  std::u32string caption;  // and a few more
};

struct SampleSheetOptions {
  int64_t side = 256;         // of a frame's longer side: larger ones are made smaller
  int64_t most_width = 2048;  // of the sheet, unless one cell alone is wider
  size_t caption_lines = 4;
};

/// Pictures of any sizes with what is said of them, row by row in columns of one width, as u8
/// [h, w, 3]. Frames of less than half the side become larger by a whole number, each pixel a
/// block. Throws an Error for frames of another shape, and without a cell.
HostArray sample_sheet(std::span<const SheetCell> cells, const SampleSheetOptions& options = {});

}  // namespace kinema::media
