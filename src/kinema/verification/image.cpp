#include <string>

#include "kinema/encoders/clip_encoder.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"

namespace kinema::verification {
namespace {

/// The preprocessing is equal to the byte, so only the last arithmetic may differ.
constexpr Limit kPixels{.absolute = 1e-5};
constexpr Limit kEmbeddings{.absolute = 1e-4};

/// `wan21_i2v/image_encoder, wan21_i2v/image_processor` -> the two folders.
std::pair<std::filesystem::path, std::filesystem::path> folders(const Case& c) {
  const std::string& text = c.about().at("model").as_string();
  const size_t comma = text.find(", ");
  check(comma != std::string::npos, "[verify] {} is `{}`, expected two folders",
        c.about().at("model").where(), text);
  return {c.folder() / text.substr(0, comma), c.folder() / text.substr(comma + 2)};
}

}  // namespace

std::vector<Row> image_rows(const Case& c, Session& session) {
  const auto [model, processor] = folders(c);
  const encoders::ClipEncoder encoder(session.client(), model, processor,
                                      {.program = session.program_options()});
  const int64_t height = c.about().at("height").as_int();
  const int64_t width = c.about().at("width").as_int();
  std::vector<Row> rows;
  constexpr std::string_view kImage = ".image";
  for (const std::string& name : c.names("")) {
    if (!name.ends_with(kImage)) {
      continue;
    }
    const std::string size = name.substr(0, name.size() - kImage.size());
    const HostArray image = c.tensor(name);
    const auto add = [&](const std::string& tensor, const HostArray& value, const Limit& limit) {
      rows.push_back(compare(c.name(), size + tensor, value, c.tensor(size + tensor), limit));
    };
    add(".vae_input", encoders::autoencoder_pixels(image, height, width), kPixels);
    const HostArray pixels = encoder.processor()(image);
    add(".clip_pixels", pixels, kPixels);
    const auto tokens = encoder.run(pixels);
    add(".tap.embeddings", tokens.embeddings, kEmbeddings);
    add(".image_embeds", tokens.tokens, kEmbeddings);
  }
  return rows;
}

}  // namespace kinema::verification
