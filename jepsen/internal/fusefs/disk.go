package fusefs

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
)

const (
	pageBytes   = 4096
	sectorBytes = 512
)

// page is the content of one page of a file.
type page [pageBytes]byte

// zeroPage is shared by every page that was allocated and never written.
var zeroPage = &page{}

// Options say how a disk behaves.
type Options struct {
	Journal       bool  // any fsync makes all names safe
	CapacityBytes int64 // 0: one tebibyte
	Lying         bool  // flushes are acknowledged and nothing is made safe
}

// Disk is a file system with a volatile and a durable state.
type Disk struct {
	opts Options

	mu      sync.Mutex
	root    *inode
	lastIno uint64
	used    int64 // bytes of live pages
	free    int64 // bytes that may still be allocated
	pending []rename
	losses  int           // power losses so far
	hung    chan struct{} // closed when flushes go on again; nil while none hangs
	broken  bool          // flushes fail
	syncs   int64
}

// inode is a file or a directory. What has the prefix saved is durable.
type inode struct {
	ino      uint64
	dir      bool
	mode     uint32
	modified time.Time

	names, savedNames map[string]*inode // of a directory

	pages, savedPages map[int64]*page // of a file
	dirty             map[int64]bool  // pages that differ, or may
	size, savedSize   int64
}

// rename is a change of names that is not yet durable. It survives whole.
type rename []edit

// edit sets one name of one directory; no inode removes it.
type edit struct {
	in   *inode
	name string
	to   *inode
}

// NewDisk returns an empty disk.
func NewDisk(opts Options) *Disk {
	if opts.CapacityBytes == 0 {
		opts.CapacityBytes = 1 << 40
	}
	d := &Disk{opts: opts, free: opts.CapacityBytes}
	d.root = d.newInode(true, 0o755)
	return d
}

func (d *Disk) newInode(dir bool, mode uint32) *inode {
	d.lastIno++
	n := &inode{ino: d.lastIno, dir: dir, mode: mode, modified: time.Now()}
	if dir {
		n.names, n.savedNames = map[string]*inode{}, map[string]*inode{}
	} else {
		n.pages, n.savedPages, n.dirty = map[int64]*page{}, map[int64]*page{}, map[int64]bool{}
	}
	return n
}

// change makes edits visible and remembers them as not yet durable.
func (d *Disk) change(edits ...edit) {
	for _, e := range edits {
		e.apply(e.in.names)
		e.in.modified = time.Now()
	}
	d.pending = append(d.pending, edits)
}

func (e edit) apply(names map[string]*inode) {
	if e.to == nil {
		delete(names, e.name)
	} else {
		names[e.name] = e.to
	}
}

func (r rename) touches(dir *inode) bool {
	return slices.ContainsFunc(r, func(e edit) bool { return e.in == dir })
}

func (r rename) save() {
	for _, e := range r {
		e.apply(e.in.savedNames)
	}
}

// saveNames makes the directory's changes durable, or all of them where no
// directory is given.
func (d *Disk) saveNames(dir *inode) {
	d.pending = slices.DeleteFunc(d.pending, func(r rename) bool {
		if dir != nil && !r.touches(dir) {
			return false
		}
		r.save()
		return true
	})
}

// write puts data into the file. It stops where the disk is full.
func (d *Disk) write(n *inode, data []byte, off int64) (int, syscall.Errno) {
	done := 0
	for done < len(data) {
		at := off + int64(done)
		index, within := at/pageBytes, int(at%pageBytes)
		p, err := d.writable(n, index)
		if err != 0 {
			break
		}
		done += copy(p[within:], data[done:])
	}
	n.size = max(n.size, off+int64(done))
	n.modified = time.Now()
	if done == 0 && len(data) > 0 {
		return 0, syscall.ENOSPC
	}
	return done, 0
}

// writable returns a page that is the live state's own.
func (d *Disk) writable(n *inode, index int64) (*page, syscall.Errno) {
	p := n.pages[index]
	if p == nil {
		if d.free < pageBytes {
			return nil, syscall.ENOSPC
		}
		d.charge(1)
		p = zeroPage
	}
	if p == zeroPage || p == n.savedPages[index] {
		own := *p
		p = &own
		n.pages[index] = p
	}
	n.dirty[index] = true
	return p, 0
}

func (d *Disk) charge(pages int64) {
	d.used += pages * pageBytes
	d.free -= pages * pageBytes
}

// allocate reserves pages, which read as zeros.
func (d *Disk) allocate(n *inode, off, length int64, keepSize bool) syscall.Errno {
	for index := off / pageBytes; index*pageBytes < off+length; index++ {
		if n.pages[index] != nil {
			continue
		}
		if d.free < pageBytes {
			return syscall.ENOSPC
		}
		d.charge(1)
		n.pages[index] = zeroPage
		n.dirty[index] = true
	}
	if !keepSize {
		n.size = max(n.size, off+length)
	}
	return 0
}

// truncate sets the size and drops what lies beyond.
func (d *Disk) truncate(n *inode, size int64) syscall.Errno {
	if size < n.size {
		for index := range n.pages {
			if index*pageBytes >= size {
				delete(n.pages, index)
				n.dirty[index] = true
				d.charge(-1)
			}
		}
		if within := size % pageBytes; within > 0 && n.pages[size/pageBytes] != nil {
			p, err := d.writable(n, size/pageBytes)
			if err != 0 {
				return err
			}
			clear(p[within:])
		}
	}
	n.size = size
	n.modified = time.Now()
	return 0
}

// read copies what the file holds; holes read as zeros.
func (n *inode) read(dest []byte, off int64) int {
	if off >= n.size {
		return 0
	}
	dest = dest[:min(int64(len(dest)), n.size-off)]
	for done := 0; done < len(dest); {
		at := off + int64(done)
		p := n.pages[at/pageBytes]
		if p == nil {
			p = zeroPage
		}
		done += copy(dest[done:], p[at%pageBytes:])
	}
	return len(dest)
}

// save makes the file's content durable.
func (n *inode) save() {
	for index := range n.dirty {
		if p := n.pages[index]; p != nil {
			n.savedPages[index] = p
		} else {
			delete(n.savedPages, index)
		}
	}
	clear(n.dirty)
	n.savedSize = n.size
}

// sync is fsync of a file or a directory.
func (d *Disk) sync(n *inode) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	losses := d.losses
	for d.hung != nil {
		hung := d.hung
		d.mu.Unlock()
		<-hung
		d.mu.Lock()
	}
	if d.broken || d.losses != losses {
		return syscall.EIO
	}
	d.syncs++
	if d.opts.Lying {
		return 0
	}
	if n.dir {
		d.saveNames(n)
	} else {
		n.save()
	}
	if d.opts.Journal {
		d.saveNames(nil)
	}
	return 0
}

// PowerLoss forgets what is not durable. Each page that was not flushed
// survives with the chance keep, half of the survivors torn; so do the oldest
// of the names. The disk must not be mounted.
func (d *Disk) PowerLoss(keep float64, choice dice.Dice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.losses++
	for len(d.pending) > 0 && choice.Chance(keep) {
		d.pending[0].save()
		d.pending = d.pending[1:]
	}
	d.pending = nil
	d.used = 0
	d.root.lose(keep, choice, func() { d.used += pageBytes })
	d.free = d.opts.CapacityBytes - d.used
}

// lose turns the live state into what is left of it, in the order of names
// and pages, so that the choices are the same in every run.
func (n *inode) lose(keep float64, choice dice.Dice, count func()) {
	if n.dir {
		n.names = map[string]*inode{}
		for _, name := range sortedKeys(n.savedNames) {
			n.names[name] = n.savedNames[name]
			n.names[name].lose(keep, choice, count)
		}
		return
	}
	for _, index := range sortedKeys(n.dirty) {
		if choice.Chance(keep) {
			n.survive(index, choice)
		}
	}
	if n.size != n.savedSize && choice.Chance(keep) {
		n.savedSize = n.size
	}
	n.size = n.savedSize
	n.pages = map[int64]*page{}
	for index, p := range n.savedPages {
		n.pages[index] = p
		count()
	}
	clear(n.dirty)
}

// survive makes one unflushed page durable, or some of its sectors.
func (n *inode) survive(index int64, choice dice.Dice) {
	after := n.pages[index]
	if after == nil {
		return // dropped by a truncate: it stays as it was
	}
	if choice.Chance(0.5) {
		n.savedPages[index] = after
		return
	}
	torn := page{}
	if before := n.savedPages[index]; before != nil {
		torn = *before
	}
	for at := 0; at < pageBytes; at += sectorBytes {
		if choice.Chance(0.5) {
			copy(torn[at:at+sectorBytes], after[at:])
		}
	}
	n.savedPages[index] = &torn
}

func sortedKeys[K ~string | ~int64, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
