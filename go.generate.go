// Package minfer is the root of the repository; it holds the one line that generates code. The data flow:
//
//	specs/            YAML: how a weight format packs its bits; the only hand-written facts about it
//	  gen/spec        parse: strict, every error with its position
//	  gen/load        resolve: names bound, defaults filled in, sorted
//	  gen/model       the facts, with gen/layout's arithmetic of digits and strides
//	  gen/proof       prove: every code bit read once, every index in range; stop on any gap
//	  gen/emit/...    emit: Go constants, kernels, JSON Schema
//	  gen/output      write what changed, whole; remove what is generated no more
//	generated/        committed, never edited by hand; deleting it and generating brings it back
//	runtime/, cmd/    read generated/, never gen/
package minfer

//go:generate go run ./cmd/minfer-gen generate
