// Which build of the library this is.
#ifndef SHOAL_BASE_BUILD_H_
#define SHOAL_BASE_BUILD_H_

#include <stdint.h>

// A hash of the build id that the linker gave the object this lies in; 0 where it gave none. What
// one build stored need not mean the same to another.
uint64_t shoal_build_hash(void);

#endif  // SHOAL_BASE_BUILD_H_
