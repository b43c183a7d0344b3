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
#include "kinema/model_files/family.h"
#include "kinema/model_files/naming.h"

namespace kinema::model_files {

struct FileNames;
class FourBitWeights;
struct Piece;
struct Rows;

// Models of a pipeline other than the network, by the names of their folders.
inline constexpr std::string_view kVae = "vae";
inline constexpr std::string_view kTextEncoder = "text_encoder";
inline constexpr std::string_view kTextEncoder2 = "text_encoder_2";
/// A network in addition to the pipeline's, which files hold alone.
inline constexpr std::string_view kControlNet = "controlnet";

/// The path of a network with the tensors of another file laid over it: a module, which has those
/// that the network lacks (the control branch of VACE). Checkpoint::open opens both.
std::filesystem::path laid_over(const std::filesystem::path& network,
                                const std::filesystem::path& module);

/// The paths that laid_over joined: of the network and of the module; others alone.
std::vector<std::filesystem::path> layers_of(const std::filesystem::path& path);

/// A model's tensors under diffusers keys. They come from a model folder of diffusers or
/// transformers, a folder of the original release, or a single safetensors, GGUF or torch file
/// with the names of either, with or without a prefix such as `model.diffusion_model.`. If the
/// original joins several tensors in one, they are views of its rows. Codes with separate scales
/// (`X.weight` with `X.scale_weight`, as in ComfyUI's fp8 files), NVFP4 and weights of four bits of
/// bitsandbytes are read as their values. In files without any scale, codes are read as plain
/// numbers.
class Checkpoint {
 public:
  /// Codes in the file, S8 or f8, and their scales, F32: one, or one per output.
  struct Codes {
    Shape shape;
    std::span<const std::byte> bytes;
    HostArray scales;
  };
  struct Entry {
    std::string key;  // the diffusers key; the tensor's own name if it has no other
    const io::TensorView* view;
  };

  /// Opens the network, or the model `part` of its pipeline if a file contains several: kVae,
  /// kTextEncoder, kTextEncoder2. A file with only an autoencoder, or with a ControlNet, is opened
  /// without a part too.
  ///
  /// Throws the Errors of ModelFolder::open, TensorFile::open and GgufFile::open. Also throws an
  /// Error with the tensor's name if codes, scales and the file's description of them do not fit
  /// together, or if a tensor cannot be divided as its name requires; and for GGUF files of other
  /// architectures and files without that part.
  static Checkpoint open(const std::filesystem::path& path, std::string_view part = {});
  /// A model folder under its own keys; it must outlive the result.
  Checkpoint(const io::ModelFolder& folder);  // NOLINT(*-explicit-*): the same, seen otherwise
  // Views refer to its members, and stay valid when it is moved.
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;
  ~Checkpoint() = default;

  const std::string& path() const { return path_; }
  /// The module whose tensors are laid over this network's, which have been added to them; null if
  /// there is none.
  const Checkpoint* module() const { return module_.get(); }
  /// The naming of the file's keys.
  Naming naming() const;
  /// The prefix of the model's keys in a single file; empty if they have none.
  const std::string& prefix() const;
  /// The folder's `config.json`, or that next to a single file; null if there is none.
  const io::Json& config() const { return config_; }
  const std::vector<Entry>& tensors() const { return tensors_; }
  /// The tensor, or null.
  const io::TensorView* find(std::string_view key) const;
  /// The tensor; throws an Error with the file and the missing key.
  const io::TensorView& at(std::string_view key) const;
  /// The stored codes of a tensor; null if it has no scales.
  const Codes* codes(const io::TensorView& tensor) const;
  /// The stored dtype of a tensor's values; of reordered tensors (F32 when read), the original
  /// dtype.
  DType float_type(const io::TensorView& tensor) const;
  /// The file's name for a key, for messages.
  std::string name_in_file(const std::string& key) const;
  /// Throws an Error if a file was truncated since it was opened; call it after reading.
  void check_intact() const;
  /// Throws an Error with the name of a model's tensor that has an infinite or NaN value, in a GGUF
  /// file such a scale; reads the complete file.
  void check_finite() const;

 private:
  Checkpoint();
  void lay_over(Checkpoint module);
  void leave_out_idle_refiner();
  void read(const std::vector<const io::TensorView*>& tensors, std::string_view part);
  std::vector<const io::TensorView*> with_scales(std::span<const io::TensorView* const> all);
  const io::TensorView* decoded(const io::TensorView& codes, const io::TensorView& scale);
  void index(const std::vector<const io::TensorView*>& tensors);
  const io::TensorView* rows_from(const io::TensorView& tensor, const Rows& rows);
  const io::TensorView* transposed_from(const io::TensorView& tensor, const Piece& piece);
  void add(std::string key, const io::TensorView* view);

  std::string path_;
  std::optional<io::ModelFolder> folder_;
  std::vector<io::TensorFile> single_;        // a vector, so that addresses stay valid when moved
  std::vector<const io::TensorFile*> files_;  // all of them
  std::vector<io::GgufFile> gguf_;            // one, or the files of a split model
  std::deque<io::TensorView> made_;           // decoded codes, parts of tensors
  std::map<const io::TensorView*, Codes> codes_;
  std::shared_ptr<const FourBitWeights> four_bits_;  // a pointer: incomplete here
  io::Json config_;
  std::map<const io::TensorView*, DType> floats_;
  std::shared_ptr<const FileNames> names_;  // a pointer, because the type is incomplete here
  std::shared_ptr<const Checkpoint> module_;
  std::vector<Entry> tensors_;
  std::map<std::string, const io::TensorView*, std::less<>> index_;
};

/// The `config.json` with the sizes of a model in a single file: next to the file, or in the
/// model's folder of a pipeline; null if there is none. `names` are those of its tensors, null for
/// an unknown model.
io::Json adjacent_config(const std::filesystem::path& file, std::string_view part,
                         const NameTable* names);
/// True for a name that ends with .gguf.
bool is_gguf(const std::filesystem::path& path);

/// The family of the transformer, by its configuration, or without one by its tensors; null for
/// other models.
const Family* find_family(const Checkpoint& checkpoint);
inline bool is_transformer(const Checkpoint& checkpoint) {
  return find_family(checkpoint) != nullptr;
}
/// True for a ControlNet that is laid over its network (laid_over): Z-Image's.
bool is_control_module(const Checkpoint& checkpoint);
/// True for a `_class_name` of diffusers', or of the original release's.
bool is_transformer_config(const io::Json& config);
bool is_original_config(const io::Json& config);

}  // namespace kinema::model_files
