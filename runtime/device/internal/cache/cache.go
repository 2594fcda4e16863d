// Package cache keeps what was compiled on this machine: files named by the digest of all that they depend on. A file
// appears whole or not at all, and two processes never make the same one at once.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// UnusedDays is how long something may lie in the cache without being used.
const UnusedDays = 60

// Cache is one folder of compiled files.
type Cache struct{ dir string }

// Open makes the folder for a kind of files, "emu": dir if it is not empty, else $MINFER_CACHE/kind, else minfer/kind in
// the user's cache folder. What has not been used for two months is removed.
func Open(kind, dir string) (*Cache, error) {
	if dir == "" {
		if d := os.Getenv("MINFER_CACHE"); d != "" {
			dir = filepath.Join(d, kind)
		} else if d, err := os.UserCacheDir(); err == nil {
			dir = filepath.Join(d, "minfer", kind)
		} else {
			return nil, fmt.Errorf("no folder for compiled kernels: %w; set MINFER_CACHE", err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("no folder for compiled kernels: %w; set MINFER_CACHE", err)
	}
	c := &Cache{dir}
	c.prune()
	return c, nil
}

// Key is a digest of parts, to name a file by; no two lists of parts share one.
func Key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n%s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:40]
}

// File returns the path of the file with this name. If it is not there, make is called in an empty folder and told to
// leave the file there under the name that it is given; meanwhile others who want the file wait, as long as ctx allows.
func (c *Cache) File(ctx context.Context, name string, make func(dir, result string) error) (string, error) {
	path := filepath.Join(c.dir, name)
	there := func() bool {
		if _, err := os.Stat(path); err != nil {
			return false
		}
		now := time.Now()
		os.Chtimes(path, now, now) // used today: prune leaves it
		return true
	}
	if there() {
		return path, nil
	}
	digest := sha256.Sum256([]byte(name))
	unlock, err := lockFile(ctx, filepath.Join(c.dir, fmt.Sprintf("lock-%02x", digest[0]))) // 256 locks for all: the folder stays tidy
	if err != nil {
		return "", err
	}
	defer unlock()
	if there() {
		return path, nil
	}
	dir, err := os.MkdirTemp(c.dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := make(dir, "result"); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(dir, "result"), path); err != nil {
		return "", err
	}
	return path, nil
}

// Drop removes a file that turned out to be damaged, so that it is made anew.
func (c *Cache) Drop(path string) {
	if filepath.Dir(path) == c.dir {
		os.Remove(path)
	}
}

// Write writes files, by slash-separated path, into a folder; a path that leads outside is refused.
func Write(dir string, files map[string]string) error {
	for name, text := range files {
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("file name %q leads outside", name)
		}
		target := filepath.Join(dir, local)
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// prune removes what has not been used for long, and folders that a killed build left. It is never an error.
func (c *Cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		age := time.Since(info.ModTime())
		if e.IsDir() && strings.HasPrefix(e.Name(), "build-") && age > 24*time.Hour || age > UnusedDays*24*time.Hour {
			os.RemoveAll(filepath.Join(c.dir, e.Name()))
		}
	}
}
