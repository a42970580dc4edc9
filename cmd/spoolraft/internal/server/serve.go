package server

import (
	"context"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/cli"
	"github.com/spoolraft/spoolraft/httpapi"
	"github.com/spoolraft/spoolraft/httpapi/faults"
)

// Commands are those that run servers.
func Commands() []*cobra.Command {
	return []*cobra.Command{devCommand(), serveCommand(), healthcheckCommand()}
}

func serveCommand() *cobra.Command {
	var config Config
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run one node of a cluster",
		Long: `Run one node of a cluster.

Each setting is a flag, an environment variable (--node-id is SPOOLRAFT_NODE_ID)
or a line of the file that --config names (node-id: n1); the first of them that
gives it counts. Logs go to standard error, as JSON.

SIGTERM and SIGINT end the node gently: it takes no new calls, ends waiting ones,
hands leadership over and closes its log. A second signal ends it at once, which
loses nothing either. A node that was removed from its cluster (spoolraft cluster
remove) ends by itself, with code 6, and does so again when it is started on the
same directory.

All state is in memory. GOMEMLIMIT and GOGC work as in every Go program; set
GOMEMLIMIT to what the node may use, and cap the spool well below it.`,
		Example: `  spoolraft serve --node-id n1 --data /var/lib/spoolraft --keys /etc/spoolraft/keys \
    --join n1.internal:7946,n2.internal:7946,n3.internal:7946 --expect 3
  spoolraft serve --config /etc/spoolraft/config.yaml`,
		Args: cobra.NoArgs,
	}
	config.AddFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := config.Resolve(c.Flags()); err != nil {
			return err
		}
		return serve(c.Context(), config, c.ErrOrStderr())
	}
	return c
}

// untilSignal returns a context that the first signal to stop ends. After it,
// signals have their usual effect again.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel)
	return ctx, cancel
}

func serve(ctx context.Context, config Config, stderr io.Writer) error {
	ctx, cancel := untilSignal(ctx)
	defer cancel()
	api := httpapi.Config{
		AnyKey:          config.InsecureAnyKey,
		MaxPayloadBytes: int64(config.MaxPayload),
		AccessLog:       config.AccessLog,
		Version:         cli.Version(),
	}
	if config.Keys != "" {
		keys, err := httpapi.LoadKeys(config.Keys)
		if err != nil {
			return ConfigError{err.Error()}
		}
		api.Keys = keys
	}
	listener, err := listen(config.HTTP, "http")
	if err != nil {
		return cli.Failure{Err: err}
	}
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: config.LogLevel})).With("node", config.NodeID)
	if config.InsecureAnyKey {
		logger.Warn("any key may call this node, and change and read everything: for trying out only")
	}
	var injector *faults.Injector
	if config.Faults {
		logger.Warn("fault injection is on: whoever has an admin key can make calls of this node fail: for tests of clients only")
		injector = faults.New(logger)
	}
	n, err := startNode(ctx, config.cluster(logger), api, injector, listener)
	if err != nil {
		return ending(err)
	}
	logger.Info("listening", "http", listener.Addr().String(), "peer", config.Peer, "gossip", config.Gossip)
	failed := n.wait(ctx)
	if failed == nil {
		logger.Info("stopping")
	}
	left := n.stop()
	switch {
	case failed != nil:
		return ending(failed)
	case left != nil:
		return cli.Failure{Err: left}
	}
	logger.Info("stopped")
	return nil
}

func (c *Config) cluster(logger *slog.Logger) cluster.Config {
	return cluster.Config{
		NodeID:        c.NodeID,
		DataDir:       c.Data,
		PeerListen:    c.Peer,
		Advertise:     c.Advertise,
		Gossip:        cluster.GossipConfig{Listen: c.Gossip, Join: c.Join},
		Expect:        c.Expect,
		LogStore:      c.LogStore,
		Caps:          c.caps(),
		Clock:         testClock(),
		SnapshotBytes: testSnapshotBytes(),
		Logger:        logger,
	}
}
