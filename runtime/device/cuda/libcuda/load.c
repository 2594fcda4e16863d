//go:build cuda && linux && cgo

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "load.h"

#define HIDDEN __attribute__((visibility("hidden")))

// Before minfer_load every call says "not initialized" (3), after it those that the driver lacks say "not found" (500).
static int not_initialized(void) { return 3; }
static int not_found(void) { return 500; }

#define SYMBOL(name) HIDDEN void* minfer_slot_##name = (void*)not_initialized;
#include "symbols.h"
#undef SYMBOL

static const struct {
  const char* name;
  void** slot;
} table[] = {
#define SYMBOL(name) {#name, &minfer_slot_##name},
#include "symbols.h"
#undef SYMBOL
};

// gorgonia.org/cu calls cuInit when the program starts, and ends the program if that fails. So cuInit does nothing here, and
// minfer_load calls the driver's own when a GPU is wanted.
HIDDEN int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}

int minfer_load(char* reason, int reason_bytes) {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    const char* why = dlerror();
    snprintf(reason, (size_t)reason_bytes, "%s", why ? why : "libcuda.so.1 cannot be opened");
    return -1;
  }
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    void* call = dlsym(lib, table[i].name);
    *table[i].slot = call ? call : (void*)not_found;
  }
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
  return init ? init(0) : 500;
}
