package fusefs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
)

// rig is a disk with its mount, which power losses replace.
type rig struct {
	t     *testing.T
	disk  *Disk
	mount *Mount
	dir   string
}

func newRig(t *testing.T, opts Options) *rig {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip(err)
	}
	r := &rig{t: t, disk: NewDisk(opts), dir: t.TempDir()}
	r.up()
	t.Cleanup(func() { r.disk.ResumeSyncs(); r.must(r.mount.Unmount()) })
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) up() {
	r.t.Helper()
	m, err := r.disk.Mount(r.dir)
	r.must(err)
	r.mount = m
}

func (r *rig) powerLoss(keep float64) {
	r.t.Helper()
	r.must(r.mount.Unmount())
	r.disk.PowerLoss(keep, dice.New(1))
	r.up()
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.t.Helper()
	r.must(os.WriteFile(r.path(name), []byte(text), 0o644))
}

func (r *rig) fsync(name string) {
	r.t.Helper()
	f, err := os.Open(r.path(name))
	r.must(err)
	defer f.Close()
	r.must(f.Sync())
}

// holds checks a file's content; "-" means that it does not exist.
func (r *rig) holds(name, want string) {
	r.t.Helper()
	got, err := os.ReadFile(r.path(name))
	if errors.Is(err, os.ErrNotExist) {
		got, err = []byte("-"), nil
	}
	r.must(err)
	if string(got) != want {
		r.t.Errorf("%s holds %.40q, want %.40q", name, got, want)
	}
}

func TestPowerLossKeepsWhatWasFlushed(t *testing.T) {
	r := newRig(t, Options{})
	r.write("a", "one")
	r.fsync("a")
	r.fsync(".")
	r.write("a", "two, not flushed")
	r.write("b", "content flushed, name not")
	r.fsync("b")
	r.write("c", "name flushed, content not")
	r.holds("a", "two, not flushed")
	r.powerLoss(0)
	r.holds("a", "one")
	r.holds("b", "-")
	r.holds("c", "-")

	r.write("c", "name flushed, content not")
	r.fsync(".")
	r.powerLoss(0)
	r.holds("c", "")
}

func TestRenameAndRemovalNeedTheDirectory(t *testing.T) {
	r := newRig(t, Options{})
	r.must(os.Mkdir(r.path("d"), 0o755))
	r.write("d/old", "x")
	r.write("d/gone", "y")
	for _, name := range []string{"d/old", "d/gone", "d", "."} {
		r.fsync(name)
	}
	r.must(os.Rename(r.path("d/old"), r.path("new")))
	r.must(os.Remove(r.path("d/gone")))
	r.powerLoss(0)
	r.holds("d/old", "x")
	r.holds("d/gone", "y")
	r.holds("new", "-")

	r.must(os.Rename(r.path("d/old"), r.path("new")))
	r.must(os.Remove(r.path("d/gone")))
	r.fsync(".") // a rename is one change, in whichever directory it is flushed
	r.powerLoss(0)
	r.holds("d/old", "-")
	r.holds("new", "x")
	r.holds("d/gone", "y")
}

func TestJournalMakesNamesSafeWithAnyFlush(t *testing.T) {
	r := newRig(t, Options{Journal: true})
	r.must(os.Mkdir(r.path("d"), 0o755))
	r.write("d/a", "x")
	r.fsync("d/a")
	r.powerLoss(0)
	r.holds("d/a", "x")
}

func TestPartsMaySurvive(t *testing.T) {
	r := newRig(t, Options{})
	before := strings.Repeat("b", 64*pageBytes)
	r.write("a", before)
	r.fsync("a")
	r.fsync(".")
	f, err := os.OpenFile(r.path("a"), os.O_WRONLY, 0)
	r.must(err)
	_, err = f.WriteAt(bytes.Repeat([]byte("a"), 64*pageBytes), 0)
	r.must(err)
	r.must(f.Close())
	r.powerLoss(0.5)
	got, err := os.ReadFile(r.path("a"))
	r.must(err)
	whole, torn, none := 0, 0, 0
	for at := 0; at < len(got); at += pageBytes {
		switch n := bytes.Count(got[at:at+pageBytes], []byte("a")); {
		case n == pageBytes:
			whole++
		case n == 0:
			none++
		case n%sectorBytes == 0:
			torn++
		default:
			t.Fatalf("a page has %d new bytes, which is no number of sectors", n)
		}
	}
	if len(got) != len(before) || whole == 0 || torn == 0 || none == 0 {
		t.Errorf("%d bytes: %d pages survived whole, %d torn, %d not", len(got), whole, torn, none)
	}
}

func TestLossIsTheSameForTheSameSeed(t *testing.T) {
	lose := func() []byte {
		d := NewDisk(Options{})
		f := d.newInode(false, 0o644)
		d.change(edit{d.root, "f", f})
		d.saveNames(nil)
		d.write(f, bytes.Repeat([]byte("x"), 20*pageBytes), 0)
		d.PowerLoss(0.5, dice.New(9))
		got, err := d.ReadFile("f")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if !bytes.Equal(lose(), lose()) {
		t.Error("two losses with one seed differ")
	}
}

func TestHungFlushPersistsNothingWhenAbandoned(t *testing.T) {
	r := newRig(t, Options{})
	r.write("a", "one")
	r.fsync("a")
	r.fsync(".")
	f, err := os.OpenFile(r.path("a"), os.O_WRONLY, 0)
	r.must(err)
	_, err = f.WriteString("two")
	r.must(err)
	r.disk.HangSyncs()
	done := make(chan error)
	go func() { done <- f.Sync() }()
	r.disk.AbandonSyncs()
	// The flush either waited and was abandoned, or came after and was made.
	failed := <-done != nil
	r.must(f.Close())
	r.powerLoss(0)
	if failed {
		r.holds("a", "one")
	} else {
		r.holds("a", "two")
	}
}

func TestHungFlushGoesOn(t *testing.T) {
	r := newRig(t, Options{})
	r.disk.HangSyncs()
	f, err := os.Create(r.path("a"))
	r.must(err)
	done := make(chan error)
	go func() { done <- f.Sync() }()
	select {
	case <-done:
		t.Fatal("a hung flush came back")
	default:
	}
	r.disk.ResumeSyncs()
	r.must(<-done)
	r.must(f.Close())
}

func TestFullDisk(t *testing.T) {
	r := newRig(t, Options{CapacityBytes: 100 * pageBytes})
	r.write("a", strings.Repeat("x", 10*pageBytes))
	r.disk.LeaveFree(2 * pageBytes)
	f, err := os.Create(r.path("b"))
	r.must(err)
	defer f.Close()
	n, err := f.Write(make([]byte, 5*pageBytes))
	if !errors.Is(err, syscall.ENOSPC) || n != 2*pageBytes {
		t.Errorf("wrote %d bytes (%v)", n, err)
	}
	var st syscall.Statfs_t
	r.must(syscall.Statfs(r.dir, &st))
	if st.Bavail != 0 {
		t.Errorf("%d blocks are free", st.Bavail)
	}
	r.disk.LeaveFree(-1)
	if _, err := f.Write(make([]byte, pageBytes)); err != nil {
		t.Error(err)
	}
}

func TestFailedFlush(t *testing.T) {
	r := newRig(t, Options{})
	f, err := os.Create(r.path("a"))
	r.must(err)
	defer f.Close()
	r.disk.BreakSyncs(true)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("flush: %v", err)
	}
	r.disk.BreakSyncs(false)
	r.must(f.Sync())
}

func TestTruncateAndAllocate(t *testing.T) {
	r := newRig(t, Options{})
	f, err := os.Create(r.path("a"))
	r.must(err)
	defer f.Close()
	_, err = f.WriteString("0123456789")
	r.must(err)
	r.must(f.Truncate(4))
	r.must(f.Truncate(8))
	r.holds("a", "0123\x00\x00\x00\x00")
	r.must(syscall.Fallocate(int(f.Fd()), 0, 0, 3*pageBytes))
	if st, err := f.Stat(); err != nil || st.Size() != 3*pageBytes {
		t.Errorf("size is %v (%v)", st.Size(), err)
	}
	r.must(f.Truncate(2))
	r.holds("a", "01")
}

func TestExportWipeAndRot(t *testing.T) {
	r := newRig(t, Options{})
	r.must(os.Mkdir(r.path("d"), 0o755))
	r.write("d/a", "hello")
	out := t.TempDir()
	r.must(r.disk.Export(out))
	if got, err := os.ReadFile(filepath.Join(out, "d/a")); err != nil || string(got) != "hello" {
		t.Errorf("exported %q (%v)", got, err)
	}
	r.must(r.mount.Unmount())
	r.must(r.disk.WriteFile("d/a", []byte("J"), 0))
	if got, _ := r.disk.ReadFile("d/a"); string(got) != "Jello" {
		t.Errorf("after rot: %q", got)
	}
	if files := r.disk.Files(); len(files) != 1 || files[0] != "d/a" {
		t.Errorf("files are %q", files)
	}
	r.disk.Wipe()
	if files := r.disk.Files(); len(files) != 0 {
		t.Errorf("after the wipe: %q", files)
	}
	r.up()
}
