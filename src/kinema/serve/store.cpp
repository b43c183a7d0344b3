// The database of a server: its tables, settings and measurements.
#include "kinema/serve/store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/serve/store_state.h"

namespace kinema::serve {
namespace {

constexpr int64_t kVersion = 2;

const char* const kSchema = R"(
CREATE TABLE job(
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK(state IN('waiting','running','done','failed','cancelled')),
  place REAL NOT NULL, model TEXT NOT NULL, request TEXT NOT NULL, source TEXT NOT NULL,
  client_key TEXT UNIQUE, made REAL NOT NULL, started REAL, ended REAL,
  attempts INTEGER NOT NULL DEFAULT 0, notices TEXT NOT NULL DEFAULT '[]',
  error TEXT NOT NULL DEFAULT '', error_param TEXT NOT NULL DEFAULT '');
CREATE INDEX job_by_state ON job(state, place);
CREATE TABLE output(
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, job TEXT NOT NULL, path TEXT NOT NULL,
  thumb TEXT NOT NULL, is_video INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
  frames INTEGER NOT NULL, seconds REAL NOT NULL, bytes INTEGER NOT NULL, model TEXT NOT NULL,
  prompt TEXT NOT NULL, seed INTEGER NOT NULL, place INTEGER NOT NULL,
  starred INTEGER NOT NULL DEFAULT 0, deleted REAL, made REAL NOT NULL, request TEXT NOT NULL);
CREATE INDEX output_by_job ON output(job);
CREATE TABLE upload(
  id TEXT PRIMARY KEY, path TEXT NOT NULL, type TEXT NOT NULL, width INTEGER NOT NULL,
  height INTEGER NOT NULL, frames INTEGER NOT NULL, used REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE setting(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
)";

// Version 2.
const char* const kMeasureSchema = R"(
CREATE TABLE measure(
  model TEXT NOT NULL, shape TEXT NOT NULL, cells REAL NOT NULL, step REAL NOT NULL,
  other REAL NOT NULL, setup REAL NOT NULL, bytes INTEGER NOT NULL, made REAL NOT NULL,
  PRIMARY KEY(model, shape)) WITHOUT ROWID;
)";

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

MakeRequest stored_request(const std::string& text) {
  return read_request(io::Json::parse(text, "serve.db"));
}

Store::State::State(const std::filesystem::path& folder)
    : lock(io::Descriptor::open(folder / ".lock", O_RDWR | O_CREAT, 0600)),
      is_locked(lock && io::lock(lock, io::Lock::TRY)) {
  check(is_locked, "[serve] another `kinema serve` uses {}\n  give another serve_folder",
        folder.string());
  database.emplace(folder / "serve.db");
  int64_t version = 0;
  {
    Statement row = database->prepare("PRAGMA user_version");
    row.step();
    version = row.integer(0);
  }
  check(version <= kVersion, "[serve] {} is of a newer kinema: version {}, expected at most {}",
        (folder / "serve.db").string(), version, kVersion);
  if (version < kVersion) {
    Transaction transaction(*database);
    if (version == 0) {
      database->run(kSchema);
    }
    database->run(kMeasureSchema);
    database->run(fmt::format("PRAGMA user_version={}", kVersion).c_str());
    transaction.commit();
  }
}

Store::Store(const std::filesystem::path& folder) : folder_(folder) {
  io::make_folder(folder);
  state_ = std::make_unique<State>(folder);
}

Store::~Store() = default;

std::string Store::setting(const std::string& key) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare("SELECT value FROM setting WHERE key=?");
  return rows.bind(key).step() ? rows.text(0) : "";
}

void Store::set_setting(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "INSERT INTO setting VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value")
      .bind(key)
      .bind(value)
      .run();
}

void Store::measured(const std::string& model, const Measurement& measured) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("INSERT OR REPLACE INTO measure VALUES(?,?,?,?,?,?,?,?)")
      .bind(model)
      .bind(measured.shape)
      .bind(measured.cells)
      .bind(measured.step_seconds)
      .bind(measured.other_seconds)
      .bind(measured.setup_seconds)
      .bind(measured.bytes)
      .bind(now())
      .run();
}

std::vector<Measurement> Store::measurements(const std::string& model) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(
      "SELECT shape,cells,step,other,setup,bytes FROM measure WHERE model=? ORDER BY made DESC "
      "LIMIT 1000");
  rows.bind(model);
  std::vector<Measurement> out;
  while (rows.step()) {
    out.push_back({.shape = rows.text(0),
                   .cells = rows.number(1),
                   .step_seconds = rows.number(2),
                   .other_seconds = rows.number(3),
                   .setup_seconds = rows.number(4),
                   .bytes = rows.integer(5)});
  }
  return out;
}

}  // namespace kinema::serve
