package emu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// The host and the child speak in turns over two pipes, little-endian. Request: u32 op, u32 0, u64 payload bytes, payload. Reply: u32 status,
// u32 fatal, u64 payload bytes, payload; with a status other than 0 the payload is text, and after a fatal one the child is gone.
// The child's end is host/serve.cpp.

const protocolVersion = 1

type op uint32

const (
	opLoad op = iota + 1
	opAlloc
	opFree
	opUpload
	opDownload
	opFill
	opLaunch
	opSymbol
	opWitnessStart
	opWitnessStop
)

// statuses are the kinds of failure in the order of Status in host/machine.hpp.
var statuses = []error{
	nil, nil, gpu.ErrUnknownKernel, gpu.ErrUnknownSymbol, gpu.ErrLimit, gpu.ErrArgument, gpu.ErrMemory, gpu.ErrFault, gpu.ErrSync, gpu.ErrTimeout,
}

type writer struct{ data []byte }

func (w *writer) u32(v uint32) { w.data = binary.LittleEndian.AppendUint32(w.data, v) }
func (w *writer) u64(v uint64) { w.data = binary.LittleEndian.AppendUint64(w.data, v) }
func (w *writer) text(s string) {
	w.u32(uint32(len(s)))
	w.data = append(w.data, s...)
}

type reader struct {
	data []byte
	err  error
}

func (r *reader) u64() uint64 {
	if len(r.data) < 8 {
		r.data, r.err = nil, errors.New("emulator: a reply is too short")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.data)
	r.data = r.data[8:]
	return v
}

// child is the running emulator program.
type child struct {
	ctx   context.Context
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	tail  *tail
	ended chan struct{} // closed when the process has been waited for

	closed atomic.Bool
	mutex  sync.Mutex
	lost   error          // why no further call can succeed
	space  gpu.CoverSpace // of the running witness
}

type hello struct {
	threads int
	memory  int64
}

func startChild(ctx context.Context, program string, threads int, memory int64, mode string, sharedLimit int) (*child, hello, error) {
	cmd := exec.CommandContext(ctx, program, strconv.Itoa(threads), strconv.FormatInt(memory, 10), mode, strconv.Itoa(sharedLimit))
	c := &child{ctx: ctx, cmd: cmd, tail: &tail{}, ended: make(chan struct{})}
	cmd.Stderr = c.tail
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, hello{}, err
	}
	out, pipe, err := os.Pipe() // not StdoutPipe, which Wait closes while a last reply may still be unread
	if err != nil {
		return nil, hello{}, err
	}
	cmd.Stdout = pipe
	cmd.WaitDelay = time.Second
	c.in, c.out = in, out
	err = cmd.Start()
	pipe.Close() // the child has its own
	if err != nil {
		out.Close()
		return nil, hello{}, err
	}
	go func() {
		cmd.Wait()
		close(c.ended)
	}()
	reply, err := c.reply(nil)
	if err != nil {
		c.close()
		return nil, hello{}, err
	}
	if len(reply) != 16 || binary.LittleEndian.Uint32(reply) != protocolVersion {
		c.close()
		return nil, hello{}, errors.New("the program speaks another protocol")
	}
	return c, hello{int(binary.LittleEndian.Uint32(reply[4:])), int64(binary.LittleEndian.Uint64(reply[8:]))}, nil
}

// call makes a request and returns the reply's payload.
func (c *child) call(o op, payload ...[]byte) ([]byte, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.request(o, payload); err != nil {
		return nil, err
	}
	return c.reply(nil)
}

// callInto makes a request whose reply fills dst.
func (c *child) callInto(dst []byte, o op, payload ...[]byte) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.request(o, payload); err != nil {
		return err
	}
	_, err := c.reply(dst)
	return err
}

func (c *child) request(o op, payload [][]byte) error {
	if c.lost != nil {
		return c.lost
	}
	var w writer
	w.u32(uint32(o))
	w.u32(0)
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	w.u64(uint64(n))
	for _, p := range append([][]byte{w.data}, payload...) {
		if _, err := c.in.Write(p); err != nil {
			return c.lose()
		}
	}
	return nil
}

// reply reads one reply; a good one's payload goes to dst if that is not nil.
func (c *child) reply(dst []byte) ([]byte, error) {
	var header [16]byte
	if _, err := io.ReadFull(c.out, header[:]); err != nil {
		return nil, c.lose()
	}
	status, fatal, n := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint32(header[4:]) != 0, binary.LittleEndian.Uint64(header[8:])
	if status != 0 || dst == nil {
		dst = make([]byte, n)
	} else if uint64(len(dst)) != n {
		panic(fmt.Sprintf("BUG: the emulator sent %d bytes, %d were asked for", n, len(dst)))
	}
	if _, err := io.ReadFull(c.out, dst); err != nil {
		return nil, c.lose()
	}
	if status == 0 {
		return dst, nil
	}
	err := errors.New(string(dst))
	if int(status) < len(statuses) && statuses[status] != nil {
		err = fmt.Errorf("%w: %s", statuses[status], dst)
	}
	if fatal {
		c.lost = fmt.Errorf("%w: an earlier call failed: %w", gpu.ErrLost, err)
		c.end()
	}
	return nil, err
}

// lose notes that the child has died, or is not to be understood any more, and says why.
func (c *child) lose() error {
	c.end()
	switch {
	case c.closed.Load():
		c.lost = errClosed
	case c.ctx.Err() != nil:
		c.lost = fmt.Errorf("%w: %w", gpu.ErrLost, context.Cause(c.ctx))
	default:
		text := "the emulator's process ended: " + c.cmd.ProcessState.String()
		if t := c.tail.String(); t != "" {
			text += ": " + t
		}
		c.lost = fmt.Errorf("%w: %s", gpu.ErrLost, text)
	}
	return c.lost
}

// end makes sure that no process is left.
func (c *child) end() {
	c.in.Close() // the child ends at the end of its input
	c.cmd.Process.Kill()
	<-c.ended
	c.out.Close()
}

var errClosed = fmt.Errorf("%w: the driver was closed", gpu.ErrLost)

func (c *child) close() {
	// A call that is waiting for its reply holds the lock: killing the process first ends it.
	c.closed.Store(true)
	c.cmd.Process.Kill()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.lost == nil {
		c.end()
	}
	c.lost = errClosed
}

func (c *child) lostError() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.lost
}

// tail keeps the end of what the child says on its standard error.
type tail struct {
	mutex sync.Mutex
	data  []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > tailBytes {
		t.data = bytes.Clone(t.data[len(t.data)-tailBytes:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return strings.TrimSpace(string(t.data))
}
