// MNIST and CIFAR. The first byte says how many bytes are the labels of MNIST; the others are its
// images, and all of them a file of CIFAR.
// mutations: 600
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const size_t labels = size > 0 && (size_t)data[0] + 1 <= size ? data[0] : 0;
  char first[64], second[64], all[64], both[160];
  const int of_labels = fuzz_file(data + (size > 0), labels, first);
  const size_t start = size > 0 ? 1 + labels : 0;
  const int of_images = fuzz_file(data + start, size - start, second);
  const int of_all = fuzz_file(data, size, all);
  snprintf(both, sizeof both, "%s,%s", second, first);
  fuzz_dataset("mnist", both);
  fuzz_dataset("cifar10", all);
  fuzz_dataset("cifar100", all);
  close(of_labels);
  close(of_images);
  close(of_all);
  return 0;
}
