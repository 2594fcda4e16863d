package main

import (
	"slices"
	"strings"
)

// foreignFlag is a flag of llama.cpp's programs that means nothing here. Scripts and fingers have it, so it is neither
// taken in silence nor called unknown.
type foreignFlag struct {
	names string
	// values: 0 none; 1 one; -1 one of on, off, auto, 0, 1, if it follows.
	values int
	// why it has no effect, or why it is refused.
	why    string
	refuse bool
}

var foreignFlags = []foreignFlag{
	{"-ngl --gpu-layers --n-gpu-layers", 1, "--device computes all layers", false},
	{"-fa --flash-attn", -1, "attention never stores its scores, on every device", false},
	{"-ub --ubatch-size", 1, "-b is the number of prompt tokens computed at a time", false},
	{"--mmap", 0, "model files are always mapped", false},
	{"--no-mmap", 0, "model files are always mapped", false},
	{"--mlock", 0, "model files are mapped, not locked", false},
	{"-tb --threads-batch", 1, "-t threads compute prompts too", false},
	{"--warmup --no-warmup", 0, "nothing is computed before the prompt", false},
	{"-fit --fit", -1, "a model that does not fit is refused", false},
	{"-hf -hfr --hf-repo -hff --hf-file -mu --model-url -hft --hf-token", 1, "nothing is downloaded here: fetch the file and name it with -m", true},
	{"-cnv --conversation -i --interactive -mli --multiline-input", 0, "there is no interactive chat; -p asks once", true},
	{"--no-jinja", 0, "templates are always Jinja; --raw takes the prompt without one", true},
	{"--keep", 1, "a full context ends the answer; nothing is shifted out of it", true},
	{"--context-shift", 0, "a full context ends the answer; nothing is shifted out of it", true},
	{"--grammar --grammar-file -j --json-schema -jf --json-schema-file", 1, "output cannot be constrained", true},
	{"-md --model-draft --spec-type --spec-draft-n-max --draft-max --draft-min", 1, "there is no speculative decoding", true},
	{"--lora --control-vector", 1, "adapters are not applied", true},
	{"--override-kv", 1, "metadata is taken as the file has it", true},
	{"--dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n --mirostat --mirostat-lr --mirostat-ent --dynatemp-range", 1, "this sampler is not there; see --samplers in --help", true},
	{"--log-file", 1, "what is not the answer goes to stderr: 2> FILE", true},
	{"-sm --split-mode -ts --tensor-split -mg --main-gpu", 1, "a model runs on one device", true},
}

// foreign handles a flag that the verb does not have. skip is the number of values that it took.
func (a *app) foreign(f *flagSet, name, val string, has bool, rest []string) (skip int, err error) {
	if f.cmd.Name() != "run" && f.cmd.Name() != "bench" {
		return 0, f.unknown(name)
	}
	i := slices.IndexFunc(foreignFlags, func(x foreignFlag) bool { return slices.Contains(strings.Fields(x.names), name) })
	if i < 0 {
		return 0, f.unknown(name)
	}
	x := foreignFlags[i]
	if x.refuse {
		return 0, usagef("%s is not supported: %s", name, x.why)
	}
	switch {
	case has:
	case x.values == 1:
		if len(rest) == 0 {
			return 0, usagef("%s needs a value", name)
		}
		skip = 1
	case x.values == -1 && len(rest) > 0 && slices.Contains([]string{"on", "off", "auto", "0", "1"}, rest[0]):
		skip = 1
	}
	a.warn("%s has no effect: %s", name, x.why)
	return skip, nil
}
