package examples

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// world is a dev server with faults, and the programs beside it.
type world struct {
	t   *testing.T
	api string
	bin string // has spoolraft and the producers
	env []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the binary")
	}
	w := &world{t: t, bin: t.TempDir()}
	build := exec.Command("go", "build", "-o", w.bin, "./cmd/spoolraft", "./docs/examples/producer-right", "./docs/examples/producer-wrong")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := freeAddress(t)
	w.api = "http://" + address + "/v1"
	w.env = append(os.Environ(), "SPOOLER_API="+w.api, "SPOOLER_KEY=dev", "PATH="+w.bin+":"+os.Getenv("PATH"))
	w.startDev(address)
	return w
}

// in is the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	same := *w
	same.t = t
	return &same
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startDev returns once the server is ready.
func (w *world) startDev(address string) {
	w.t.Helper()
	dev := exec.Command(filepath.Join(w.bin, "spoolraft"), "dev", "--faults", "--listen", address)
	out, err := dev.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	dev.Stderr = os.Stderr
	if err := dev.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = dev.Process.Signal(os.Interrupt)
		_ = dev.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "is ready") {
			go func() {
				for lines.Scan() {
				}
			}()
			return
		}
	}
	w.t.Fatal("dev ended before it was ready")
}

// run runs a program of the world to its end and returns what it printed.
func (w *world) run(stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(w.bin, program), args...)
	cmd.Env, cmd.Stdin = w.env, strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (w *world) mustRun(stdin, program string, args ...string) string {
	w.t.Helper()
	out, err := w.run(stdin, program, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}
