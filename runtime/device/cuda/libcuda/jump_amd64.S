//go:build cuda && linux && cgo

// Each call jumps to where load.c found it.
#define SYMBOL(name)          \
  .globl name;                \
  .hidden name;               \
  .type name, @function;      \
  name:                       \
  movq minfer_slot_##name(%rip), %r11; \
  jmp *%r11;                  \
  .size name, .-name;

	.text
#include "symbols.h"
	.section .note.GNU-stack,"",@progbits
