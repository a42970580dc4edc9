package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/spoolraft/spoolraft/fsm"
)

// Config is the configuration of serve.
type Config struct {
	NodeID         string
	Data           string
	HTTP           string
	Peer           string
	Gossip         string
	Advertise      string
	Join           []string
	Expect         int
	Keys           string
	InsecureAnyKey bool
	LogStore       string
	MaxPayload     int
	Caps           fsm.Caps
	capsGiven      bool
	LogLevel       slog.Level
	AccessLog      bool
	Faults         bool
}

// Where the listeners are unless something else is asked for.
const (
	DefaultHTTP   = ":8080"
	DefaultPeer   = ":7000"
	DefaultGossip = ":7946"

	defaultMaxPayload = 1 << 20
)

// ConfigError is a configuration that cannot be run, in one line.
type ConfigError struct{ text string }

func (e ConfigError) Error() string { return e.text }

// ExitCode is that of wrong usage.
func (ConfigError) ExitCode() int { return 2 }

func configErrorf(format string, args ...any) error {
	return ConfigError{fmt.Sprintf(format, args...)}
}

const (
	envPrefix  = "SPOOLRAFT_"
	flagConfig = "config"
)

// AddFlags adds the flags of serve. Each of them is also an environment
// variable and, but for --config, a key of the file.
func (c *Config) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&c.NodeID, "node-id", "", "name of this node, its own in the cluster and for good")
	f.StringVar(&c.Data, "data", "", "directory for the log and the snapshots")
	f.StringVar(&c.HTTP, "http", DefaultHTTP, "listen here for the API")
	f.StringVar(&c.Peer, "peer", DefaultPeer, "listen here for the other nodes")
	f.StringVar(&c.Gossip, "gossip", DefaultGossip, "listen here for gossip (TCP and UDP)")
	f.StringVar(&c.Advertise, "advertise", "", "host[:port] at which the other nodes reach --peer (default: a private address of this machine)")
	f.StringSliceVar(&c.Join, "join", nil, "gossip addresses of other nodes, host:port,...; its own may be among them")
	f.IntVar(&c.Expect, "expect", 0, "nodes of the cluster at its first start (default 1 without --join)")
	f.StringVar(&c.Keys, "keys", "", "file with the keys that may call the API")
	f.BoolVar(&c.InsecureAnyKey, "insecure-any-key", false, "take any key: for trying out, never where others can reach it")
	f.StringVar(&c.LogStore, "log-store", "wal", "where the log is kept: wal or bolt")
	f.IntVar(&c.MaxPayload, "max-payload", defaultMaxPayload, "largest payload in bytes")
	f.Uint64Var(&c.Caps.MaxMessages, "max-messages", 0, "cap of the default spool: messages; 0: none")
	f.Uint64Var(&c.Caps.MaxDataBytes, "max-data-bytes", 0, "cap of the default spool: payload bytes; 0: none")
	f.Uint64Var(&c.Caps.MaxDedupKeys, "max-dedup-keys", 0, "cap of the default spool: remembered keys; 0: none")
	f.TextVar(&c.LogLevel, "log-level", slog.LevelInfo, "least `level` to log: debug, info, warn or error")
	f.BoolVar(&c.AccessLog, "access-log", false, "log each call to the API, without keys, tokens or payloads")
	f.BoolVar(&c.Faults, "faults", false, "take rules that make calls fail on purpose: for tests of clients only")
	f.String(flagConfig, "", "YAML file with any of these settings, by the names of the flags")
}

// Resolve fills in what no flag has set, from the environment, then from the
// file, and checks the whole. The order is flag, environment, file, default.
func (c *Config) Resolve(f *pflag.FlagSet) error {
	if err := fromEnv(f); err != nil {
		return err
	}
	if err := fromFile(f); err != nil {
		return err
	}
	c.capsGiven = f.Changed("max-messages") || f.Changed("max-data-bytes") || f.Changed("max-dedup-keys")
	return c.check()
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func fromEnv(f *pflag.FlagSet) error {
	var err error
	f.VisitAll(func(flag *pflag.Flag) {
		name := envName(flag.Name)
		text, ok := os.LookupEnv(name)
		if !ok || text == "" || flag.Changed || err != nil {
			return
		}
		if e := f.Set(flag.Name, text); e != nil {
			err = configErrorf("%s is %q: %s", name, text, valueError(e))
		}
	})
	return err
}

func fromFile(f *pflag.FlagSet) error {
	path := f.Lookup(flagConfig).Value.String()
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return configErrorf("the configuration file cannot be read: %s", err)
	}
	defer file.Close()
	settings := map[string]yaml.Node{}
	if err := yaml.NewDecoder(file).Decode(&settings); err != nil && !errors.Is(err, io.EOF) {
		return configErrorf("%s is not the YAML that is expected, names with values: %s", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return settings[a].Line - settings[b].Line })
	for _, name := range names {
		if err := fromNode(f, path, name, settings[name]); err != nil {
			return err
		}
	}
	return nil
}

func fromNode(f *pflag.FlagSet, path, name string, node yaml.Node) error {
	flag := f.Lookup(name)
	if flag == nil || name == flagConfig || name == "help" {
		return configErrorf("%s:%d: there is no setting %q", path, node.Line, name)
	}
	text, err := scalar(node)
	if err != nil {
		return configErrorf("%s:%d: %s %s", path, node.Line, name, err)
	}
	if flag.Changed {
		return nil
	}
	if err := f.Set(name, text); err != nil {
		return configErrorf("%s:%d: %s is %q: %s", path, node.Line, name, text, valueError(err))
	}
	return nil
}

// scalar is the text of a value; a list is that of its items with commas.
func scalar(node yaml.Node) (string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value, nil
	case yaml.SequenceNode:
		items := make([]string, len(node.Content))
		for i, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("must be a value or a list of values")
			}
			items[i] = item.Value
		}
		return strings.Join(items, ","), nil
	default:
		return "", errors.New("must be a value or a list of values")
	}
}

// valueError drops what pflag puts in front of the reason.
func valueError(err error) string {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) && errors.Unwrap(bad) != nil {
		err = errors.Unwrap(bad)
	}
	var number *strconv.NumError
	if errors.As(err, &number) {
		return number.Err.Error()
	}
	return err.Error()
}

var validNodeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (c *Config) check() error {
	switch {
	case c.NodeID == "":
		return configErrorf("no --node-id: give each node a name of its own that stays the same, like n1")
	case !validNodeID.MatchString(c.NodeID):
		return configErrorf("--node-id %q must be 1 to 63 letters, digits, dots, dashes and underscores, with a letter or digit first", c.NodeID)
	case c.Data == "":
		return configErrorf("no --data: name a directory that outlives the process, like /var/lib/spoolraft")
	case c.Keys == "" && !c.InsecureAnyKey:
		return configErrorf("nobody could call this node: name a file of keys with --keys, or, for trying out, take any key with --insecure-any-key")
	case c.Keys != "" && c.InsecureAnyKey:
		return configErrorf("--keys and --insecure-any-key contradict each other: give one of them")
	case c.LogStore != "wal" && c.LogStore != "bolt":
		return configErrorf("--log-store %q must be wal or bolt", c.LogStore)
	case c.MaxPayload < 1 || c.MaxPayload > fsm.MaxPayloadBytes:
		return configErrorf("--max-payload %d must be 1 to %d bytes", c.MaxPayload, fsm.MaxPayloadBytes)
	}
	if err := c.checkAddresses(); err != nil {
		return err
	}
	return c.checkExpect()
}

func (c *Config) checkAddresses() error {
	for _, a := range []struct{ flag, address string }{{"http", c.HTTP}, {"peer", c.Peer}, {"gossip", c.Gossip}} {
		if !validListen(a.address) {
			return configErrorf("--%s %q must be host:port or :port", a.flag, a.address)
		}
	}
	for _, a := range c.Join {
		if host, _, err := net.SplitHostPort(a); err != nil || host == "" || !validListen(a) {
			return configErrorf("--join %q must be host:port, with the port of that node's --gossip", a)
		}
	}
	if host, _, err := net.SplitHostPort(c.Advertise); err == nil && (host == "" || !validListen(c.Advertise)) {
		return configErrorf("--advertise %q must be host or host:port", c.Advertise)
	}
	return nil
}

func validListen(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// checkExpect demands the number of nodes where others are to be joined: a
// node that took itself for the whole cluster would be a second one.
func (c *Config) checkExpect() error {
	switch {
	case c.Expect == 0 && len(c.Join) == 0:
		c.Expect = 1
	case c.Expect == 0:
		return configErrorf("no --expect: with --join, say how many nodes the cluster has at its first start")
	case c.Expect < 0:
		return configErrorf("--expect %d must be at least 1", c.Expect)
	}
	return nil
}

// caps of the default spool, or nil to leave them as they are.
func (c *Config) caps() *fsm.Caps {
	if !c.capsGiven {
		return nil
	}
	caps := c.Caps
	return &caps
}
