// Outputs and uploads in the database.
#include <fmt/format.h>

#include <algorithm>

#include "kinema/serve/store.h"
#include "kinema/serve/store_state.h"

namespace kinema::serve {
namespace {

constexpr std::string_view kOutput =
    "SELECT id,job,path,thumb,is_video,width,height,frames,seconds,bytes,model,prompt,seed,place,"
    "starred,deleted,made,request FROM output ";

OutputRecord read_output(const Statement& row) {
  return {.id = row.text(0),
          .job = row.text(1),
          .path = row.text(2),
          .thumb = row.text(3),
          .is_video = row.integer(4) != 0,
          .width = row.integer(5),
          .height = row.integer(6),
          .frames = row.integer(7),
          .seconds = row.number(8),
          .bytes = row.integer(9),
          .model = row.text(10),
          .prompt = row.text(11),
          .seed = row.integer(12),
          .index = row.integer(13),
          .starred = row.integer(14) != 0,
          .deleted = row.optional_number(15),
          .made = row.number(16),
          .request = stored_request(row.text(17))};
}

std::vector<OutputRecord> read_outputs(Statement& rows) {
  std::vector<OutputRecord> out;
  while (rows.step()) {
    out.push_back(read_output(rows));
  }
  return out;
}

/// The words of a search, at most ten.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size() && out.size() < 10;) {
    const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    if (end > at) {
      out.push_back(text.substr(at, end - at));
    }
    at = end + 1;
  }
  return out;
}

}  // namespace

std::optional<OutputRecord> Store::output(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(fmt::format("{} WHERE id=?", kOutput));
  return rows.bind(id).step() ? std::optional(read_output(rows)) : std::nullopt;
}

std::vector<OutputRecord> Store::outputs_of(const std::string& job) {
  const std::lock_guard lock(mutex_);
  Statement rows =
      state_->database->prepare(fmt::format("{} WHERE job=? ORDER BY number", kOutput));
  rows.bind(job);
  return read_outputs(rows);
}

OutputPage Store::outputs(const OutputQuery& query) {
  const std::vector<std::string> words = words_of(query.words);
  std::string where = query.deleted ? " WHERE deleted IS NOT NULL" : " WHERE deleted IS NULL";
  where += query.model.empty() ? "" : " AND model=?";
  where += query.kind.empty() ? "" : " AND is_video=?";
  where += query.starred ? " AND starred" : "";
  for (size_t i = 0; i < words.size(); ++i) {
    where += " AND instr(lower(prompt),lower(?))>0";
  }
  const auto bind = [&](Statement& statement) {
    if (!query.model.empty()) {
      statement.bind(query.model);
    }
    if (!query.kind.empty()) {
      statement.bind(int64_t{query.kind == "video"});
    }
    for (const std::string& word : words) {
      statement.bind(word);
    }
  };
  const std::lock_guard lock(mutex_);
  OutputPage out;
  Statement count = state_->database->prepare("SELECT count(*) FROM output" + where);
  bind(count);
  count.step();
  out.total = count.integer(0);
  Statement rows = state_->database->prepare(
      fmt::format("{}{} ORDER BY number DESC LIMIT ? OFFSET ?", kOutput, where));
  bind(rows);
  rows.bind(query.limit).bind(query.offset);
  out.outputs = read_outputs(rows);
  return out;
}

void Store::star(const std::string& id, bool starred) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("UPDATE output SET starred=? WHERE id=?")
      .bind(int64_t{starred})
      .bind(id)
      .run();
}

void Store::set_deleted(const std::string& id, const std::optional<double>& when) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("UPDATE output SET deleted=? WHERE id=?").bind(when).bind(id).run();
}

void Store::forget_output(const std::string& id) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("DELETE FROM output WHERE id=?").bind(id).run();
}

void Store::add_upload(const UploadRecord& upload) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "INSERT INTO upload(id,path,type,width,height,frames,used) VALUES(?,?,?,?,?,?,?) ON "
          "CONFLICT(id) DO UPDATE SET used=excluded.used")
      .bind(upload.id)
      .bind(upload.path.string())
      .bind(upload.type)
      .bind(upload.width)
      .bind(upload.height)
      .bind(upload.frames)
      .bind(now())
      .run();
}

std::optional<UploadRecord> Store::upload(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Statement rows =
      state_->database->prepare("SELECT id,path,type,width,height,frames FROM upload WHERE id=?");
  if (!rows.bind(id).step()) {
    return std::nullopt;
  }
  return UploadRecord{.id = rows.text(0),
                      .path = rows.text(1),
                      .type = rows.text(2),
                      .width = rows.integer(3),
                      .height = rows.integer(4),
                      .frames = rows.integer(5)};
}

std::vector<UploadRecord> Store::take_unused_uploads(double time) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  const std::string_view unused =
      "FROM upload WHERE used<? AND NOT EXISTS(SELECT 1 FROM job WHERE state "
      "IN('waiting','running') AND instr(request,upload.id)>0)";
  Statement rows = state_->database->prepare(fmt::format("SELECT id,path {}", unused));
  rows.bind(time);
  std::vector<UploadRecord> out;
  while (rows.step()) {
    out.push_back({.id = rows.text(0), .path = rows.text(1)});
  }
  state_->database->prepare(fmt::format("DELETE {}", unused)).bind(time).run();
  transaction.commit();
  return out;
}

int64_t Store::bytes_of_outputs(bool deleted) {
  const std::lock_guard lock(mutex_);
  Statement sum = state_->database->prepare(
      "SELECT coalesce(sum(bytes),0) FROM output WHERE (deleted IS NOT NULL)=?");
  sum.bind(int64_t{deleted}).step();
  return sum.integer(0);
}

}  // namespace kinema::serve
