// Memory of the CPU device: pages from the system or the options' allocator, zeroed. In opaque mode
// a second mapping of the same length without access rights gives the addresses.
#include <stdalign.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "device/backends/cpu/cpu.h"

// The queue whose work this thread runs: translation is valid only then.
static _Thread_local shoal_cpu_queue_t *working_for;

shoal_cpu_queue_t *shoal_cpu_enter(shoal_cpu_queue_t *queue) {
  shoal_cpu_queue_t *before = working_for;
  working_for = queue;
  return before;
}

static bool works_for(const shoal_cpu_device_t *device) {
  return working_for && working_for->device == device;
}

static void *map(size_t bytes, int protection, int flags) {
  void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(shoal_device_t *device, shoal_cpu_allocation_t *allocation) {
  const shoal_allocator_t *pages = &((shoal_cpu_device_t *)device)->pages;
  if (allocation->real && pages->free) {
    pages->free(pages->self, allocation->real);
  } else if (allocation->real) {
    munmap(allocation->real, allocation->mapped);
  }
  if (allocation->address && allocation->address != (shoal_address_t)(uintptr_t)allocation->real) {
    munmap((void *)(uintptr_t)allocation->address, allocation->mapped);
  }
  device->allocator.free(device->allocator.self, allocation);
}

shoal_status_t shoal_cpu_alloc(shoal_device_t *base, int64_t bytes, shoal_address_t *out_address) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if ((uint64_t)bytes > SIZE_MAX / 2) return SHOAL_OOM();
  size_t mapped = ((size_t)(bytes ? bytes : 1) + page - 1) / page * page;
  shoal_cpu_allocation_t *allocation =
      base->allocator.alloc(base->allocator.self, sizeof *allocation);
  if (!allocation) return SHOAL_OOM();
  *allocation = (shoal_cpu_allocation_t){.bytes = bytes, .mapped = mapped};
  allocation->real = device->pages.alloc ? device->pages.alloc(device->pages.self, mapped)
                                         : map(mapped, PROT_READ | PROT_WRITE, 0);
  allocation->address = (uintptr_t)allocation->real;
  if (device->opaque) allocation->address = (uintptr_t)map(mapped, PROT_NONE, MAP_NORESERVE);
  if (!allocation->real || !allocation->address) {
    unmap(base, allocation);
    return SHOAL_ERROR(OUT_OF_MEMORY, "device '%s' has no %lld bytes", base->ops->kind,
                       (long long)bytes);
  }
  shoal_mutex_lock(&device->lock);
  allocation->next = device->allocations;
  device->allocations = allocation;
  shoal_mutex_unlock(&device->lock);
  *out_address = allocation->address;
  return NULL;
}

void shoal_cpu_release(shoal_device_t *base, shoal_address_t address) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  shoal_mutex_lock(&device->lock);
  shoal_cpu_allocation_t **at = &device->allocations;
  while (*at && (*at)->address != address) at = &(*at)->next;
  shoal_cpu_allocation_t *found = *at;
  if (found) *at = found->next;
  atomic_fetch_add(&device->releases, 1);
  shoal_mutex_unlock(&device->lock);
  if (found) unmap(base, found);
}

static bool has(const shoal_cpu_allocation_t *allocation, shoal_address_t address, int64_t bytes) {
  return address >= allocation->address &&
         address - allocation->address <= (uint64_t)allocation->bytes &&
         bytes <= allocation->bytes - (int64_t)(address - allocation->address);
}

// The allocation that has [address, address + bytes), or NULL. A queue's work mostly asks for the
// one that it asked for before: that needs no lock.
static shoal_cpu_allocation_t *find(shoal_cpu_device_t *device, shoal_address_t address,
                                    int64_t bytes) {
  shoal_cpu_queue_t *queue = works_for(device) ? working_for : NULL;
  if (queue && queue->found && queue->found_releases == atomic_load(&device->releases) &&
      has(queue->found, address, bytes)) {
    return queue->found;
  }
  shoal_mutex_lock(&device->lock);
  shoal_cpu_allocation_t *found = device->allocations;
  while (found && !has(found, address, bytes)) found = found->next;
  if (queue) {
    queue->found = found;
    queue->found_releases = atomic_load(&device->releases);
  }
  shoal_mutex_unlock(&device->lock);
  return found;
}

int64_t shoal_cpu_touched(shoal_device_t *base, shoal_address_t address) {
  shoal_cpu_allocation_t *found = find((shoal_cpu_device_t *)base, address, 0);
  return found && found->address == address ? atomic_load(&found->touched) : -1;
}

shoal_status_t shoal_cpu_find(shoal_cpu_device_t *device, shoal_address_t address, int64_t bytes,
                              const char *what, shoal_cpu_place_t *out_place) {
  static alignas(64) uint8_t nothing[64];  // a valid pointer for zero bytes; never read or written
  *out_place = (shoal_cpu_place_t){.data = nothing};
  if (bytes == 0) return NULL;
  shoal_cpu_allocation_t *found = bytes > 0 ? find(device, address, bytes) : NULL;
  if (!found) {
    return SHOAL_ERROR(INTERNAL, "%s: %lld bytes at 0x%llx do not lie inside one allocation", what,
                       (long long)bytes, (unsigned long long)address);
  }
  const int64_t offset = (int64_t)(address - found->address);
  *out_place = (shoal_cpu_place_t){found->real + offset, found, offset + bytes};
  return NULL;
}

void shoal_cpu_mark(const shoal_cpu_place_t *place) {
  if (!place->allocation) return;
  _Atomic int64_t *touched = &place->allocation->touched;
  int64_t before = atomic_load_explicit(touched, memory_order_relaxed);
  while (before < place->end && !atomic_compare_exchange_weak(touched, &before, place->end)) {
  }
}

shoal_status_t shoal_cpu_resolve(shoal_cpu_device_t *device, shoal_address_t address, int64_t bytes,
                                 const char *what, void **out_data) {
  if (bytes != 0 && device->opaque && !works_for(device)) {
    return SHOAL_ERROR(INTERNAL, "%s: device memory is only readable inside queue work", what);
  }
  shoal_cpu_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_cpu_find(device, address, bytes, what, &place));
  shoal_cpu_mark(&place);
  *out_data = place.data;
  return NULL;
}

void *shoal_cpu_view(shoal_device_t *base, shoal_address_t address, int64_t bytes) {
  void *data = NULL;
  shoal_status_t status =
      shoal_cpu_resolve((shoal_cpu_device_t *)base, address, bytes, "view", &data);
  shoal_status_free(status);
  return status ? NULL : data;
}
