package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/proxy"
)

// Cluster is a set of nodes.
type Cluster interface {
	// Nodes names every node, also one that is down.
	Nodes() []string
	// Target is the node's API as clients reach it.
	Target(node string) client.Target
	// Leader names the node that leads, "" where none is known.
	Leader(ctx context.Context) string
	// Ready is nil where the node is up and knows a leader.
	Ready(ctx context.Context, node string) error
	// Running reports whether the node was started and not ended since.
	Running(node string) bool
	// Kill ends the node at once.
	Kill(node string) error
	// Stop ends the node gracefully.
	Stop(ctx context.Context, node string) error
	// Pause stops the node's processor time, or gives it back.
	Pause(node string, paused bool) error
	// Start starts the node where it is down.
	Start(node string) error
	// Collect copies the nodes' logs, and data where it is wanted, into the
	// directory.
	Collect(dir string, data bool) error
	// Close ends every node and frees everything.
	Close() error
}

// Isolator can take a node off the others and bring it back.
type Isolator interface {
	Isolate(node string, isolated bool) error
}

// Networked has a proxy on every link. Clients are the party [Clients].
type Networked interface {
	Mesh() *proxy.Mesh
}

// Clients is the party that calls the API.
const Clients = "clients"

// Disked has disks that can lose power, fill up and hang.
type Disked interface {
	// HasDisks says why not, where it has not.
	HasDisks() error
	// PowerLoss ends the nodes at once and makes their disks forget, all in
	// the same moment.
	PowerLoss(nodes []string, keep float64, d dice.Dice) error
	// HangSyncs makes flushes wait, or go on.
	HangSyncs(node string, hung bool) error
	// BreakSyncs makes flushes fail, or work.
	BreakSyncs(node string, broken bool) error
	// LeaveFree leaves so many bytes on the disk; -1 undoes it.
	LeaveFree(node string, bytes int64) error
}

// Clocked has nodes whose clocks can be moved.
type Clocked interface {
	SetClock(node string, offset time.Duration) error
}

// Stored gives access to a node's data. The node is ended for it, and stays
// down.
type Stored interface {
	// FlipBit changes one bit of a file whose path matches, and says where.
	// The path is relative to the data directory.
	FlipBit(node string, path *regexp.Regexp, d dice.Dice) (where string, err error)
	// Wipe empties the data directory.
	Wipe(node string) error
}

// Movable can give a node other addresses. The node is ended for it, and stays
// down.
type Movable interface {
	Move(node string) error
}

// Growable can have more nodes than it was started with, and fewer, and moves its
// lead, as an operator would have it.
type Growable interface {
	// Add makes a further node with an empty directory. It is not started.
	Add() (node string, err error)
	// Retire has the cluster remove the node, ends it and empties its directory. It
	// stays down, for good where that is wanted. By itself says that it ended before
	// it was killed, as a removed node should. Where the cluster refuses, the error is
	// ErrRefused, and the node goes on.
	Retire(ctx context.Context, node string, forGood bool) (byItself bool, err error)
	// Transfer asks the cluster for the node to lead, and tells the answer.
	Transfer(ctx context.Context, node string) (answer string, err error)
}

// ErrRefused says that the cluster did not do what an operator asked for.
var ErrRefused = errors.New("refused")

// Exit is a node's end that nobody asked for.
type Exit struct {
	Node   string
	At     time.Time
	Detail string
}

// Supervised starts nodes again that end by themselves, and tells of it.
type Supervised interface {
	Exits() []Exit
}

// ErrNoMatch says that no file of the wanted kind exists (yet).
var ErrNoMatch = errors.New("no such file yet")

// AwaitReady waits until every node is ready.
func AwaitReady(ctx context.Context, c Cluster) error {
	for _, node := range c.Nodes() {
		for {
			err := c.Ready(ctx, node)
			if err == nil {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("node %s is not ready: %w", node, err)
			}
		}
	}
	return nil
}

// probe is the client that asks nodes how they are.
var probe = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get asks a node without a proxy in between.
func get(ctx context.Context, url string) (status int, body string, err error) {
	return ask(ctx, probe, http.MethodGet, url)
}

func ask(ctx context.Context, client *http.Client, method, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer jepsen")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	return resp.StatusCode, string(text), err
}

// readyAt asks /readyz.
func readyAt(ctx context.Context, url string) error {
	status, body, err := get(ctx, url+"/readyz")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("status %d: %.200s", status, body)
	}
	return nil
}

// leaderLine is the metric by which a node says that it leads.
var leaderLine = regexp.MustCompile(`(?m)^spoolraft_raft_(is_)?leader(\{[^}]*\})? 1$`)

// leadsAt asks /metrics.
func leadsAt(ctx context.Context, url string) bool {
	status, body, err := get(ctx, url+"/metrics")
	return err == nil && status == http.StatusOK && leaderLine.MatchString(body)
}
