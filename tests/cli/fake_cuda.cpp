// A CUDA driver on a machine without a GPU, with the functions that `kinema doctor` calls.
extern "C" {
int cuInit(unsigned /*flags*/) {
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  return kNoDevice;
}
int cuDriverGetVersion(int* version) {
  *version = 13020;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return 0;
}
}
