#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "io/crc32c.h"
#include "io/json.h"
#include "remote/gcs.h"

namespace kinema::remote {
namespace {

// The service wants pieces in multiples of 256 KiB; larger ones mean fewer round trips.
constexpr size_t kPiece = size_t{8} << 20;

}  // namespace

GcsBucket::Upload::Upload(const GcsBucket& bucket, std::string name)
    : bucket_(bucket), name_(std::move(name)) {
  const Response response = bucket_.asked(
      {.method = "POST",
       .url = fmt::format("{}/upload/storage/v1/b/{}/o?uploadType=resumable&name={}",
                          bucket_.options_.endpoint, bucket_.bucket_, percent_encoded(name_)),
       .headers = {"Content-Type: application/json"},
       .body = "{}"},
      name_);
  session_ = response.header("location");
  check(!session_.empty(), "[gs] {}: the service opened no upload", bucket_.where(name_));
  session_ = resolved_url(bucket_.options_.endpoint, session_);
}

GcsBucket::Upload::~Upload() {
  if (!done_ && !session_.empty()) {
    try {
      Patience brief = bucket_.options_.patience;
      brief.retries = 0;
      brief.stall_s = std::min<int64_t>(brief.stall_s, 2);
      send({.method = "DELETE", .url = session_}, brief);
    } catch (const std::exception&) {
      // The service forgets an open upload after a week by itself.
    }
  }
}

void GcsBucket::Upload::write(std::span<const std::byte> bytes) {
  check(!done_, "[gs] {} is written to after its end", bucket_.where(name_));
  crc_ = io::crc32c(bytes, crc_);
  while (!bytes.empty()) {
    // What is full goes when more comes: the last piece must say that it is the last.
    if (held_.size() == kPiece) {
      send_piece(/*last=*/false);
    }
    const size_t count = std::min(bytes.size(), kPiece - held_.size());
    held_.append(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
  }
}

/// Sends what is held, and as often as needed what of it the server did not take.
void GcsBucket::Upload::send_piece(bool last) {
  Patience once = bucket_.options_.patience;
  once.retries = 0;
  std::string problem;
  bool ask_first = false;
  for (int attempt = 1; attempt <= bucket_.options_.patience.retries + 1; ++attempt) {
    if (attempt > 1) {
      back_off(bucket_.options_.patience, attempt - 1);
    }
    const int64_t end = sent_ + static_cast<int64_t>(held_.size());
    const std::string total = last ? fmt::format("{}", end) : "*";
    Request request{.method = "PUT", .url = session_};
    if (ask_first) {
      request.headers = {"Content-Range: bytes */" + total};
    } else {
      request.headers = {held_.empty()
                             ? "Content-Range: bytes */" + total
                             : fmt::format("Content-Range: bytes {}-{}/{}", sent_, end - 1, total)};
      request.body = held_;
    }
    Response response;
    try {
      response = send(request, once);
    } catch (const NetworkError& error) {
      problem = error.reason();
      ask_first = true;  // how much arrived is not known
      continue;
    }
    if (response.status == 200 || response.status == 201) {
      made_ = read_object(io::Json::parse(response.body, bucket_.where(name_)));
      held_.clear();
      return;
    }
    if (response.status == 308) {
      // `bytes=0-N`: what it has, nothing when it has nothing.
      const std::string range = response.header("range");
      int64_t have = 0;
      if (const size_t dash = range.find('-'); dash != std::string::npos) {
        std::from_chars(range.data() + dash + 1, range.data() + range.size(), have);
        ++have;
      }
      check(have >= sent_ && have <= end, "[gs] {}: the service has {} bytes of {} to {}",
            bucket_.where(name_), have, sent_, end);
      if (have > sent_) {
        attempt = 1;
      }
      held_.erase(0, static_cast<size_t>(have - sent_));
      sent_ = have;
      ask_first = false;
      if (held_.empty() && !last) {
        return;
      }
      problem = "the service took a part only";
      continue;
    }
    if (!is_transient(response.status)) {
      bucket_.refuse(response, name_);
    }
    problem = fmt::format("the service answers {}", response.status);
    ask_first = true;
  }
  fail("[gs] {} could not be written: {}\n  nothing of it is visible; run again",
       bucket_.where(name_), problem);
}

GcsObject GcsBucket::Upload::commit() {
  send_piece(/*last=*/true);
  done_ = true;
  check(!made_.crc32c || *made_.crc32c == crc_,
        "[gs] {} arrived with CRC {} instead of {}: it was damaged on the way",
        bucket_.where(name_), made_.crc32c ? crc_text(*made_.crc32c) : "", crc_text(crc_));
  return made_;
}

}  // namespace kinema::remote
