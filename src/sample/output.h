#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sample/pipeline.h"

namespace kinema::sample {

struct OutputOptions {
  double fps = 16;
  /// Each pixel becomes a square of this many a side in the mp4 and the contact sheet, so that tiny
  /// videos can be looked at.
  int enlarge = 1;
  int64_t contact_sheet_columns = 4;
};

/// Files that were written.
struct OutputFiles {
  std::vector<std::filesystem::path> videos;  // one mp4 a prompt
  std::filesystem::path contact_sheet;        // contact_sheet.png
};

/// Writes `NNN_words_of_the_prompt.mp4` with a `.json` beside it (prompt, seed, steps, guidance,
/// sampler, shift, model, sizes) for each video, `metadata.jsonl` with all prompts, and
/// `contact_sheet.png`, into `folder`.
OutputFiles write_outputs(const std::filesystem::path& folder, const GenerateRequest& request,
                          const Generated& generated, const Pipeline& pipeline,
                          const OutputOptions& options = {});

/// Load, text, compile, denoise, decode and total, a line each.
std::string timing_table(const Generated& generated);

}  // namespace kinema::sample
