//go:build cuda && linux && cgo

// Each call jumps to where load.c found it.
#define SYMBOL(name)          \
  .globl name;                \
  .hidden name;               \
  .type name, %function;      \
  name:                       \
  adrp x16, minfer_slot_##name; \
  ldr x16, [x16, :lo12:minfer_slot_##name]; \
  br x16;                     \
  .size name, .-name;

	.text
#include "symbols.h"
	.section .note.GNU-stack,"",%progbits
