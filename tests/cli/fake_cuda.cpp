// The part of a driver that `kinema doctor` calls, as on a machine without a GPU.
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
