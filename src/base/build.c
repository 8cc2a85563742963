// See build.h.
#include "base/build.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "shoal/base.h"

static size_t padded(size_t size) {
  return (size + 3) & ~(size_t)3;
}

// Hashes the build id among the notes at `at`, if there is one.
static uint64_t hash_notes(const char *at, size_t size) {
  for (size_t used = 0; used + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    memcpy(&note, at + used, sizeof note);
    const char *name = at + used + sizeof note, *id = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0)
      return shoal_hash_bytes(SHOAL_HASH_START, id, note.n_descsz);
    used += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
  }
  return 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *self) {
  (void)size;
  uint64_t *hash = self, found = 0;
  const uintptr_t here = (uintptr_t)&shoal_build_hash;
  bool mine = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD) mine |= here >= start && here - start < part->p_memsz;
    if (part->p_type == PT_NOTE && !found) found = hash_notes((const char *)start, part->p_memsz);
  }
  if (mine) *hash = found;
  return mine;
}

uint64_t shoal_build_hash(void) {
  uint64_t hash = 0;
  dl_iterate_phdr(visit, &hash);
  return hash;
}

const char *shoal_version(void) {
  return SHOAL_VERSION;  // of the build description
}
