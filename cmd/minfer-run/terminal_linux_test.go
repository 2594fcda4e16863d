package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: the program's side, and what it showed.
type terminal struct {
	program *os.File
	ours    *os.File
	shown   bytes.Buffer
	done    sync.WaitGroup
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	x := &terminal{program: program, ours: ours}
	x.done.Add(1)
	go func() {
		defer x.done.Done()
		io.Copy(&x.shown, ours) // ends with EIO when the program's side is closed
	}()
	return x
}

// end gives what was shown.
func (x *terminal) end() string {
	x.program.Close()
	x.done.Wait()
	return strings.ReplaceAll(x.shown.String(), "\r\n", "\n")
}

// onTerminal runs minfer-run with the files that are nil on a terminal, and gives what the terminal showed.
func onTerminal(t *testing.T, c *exec.Cmd) (shown string, code int) {
	t.Helper()
	x := newTerminal(t)
	if c.Stdin == nil {
		c.Stdin = x.program
	}
	if c.Stdout == nil {
		c.Stdout = x.program
	}
	if c.Stderr == nil {
		c.Stderr = x.program
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(30*time.Second, func() { c.Process.Kill() })
	defer timeout.Stop()
	c.Wait()
	return x.end(), c.ProcessState.ExitCode()
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestTerminal: on a terminal the notes are coloured and the answer has a line of its own; less the colour it is what
// goes to a pipe.
func TestTerminal(t *testing.T) {
	ask := []string{"-p", "What is the capital of France?", "--temp", "0"}
	shown, code := onTerminal(t, program(t, ask...))
	if code != 0 || !strings.Contains(shown, "\x1b[2m") {
		t.Errorf("exit %d, no colour in %q", code, shown)
	}
	plain := escape.ReplaceAllString(shown, "")
	if !strings.Contains(plain, "\nThe capital of France is Paris.\nload ") {
		t.Errorf("the answer has no line of its own in %q", plain)
	}
	var out bytes.Buffer
	c := program(t, ask...)
	c.Stdout = &out
	shown, _ = onTerminal(t, c)
	if out.String() != "The capital of France is Paris." || !strings.Contains(shown, "\x1b[2m") || strings.Contains(shown, "\n\n") {
		t.Errorf("answer %q, terminal %q", out.String(), shown)
	}
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		c := program(t, ask...)
		c.Env = append(c.Env, env)
		shown, _ = onTerminal(t, c)
		if strings.Contains(shown, "\x1b") || !strings.Contains(shown, "\nThe capital of France is Paris.\nload ") {
			t.Errorf("%s: %q", env, shown)
		}
	}
}

// TestTerminalWithoutPrompt: with nothing to ask and nobody to wait for, there is a hint, not a silent wait.
func TestTerminalWithoutPrompt(t *testing.T) {
	for _, args := range [][]string{{}, {"tokenize"}, {"dump", "-o", "x"}} {
		shown, code := onTerminal(t, program(t, args...))
		if code != exitUsage || !strings.Contains(shown, "give -p TEXT, -f FILE or pipe text") {
			t.Errorf("%q: exit %d: %q", args, code, shown)
		}
	}
}

// TestProgressBar: loading a large model shows a bar on a terminal that can draw one, and takes it away.
func TestProgressBar(t *testing.T) {
	x := newTerminal(t)
	p := newBar(x.program, "model.gguf", 1<<30)
	for i := range 6 {
		p.set(int64(i)<<27, 1<<30)
		time.Sleep(60 * time.Millisecond)
	}
	p.end()
	shown := x.end()
	if !strings.Contains(shown, "model.gguf") || !strings.Contains(shown, "1.0 GiB") {
		t.Errorf("no bar in %q", shown)
	}
	for _, c := range []struct {
		env   string
		bytes int64
		to    io.Writer
	}{{"TERM=dumb", 1 << 30, x.program}, {"TERM=xterm", largeBytes - 1, x.program}, {"TERM=xterm", 1 << 30, io.Discard}} {
		a := &app{stderr: c.to, env: []string{c.env}}
		if a.loadBar("model.gguf", c.bytes).bar != nil {
			t.Errorf("a bar for %+v", c)
		}
	}
}
