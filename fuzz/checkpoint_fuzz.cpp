// Any bytes as a checkpoint in one file, of codes beside their scales or not: an Error, or tensors
// that can be read as floats, where codes are what they are times their scales. Inputs that begin
// as GGUF files do are read as such.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/core/f8.h"
#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_files/stored.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/open.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/kl_config.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/qwen3.h"
#include "kinema/weights/t5.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using kinema::DType;
using kinema::HostArray;
using kinema::Shape;
using kinema::io::Json;
using kinema::io::TensorView;
using kinema::model_files::Checkpoint;

// ---- What is asked of an input -------------------------------------------------------------

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

float value_of(std::byte code, DType dtype) {
  const auto bits = static_cast<uint8_t>(code);
  return dtype == DType::S8         ? static_cast<float>(static_cast<int8_t>(bits))
         : dtype == DType::F8E4M3FN ? kinema::f8e4m3fn_to_f32(bits)
                                    : kinema::f8e5m2_to_f32(bits);
}

void check_codes(const Checkpoint::Codes& codes, const HostArray& values) {
  const auto scales = codes.scales.as<float>();
  require(values.shape.dtype == DType::F32 && values.shape.dims == codes.shape.dims &&
          static_cast<int64_t>(codes.bytes.size()) == codes.shape.bytes());
  require(std::ranges::all_of(scales, [](float s) { return std::isfinite(s) && s > 0.0F; }));
  const auto all = values.as<float>();
  const size_t row = all.size() / scales.size();
  for (size_t i = 0; i < all.size(); ++i) {
    require(same(all[i], value_of(codes.bytes[i], codes.shape.dtype) * scales[i / row]));
  }
}

/// What a run makes of a weight that it stores as codes.
void check_stored(const HostArray& values) {
  for (const DType codes : {DType::S8, DType::F8E4M3FN}) {
    try {
      const kinema::model_files::FloatWeight weight{values.shape, values.bytes};
      const kinema::model_files::StoredWeight stored = kinema::model_files::store(weight, codes);
      HostArray back(values.shape);
      kinema::model_files::decode_stored(stored.codes.bytes, codes, stored.scales.as<float>(),
                                         back.as<float>());
      for (size_t i = 0; i < back.as<float>().size(); ++i) {
        require(std::isfinite(values.as<float>()[i]) && !std::isnan(back.as<float>()[i]));
      }
    } catch (const kinema::Error&) {
      const auto all = values.as<float>();
      require(std::ranges::any_of(all, [](float x) { return !std::isfinite(x); }) ||
              values.shape.dims[0] == 0);
    }
  }
}

void read_tensor(const Checkpoint& checkpoint, const TensorView& view) {
  HostArray values = view.copy();
  require(values.shape == view.shape &&
          static_cast<int64_t>(values.bytes.size()) == view.shape.bytes());
  const Checkpoint::Codes* codes = checkpoint.codes(view);
  if (codes != nullptr) {
    check_codes(*codes, values);
  }
  if (!kinema::is_float(values.shape.dtype)) {
    return;
  }
  for (const DType to : {DType::F8E4M3FN, DType::F8E5M2, DType::F16, DType::BF16, DType::F64}) {
    require(convert(values, to).shape == Shape{to, values.shape.dims});
  }
  values = convert(values, DType::F32);
  if (values.shape.rank() >= 2) {
    check_stored(values);
  }
}

/// The other models of a pipeline.
void read_parts(const std::filesystem::path& path, size_t size) {
  using namespace kinema::weights;
  using namespace kinema::model_files;
  for (const std::string_view part : parts_in(path)) {
    try {
      const Checkpoint checkpoint = Checkpoint::open(path, part);
      for (const Checkpoint::Entry& entry : checkpoint.tensors()) {
        if (entry.view->shape.bytes() <= static_cast<int64_t>(8 * size)) {
          read_tensor(checkpoint, *entry.view);
        }
      }
      if (part == kVae) {
        check_kl_tensors(checkpoint, kl_config(checkpoint));
      } else if (is_t5_encoder(checkpoint)) {
        check_t5_tensors(checkpoint, t5_config(checkpoint));
      } else if (is_qwen3_encoder(checkpoint)) {
        check_qwen3_tensors(checkpoint, qwen3_config(checkpoint));
      } else {
        check_clip_text_tensors(checkpoint, clip_text_config(checkpoint));
      }
    } catch (const kinema::Error&) {
    }
  }
}

// ---- How inputs are made -------------------------------------------------------------------

// A container that is damaged anywhere is refused as a whole, which safetensors_fuzz is for. So
// most inputs are whole files in which the tensors no longer fit together.

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
};

constexpr std::array kDTypes{"F8_E4M3", "F8_E5M2", "I8",  "F32", "BF16", "F16", "F64", "U8",
                             "BOOL",    "I16",     "U16", "I32", "U32",  "I64", "U64"};
constexpr std::array kEnds{".weight",      ".scale_weight", ".weight_scale", ".scale_input",
                           ".input_scale", ".comfy_quant",  ".bias",         "scaled_fp8"};
constexpr std::array kPrefixes{"", "model.diffusion_model.", "vae.", "text_encoders.", "model."};
constexpr std::array kLayers{R"({"format": "float8_e4m3fn"})",
                             R"({"format": "float8_e5m2"})",
                             R"({"format": "nvfp4"})",
                             R"({"format": 1})",
                             "[]",
                             "{}",
                             "{"};

int64_t width_of(const std::string& dtype) {
  return dtype.ends_with("64") ? 8 : dtype.ends_with("32") ? 4 : dtype.ends_with("16") ? 2 : 1;
}

struct File {
  std::vector<Tensor> tensors;
  std::vector<Json::Member> metadata;
};

bool parse(const uint8_t* data, size_t size, File& file) {
  try {
    const auto read =
        kinema::io::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "input");
    uint64_t header = 0;
    std::memcpy(&header, data, sizeof(header));
    const Json names =
        Json::parse({reinterpret_cast<const char*>(data) + sizeof(header), header}, "input");
    for (const TensorView& view : read.tensors()) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(view.bytes.data());
      file.tensors.push_back({view.name,
                              names.at(view.name).at("dtype").as_string(),
                              {view.shape.dims.begin(), view.shape.dims.end()},
                              {bytes, bytes + view.bytes.size()}});
    }
    for (const auto& [key, value] : read.metadata()) {
      file.metadata.emplace_back(key, value);
    }
    return true;
  } catch (const kinema::Error&) {
    return false;
  }
}

/// Its bytes; with as many as the shape wants of each tensor.
std::vector<uint8_t> write(File& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) {
    header.set("__metadata__", Json::object(file.metadata));
  }
  int64_t end = 0;
  std::vector<uint8_t> data;
  for (Tensor& tensor : file.tensors) {
    const bool is_empty = std::ranges::count(tensor.dims, 0) != 0;
    int64_t bytes = is_empty ? 0 : width_of(tensor.dtype);
    Json dims = Json::array();
    for (const int64_t dim : tensor.dims) {
      bytes *= is_empty ? 1 : dim;
      dims.append(dim);
    }
    tensor.bytes.resize(static_cast<size_t>(bytes), 0x38);  // 1 of f8 and what is small elsewhere
    Json entry = Json::object();
    entry.set("dtype", tensor.dtype);
    entry.set("shape", dims);
    entry.set("data_offsets", Json::array({Json(end), Json(end + bytes)}));
    header.set(tensor.name, entry);
    end += bytes;
    data.insert(data.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  const std::string text = header.dump(-1);
  const uint64_t length = text.size();
  std::vector<uint8_t> out(sizeof(length));
  std::memcpy(out.data(), &length, sizeof(length));
  out.insert(out.end(), text.begin(), text.end());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

class Mutation {
 public:
  Mutation(File& file, unsigned seed) : file_(file), random_(seed) {}

  void operator()() {
    if (file_.tensors.empty()) {
      add("blocks.0.attn1.to_q.weight");
      return;
    }
    Tensor& tensor = file_.tensors[below(file_.tensors.size())];
    switch (below(10)) {
      case 0:
        tensor.dtype = kDTypes[below(kDTypes.size())];
        break;
      case 1:
        tensor.dims = shape(tensor);
        break;
      case 2:
        rename(tensor.name, other_name(tensor.name));
        break;
      case 3:
        file_.tensors.erase(file_.tensors.begin() + (&tensor - file_.tensors.data()));
        break;
      case 4:
        add(other_name(tensor.name), tensor);
        break;
      case 5:
        add(other_name(tensor.name));
        break;
      case 6:
        describe(tensor.name);
        break;
      case 7:
        tensor.bytes.assign(tensor.bytes.size(), static_cast<uint8_t>(below(256)));
        break;
      case 8:
        tensor.name = mutated(tensor.name);
        unique();
        break;
      default:
        if (!tensor.bytes.empty()) {
          LLVMFuzzerMutate(tensor.bytes.data(), tensor.bytes.size(), tensor.bytes.size());
        }
    }
  }

 private:
  size_t below(size_t count) { return random_() % count; }

  std::vector<int64_t> shape(const Tensor& tensor) {
    constexpr std::array<int64_t, 8> kSizes{0, 1, 2, 3, 4, 8, 64, 128};
    switch (below(4)) {
      case 0:
        return {};
      case 1:
        return file_.tensors[below(file_.tensors.size())].dims;
      case 2:
        return {tensor.dims.empty() ? 1 : tensor.dims[0]};
      default: {
        std::vector<int64_t> dims(below(4));
        for (int64_t& dim : dims) {
          dim = kSizes[below(kSizes.size())];
        }
        return dims;
      }
    }
  }

  /// The same layer's other tensors, or the same under another prefix.
  std::string other_name(const std::string& name) {
    if (below(4) == 0) {
      const std::string prefix = kPrefixes[below(kPrefixes.size())];
      const size_t begin = name.find("blocks.");
      return prefix + (begin == std::string::npos ? name : name.substr(begin));
    }
    const size_t dot = name.rfind('.');
    return (dot == std::string::npos ? name : name.substr(0, dot)) + kEnds[below(kEnds.size())];
  }

  void add(const std::string& name,
           Tensor tensor = {.name = {}, .dtype = "F32", .dims = {1}, .bytes = {}}) {
    tensor.name = name;
    if (name.ends_with(".comfy_quant")) {
      const std::string layer = kLayers[below(kLayers.size())];
      tensor = {name, "U8", {static_cast<int64_t>(layer.size())}, {layer.begin(), layer.end()}};
    } else if (below(2) == 0 && name.find("scale") != std::string::npos) {
      tensor.dtype = "F32";
      tensor.dims = {1};
      tensor.bytes = {0, 0, 0, 0x3f};
    }
    file_.tensors.push_back(std::move(tensor));
    unique();
  }

  void rename(std::string& name, const std::string& to) {
    name = to;
    unique();
  }

  /// Names that come twice are the container's matter.
  void unique() {
    for (size_t i = 0; i < file_.tensors.size(); ++i) {
      for (size_t j = file_.tensors.size() - 1; j > i; --j) {
        if (file_.tensors[i].name == file_.tensors[j].name) {
          file_.tensors.erase(file_.tensors.begin() + static_cast<std::ptrdiff_t>(j));
        }
      }
    }
  }

  void describe(const std::string& name) {
    constexpr const char* kKey = "_quantization_metadata";
    const auto found = std::ranges::find(file_.metadata, kKey, &Json::Member::first);
    if (found != file_.metadata.end() && below(2) == 0) {
      found->second = mutated(found->second.as_string());
      return;
    }
    const std::string module = name.substr(0, name.rfind('.'));
    const std::string text =
        R"({"layers": {")" + module + R"(": )" + kLayers[below(kLayers.size())] + "}}";
    if (found == file_.metadata.end()) {
      file_.metadata.emplace_back(kKey, text);
    } else {
      found->second = text;
    }
  }

  /// Texts of a header are ASCII here: others are no JSON as often as not.
  static std::string mutated(std::string text) {
    const size_t size = text.size();
    text.resize(size + 16);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
    for (char& c : text) {
      c = static_cast<char>(c & 0x7f);
    }
    return text;
  }

  File& file_;
  std::minstd_rand random_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  File file;
  if (seed % 8 == 0 || !parse(data, size, file)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  Mutation mutate(file, seed);
  for (unsigned i = 0; i <= seed / 8 % 4; ++i) {
    mutate();
  }
  const std::vector<uint8_t> out = write(file);
  if (out.size() > max_size) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::ranges::copy(out, data);
  return out.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bool is_gguf = size >= 4 && std::memcmp(data, "GGUF", 4) == 0;
  const auto path = input_file(is_gguf ? "model.gguf" : "model.safetensors", data, size);
  const AllocationLimit limit(size);
  try {
    if (const auto found = kinema::weights::detect_kind(path)) {
      require(found->kind != nullptr && !found->because.empty());
    }
    kinema::model_files::objective_marks(path);
    kinema::model_files::unused_tensors(path);
    const Checkpoint checkpoint = Checkpoint::open(path);
    for (const Checkpoint::Entry& entry : checkpoint.tensors()) {
      require(checkpoint.find(entry.key) == entry.view && &checkpoint.at(entry.key) == entry.view &&
              !checkpoint.name_in_file(entry.key).empty());
      // Values of four bits are eight times as large, which the limit is not meant for.
      if (entry.view->shape.bytes() <= static_cast<int64_t>(8 * size)) {
        read_tensor(checkpoint, *entry.view);
      }
    }
    checkpoint.check_intact();
    read_parts(path, size);
    if (kinema::model_files::is_control_module(checkpoint)) {
      require(!kinema::networks::check_control_module(checkpoint).empty());
    }
    if (kinema::model_files::is_transformer(checkpoint)) {
      // The sizes of a network are read off the shapes.
      kinema::weights::check_tensors(checkpoint,
                                     kinema::networks::open(checkpoint)->parameters({}));
    }
  } catch (const kinema::Error&) {
  }
  return 0;
}
