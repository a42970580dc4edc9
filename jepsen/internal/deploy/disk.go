package deploy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
)

// mountDisk makes the disk the node's data directory.
func (n *process) mountDisk() error {
	m, err := n.disk.Mount(n.dataDir)
	if err != nil {
		return fmt.Errorf("disk of %s: %w", n.name, err)
	}
	n.mount = m
	return nil
}

// whileDown ends the node and does something to its data. The node stays
// down, and cannot be started meanwhile. Mounting again empties the kernel's
// caches.
func (n *process) whileDown(f func() error) error {
	n.upkeep.Lock()
	defer n.upkeep.Unlock()
	if err := n.kill(); err != nil {
		return err
	}
	return n.handle(f)
}

// handle is the second half of whileDown.
func (n *process) handle(f func() error) error {
	if n.mount == nil {
		return f()
	}
	if err := n.mount.Unmount(); err != nil {
		return fmt.Errorf("disk of %s: %w", n.name, err)
	}
	n.mount = nil
	return errors.Join(f(), n.mountDisk())
}

// HasDisks implements Disked.
func (p *Process) HasDisks() error {
	if !p.opts.Disks {
		return errors.New("the cluster was started without disks that can fail")
	}
	return nil
}

// PowerLoss implements Disked. All processes end before any of the disks
// forgets, so that no node acts on another's loss.
func (p *Process) PowerLoss(nodes []string, keep float64, d dice.Dice) error {
	nodes = slices.Sorted(slices.Values(nodes)) // one order for the locks
	var errs []error
	for _, name := range nodes {
		p.node(name).upkeep.Lock()
		defer p.node(name).upkeep.Unlock()
	}
	for _, name := range nodes {
		p.node(name).signalKill()
	}
	for _, name := range nodes {
		errs = append(errs, p.node(name).kill())
	}
	for _, name := range nodes {
		n := p.node(name)
		errs = append(errs, n.handle(func() error {
			n.disk.PowerLoss(keep, d)
			return nil
		}))
	}
	return errors.Join(errs...)
}

// HangSyncs implements Disked.
func (p *Process) HangSyncs(node string, hung bool) error {
	if hung {
		p.node(node).disk.HangSyncs()
	} else {
		p.node(node).disk.ResumeSyncs()
	}
	return nil
}

// BreakSyncs implements Disked.
func (p *Process) BreakSyncs(node string, broken bool) error {
	p.node(node).disk.BreakSyncs(broken)
	return nil
}

// LeaveFree implements Disked.
func (p *Process) LeaveFree(node string, bytes int64) error {
	p.node(node).disk.LeaveFree(bytes)
	return nil
}

// SetClock implements Clocked.
func (p *Process) SetClock(node string, offset time.Duration) error {
	n := p.node(node)
	next := n.clockFile + ".next"
	if err := os.WriteFile(next, []byte(strconv.FormatInt(offset.Milliseconds(), 10)+"\n"), 0o644); err != nil {
		return fmt.Errorf("clock of %s: %w", node, err)
	}
	if err := os.Rename(next, n.clockFile); err != nil {
		return fmt.Errorf("clock of %s: %w", node, err)
	}
	return nil
}

// Wipe implements Stored.
func (p *Process) Wipe(node string) error {
	n := p.node(node)
	return n.whileDown(n.wipe)
}

// wipe empties the data directory of a node that is down.
func (n *process) wipe() error {
	if n.disk != nil {
		n.disk.Wipe()
		return nil
	}
	if err := os.RemoveAll(n.dataDir); err != nil {
		return err
	}
	return os.MkdirAll(n.dataDir, 0o755)
}

// FlipBit implements Stored. Only bytes up to the last one that is not zero
// are touched: what a file has reserved and never written holds no data.
func (p *Process) FlipBit(node string, path *regexp.Regexp, d dice.Dice) (where string, err error) {
	n := p.node(node)
	err = n.whileDown(func() error {
		files, err := n.files()
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f string) bool { return !path.MatchString(f) })
		if len(files) == 0 {
			return ErrNoMatch
		}
		file := dice.Pick(d, files)
		content, err := n.readFile(file)
		if err != nil {
			return err
		}
		used := len(content)
		for used > 0 && content[used-1] == 0 {
			used--
		}
		if used == 0 {
			return ErrNoMatch
		}
		at, bit := d.IntN(used), d.IntN(8)
		where = fmt.Sprintf("%s byte %d of %d, bit %d", file, at, used, bit)
		return n.writeFile(file, []byte{content[at] ^ 1<<bit}, int64(at))
	})
	return where, err
}

// files lists the data directory's regular files in order.
func (n *process) files() ([]string, error) {
	if n.disk != nil {
		return n.disk.Files(), nil
	}
	var files []string
	err := fs.WalkDir(os.DirFS(n.dataDir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func (n *process) readFile(path string) ([]byte, error) {
	if n.disk != nil {
		return n.disk.ReadFile(path)
	}
	return os.ReadFile(filepath.Join(n.dataDir, path))
}

func (n *process) writeFile(path string, data []byte, off int64) error {
	if n.disk != nil {
		return n.disk.WriteFile(path, data, off)
	}
	f, err := os.OpenFile(filepath.Join(n.dataDir, path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, off)
	return errors.Join(err, f.Close())
}

// Move implements Movable.
func (p *Process) Move(node string) error {
	n := p.node(node)
	return n.whileDown(n.newAddresses)
}
