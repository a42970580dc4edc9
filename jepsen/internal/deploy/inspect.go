package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// Digested tells digests of its nodes' states.
type Digested interface {
	// Digest is the latest digest that the node tells of its state, and the entry
	// of the log that it belongs to. It is not ok where the node tells none.
	Digest(ctx context.Context, node string) (index uint64, hash string, ok bool)
}

// Logged can tell what the replicated logs of its nodes hold.
type Logged interface {
	// DumpLogs ends all nodes at once and writes the log of each, replayed, into
	// the file that is named for it.
	DumpLogs(ctx context.Context, file func(node string) string) error
}

// ErrNoLogs says that the server has no command to print its log.
var ErrNoLogs = errors.New("this server cannot print its log")

// digestLine is a metric that is part of a digest.
var digestLine = regexp.MustCompile(`(?m)^spoolraft_state_hash_(index|high|low) (\S+)$`)

// digestAt asks /metrics.
func digestAt(ctx context.Context, url string) (index uint64, hash string, ok bool) {
	status, body, err := get(ctx, url+"/metrics")
	if err != nil || status != http.StatusOK {
		return 0, "", false
	}
	values := map[string]uint64{}
	for _, m := range digestLine.FindAllStringSubmatch(body, -1) {
		v, err := strconv.ParseFloat(m[2], 64) // exact: index and halves fit its mantissa
		if err != nil {
			return 0, "", false
		}
		values[m[1]] = uint64(v)
	}
	if len(values) != 3 {
		return 0, "", false
	}
	return values["index"], fmt.Sprintf("%08x%08x", values["high"], values["low"]), true
}

// Digest implements Digested.
func (p *Process) Digest(ctx context.Context, node string) (index uint64, hash string, ok bool) {
	n := p.node(node)
	if !n.answers() {
		return 0, "", false
	}
	return digestAt(ctx, n.directURL())
}

// Digest implements Digested.
func (c *Compose) Digest(ctx context.Context, node string) (index uint64, hash string, ok bool) {
	if !c.Running(node) {
		return 0, "", false
	}
	return digestAt(ctx, c.node(node).url)
}

// DumpLogs implements Logged. The nodes are killed, so that a log holds no more
// than what a node had written before it answered.
func (p *Process) DumpLogs(ctx context.Context, file func(node string) string) error {
	for _, n := range p.present() {
		n.upkeep.Lock()
		defer n.upkeep.Unlock()
		n.signalKill()
	}
	var errs []error
	for _, n := range p.present() {
		err := n.kill()
		if err == nil {
			err = n.dumpLog(ctx, file(n.name))
		}
		if errors.Is(err, ErrNoLogs) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// dumpLog prints the log with the binary under test. A log that is damaged is
// printed as well, with an exit code of 1.
func (n *process) dumpLog(ctx context.Context, file string) error {
	dir := n.dataDir
	if n.disk != nil { // which may still refuse to be read
		dir = filepath.Join(filepath.Dir(n.dataDir), "copy")
		defer os.RemoveAll(dir)
		if err := n.disk.Export(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	var told bytes.Buffer
	cmd := exec.CommandContext(ctx, n.cluster.opts.Binary, "debug", "log", dir, "--replay", "--json")
	cmd.Stdout, cmd.Stderr = out, &told
	err = errors.Join(cmd.Run(), out.Close())
	info, statErr := os.Stat(file)
	printed := statErr == nil && info.Size() > 0
	exit := (*exec.ExitError)(nil)
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1 && printed:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		err = ErrNoLogs
	case err != nil:
		err = fmt.Errorf("print the log of %s: %w: %s", n.name, err, bytes.TrimSpace(told.Bytes()))
	}
	if !printed {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}
