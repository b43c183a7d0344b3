#include "kinema/serve/uploads.h"

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/remote/digest.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;

constexpr int64_t kMaxSide = 4096;
constexpr int64_t kMaxFrames = 4096;
constexpr std::string_view kVideo = "video/mp4";

void check_size(int64_t width, int64_t height) {
  if (width > kMaxSide || height > kMaxSide) {
    throw Refusal(422, fmt::format("it has {} x {} pixels, at most {} a side are taken", width,
                                   height, kMaxSide));
  }
}

/// By the first bytes, since a client's word is not believed; empty for anything else.
std::string_view upload_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    return "image/png";
  }
  if (bytes.starts_with("\xff\xd8\xff")) {
    return "image/jpeg";
  }
  if (bytes.starts_with("RIFF") && bytes.substr(8).starts_with("WEBP")) {
    return "image/webp";
  }
  return bytes.size() > 8 && bytes.substr(4).starts_with("ftyp") ? kVideo : "";
}

UploadRecord measured(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view type = upload_type(text.substr(0, 16));
  if (type.empty()) {
    throw Refusal(415, "the file is no PNG, JPEG, WebP or MP4");
  }
  try {
    remote::Digest digest(remote::Digest::Kind::SHA256);
    digest.update(bytes);
    if (type == kVideo) {
      return {.id = digest.hex(), .type = std::string(type)};
    }
    const media::ImageSize size = media::measure_image(bytes, "the picture");
    check_size(size.width, size.height);
    return {
        .id = digest.hex(), .type = std::string(type), .width = size.width, .height = size.height};
  } catch (const Error& error) {
    throw Refusal(422, error.what());
  }
}

}  // namespace

UploadRecord store_upload(Store& store, Looks& looks, http::ReceivedFile& file) {
  UploadRecord out;
  {
    const io::MappedFile mapped = io::MappedFile::open(file.path());
    out = mapped.parsed([](auto bytes) { return measured(bytes); });
  }
  if (out.type == kVideo) {
    const std::vector<fs::path> files{file.path()};
    const Look look = looks.at(files).front();
    if (!look.problem.empty()) {
      throw Refusal(422, look.problem);
    }
    check_size(look.width, look.height);
    if (!look.is_video || look.frames < 1 || look.frames > kMaxFrames) {
      throw Refusal(
          422, fmt::format("the video has {} frames, 1 to {} are taken", look.frames, kMaxFrames));
    }
    out.width = look.width;
    out.height = look.height;
    out.frames = look.frames;
  }
  const fs::path folder = fs::absolute(store.folder() / "uploads");
  io::make_folder(folder);
  const size_t slash = out.type.find('/');
  out.path = folder / (out.id + "." + out.type.substr(slash + 1));
  file.keep_as(out.path);
  store.add_upload(out);
  return out;
}

UploadRecord store_upload(Store& store, Looks& looks, std::string_view bytes) {
  http::ReceivedFile file(store.folder() / "receiving");
  const int failure = io::write_all(file.file(), std::as_bytes(std::span(bytes)));
  if (failure != 0) {
    throw Refusal(507, fmt::format("the picture cannot be stored: {}", std::strerror(failure)));
  }
  return store_upload(store, looks, file);
}

}  // namespace kinema::serve
