// libarrow and libparquet link, have the version of their headers, and do not replace OpenSSL.
#include <arrow/config.h>
#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <parquet/properties.h>

#include <string>

namespace kinema {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The file that contains a function's code.
template <typename Function>
std::string library_of(Function* function) {
  Dl_info info = {};
  return dladdr(reinterpret_cast<void*>(function), &info) != 0 ? info.dli_fname : "";
}

TEST(Arrow, IsTheReleaseOfItsHeaders) {
  EXPECT_EQ(arrow::GetBuildInfo().version_string, ARROW_VERSION_STRING);
}

TEST(Arrow, HasClientsForBothStores) {
  EXPECT_THAT(library_of(&arrow::fs::GcsFileSystem::Make), HasSubstr("libarrow.so"));
  EXPECT_THAT(library_of(&arrow::fs::EnsureS3Initialized), HasSubstr("libarrow_s3.so"));
}

// libparquet exports its own OpenSSL. If it came first, libcurl would call it.
TEST(Parquet, DoesNotReplaceTheSystemsOpenssl) {
  ASSERT_NE(parquet::default_writer_properties(), nullptr);

  EXPECT_THAT(library_of(&EVP_sha256), HasSubstr("libcrypto"));
  void* first = dlsym(RTLD_DEFAULT, "EVP_sha256");
  Dl_info info = {};
  ASSERT_NE(dladdr(first, &info), 0);
  EXPECT_THAT(info.dli_fname, Not(HasSubstr("libparquet")));
}

}  // namespace
}  // namespace kinema
