#include "kinema/encoders/learned_words.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/tensor_file.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParameters = "string_to_param.";
// A word has at most as many rows as a prompt has tokens.
constexpr int64_t kMostRows = 75;

bool is_of_two_encoders(std::string_view name) {
  return name == "clip_l" || name == "clip_g" || name == "t5xxl";
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

/// [d] or [n, d] as f32 [n, d].
HostArray rows_of(const io::TensorView& tensor, const fs::path& file) {
  HostArray out = convert(tensor.copy(), DType::F32);
  if (out.shape.dims.size() == 1) {
    out.shape.dims.insert(out.shape.dims.begin(), 1);
  }
  check(out.shape.dims.size() == 2 && out.shape.dims[0] >= 1 && out.shape.dims[0] <= kMostRows,
        "[encoders] `{}` of {} is {}, expected 1 to {} rows of a textual inversion", tensor.name,
        file.string(), to_string(tensor.shape), kMostRows);
  return out;
}

}  // namespace

std::vector<int64_t> word_ids(const text::ClipTokenizer& tokenizer, const std::string& text) {
  std::vector<int64_t> ids = tokenizer.encode(text, std::numeric_limits<int32_t>::max()).ids;
  return {ids.begin() + 1, ids.end() - 1};
}

HostArray rows_of_text(const TextFiles& files, const std::string& text, int64_t rows) {
  const std::vector<int64_t> ids = word_ids(text::ClipTokenizer::open(files.tokenizer), text);
  check(!ids.empty(), "[encoders] the text `{}` has no tokens", text);
  std::vector<int64_t> repeated;
  for (int64_t row = 0; row < rows; ++row) {
    repeated.push_back(ids[static_cast<size_t>(row) % ids.size()]);
  }
  const auto opened = model_files::Checkpoint::open(files.model, files.part);
  return convert(weights::embedding_rows(weights::clip_text_embedding(opened), {rows}, repeated),
                 DType::F32);
}

std::vector<std::pair<std::string, HostArray>> read_learned_rows(const fs::path& file,
                                                                 std::string_view member) {
  const io::TensorFile in = io::TensorFile::open(file);
  std::vector<std::pair<std::string, HostArray>> out;
  std::vector<std::string> others;
  for (const io::TensorView& tensor : in.tensors()) {
    const std::string& name = tensor.name;
    const size_t axes = tensor.shape.dims.size();
    if (is_of_two_encoders(name)) {
      if (name == member) {
        out.emplace_back("", rows_of(tensor, file));
      } else {
        others.push_back(name);
      }
    } else if (name == "emb_params" || name.starts_with(kParameters)) {
      out.emplace_back("", rows_of(tensor, file));
    } else if (axes == 1 || axes == 2) {  // a word of diffusers
      out.emplace_back(name, rows_of(tensor, file));
    }
  }
  in.check_intact();
  check(!out.empty(), "[encoders] {} is not a textual inversion for `{}`: it has {}", file.string(),
        member, others.empty() ? "no tensor of rows" : "`" + others.front() + "` only");
  return out;
}

LearnedWords::LearnedWords(std::span<const fs::path> folders, std::string member,
                           int64_t hidden_size)
    : member_(std::move(member)), hidden_size_(hidden_size) {
  for (const fs::path& folder : folders) {
    list(folder);
  }
}

void LearnedWords::list(const fs::path& folder) {
  const auto first = static_cast<int64_t>(files_.size());
  std::error_code error;
  check(fs::is_directory(folder, error), "[config] embeddings_folder {} {}", folder.string(),
        not_a_folder(folder));
  for (auto each = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    std::error_code ignored;
    const fs::path& path = each->path();
    if ((path.extension() == ".safetensors" || io::is_pickle_name(path)) &&
        each->is_regular_file(ignored)) {
      files_.push_back(path);
    }
  }
  check(!error, "[config] embeddings_folder {} cannot be read: {}", folder.string(),
        error.message());
  std::sort(files_.begin() + first, files_.end());
}

void LearnedWords::add(const fs::path& file, std::string_view text,
                       const text::ClipTokenizer& tokenizer, std::vector<LearnedWord>& out) const {
  const std::string stem = file.stem().string();
  for (auto& [word, rows] : read_learned_rows(file, member_)) {
    const std::string& name = word.empty() ? stem : word;
    if (text.find(lower(name)) == std::string_view::npos) {
      continue;
    }
    check(
        rows.shape.dims[1] == hidden_size_,
        "[encoders] the embedding `{}` of {} has rows of {} numbers, but this text encoder has {}\n"
        "  it was trained for another model",
        name, file.string(), rows.shape.dims[1], hidden_size_);
    // ComfyUI's names may have the file's ending.
    const std::string whole = "embedding:" + file.filename().string();
    for (const std::string& written : {whole, "embedding:" + name, name}) {
      std::vector<int64_t> ids = word_ids(tokenizer, written);
      if (!ids.empty()) {
        out.push_back({.name = name, .written = written, .ids = std::move(ids), .rows = rows});
      }
    }
  }
}

std::vector<LearnedWord> LearnedWords::in(std::string_view text,
                                          const text::ClipTokenizer& tokenizer) const {
  const std::string folded = lower(text);
  std::vector<LearnedWord> out;
  for (const fs::path& file : files_) {
    const std::string stem = lower(file.stem().string());
    if (stem.starts_with("learned_embeds") || folded.find(stem) != std::string::npos) {
      add(file, folded, tokenizer, out);
    }
  }
  std::ranges::stable_sort(out, std::ranges::greater(),
                           [](const LearnedWord& each) { return each.ids.size(); });
  return out;
}

}  // namespace kinema::encoders
