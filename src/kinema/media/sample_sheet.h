#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// A sample on a sheet.
struct SheetCell {
  HostArray frames;        // u8 [f, h, w, 3], shown in a row
  std::u32string title;    // one line below the frames
  std::u32string caption;  // and a few more lines
};

struct SampleSheetOptions {
  int64_t side = 256;         // longer side of a frame: larger frames are reduced
  int64_t most_width = 2048;  // of the sheet, unless a single cell is wider
  size_t caption_lines = 4;
};

/// Pictures of any sizes with texts, in rows with columns of equal width, as u8 [h, w, 3]. Frames
/// smaller than half the side are enlarged by an integer factor, each pixel as a block. Throws an
/// Error for frames of another shape, and without cells.
HostArray sample_sheet(std::span<const SheetCell> cells, const SampleSheetOptions& options = {});

}  // namespace kinema::media
