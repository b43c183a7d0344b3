// The engine of mpirun and `srun --mpi=pmix`: messages over MPI, keys over PMIx. A separate module,
// so that the program needs neither if no launcher started it.
#include <mpi.h>
#include <pmix.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/world/engine.h"

namespace kinema::world {
namespace {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail("[world] {}: {}", call, std::string(text.data(), static_cast<size_t>(length)));
}

/// Memory that MPI reads or writes until the transfer ends, divided into parts because MPI's counts
/// are ints.
struct Transfer {
  static constexpr size_t kPart = size_t{1} << 30;

  Message message;  // the sent message, or the memory for the received one
  std::vector<MPI_Request> requests;

  bool done() {
    int all = 1;
    check_mpi(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    return all != 0;
  }
};

/// Transfers whose owner was destroyed. Their memory must stay while MPI may access it: a send
/// continues, and a receive may have started when it is cancelled.
class Abandoned {
 public:
  Abandoned() = default;
  Abandoned(const Abandoned&) = delete;
  Abandoned& operator=(const Abandoned&) = delete;
  ~Abandoned() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds kLongest(5);
    for (const Clock::time_point end = Clock::now() + kLongest; !forget_done();) {
      if (Clock::now() > end) {  // with a lost process: never freed
        new std::vector<Transfer>(std::move(all_));
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void keep(Transfer transfer) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(transfer));
  }
  /// True if none is left.
  bool forget_done() {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](Transfer& each) {
      try {
        return each.done();
      } catch (const Error&) {
        return false;  // its progress is unknown
      }
    });
    return all_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<Transfer> all_;
};

class MpiPending : public Pending {
 public:
  MpiPending(std::shared_ptr<Abandoned> abandoned, Transfer transfer, bool receives)
      : abandoned_(std::move(abandoned)), transfer_(std::move(transfer)), receives_(receives) {}
  MpiPending(const MpiPending&) = delete;
  MpiPending& operator=(const MpiPending&) = delete;
  ~MpiPending() override {
    bool ended = false;
    for (MPI_Request& request : transfer_.requests) {
      if (receives_ && request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
      }
    }
    try {
      ended = transfer_.done();
    } catch (const Error&) {
      // Its progress is unknown.
    }
    if (!ended) {
      abandoned_->keep(std::move(transfer_));
    }
  }

  bool done() override { return transfer_.done(); }
  Message message() const override { return receives_ ? transfer_.message : Message(); }

 private:
  std::shared_ptr<Abandoned> abandoned_;
  Transfer transfer_;
  bool receives_;
};

class MpiEngine : public Engine {
 public:
  MpiEngine() {
    int level = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    check(level == MPI_THREAD_MULTIPLE,
          "[world] this MPI was built without MPI_THREAD_MULTIPLE, which kinema needs");
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = rank;
    size_ = size;
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    name_.assign(text.data(), static_cast<size_t>(length));
    name_ = name_.substr(0, name_.find_first_of(",\n"));  // `Open MPI v4.1.4`
    const pmix_status_t status = PMIx_Init(&pmix_, nullptr, 0);
    has_pmix_ = status == PMIX_SUCCESS;
  }
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;
  ~MpiEngine() override {
    abandoned_.reset();  // waits for MPI's remaining transfers
    if (has_pmix_) {
      PMIx_Finalize(nullptr, 0);
    }
    for (MPI_Comm& channel : channels_) {
      MPI_Comm_free(&channel);
    }
    MPI_Finalize();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  std::string name() const override { return name_; }

  int open_channel() override {
    MPI_Comm channel = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &channel), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN);
    const std::lock_guard lock(mutex_);
    channels_.push_back(channel);
    return static_cast<int>(channels_.size()) - 1;
  }

  std::unique_ptr<Pending> send(int channel, Message message, int64_t to, int tag) override {
    const MPI_Comm comm = comm_of(channel);
    const std::span<const std::byte> bytes = message.bytes();
    abandoned_->forget_done();
    Transfer transfer{.message = message, .requests = {}};
    for_each_part(bytes.size(), transfer, [&](size_t offset, int count, MPI_Request* request) {
      check_mpi(MPI_Isend(bytes.data() + offset, count, MPI_BYTE, static_cast<int>(to), tag, comm,
                          request),
                "MPI_Isend");
    });
    return std::make_unique<MpiPending>(abandoned_, std::move(transfer), /*receives=*/false);
  }
  std::unique_ptr<Pending> receive(int channel, size_t bytes, int64_t from, int tag) override {
    const MPI_Comm comm = comm_of(channel);
    abandoned_->forget_done();
    const std::shared_ptr<std::byte[]> into(new std::byte[bytes]);  // uninitialised
    Transfer transfer{.message = {into, {into.get(), bytes}}, .requests = {}};
    for_each_part(bytes, transfer, [&](size_t offset, int count, MPI_Request* request) {
      check_mpi(MPI_Irecv(into.get() + offset, count, MPI_BYTE, static_cast<int>(from), tag, comm,
                          request),
                "MPI_Irecv");
    });
    return std::make_unique<MpiPending>(abandoned_, std::move(transfer), /*receives=*/true);
  }

  void put(const std::string& key, const std::string& value) override {
    check_pmix();
    pmix_value_t boxed;
    PMIX_VALUE_CONSTRUCT(&boxed);
    boxed.type = PMIX_BYTE_OBJECT;
    boxed.data.bo = {const_cast<char*>(value.data()), value.size()};  // copied by the call
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &boxed);
    if (status == PMIX_SUCCESS) {
      status = PMIx_Commit();
    }
    check(status == PMIX_SUCCESS, "[world] PMIx_Put `{}`: {}", key, PMIx_Error_string(status));
  }

  // A key's owner is unknown, so each process is queried for the key's current value: the only form
  // that all PMIx servers support (Slurm's has no PMIx_Lookup).
  std::optional<std::string> get(const std::string& key) override {
    check_pmix();
    for (int64_t rank = 0; rank < size_; ++rank) {
      pmix_proc_t owner;
      PMIX_PROC_LOAD(&owner, pmix_.nspace, static_cast<pmix_rank_t>(rank));
      pmix_info_t now;
      bool yes = true;
      PMIX_INFO_LOAD(&now, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
      pmix_value_t* found = nullptr;
      if (PMIx_Get(&owner, key.c_str(), &now, 1, &found) == PMIX_SUCCESS) {
        std::string value(found->data.bo.bytes, found->data.bo.size);
        PMIX_VALUE_RELEASE(found);
        return value;
      }
    }
    return std::nullopt;
  }

 private:
  /// Starts the requests of a transfer; if one fails, those that have started are kept.
  template <typename Begin>
  void for_each_part(size_t bytes, Transfer& transfer, const Begin& begin) {
    size_t offset = 0;
    try {
      do {
        const size_t count = std::min(bytes - offset, Transfer::kPart);
        MPI_Request request = MPI_REQUEST_NULL;
        begin(offset, static_cast<int>(count), &request);
        transfer.requests.push_back(request);
        offset += count;
      } while (offset < bytes);
    } catch (const Error&) {
      abandoned_->keep(std::move(transfer));
      throw;
    }
  }
  MPI_Comm comm_of(int channel) {
    const std::lock_guard lock(mutex_);
    return channels_.at(static_cast<size_t>(channel));
  }
  void check_pmix() const {
    check(has_pmix_, "[world] the launcher serves no PMIx, over which plugins exchange keys");
  }

  int64_t rank_ = 0;
  int64_t size_ = 1;
  std::string name_;
  bool has_pmix_ = false;
  pmix_proc_t pmix_{};
  std::mutex mutex_;  // of `channels_`
  std::vector<MPI_Comm> channels_;
  std::shared_ptr<Abandoned> abandoned_ = std::make_shared<Abandoned>();
};

}  // namespace
}  // namespace kinema::world

// NOLINTNEXTLINE(readability-identifier-naming): looked up by this name
extern "C" kinema::world::Engine* kinema_world_engine(std::string* error) {
  try {
    return new kinema::world::MpiEngine();
  } catch (const kinema::Error& failure) {
    *error = failure.what();
    return nullptr;
  }
}
