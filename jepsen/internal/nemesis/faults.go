package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
)

// all is every fault, in the order of the documentation.
var all = []Fault{
	{"kill", "kill -9 of one node", nothing, kill(one), 1 * time.Second, 4 * time.Second, 0},
	{"kill-leader", "kill -9 of the leader", nothing, kill(theLeader), 1 * time.Second, 4 * time.Second, 0},
	{"kill-majority", "kill -9 of a majority at once", nothing, kill(mostOf), 1 * time.Second, 3 * time.Second, 0},
	{"kill-all", "kill -9 of every node at once", nothing, kill(everyone), 500 * time.Millisecond, 2 * time.Second, 0},
	{"pause", "one node gets no processor time (SIGSTOP)", nothing, pause(one), 2 * time.Second, 6 * time.Second, 0},
	{"pause-leader", "the leader gets no processor time", nothing, pause(theLeader), 2 * time.Second, 6 * time.Second, 0},
	{"stop", "one node is stopped gracefully", nothing, stop(one), 1 * time.Second, 3 * time.Second, 0},
	{"stop-leader", "the leader is stopped gracefully", nothing, stop(theLeader), 1 * time.Second, 3 * time.Second, 0},
	{"rolling", "every node is restarted gracefully, one after the other", nothing, rolling, 0, 0, 0},
	{"join", "a further node joins, or one that did is removed and leaves for good", growth, join, 0, 0, 0},
	{"leave", "a node is removed, and joins again with an empty directory", growth, leave, 0, 0, 0},
	{"transfer", "an operator asks for a node to lead", growth, transfer, 0, 0, 0},

	{"partition", "the nodes are cut in two groups", isolation, partition, 2 * time.Second, 8 * time.Second, 0},
	{"partition-leader", "the leader is cut off", isolation, partitionLeader, 2 * time.Second, 8 * time.Second, 0},
	{"partition-oneway", "one node is not heard, or does not hear", links, partitionOneWay, 2 * time.Second, 8 * time.Second, 0},
	{"partition-pair", "two nodes cannot reach each other, others can reach both", links, partitionPair, 2 * time.Second, 8 * time.Second, 0},
	{"slow", "links between nodes are slow and uneven", links, slow, 3 * time.Second, 8 * time.Second, 0},
	{"lossy", "links between nodes stall and reset", links, lossy, 3 * time.Second, 8 * time.Second, 0},
	{"drop-answers", "answers to clients are dropped after the request went through", links, dropAnswers, 1 * time.Second, 4 * time.Second, 0},

	{"clock", "a node's clock jumps forwards or backwards, and back", clocks, clock, 2 * time.Second, 6 * time.Second, maxClockJump.Milliseconds()},

	{"disk-full", "a node's disk runs full", disks, diskFull, 3 * time.Second, 6 * time.Second, 0},
	{"hung-fsync", "a node's flushes hang", disks, hungFsync, 3 * time.Second, 10 * time.Second, 0},
	{"broken-fsync", "a node's flushes fail", disks, brokenFsync, 2 * time.Second, 5 * time.Second, 0},
	{"power-one", "one node loses power: what was not flushed is gone", disks, power(one), 500 * time.Millisecond, 2 * time.Second, 0},
	{"power-majority", "a majority loses power at once", disks, power(mostOf), 500 * time.Millisecond, 2 * time.Second, 0},
	{"power-all", "every node loses power at once", disks, power(everyone), 500 * time.Millisecond, 2 * time.Second, 0},

	{"bitflip-log", "one bit of a node's log is flipped", stores, bitflip("log"), 3 * time.Second, 5 * time.Second, 0},
	{"bitflip-vote", "one bit of a node's vote store is flipped", stores, bitflip("vote"), 3 * time.Second, 5 * time.Second, 0},
	{"bitflip-snapshot", "one bit of a node's snapshot is flipped", stores, bitflip("snapshot"), 3 * time.Second, 5 * time.Second, 0},
	{"wipe", "a node loses its data directory", stores, wipe, 3 * time.Second, 5 * time.Second, 0},
	{"new-address", "a node comes back with other addresses", addresses, newAddress, 1 * time.Second, 3 * time.Second, 0},
	{"lag", "a node stays down until it needs a snapshot", nothing, kill(one), 10 * time.Second, 15 * time.Second, 0},
}

// need is what a fault needs of a deployment.
type need int

const (
	nothing need = iota
	isolation
	links
	clocks
	disks
	stores
	addresses
	growth
)

// missing says why the deployment has not what is needed, nil where it has.
func (n need) missing(c deploy.Cluster) error {
	switch n {
	case isolation:
		return has[deploy.Isolator](c)
	case links:
		return has[deploy.Networked](c)
	case clocks:
		return has[deploy.Clocked](c)
	case stores:
		return has[deploy.Stored](c)
	case addresses:
		return has[deploy.Movable](c)
	case growth:
		return has[deploy.Growable](c)
	case disks:
		if err := has[deploy.Disked](c); err != nil {
			return err
		}
		return c.(deploy.Disked).HasDisks()
	}
	return nil
}

func has[T any](c deploy.Cluster) error {
	if _, ok := c.(T); !ok {
		return errors.New("this deployment cannot do that; use --deploy process")
	}
	return nil
}

// choose says whom a fault strikes.
type choose func(ctx context.Context, e *env) ([]string, error)

func one(_ context.Context, e *env) ([]string, error) {
	node, err := e.anyRunning()
	return []string{node}, err
}

func theLeader(ctx context.Context, e *env) ([]string, error) {
	node, err := e.leader(ctx)
	return []string{node}, err
}

func mostOf(_ context.Context, e *env) ([]string, error)   { return e.some(e.majority()), nil }
func everyone(_ context.Context, e *env) ([]string, error) { return e.cluster.Nodes(), nil }

func kill(whom choose) func(context.Context, *env) (injury, error) {
	return func(ctx context.Context, e *env) (injury, error) {
		nodes, err := whom(ctx, e)
		if err != nil {
			return injury{}, err
		}
		var errs []error
		for _, node := range nodes {
			errs = append(errs, e.cluster.Kill(node))
		}
		return injury{target: list(nodes), heal: func(context.Context) error { return e.startAll(nodes...) }}, errors.Join(errs...)
	}
}

func pause(whom choose) func(context.Context, *env) (injury, error) {
	return func(ctx context.Context, e *env) (injury, error) {
		nodes, err := whom(ctx, e)
		if err != nil {
			return injury{}, err
		}
		err = e.cluster.Pause(nodes[0], true)
		return injury{target: nodes[0], heal: func(context.Context) error { return e.cluster.Pause(nodes[0], false) }}, err
	}
}

// stopTimeout is how long a graceful stop may take.
const stopTimeout = 20 * time.Second

func stop(whom choose) func(context.Context, *env) (injury, error) {
	return func(ctx context.Context, e *env) (injury, error) {
		nodes, err := whom(ctx, e)
		if err != nil {
			return injury{}, err
		}
		err = e.stop(ctx, nodes[0])
		return injury{target: nodes[0], heal: func(context.Context) error { return e.startAll(nodes...) }}, err
	}
}

func (e *env) stop(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return e.cluster.Stop(ctx, node)
}

// readyTimeout is how long a node may take to be well again.
const readyTimeout = 30 * time.Second

// awaitReady waits until the nodes are ready, those that have not left meanwhile.
func (e *env) awaitReady(ctx context.Context, timeout time.Duration, nodes ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, node := range nodes {
		for e.present(node) && e.cluster.Ready(ctx, node) != nil {
			if !sleep(ctx, 100*time.Millisecond) {
				return fmt.Errorf("%s does not become ready", node)
			}
		}
	}
	return nil
}

func rolling(ctx context.Context, e *env) (injury, error) {
	nodes := e.some(len(e.cluster.Nodes()))
	hurt := injury{target: list(nodes), heal: func(context.Context) error { return e.startAll(nodes...) }}
	for _, node := range nodes {
		if err := errors.Join(e.stop(ctx, node), e.cluster.Start(node)); err != nil {
			return hurt, err
		}
		if err := e.awaitReady(ctx, readyTimeout, node); err != nil && ctx.Err() == nil {
			return hurt, err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return hurt, nil
}
