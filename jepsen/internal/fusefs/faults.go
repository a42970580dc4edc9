package fusefs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// HangSyncs makes every flush wait until ResumeSyncs.
func (d *Disk) HangSyncs() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung == nil {
		d.hung = make(chan struct{})
	}
}

// ResumeSyncs lets waiting flushes go on.
func (d *Disk) ResumeSyncs() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung != nil {
		close(d.hung)
		d.hung = nil
	}
}

// AbandonSyncs ends waiting flushes with an error, persisting nothing. A
// process that was killed in a flush cannot go away before that.
func (d *Disk) AbandonSyncs() {
	d.mu.Lock()
	d.losses++ // what waits notices that it belongs to the past
	d.mu.Unlock()
	d.ResumeSyncs()
}

// BreakSyncs makes every flush fail, or work again.
func (d *Disk) BreakSyncs(broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

// LeaveFree makes the disk have so many bytes left. A negative number undoes
// it.
func (d *Disk) LeaveFree(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bytes < 0 {
		bytes = d.opts.CapacityBytes - d.used
	}
	d.free = bytes
}

// Syncs counts the flushes that were made.
func (d *Disk) Syncs() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Unsaved counts the pages and names that a power loss would forget.
func (d *Disk) Unsaved() (pages, names int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.root.walk("", func(_ string, n *inode) error {
		pages += len(n.dirty)
		return nil
	})
	return pages, len(d.pending)
}

// Files lists the regular files, by path.
func (d *Disk) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var files []string
	_ = d.root.walk("", func(p string, n *inode) error {
		if !n.dir {
			files = append(files, p)
		}
		return nil
	})
	return files
}

// ReadFile returns what the file holds.
func (d *Disk) ReadFile(p string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(p)
	if n == nil || n.dir {
		return nil, fmt.Errorf("read %s: %w", p, os.ErrNotExist)
	}
	content := make([]byte, n.size)
	n.read(content, 0)
	return content, nil
}

// WriteFile overwrites bytes of a file, durably, as a disk that rots does.
func (d *Disk) WriteFile(p string, data []byte, off int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(p)
	if n == nil || n.dir {
		return fmt.Errorf("write %s: %w", p, os.ErrNotExist)
	}
	if _, err := d.write(n, data, off); err != 0 {
		return fmt.Errorf("write %s: %w", p, err)
	}
	n.save()
	return nil
}

// Wipe removes everything, durably.
func (d *Disk) Wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.root.names)
	clear(d.root.savedNames)
	d.pending = nil
	d.used, d.free = 0, d.opts.CapacityBytes
}

// Export copies what is visible into an ordinary directory.
func (d *Disk) Export(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.walk("", func(p string, n *inode) error {
		to := filepath.Join(dir, p)
		if n.dir {
			return os.MkdirAll(to, 0o755)
		}
		content := make([]byte, n.size)
		n.read(content, 0)
		return os.WriteFile(to, content, 0o644)
	})
}

// find returns the inode at the path, or nil.
func (d *Disk) find(p string) *inode {
	n := d.root
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if n == nil || !n.dir {
			return nil
		}
		n = n.names[name]
	}
	return n
}

// walk visits the live tree, directories before what is in them.
func (n *inode) walk(p string, visit func(string, *inode) error) error {
	if err := visit(p, n); err != nil {
		return err
	}
	for _, name := range sortedKeys(n.names) {
		if err := n.names[name].walk(path.Join(p, name), visit); err != nil {
			return err
		}
	}
	return nil
}
