//go:build unix

package main

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// TestSignals: an interrupt ends the program within a token, what came so far is whole characters, and the exit code says
// which signal it was.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
		args   []string
		said   string
	}{
		{"generation", syscall.SIGINT, exitInterrupted, []string{"-p", "Tell me a story.", "--ignore-eos", "--precision", "f32", "-t", "1"}, "stop: interrupted"},
		{"generation, terminated", syscall.SIGTERM, exitTerminated, []string{"-p", "Tell me a story.", "--ignore-eos", "--precision", "f32", "-t", "1"}, "stop: interrupted"},
		{"prompt", syscall.SIGINT, exitInterrupted, []string{"bench", "-p", "1000", "-n", "0", "-r", "1000"}, "stopped: interrupt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := program(t, c.args...)
			var stderr bytes.Buffer
			p.Stderr = &stderr
			stdout, err := p.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 1)
			if c.args[0] == "bench" {
				time.Sleep(time.Second)
				first = nil
			} else if _, err := io.ReadFull(stdout, first); err != nil {
				t.Fatal(err)
			}
			sent := time.Now()
			if err := p.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(stdout)
			p.Wait()
			if took := time.Since(sent); took > 2*time.Second {
				t.Errorf("it took %v to end", took)
			}
			if code := p.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !utf8.Valid(append(first, rest...)) {
				t.Errorf("half a character: %q", rest)
			}
			if text := stderr.String(); !strings.Contains(text, c.said) || strings.Contains(text, "goroutine") || strings.Contains(text, "context canceled") {
				t.Errorf("stderr: %s", text)
			}
		})
	}
}
