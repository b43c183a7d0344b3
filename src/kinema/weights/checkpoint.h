#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/gguf.h"
#include "kinema/io/model_folder.h"
#include "kinema/weights/family.h"
#include "kinema/weights/naming.h"

namespace kinema::weights {

struct FileNames;
struct Piece;
struct Rows;

// Models of a pipeline beside the network that is sampled, by the names of their folders.
inline constexpr std::string_view kVae = "vae";
inline constexpr std::string_view kTextEncoder = "text_encoder";
inline constexpr std::string_view kTextEncoder2 = "text_encoder_2";

/// A model's tensors under diffusers keys, whatever holds them. That may be a model folder of
/// diffusers or transformers, one of the original release, or a single safetensors or GGUF file in
/// the names of either, with or without a prefix such as `model.diffusion_model.`. Where the
/// original joins several tensors in one, they are rows of it, and lie where it lies. Weights that
/// are codes beside their scales (`X.weight` with `X.scale_weight`, as ComfyUI's fp8 files have
/// them) are what these stand for. Codes without scales are the numbers that they are, in files
/// without any scale.
class Checkpoint {
 public:
  /// Codes as the file has them, S8 or f8, and their scales, F32: one, or one for each output.
  struct Codes {
    Shape shape;
    std::span<const std::byte> bytes;
    HostArray scales;
  };
  struct Entry {
    std::string key;  // the tensor's own name where it has no other
    const io::TensorView* view;
  };

  /// The network that is sampled, or the model that is `part` of its pipeline, which one file may
  /// hold together: kVae, kTextEncoder, kTextEncoder2. A file of an autoencoder alone is opened
  /// without a part too.
  ///
  /// Throws what ModelFolder::open, SafetensorsFile::open and GgufFile::open throw, and an Error
  /// with a remedy for pickles, which are not read. Throws an Error naming the tensor where codes,
  /// scales and what the file says of them do not fit together, and for GGUF files of other
  /// architectures. Throws an Error naming a tensor that cannot be divided as its name says, and
  /// one for a file without that part.
  static Checkpoint open(const std::filesystem::path& path, std::string_view part = {});
  /// A model folder under its own keys; it must outlive the result.
  Checkpoint(const io::ModelFolder& folder);  // NOLINT(*-explicit-*): the same, seen otherwise
  // Views point into it, and stay valid when it is moved.
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;
  ~Checkpoint() = default;

  const std::string& path() const { return path_; }
  /// Which names the file uses.
  Naming naming() const;
  /// The folder's `config.json`, or that beside a single file; null where there is none.
  const io::Json& config() const { return config_; }
  const std::vector<Entry>& tensors() const { return tensors_; }
  /// The tensor, or null.
  const io::TensorView* find(std::string_view key) const;
  /// The tensor; throws an Error naming the file and what is missing.
  const io::TensorView& at(std::string_view key) const;
  /// What a tensor of this checkpoint is stored as; null where that has no scales.
  const Codes* codes(const io::TensorView& tensor) const;
  /// What the values of a tensor are stored as: where they change places (F32 when read), what they
  /// were before.
  DType float_type(const io::TensorView& tensor) const;
  /// A key as this file writes it, for messages.
  std::string name_in_file(const std::string& key) const;
  /// Throws an Error when a file became shorter since it was opened; to be asked after reading.
  void check_intact() const;
  /// Throws an Error naming a tensor of the model with a value that is infinite or NaN, of a GGUF
  /// file a scale; reads all of it.
  void check_finite() const;

 private:
  Checkpoint();
  void read(const std::vector<const io::TensorView*>& tensors, std::string_view part);
  std::vector<const io::TensorView*> with_scales(std::span<const io::TensorView* const> all);
  const io::TensorView* decoded(const io::TensorView& codes, const io::TensorView& scale);
  void index(const std::vector<const io::TensorView*>& tensors);
  const io::TensorView* rows_from(const io::TensorView& tensor, const Rows& rows);
  const io::TensorView* turned_from(const io::TensorView& tensor, const Piece& piece);
  void add(std::string key, const io::TensorView* view);

  std::string path_;
  std::optional<io::ModelFolder> folder_;
  std::vector<io::SafetensorsFile> single_;        // on the heap, so that addresses stay when moved
  std::vector<const io::SafetensorsFile*> files_;  // all of them
  std::optional<io::GgufFile> gguf_;
  std::deque<io::TensorView> made_;  // codes with their scales, parts of tensors
  std::map<const io::TensorView*, Codes> codes_;
  io::Json config_;
  std::map<const io::TensorView*, DType> floats_;
  std::shared_ptr<const FileNames> names_;  // shared, so that the type need not be known here
  std::vector<Entry> tensors_;
  std::map<std::string, const io::TensorView*, std::less<>> index_;
};

/// The `config.json` that says the sizes of a model in a single file: that beside it, or in the
/// folder in which a pipeline would have the model; null where there is none. `names` are those of
/// its tensors, null where they are of no known model.
io::Json config_beside(const std::filesystem::path& file, std::string_view part,
                       const NameTable* names);
/// Throws an Error with a remedy when the name is that of a pickle.
void refuse_other_formats(const std::filesystem::path& path);
/// True for a name that ends with .gguf.
bool is_gguf(const std::filesystem::path& path);

/// The family whose transformer the configuration, or without one the tensors, say it is; null for
/// something else.
const Family* family_of(const Checkpoint& checkpoint);
inline bool is_transformer(const Checkpoint& checkpoint) {
  return family_of(checkpoint) != nullptr;
}
/// True when `_class_name` says so: diffusers' configuration, or the original release's.
bool is_transformer_config(const io::Json& config);
bool is_original_config(const io::Json& config);

}  // namespace kinema::weights
