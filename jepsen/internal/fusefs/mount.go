package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Available says what this machine lacks for mounting a disk, nil where
// nothing is missing.
func Available() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("this machine cannot mount user-space file systems: %w (load the kernel's fuse module, or give the container the device /dev/fuse)", err)
	}
	f.Close()
	if os.Geteuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return errors.New("mounting a user-space file system needs root, or the program fusermount3 (Debian package fuse3)")
	}
	return nil
}

// Mount makes the disk the content of the directory.
type Mount struct {
	dir    string
	server *fuse.Server
}

// Mount mounts the disk.
func (d *Disk) Mount(dir string) (*Mount, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make mount point: %w", err)
	}
	// Only the kernel changes what it has cached, so it may keep it.
	long := time.Hour
	server, err := fs.Mount(dir, &node{disk: d, inode: d.root}, &fs.Options{
		MountOptions: fuse.MountOptions{
			DirectMount:              true,
			FsName:                   "spoolraft-jepsen",
			Name:                     "jepsen",
			MaxWrite:                 128 << 10,
			ExplicitDataCacheControl: true,
			DisableXAttrs:            true,
		},
		EntryTimeout: &long,
		AttrTimeout:  &long,
	})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	return &Mount{dir: dir, server: server}, nil
}

// Unmount ends the mount. No process may have a file open on it.
func (m *Mount) Unmount() error {
	if err := m.server.Unmount(); err != nil {
		return fmt.Errorf("unmount %s: %w", m.dir, err)
	}
	m.server.Wait()
	return nil
}

// node gives an inode to the kernel.
type node struct {
	fs.Inode
	disk  *Disk
	inode *inode
}

var (
	_ fs.NodeLookuper  = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeCreater   = (*node)(nil)
	_ fs.NodeMkdirer   = (*node)(nil)
	_ fs.NodeUnlinker  = (*node)(nil)
	_ fs.NodeRmdirer   = (*node)(nil)
	_ fs.NodeRenamer   = (*node)(nil)
	_ fs.NodeReaddirer = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
	_ fs.NodeAllocater = (*node)(nil)
	_ fs.NodeStatfser  = (*node)(nil)
)

func (n *inode) kind() uint32 {
	if n.dir {
		return syscall.S_IFDIR
	}
	return syscall.S_IFREG
}

func (n *inode) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink = n.ino, n.kind()|n.mode, 1
	out.Size, out.Blksize = uint64(n.size), pageBytes
	out.Blocks = uint64(len(n.pages)) * pageBytes / 512
	out.SetTimes(&n.modified, &n.modified, &n.modified)
}

// child wraps an inode below this one.
func (n *node) child(ctx context.Context, c *inode) *fs.Inode {
	return n.NewInode(ctx, &node{disk: n.disk, inode: c}, fs.StableAttr{Mode: c.kind(), Ino: c.ino})
}

// Lookup finds a name.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	c := n.inode.names[name]
	if c == nil {
		return nil, syscall.ENOENT
	}
	c.attr(&out.Attr)
	return n.child(ctx, c), 0
}

// Getattr tells size and times.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	n.inode.attr(&out.Attr)
	return 0
}

// Setattr sets size and mode; times are the disk's own.
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		if err := n.disk.truncate(n.inode, int64(size)); err != 0 {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok {
		n.inode.mode = mode & 0o7777
	}
	n.inode.attr(&out.Attr)
	return 0
}

// Open needs no handle: files are read and written by inode.
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Create makes a file.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.free <= 0 {
		return nil, nil, 0, syscall.ENOSPC
	}
	c := n.disk.newInode(false, mode&0o7777)
	n.disk.change(edit{n.inode, name, c})
	c.attr(&out.Attr)
	return n.child(ctx, c), nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Mkdir makes a directory.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.free <= 0 {
		return nil, syscall.ENOSPC
	}
	c := n.disk.newInode(true, mode&0o7777)
	n.disk.change(edit{n.inode, name, c})
	c.attr(&out.Attr)
	return n.child(ctx, c), 0
}

// Unlink removes a file's name.
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	c := n.inode.names[name]
	if c == nil {
		return syscall.ENOENT
	}
	n.disk.charge(-int64(len(c.pages)))
	n.disk.change(edit{n.inode, name, nil})
	return 0
}

// Rmdir removes an empty directory.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	c := n.inode.names[name]
	if c == nil {
		return syscall.ENOENT
	}
	if len(c.names) > 0 {
		return syscall.ENOTEMPTY
	}
	n.disk.change(edit{n.inode, name, nil})
	return 0
}

// renameNoReplace is the flag of renameat2 that refuses an existing target.
const renameNoReplace = 1

// Rename moves a name, over another where there is one.
func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	target := to.(*node).inode
	c, old := n.inode.names[name], target.names[newName]
	switch {
	case flags&^renameNoReplace != 0:
		return syscall.EINVAL
	case c == nil:
		return syscall.ENOENT
	case old != nil && flags == renameNoReplace:
		return syscall.EEXIST
	case old != nil && old.dir && len(old.names) > 0:
		return syscall.ENOTEMPTY
	case old == c:
		return 0
	}
	if old != nil {
		n.disk.charge(-int64(len(old.pages)))
	}
	n.disk.change(edit{n.inode, name, nil}, edit{target, newName, c})
	return 0
}

// Readdir lists a directory.
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	var list []fuse.DirEntry
	for _, name := range sortedKeys(n.inode.names) {
		c := n.inode.names[name]
		list = append(list, fuse.DirEntry{Name: name, Ino: c.ino, Mode: c.kind()})
	}
	return fs.NewListDirStream(list), 0
}

// Read reads the live state.
func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return fuse.ReadResultData(dest[:n.inode.read(dest, off)]), 0
}

// Write changes the live state.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	done, err := n.disk.write(n.inode, data, off)
	return uint32(done), err
}

// Fsync makes the file or directory durable. An interrupt does not end it,
// as it does not end that of a real disk.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.disk.sync(n.inode)
}

// keepSize is the mode of fallocate that reserves beyond the end.
const keepSize = 1

// Allocate reserves space.
func (n *node) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	if mode&^uint32(keepSize) != 0 {
		return syscall.EOPNOTSUPP
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return n.disk.allocate(n.inode, int64(off), int64(size), mode == keepSize)
}

// Statfs tells how full the disk is.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	out.Bsize, out.Frsize, out.NameLen = pageBytes, pageBytes, 255
	out.Blocks = uint64((n.disk.used + max(n.disk.free, 0)) / pageBytes)
	out.Bfree = uint64(max(n.disk.free, 0) / pageBytes)
	out.Bavail = out.Bfree
	return 0
}
