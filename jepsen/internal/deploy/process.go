package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/fusefs"
	"github.com/spoolraft/spoolraft/jepsen/internal/proxy"
)

// ProcessOptions say how to start a cluster of processes.
type ProcessOptions struct {
	Binary   string
	Dir      string // for data, logs and mount points
	Nodes    int
	Seed     uint64
	LogStore string
	Disks    bool // put a disk that can lose its power under each node
	Disk     fusefs.Options
	Args     []string // more flags for serve
	Env      []string
}

// Process is a cluster of processes on loopback, with a proxy in front of
// every peer port and every API.
type Process struct {
	opts ProcessOptions
	mesh *proxy.Mesh

	mu    sync.Mutex
	nodes []*process // also those that were dropped
	pids  map[int]string
	exits []Exit
}

// NewProcess starts the nodes. They are not ready yet.
func NewProcess(opts ProcessOptions) (*Process, error) {
	p := &Process{opts: opts, mesh: proxy.New(opts.Seed), pids: map[int]string{}}
	for range opts.Nodes {
		if _, err := p.Add(); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	for _, n := range p.present() {
		if err := n.start(); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// newNode prepares directory, disk, addresses and proxies.
func (p *Process) newNode(name string) (*process, error) {
	n := &process{
		cluster: p, name: name,
		dataDir:   filepath.Join(p.opts.Dir, name, "data"),
		logPath:   filepath.Join(p.opts.Dir, name, "log"),
		clockFile: filepath.Join(p.opts.Dir, name, "clock"),
	}
	if err := os.MkdirAll(n.dataDir, 0o755); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	if err := os.WriteFile(n.clockFile, []byte("0\n"), 0o644); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	if p.opts.Disks {
		n.disk = fusefs.NewDisk(p.opts.Disk)
		if err := n.mountDisk(); err != nil {
			return nil, err
		}
	}
	if err := n.newAddresses(); err != nil {
		return nil, err
	}
	api, err := p.mesh.Listen(name+"/http", name, n.addresses().http, proxy.As(Clients))
	if err != nil {
		return nil, err
	}
	n.apiURL = "http://" + api
	return n, nil
}

func (p *Process) node(name string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.nodes, func(n *process) bool { return n.name == name })
	return p.nodes[i]
}

// present are the nodes that were not dropped.
func (p *Process) present() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n *process) bool { return n.dropped })
}

// processes returns who is who, for the proxies.
func (p *Process) processes() map[int]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	who := make(map[int]string, len(p.pids))
	for pid, name := range p.pids {
		who[pid] = name
	}
	return who
}

// Nodes implements Cluster.
func (p *Process) Nodes() []string {
	var names []string
	for _, n := range p.present() {
		names = append(names, n.name)
	}
	return names
}

// Target implements Cluster.
func (p *Process) Target(node string) client.Target {
	return client.Target{Node: node, URL: p.node(node).apiURL}
}

// Leader implements Cluster.
func (p *Process) Leader(ctx context.Context) string {
	for _, n := range p.present() {
		if n.answers() && leadsAt(ctx, n.directURL()) {
			return n.name
		}
	}
	return ""
}

// Ready implements Cluster.
func (p *Process) Ready(ctx context.Context, node string) error {
	n := p.node(node)
	if !n.answers() {
		return errors.New("it is down or paused")
	}
	return readyAt(ctx, n.directURL())
}

// Running implements Cluster.
func (p *Process) Running(node string) bool { return p.node(node).running() }

// Kill implements Cluster.
func (p *Process) Kill(node string) error { return p.node(node).kill() }

// Stop implements Cluster.
func (p *Process) Stop(ctx context.Context, node string) error { return p.node(node).stop(ctx) }

// Pause implements Cluster.
func (p *Process) Pause(node string, paused bool) error { return p.node(node).pause(paused) }

// Start implements Cluster.
func (p *Process) Start(node string) error { return p.node(node).start() }

// Mesh implements Networked.
func (p *Process) Mesh() *proxy.Mesh { return p.mesh }

// Isolate implements Isolator.
func (p *Process) Isolate(node string, isolated bool) error {
	for _, other := range p.Nodes() {
		for _, l := range []proxy.Link{{From: node, To: other}, {From: other, To: node}} {
			switch {
			case other == node:
			case isolated:
				p.mesh.Set(l, proxy.Condition{Cut: true})
			default:
				p.mesh.Clear(l)
			}
		}
	}
	return nil
}

// Exits implements Supervised.
func (p *Process) Exits() []Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.exits)
}

func (p *Process) exited(n *process, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exits = append(p.exits, Exit{Node: n.name, At: time.Now(), Detail: detail})
}

// Collect implements Cluster.
func (p *Process) Collect(dir string, data bool) error {
	var errs []error
	for _, n := range p.present() {
		to := filepath.Join(dir, n.name)
		errs = append(errs, os.MkdirAll(to, 0o755))
		text, err := os.ReadFile(n.logPath)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "log"), text, 0o644)
		}
		errs = append(errs, err)
		if !data {
			continue
		}
		if n.disk != nil {
			errs = append(errs, n.disk.Export(filepath.Join(to, "data")))
		} else {
			errs = append(errs, os.CopyFS(filepath.Join(to, "data"), os.DirFS(n.dataDir)))
		}
	}
	return errors.Join(errs...)
}

// Close implements Cluster.
func (p *Process) Close() error {
	var errs []error
	for _, n := range p.present() {
		errs = append(errs, n.close())
	}
	p.mesh.Close()
	return errors.Join(errs...)
}
