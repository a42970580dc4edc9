package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/cli"
	"github.com/spoolraft/spoolraft/httpapi"
	"github.com/spoolraft/spoolraft/httpapi/faults"
)

const (
	// maxDevNodes is as many as a cluster for trying out needs.
	maxDevNodes = 7
	// readyTimeout bounds how long the nodes may take to find a leader.
	readyTimeout = 15 * time.Second
	readyPoll    = 10 * time.Millisecond
)

type devConfig struct {
	listen string
	nodes  int
	data   string
	faults bool
}

func devCommand() *cobra.Command {
	var config devConfig
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, to try it out",
		Long: `Run everything in one process, to try it out: one node, or a real cluster of them
with consecutive ports. Any key is taken, so keep it on the loopback interface.
Data is temporary unless --data names a directory.

With --faults, calls can be made to fail on purpose, to test the retries of a
program: see spoolraft faults. All nodes share the rules.`,
		Example: `  spoolraft dev
  spoolraft dev --nodes 3
  spoolraft dev --faults
  spoolraft dev --listen 127.0.0.1:9000 --data ./data`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&config.listen, "listen", "127.0.0.1:8080", "listen here for the API; further nodes take the ports after it")
	f.IntVar(&config.nodes, "nodes", 1, "how many nodes: 1, 3, 5 or 7")
	f.StringVar(&config.data, "data", "", "keep the data in this directory (default: a temporary one, removed at the end)")
	f.BoolVar(&config.faults, "faults", false, "take rules that make calls fail on purpose")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := config.check(); err != nil {
			return err
		}
		return runDev(c.Context(), config, c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

func (c devConfig) check() error {
	if !validListen(c.listen) {
		return configErrorf("--listen %q must be host:port or :port", c.listen)
	}
	if c.nodes < 1 || c.nodes > maxDevNodes || c.nodes%2 == 0 {
		return configErrorf("--nodes %d must be 1, 3, 5 or 7", c.nodes)
	}
	return nil
}

func runDev(ctx context.Context, config devConfig, stdout, stderr io.Writer) (err error) {
	ctx, cancel := untilSignal(ctx)
	defer cancel()
	listeners, err := config.listenAll()
	if err != nil {
		return cli.Failure{Err: err}
	}
	data, remove, err := config.directory()
	if err != nil {
		closeAll(listeners)
		return cli.Failure{Err: err}
	}
	defer remove()
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var injector *faults.Injector
	if config.faults {
		injector = faults.New(logger)
	}
	nodes, err := startDev(ctx, listeners, data, logger, injector)
	if err == nil {
		err = awaitReady(ctx, nodes)
	}
	if err == nil && ctx.Err() == nil {
		io.WriteString(stdout, config.welcome(listeners))
		err = waitAny(ctx, nodes, stderr)
	}
	if err = errors.Join(err, stopAll(nodes)); err != nil {
		return cli.Failure{Err: err}
	}
	return nil
}

// listenAll opens the ports of all APIs, so that one that is in use is found
// before anything has started. Where the first is 0, the system picks them all.
func (c devConfig) listenAll() ([]net.Listener, error) {
	host, portText, _ := net.SplitHostPort(c.listen)
	first, _ := strconv.Atoi(portText)
	if first > 0 && first+c.nodes-1 > 65_535 {
		return nil, fmt.Errorf("there are not %d ports from %d on: choose a lower one with --listen", c.nodes, first)
	}
	var listeners []net.Listener
	for i := range c.nodes {
		port := 0
		if first > 0 {
			port = first + i
		}
		l, err := listen(net.JoinHostPort(host, strconv.Itoa(port)), "listen")
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// directory returns where the data is, and what to do with it at the end.
func (c devConfig) directory() (data string, remove func(), err error) {
	if c.data != "" {
		return c.data, func() {}, nil
	}
	data, err = os.MkdirTemp("", "spoolraft-dev-")
	if err != nil {
		return "", nil, fmt.Errorf("no temporary directory: %w", err)
	}
	return data, func() { os.RemoveAll(data) }, nil
}

// startDev starts a node for each listener. Where one fails, those started are
// returned all the same.
func startDev(ctx context.Context, listeners []net.Listener, data string, logger *slog.Logger, injector *faults.Injector) ([]*node, error) {
	hub := cluster.NewHub()
	var nodes []*node
	for i, l := range listeners {
		id := "n" + strconv.Itoa(i+1)
		n, err := startNode(ctx, cluster.Config{
			NodeID:     id,
			DataDir:    filepath.Join(data, id),
			PeerListen: "127.0.0.1:0",
			Discovery:  hub.Discovery(),
			Expect:     len(listeners),
			Logger:     logger.With("node", id),
		}, httpapi.Config{AnyKey: true, Version: cli.Version()}, injector, l)
		if err != nil {
			closeAll(listeners[i+1:])
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// awaitReady returns when every node is ready, or ctx is over.
func awaitReady(ctx context.Context, nodes []*node) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotReady)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for _, n := range nodes {
		for n.cluster.Ready() != nil {
			select {
			case <-poll.C:
			case err := <-n.cluster.Failed():
				return fmt.Errorf("a node can't go on: %w", err)
			case <-ctx.Done():
				if context.Cause(ctx) == errNotReady {
					return fmt.Errorf("the nodes did not become ready: %w", n.cluster.Ready())
				}
				return nil
			}
		}
	}
	return nil
}

var errNotReady = errors.New("not ready")

// waitAny returns when ctx is over, with nil, or when a node can't go on. One that
// was removed from the cluster leaves the others alone.
func waitAny(ctx context.Context, nodes []*node, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		n   *node
		err error
	}
	ended := make(chan end, len(nodes))
	for _, n := range nodes {
		go func() { ended <- end{n, n.wait(ctx)} }()
	}
	for range nodes {
		e := <-ended
		if !errors.Is(e.err, cluster.ErrRemoved) {
			return e.err
		}
		fmt.Fprintln(stderr, e.err)
		if err := e.n.stop(); err != nil {
			return err
		}
	}
	return nil
}

func stopAll(nodes []*node) error {
	ended := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { ended <- n.stop() }()
	}
	var err error
	for range nodes {
		err = errors.Join(err, <-ended)
	}
	return err
}

// welcome says where the nodes are and gives the lines to paste.
func (c devConfig) welcome(listeners []net.Listener) string {
	urls := make([]string, len(listeners))
	for i, l := range listeners {
		urls[i] = "http://" + reachable(l.Addr().String())
	}
	var b strings.Builder
	where := "temporary data"
	if c.data != "" {
		where = "data in " + c.data
	}
	fmt.Fprintf(&b, "spoolraft is ready: %s, any key, %s. Ctrl-C ends it.\n\n", plural(len(urls), "node"), where)
	for _, url := range urls {
		fmt.Fprintf(&b, "  %s\n", url)
	}
	fmt.Fprintf(&b, `
For the commands, and for curl, in another terminal:

  export SPOOLER_API=%[1]s/v1
  export SPOOLER_KEY=dev

A first queue that remembers keys for an hour:

  curl -X PUT $SPOOLER_API/spools/default/queues/orders -H "Authorization: Bearer $SPOOLER_KEY" -d '{"dedupWindowSeconds":3600}'

A first keyed send, and the same again%[3]s, as after a lost answer:

  curl -i $SPOOLER_API/spools/default/queues/orders/send -H "Authorization: Bearer $SPOOLER_KEY" -H 'Spooler-Dedup-String: order-1' -d 'hello'
  curl -i %[2]s/v1/spools/default/queues/orders/send -H "Authorization: Bearer $SPOOLER_KEY" -H 'Spooler-Dedup-String: order-1' -d 'hello'

The first is answered 201, the second 200 with the same id: stored once.
`, urls[0], urls[len(urls)-1], map[bool]string{true: " at another node"}[len(urls) > 1])
	if c.faults {
		b.WriteString(faultsWelcome)
	}
	return b.String()
}

const faultsWelcome = `
WARNING: fault injection is on, so that calls can be made to fail on purpose. To lose the answers of three sends in ten:

  spoolraft faults add drop --operation send --probability 0.3

What has been injected, and the end of it:

  spoolraft faults list
  spoolraft faults clear
`

// reachable is the address of a listener as a client on this machine dials it.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}
