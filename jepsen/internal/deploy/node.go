package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/fusefs"
	"github.com/spoolraft/spoolraft/jepsen/internal/proxy"
)

// restartDelay is how long a node that ended by itself stays down.
const restartDelay = time.Second

// endTimeout is how long a killed process may take to go.
const endTimeout = 20 * time.Second

// clockVariable names the file with the offset of a node's clock, in
// milliseconds.
const clockVariable = "SPOOLRAFT_TEST_CLOCK_OFFSET_FILE"

// process is one node.
type process struct {
	cluster          *Process
	name             string
	dataDir, logPath string
	clockFile        string
	apiURL           string // the proxy in front of its API
	dropped          bool   // it was, for good; the cluster's lock guards it
	disk             *fusefs.Disk

	upkeep sync.Mutex // held while it starts, and while its data is handled
	mount  *fusefs.Mount

	mu      sync.Mutex // taken after upkeep
	addr    addresses
	cmd     *exec.Cmd
	done    chan struct{} // closed when the running process has ended
	wanted  bool          // it should be up
	paused  bool
	closing bool
}

// addresses are where a node listens, and the proxy that peers dial.
type addresses struct{ http, peer, gossip, advertise string }

func (n *process) addresses() addresses {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// newAddresses picks listening addresses, and a new proxy that peers dial.
func (n *process) newAddresses() error {
	var a addresses
	for _, addr := range []*string{&a.http, &a.peer, &a.gossip} {
		free, err := freeAddress()
		if err != nil {
			return fmt.Errorf("find a port for %s: %w", n.name, err)
		}
		*addr = free
	}
	var err error
	a.advertise, err = n.cluster.mesh.Listen(n.name+"/peer", n.name, a.peer, proxy.ByOwner(n.cluster.processes))
	if err != nil {
		return err
	}
	n.cluster.mesh.Retarget(n.name+"/http", a.http)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = a
	return nil
}

func (n *process) directURL() string { return "http://" + n.addresses().http }

// arguments are those of the node's process.
func (n *process) arguments() []string {
	var join []string
	for _, other := range n.cluster.present() {
		join = append(join, other.addresses().gossip)
	}
	a := n.addresses()
	args := []string{
		"serve", "--node-id", n.name, "--data", n.dataDir,
		"--http", a.http, "--peer", a.peer, "--gossip", a.gossip, "--advertise", a.advertise,
		"--join", strings.Join(join, ","), "--expect", fmt.Sprint(n.cluster.opts.Nodes),
		"--insecure-any-key", "--access-log=false", "--log-store", n.cluster.opts.LogStore,
	}
	return append(args, n.cluster.opts.Args...)
}

// start starts the process where it is down.
func (n *process) start() error {
	n.upkeep.Lock()
	defer n.upkeep.Unlock()
	return n.launch(func() bool {
		n.wanted = true
		return true
	})
}

// launch starts the process where it is down and still should be up, which
// the function says with the lock held. Upkeep is held.
func (n *process) launch(still func() bool) error {
	args := n.arguments()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !still() || n.cmd != nil || n.closing {
		return nil
	}
	log, err := os.OpenFile(n.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	defer log.Close()
	cmd := exec.Command(n.cluster.opts.Binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(append(os.Environ(), clockVariable+"="+n.clockFile), n.cluster.opts.Env...)
	// A harness that dies takes its nodes along.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startPinned(cmd); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.cmd, n.done, n.paused = cmd, make(chan struct{}), false
	n.cluster.mu.Lock()
	n.cluster.pids[cmd.Process.Pid] = n.name
	n.cluster.mu.Unlock()
	go n.watch(cmd, n.done)
	return nil
}

// watch waits for the process and starts it again where its end was not
// asked for.
func (n *process) watch(cmd *exec.Cmd, done chan struct{}) {
	_ = cmd.Wait() // how it ended is in the process's state
	n.cluster.mu.Lock()
	delete(n.cluster.pids, cmd.Process.Pid)
	n.cluster.mu.Unlock()
	n.mu.Lock()
	n.cmd = nil
	unasked := n.wanted
	n.mu.Unlock()
	close(done)
	if !unasked {
		return
	}
	n.cluster.exited(n, cmd.ProcessState.String()+": "+n.lastLogLine())
	time.Sleep(restartDelay)
	n.upkeep.Lock()
	defer n.upkeep.Unlock()
	if err := n.launch(func() bool { return n.wanted }); err != nil {
		n.cluster.exited(n, err.Error())
	}
}

// lastLogLine is what the node said last.
func (n *process) lastLogLine() string {
	text, err := os.ReadFile(n.logPath)
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// signalKill ends the process without waiting for it. done is closed when it
// has gone; it is nil where none was running.
func (n *process) signalKill() (done chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = false
	if n.cmd == nil {
		return nil
	}
	_ = n.cmd.Process.Kill() // fails only where it has gone already
	return n.done
}

// kill ends the process at once and waits for its end.
func (n *process) kill() error {
	done := n.signalKill()
	if done == nil {
		return nil
	}
	if n.disk != nil {
		n.disk.AbandonSyncs() // a process that waits for its disk cannot end
	}
	select {
	case <-done:
		return nil
	case <-time.After(endTimeout):
		return fmt.Errorf("%s does not end", n.name)
	}
}

// stop ends the process gracefully. One that does not end in time is killed,
// which is an error.
func (n *process) stop(ctx context.Context) error {
	n.mu.Lock()
	n.wanted = false
	cmd, done, paused := n.cmd, n.done, n.paused
	n.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if paused {
		if err := n.pause(false); err != nil {
			return err
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", n.name, err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not stop in time", n.name), n.kill())
	}
}

// pause sends SIGSTOP or SIGCONT.
func (n *process) pause(paused bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil || n.paused == paused {
		return nil
	}
	signal := syscall.SIGCONT
	if paused {
		signal = syscall.SIGSTOP
	}
	if err := n.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to %s: %w", signal, n.name, err)
	}
	n.paused = paused
	return nil
}

func (n *process) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil
}

func (n *process) answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil && !n.paused
}

func (n *process) close() error {
	n.upkeep.Lock()
	defer n.upkeep.Unlock()
	return n.end()
}

// end is close with upkeep held.
func (n *process) end() error {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	err := n.kill()
	if n.mount != nil {
		err = errors.Join(err, n.mount.Unmount())
		n.mount = nil
	}
	return err
}
