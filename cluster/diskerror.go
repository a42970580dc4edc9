package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
)

// diskError says that the disk did not do what it was asked, which tells nothing
// about what a file holds.
type diskError struct {
	path    string
	writing bool
	err     error
}

func (e diskError) Error() string {
	switch {
	case isNoSpace(e.err):
		return fmt.Sprintf("%s cannot be written: the disk is full (%v). Make room, then start the node again", e.path, e.err)
	case e.writing:
		return fmt.Sprintf("%s cannot be written: the disk does not take writes (%v). Check the disk and its mount, then start the node again", e.path, e.err)
	default:
		return fmt.Sprintf("%s cannot be read: the disk answers with an error (%v). Check the disk, its mount and the permissions, "+
			"then start the node again; the file itself need not be damaged", e.path, e.err)
	}
}

func (e diskError) Unwrap() error { return e.err }

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// diskErrnos are the answers of a disk, or of its mount, that does not work.
var diskErrnos = []syscall.Errno{
	syscall.EIO, syscall.ENXIO, syscall.ENODEV, syscall.EROFS, syscall.ESTALE, syscall.EACCES, syscall.EPERM,
	syscall.ENOSPC, syscall.EDQUOT, syscall.ETIMEDOUT, syscall.EUCLEAN,
}

// fromDisk reports whether err comes from the disk, rather than from what a file
// holds.
func fromDisk(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(diskErrnos, errno)
}

// readThrough reads all files under path and returns the system's error where
// one cannot be read. It tells a fault in mapped memory over a bad disk from one
// over a damaged file.
func readThrough(path string) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(io.Discard, f)
		return err
	})
}

// diskFault is what becomes of raft over a disk that fails. Raft panics over some
// errors of its stores, and goes on after others in ways that help nobody, so it
// never sees one: the node is given up, and the goroutine that asked waits here
// until the node stops, and ends.
type diskFault struct {
	fatal func(error)
	stop  <-chan struct{} // the node stops

	once   sync.Once
	struck chan struct{} // closed once err is set
	err    error
}

func newDiskFault(fatal func(error), stop <-chan struct{}) *diskFault {
	return &diskFault{fatal: fatal, stop: stop, struck: make(chan struct{})}
}

// hold does not return.
func (d *diskFault) hold(err error) {
	d.once.Do(func() {
		d.err = err
		close(d.struck)
	})
	d.fatal(err)
	<-d.stop
	runtime.Goexit()
}
