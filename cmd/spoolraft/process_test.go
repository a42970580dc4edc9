package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long anything that is bound to happen may take. The test
	// fails after it; it never decides what is right.
	patience = 60 * time.Second
	poll     = 20 * time.Millisecond
)

// process is a running program.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *lines
	stderr *lines
	ended  chan struct{} // closed once it is no more
}

// lines collects output and can be read while it grows.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// launch starts the program. It is killed when the test ends, and its output
// shown if that has failed.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary, args...), stdout: &lines{}, stderr: &lines{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.stdout, p.stderr, append(cleanEnv(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the code is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s\nstdout: %s\nstderr: %s", strings.Join(args, " "), p.stdout, tail(p.stderr.String()))
		}
	})
	return p
}

func tail(s string) string { return s[max(0, len(s)-8<<10):] }

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends it as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

// signal asks it to stop and returns its exit code.
func (p *process) signal(s syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("it did not end within %v of %v", patience, s)
		return -1
	}
}

// eventually repeats try until it reports that it is done.
func eventually(t *testing.T, what string, try func() (done bool, state string)) {
	t.Helper()
	state := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		var done bool
		if done, state = try(); done {
			return
		}
	}
	t.Fatalf("%s did not happen within %v: %s", what, patience, state)
}

// freeAddress is a loopback address that nothing uses, neither for TCP nor UDP.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		u, err := net.ListenPacket("udp", address)
		l.Close()
		if err == nil {
			u.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// member is a node of the cluster under test, through all its processes.
type member struct {
	t                  *testing.T
	id, data           string
	http, peer, gossip string
	join               []string
	proc               *process
}

// newCluster starts three nodes and returns when they are ready.
func newCluster(t *testing.T, args ...string) []*member {
	t.Helper()
	dir := t.TempDir()
	var members []*member
	for i := range 3 {
		id := fmt.Sprintf("n%d", i+1)
		members = append(members, &member{t: t, id: id, data: filepath.Join(dir, id), http: freeAddress(t)})
	}
	newAddresses(t, members)
	startAll(t, members, args...)
	return members
}

// newAddresses gives each node new addresses for its peers, and tells it all
// gossip addresses.
func newAddresses(t *testing.T, members []*member) {
	t.Helper()
	var join []string
	for _, m := range members {
		m.peer, m.gossip = freeAddress(t), freeAddress(t)
		join = append(join, m.gossip)
	}
	for _, m := range members {
		m.join = join
	}
}

func startAll(t *testing.T, members []*member, args ...string) {
	t.Helper()
	for _, m := range members {
		m.start(args...)
	}
	for _, m := range members {
		m.awaitReady()
	}
}

func (m *member) start(args ...string) {
	m.t.Helper()
	m.proc = launch(m.t, nil, append([]string{
		"serve", "--node-id", m.id, "--data", m.data, "--http", m.http, "--peer", m.peer, "--gossip", m.gossip,
		"--join", strings.Join(m.join, ","), "--expect", "3", "--insecure-any-key", "--access-log=false",
	}, args...)...)
}

func (m *member) awaitReady() {
	m.t.Helper()
	eventually(m.t, m.id+" ready", func() (bool, string) {
		if !m.proc.running() {
			m.t.Fatalf("%s ended: %s", m.id, tail(m.proc.stderr.String()))
		}
		a, err := m.call(http.MethodGet, "/readyz", "")
		return err == nil && a.status == http.StatusOK, fmt.Sprintf("%d %s %v", a.status, a.body, err)
	})
}

type answer struct {
	status int
	header http.Header
	body   string
}

// client dials anew for each call, since the process behind an address changes.
var client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call makes one attempt; headers are name and value in turn.
func (m *member) call(method, path, body string, headers ...string) (answer, error) {
	return callURL(m.t.Context(), "http://"+m.http, method, path, body, headers...)
}

func callURL(ctx context.Context, base, method, path, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer any")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(data)}, err
}

const queuePath = "/v1/spools/default/queues/orders"

// send sends a key once.
func (m *member) send(key string) (answer, error) {
	return m.call(http.MethodPost, queuePath+"/send", "payload of "+key, "Spooler-Dedup-String", key)
}

// sendUntilStored repeats a key until it is answered, and returns its id.
func (m *member) sendUntilStored(key string) string {
	m.t.Helper()
	var id string
	eventually(m.t, "a send of "+key+" at "+m.id, func() (bool, string) {
		a, err := m.send(key)
		id = a.header.Get("Spooler-Message-Id")
		return err == nil && (a.status == http.StatusCreated || a.status == http.StatusOK), fmt.Sprintf("%d %s %v", a.status, a.body, err)
	})
	return id
}

// remembers fails the test unless this node answers the key with its id.
func (m *member) remembers(key, id string) {
	m.t.Helper()
	a, err := m.send(key)
	if got := a.header.Get("Spooler-Message-Id"); err != nil || a.status != http.StatusOK || got != id {
		m.t.Errorf("%s again at %s: %d, id %q, want 200 and %q (%v)", key, m.id, a.status, got, id, err)
	}
}
