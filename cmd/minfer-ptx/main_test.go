package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/device/cuda/ptx"
	"github.com/minfer/minfer/runtime/device/cuda/resource"
)

func results() (*ptx.Archive, *resource.Table) {
	text := ".version 7.8\n.target sm_80\n.visible .entry k()\n.maxntid 256, 1, 1\n{\nret;\n}\n"
	return &ptx.Archive{Release: "11.8.89", Version: ptx.Version{Major: 7, Minor: 8}, Target: 80, Units: []ptx.Unit{{Name: "k.cu", Source: "1234", Text: text}}},
		&resource.Table{Release: "11.8.89", Flags: "-O3", Rows: []resource.Row{{Kernel: "k", Arch: 80, Threads: 256, Registers: 32, BlocksPerSM: 8, LimitedBy: "threads"}}}
}

// root is a repository with empty files to be written.
func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{filepath.Join(ptxFolder, ptx.ArchiveFile), filepath.Join(ptxFolder, ptx.ManifestFile), filepath.Join(resourceFolder, resource.File)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWriteThenCheck(t *testing.T) {
	dir := root(t)
	archive, table := results()
	if err := write(dir, archive, table); err != nil {
		t.Fatal(err)
	}
	committed, err := readTable(filepath.Join(dir, resourceFolder, resource.File))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	check := func(same bool) error {
		out.Reset()
		return report(table, committed, archive, same, dir, table.Faults(committed), &out)
	}
	if err := check(true); err != nil {
		t.Errorf("what was just written: %v", err)
	}
	// An archive that holds what it should is not written again, whatever packed it.
	before, err := os.Stat(filepath.Join(dir, ptxFolder, ptx.ArchiveFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(dir, archive, table); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(filepath.Join(dir, ptxFolder, ptx.ArchiveFile)); err != nil || !os.SameFile(before, after) {
		t.Errorf("the archive was written again: %v", err)
	}

	expect := func(what string, err error, says ...string) {
		t.Helper()
		var no refusal
		if !errors.As(err, &no) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", what, err, s)
			}
		}
	}
	table.Rows[0].Registers = 40
	expect("more registers", check(true), "-k\tsm_80\t256\t32", "+k\tsm_80\t256\t40", ptx.Remake)
	if err := check(false); err != nil || !strings.Contains(out.String(), "only spills, stack and fit are compared") {
		t.Errorf("more registers by another compiler: %v, %q", err, out.String())
	}
	table.Rows[0].SpillStores = 8
	expect("a spill by another compiler", check(false), "kernel k on sm_80 spills 8 bytes")
	table.Rows[0].Registers, table.Rows[0].SpillStores = 32, 0
	archive.Units[0].Source = "5678"
	expect("a changed source", check(true), "k.cu", ptx.Remake)
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, exitOK, "usage: minfer-ptx"},
		{[]string{"--no-such-flag"}, exitFailed, "no-such-flag"},
		{[]string{"word"}, exitFailed, "usage: minfer-ptx"},
		{[]string{"--jobs", "0"}, exitFailed, "usage: minfer-ptx"},
	} {
		var out, err bytes.Buffer
		if code := run(t.Context(), c.args, &out, &err); code != c.code || !strings.Contains(err.String(), c.says) {
			t.Errorf("%v: code %d, %q", c.args, code, err.String())
		}
	}
	t.Setenv("MINFER_NVCC", "0")
	var out, err bytes.Buffer
	if code := run(t.Context(), []string{"--check"}, &out, &err); code != exitFailed || !strings.Contains(err.String(), "MINFER_NVCC=0") {
		t.Errorf("without a compiler: code %d, %q", code, err.String())
	}
}
