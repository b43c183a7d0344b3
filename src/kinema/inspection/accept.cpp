#include "kinema/inspection/accept.h"

#include <fmt/format.h>

#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/inspection/folders.h"
#include "kinema/io/check.h"
#include "kinema/networks/check_path.h"
#include "kinema/networks/open.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/text/tokenizer.h"
#include "kinema/training/checkpoint_folder.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/weights.h"

namespace kinema::inspection {
namespace {

namespace fs = std::filesystem;

/// Throws where a training or sampling run would refuse the folder.
void check_transformer(const fs::path& path) {
  weights::check_folder(path, networks::open(path)->parameters({}));
}

/// The transformers of a pipeline or checkpoint that are there.
std::vector<fs::path> transformers(const fs::path& path) {
  std::vector<fs::path> out;
  for (const char* name :
       {"transformer", "transformer_2", "transformer_ema", "transformer_2_ema"}) {
    if (fs::is_directory(path / name)) {
      out.push_back(path / name);
    }
  }
  check(!out.empty(), "{} holds no transformer/", path.string());
  return out;
}

}  // namespace

std::string accept(const fs::path& path) {
  const io::PathKind kind = io::path_kind(path);
  if (kind == io::PathKind::ModelFolder) {
    return "accepted: " + networks::check_path(path);
  }
  if (kind == io::PathKind::Pipeline && !is_checkpoint(path)) {
    const sample::PipelineFolder pipeline = sample::read_pipeline_folder(path);
    if (!pipeline.tokenizer.empty()) {
      text::Tokenizer::open(pipeline.tokenizer);
    }
    return "accepted: " + networks::check_path(path);
  }
  if (is_checkpoint(path)) {
    const std::string problem = training::manifest_problem(path);
    check(problem.empty(), "{}: {}", path.string(), problem);
    for (const fs::path& transformer : transformers(path)) {
      check_transformer(transformer);
    }
    return "accepted: the transformers of " + path.string();
  }
  if (weights::is_gguf(path) ||
      (kind == io::PathKind::Safetensors && weights::file_kind(path) != weights::FileKind::OTHER)) {
    return "accepted: " + networks::check_path(path);
  }
  if (kind == io::PathKind::TfRecord) {
    const int64_t records = check_records(path);
    check(records > 0, "{} holds no records", path.string());
    return fmt::format("accepted: TFRecord file of {}", counted(records, "record"));
  }
  if (is_lora_folder(path)) {
    return "accepted: LoRA: " + weights::Lora::open(path).summary();
  }
  weights::refuse_other_formats(path);
  if (kind == io::PathKind::Unknown && fs::is_directory(path)) {
    return "accepted: " + check_records_folder(path);
  }
  return "accepted: " + io::check_path(path);
}

bool may_be_clips(const fs::path& path) {
  const bool is_folder = fs::is_directory(path);
  return io::path_kind(path) == io::PathKind::Unknown && !is_checkpoint(path) &&
         !is_lora_folder(path) &&
         !(is_folder && (fs::is_directory(path / "checkpoints") ||
                         !training::CheckpointFolder(path).steps().empty()));
}

}  // namespace kinema::inspection
