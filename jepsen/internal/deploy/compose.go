package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
)

// ComposeOptions say how to start a cluster of containers.
type ComposeOptions struct {
	File    string // the compose file
	Project string // a name of this run's own
	Image   string
	Network string // of the compose file, that the nodes share
}

// Compose is the three containers of the compose file.
type Compose struct {
	opts    ComposeOptions
	compose []string // the command, of either version
	env     []string
	nodes   []*container
}

// container is one node.
type container struct {
	name, id, url string

	mu      sync.Mutex
	running bool
	paused  bool
}

// composeNodes are the services of the compose file.
var composeNodes = []string{"n1", "n2", "n3"}

// dockerTimeout bounds every docker command.
const dockerTimeout = 90 * time.Second

// NewCompose starts the containers. They are not ready yet.
func NewCompose(opts ComposeOptions) (*Compose, error) {
	c := &Compose{opts: opts}
	if err := c.findCommand(); err != nil {
		return nil, err
	}
	if _, err := c.docker("image", "inspect", opts.Image); err != nil {
		return nil, fmt.Errorf("there is no image %s; make one with: make image", opts.Image)
	}
	c.env = append(os.Environ(), "SPOOLRAFT_IMAGE="+opts.Image)
	for i, name := range composeNodes {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		_, port, _ := strings.Cut(addr, ":")
		c.env = append(c.env, fmt.Sprintf("SPOOLRAFT_PORT_%d=%s", i+1, port))
		c.nodes = append(c.nodes, &container{name: name, url: "http://" + addr, running: true})
	}
	if _, err := c.composeCommand("up", "-d"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, n := range c.nodes {
		id, err := c.composeCommand("ps", "-q", n.name)
		if err != nil || id == "" {
			return nil, errors.Join(fmt.Errorf("container of %s: %w", n.name, err), c.Close())
		}
		n.id = id
	}
	return c, nil
}

// findCommand looks for compose 2, then 1.
func (c *Compose) findCommand() error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errors.New("the compose deployment needs docker, which is not installed")
	}
	if exec.Command("docker", "compose", "version").Run() == nil {
		c.compose = []string{"docker", "compose"}
		return nil
	}
	if _, err := exec.LookPath("docker-compose"); err == nil {
		c.compose = []string{"docker-compose"}
		return nil
	}
	return errors.New("the compose deployment needs docker compose or docker-compose; neither is installed")
}

func (c *Compose) composeCommand(args ...string) (string, error) {
	all := slices.Concat(c.compose, []string{"-f", c.opts.File, "-p", c.opts.Project}, args)
	return c.command(all...)
}

func (c *Compose) docker(args ...string) (string, error) {
	return c.command(append([]string{"docker"}, args...)...)
}

// command runs a command and returns what it printed.
func (c *Compose) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dockerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = c.env
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errOut.Bytes()))
	}
	return strings.TrimSpace(out.String()), nil
}

func (c *Compose) node(name string) *container {
	return c.nodes[slices.Index(composeNodes, name)]
}

// Nodes implements Cluster.
func (c *Compose) Nodes() []string { return slices.Clone(composeNodes) }

// Target implements Cluster.
func (c *Compose) Target(node string) client.Target {
	return client.Target{Node: node, URL: c.node(node).url}
}

// Leader implements Cluster.
func (c *Compose) Leader(ctx context.Context) string {
	for _, n := range c.nodes {
		if c.Running(n.name) && leadsAt(ctx, n.url) {
			return n.name
		}
	}
	return ""
}

// Ready implements Cluster.
func (c *Compose) Ready(ctx context.Context, node string) error {
	return readyAt(ctx, c.node(node).url)
}

// Running implements Cluster.
func (c *Compose) Running(node string) bool {
	n := c.node(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running
}

// change runs a docker command on the node's container where the state is
// another, and notes the new one.
func (n *container) change(wanted func() bool, noted func(), run func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !wanted() {
		return nil
	}
	if err := run(); err != nil {
		return err
	}
	noted()
	return nil
}

// end stops or kills the container, which must not be paused for it.
func (c *Compose) end(node string, args ...string) error {
	if err := c.Pause(node, false); err != nil {
		return err
	}
	n := c.node(node)
	return n.change(func() bool { return n.running }, func() { n.running = false }, func() error {
		_, err := c.docker(append(args, n.id)...)
		return err
	})
}

// Kill implements Cluster.
func (c *Compose) Kill(node string) error { return c.end(node, "kill") }

// Stop implements Cluster.
func (c *Compose) Stop(_ context.Context, node string) error { return c.end(node, "stop", "-t", "20") }

// Start implements Cluster.
func (c *Compose) Start(node string) error {
	n := c.node(node)
	return n.change(func() bool { return !n.running }, func() { n.running = true }, func() error {
		_, err := c.docker("start", n.id)
		return err
	})
}

// Pause implements Cluster.
func (c *Compose) Pause(node string, paused bool) error {
	n := c.node(node)
	verb := "unpause"
	if paused {
		verb = "pause"
	}
	return n.change(func() bool { return n.running && n.paused != paused }, func() { n.paused = paused }, func() error {
		_, err := c.docker(verb, n.id)
		return err
	})
}

// Isolate implements Isolator. A container without its network is cut off
// from clients, too.
func (c *Compose) Isolate(node string, isolated bool) error {
	n := c.node(node)
	network := c.opts.Project + "_" + c.opts.Network
	attached, err := c.docker("inspect", "-f", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}", n.id)
	if err != nil {
		return err
	}
	switch on := strings.Contains(attached, network); {
	case isolated && on:
		_, err = c.docker("network", "disconnect", network, n.id)
	case !isolated && !on:
		_, err = c.docker("network", "connect", "--alias", node, network, n.id)
	}
	return err
}

// Collect implements Cluster. Data stay in their volumes, which end with the
// run.
func (c *Compose) Collect(dir string, _ bool) error {
	var errs []error
	for _, n := range c.nodes {
		to := filepath.Join(dir, n.name)
		errs = append(errs, os.MkdirAll(to, 0o755))
		log, err := os.Create(filepath.Join(to, "log"))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cmd := exec.Command("docker", "logs", n.id)
		cmd.Stdout, cmd.Stderr = log, log
		errs = append(errs, cmd.Run(), log.Close())
	}
	return errors.Join(errs...)
}

// Close implements Cluster.
func (c *Compose) Close() error {
	_, err := c.composeCommand("down", "-v", "-t", "2")
	return err
}
