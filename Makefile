# make check is what a change must pass; it needs Go alone. See also .ci/run.

FUZZTIME ?= 1m
# MiB of golden models that check-gpu takes along.
GOLDEN_MIB ?= 1000

.PHONY: check generated fmt vet test cross arm64 generate regenerate golden fuzz bench kernels check-kernels gpu check-gpu

check: generated fmt vet test cross

# generated/ is what the specs make of it.
generated:
	go run ./cmd/minfer-gen check

fmt:
	@files=$$(gofmt -l .); test -z "$$files" || { echo "not gofmt-clean:"; echo "$$files"; exit 1; }

vet:
	go vet ./...

test:
	$(shell grep -m1 "^go test " README.md)

# Systems that are not this one: they build, and their tests compile.
cross:
	GOOS=windows GOARCH=amd64 go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=linux GOARCH=arm64 go vet ./...

# The tests of the runtime that need neither a GPU nor its emulator, on another architecture: there is no assembly for it, portable
# kernels run.
# Needs qemu-user (Debian: apt-get install qemu-user-static).
# ARM64_SKIP drops more of them: CI leaves out what takes minutes under emulation.
QEMU_ARM64 ?= qemu-aarch64-static
arm64:
	GOARCH=arm64 go test -exec $(QEMU_ARM64) -timeout 60m \
		$$(go list ./runtime/... ./generated/... | grep -v -e /device/cuda -e /device/emu -e /device/gpu -e /conform -e /demo/ $(ARM64_SKIP))

generate:
	go generate ./...

# Deleting generated/ and generating brings it back, byte for byte.
regenerate:
	rm -rf generated
	go generate ./...
	git diff --exit-code --stat -- generated

# Models with llama.cpp's logits, for the tests that compare with them. Needs cc, npm and the reference data beside this folder.
golden:
	../shared/oracle/make.sh .golden

# Every fuzz target for FUZZTIME.
fuzz:
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for f in $$(grep -h '^func Fuzz' "$$dir"/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "$$dir $$f"; \
			go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; \
		done; \
	done

bench:
	go run ./cmd/minfer-run bench
	go test -run '^$$' -bench . ./runtime/... ./generated/...

# What the repository commits of the compiled kernels: PTX, and the table of registers and spills. Needs nvcc 11.8 (docs/kernels.md).
kernels:
	go run ./cmd/minfer-ptx

check-kernels:
	.ci/nvcc

# minfer-run with GPUs. Needs a CUDA toolkit's headers; CUDA_HOME names it.
gpu:
	env=$$(runtime/device/cuda/env.sh) && eval "$$env" && go build -tags cuda -o bin/minfer-run ./cmd/minfer-run

# All that needs a GPU, from the archive that a machine without Go gets: every test, then some of them under compute-sanitizer. What is left out,
# and why, is listed at the end; where there is no GPU it fails, for nothing was checked.
check-gpu:
	env=$$(runtime/device/cuda/env.sh) && eval "$$env" && go vet -tags cuda ./...
	.ci/gpu-pack bin/gpu.tar.gz $(GOLDEN_MIB)
	.ci/gpu-check bin/gpu.tar.gz all sanitize
