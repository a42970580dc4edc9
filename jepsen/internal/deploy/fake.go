package deploy

import (
	"context"
	"fmt"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/fake"
)

// Fake is the cluster in memory by which the harness proves itself.
type Fake struct{ cluster *fake.Cluster }

// NewFake starts one with at most one planted bug.
func NewFake(nodes int, seed uint64, bug fake.Bug) (*Fake, error) {
	c, err := fake.New(nodes, seed, bug)
	if err != nil {
		return nil, err
	}
	return &Fake{c}, nil
}

func (f *Fake) index(node string) int { return slices.Index(f.Nodes(), node) }

// Nodes implements Cluster.
func (f *Fake) Nodes() []string {
	var names []string
	for i := range f.cluster.Len() {
		name, _ := f.cluster.Node(i)
		names = append(names, name)
	}
	return names
}

// Target implements Cluster.
func (f *Fake) Target(node string) client.Target {
	_, url := f.cluster.Node(f.index(node))
	return client.Target{Node: node, URL: url}
}

// Leader implements Cluster.
func (f *Fake) Leader(context.Context) string {
	name, _ := f.cluster.Node(f.cluster.Leader())
	return name
}

// Ready implements Cluster.
func (f *Fake) Ready(ctx context.Context, node string) error {
	if !f.Running(node) {
		return fmt.Errorf("%s is down", node)
	}
	return readyAt(ctx, f.Target(node).URL)
}

// Running implements Cluster.
func (f *Fake) Running(node string) bool { return f.cluster.Running(f.index(node)) }

// Kill implements Cluster.
func (f *Fake) Kill(node string) error { return f.cluster.Kill(f.index(node)) }

// Stop implements Cluster.
func (f *Fake) Stop(_ context.Context, node string) error { return f.Kill(node) }

// Pause implements Cluster.
func (f *Fake) Pause(node string, paused bool) error {
	f.cluster.Pause(f.index(node), paused)
	return nil
}

// Isolate implements Isolator.
func (f *Fake) Isolate(node string, isolated bool) error {
	f.cluster.Cut(f.index(node), isolated)
	return nil
}

// Start implements Cluster.
func (f *Fake) Start(node string) error { return f.cluster.Start(f.index(node)) }

// Collect implements Cluster. There is nothing to collect.
func (f *Fake) Collect(string, bool) error { return nil }

// Close implements Cluster.
func (f *Fake) Close() error {
	f.cluster.Close()
	return nil
}
