package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

func resolve(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	var c Config
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.AddFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c, c.Resolve(f)
}

// TestPrecedence: flag, environment, file, default, in this order.
func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	file := `
# a comment
node-id: from-file
data: from-file
http: ":1"
join: [a:1, b:2]
expect: 3
insecure-any-key: true
max-messages: 10
log-level: warn
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SPOOLRAFT_CONFIG", path)
	t.Setenv("SPOOLRAFT_NODE_ID", "from-env")
	t.Setenv("SPOOLRAFT_DATA", "from-env")
	t.Setenv("SPOOLRAFT_ADVERTISE", "") // as if unset
	c, err := resolve(t, "--node-id", "from-flag")
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeID != "from-flag" || c.Data != "from-env" || c.HTTP != ":1" || c.Peer != DefaultPeer || c.Expect != 3 {
		t.Errorf("resolved to %+v", c)
	}
	if len(c.Join) != 2 || c.Join[1] != "b:2" || !c.InsecureAnyKey || c.LogLevel.String() != "WARN" {
		t.Errorf("resolved to %+v", c)
	}
	if caps := c.caps(); caps == nil || caps.MaxMessages != 10 || caps.MaxDataBytes != 0 {
		t.Errorf("caps are %+v", caps)
	}
}

func TestDefaults(t *testing.T) {
	c, err := resolve(t, "--node-id", "n1", "--data", "d", "--insecure-any-key")
	if err != nil {
		t.Fatal(err)
	}
	if c.Expect != 1 || c.LogStore != "wal" || c.MaxPayload != 1<<20 || c.AccessLog || c.caps() != nil {
		t.Errorf("resolved to %+v", c)
	}
	// A cap of 0 that is asked for lifts one.
	c, err = resolve(t, "--node-id", "n1", "--data", "d", "--insecure-any-key", "--max-messages", "0")
	if err != nil || c.caps() == nil {
		t.Errorf("caps are %+v (%v)", c.caps(), err)
	}
}

// TestEveryFlagHasAnEnvironmentVariable that sets it.
func TestEveryFlagHasAnEnvironmentVariable(t *testing.T) {
	values := map[string]string{"int": "1", "uint64": "7", "bool": "true", "stringSlice": "a:1", "string": ":9"}
	var c Config
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.AddFlags(f)
	f.VisitAll(func(flag *pflag.Flag) {
		if value, ok := values[flag.Value.Type()]; ok {
			t.Setenv(envName(flag.Name), value)
		}
	})
	if err := fromEnv(f); err != nil {
		t.Fatal(err)
	}
	f.VisitAll(func(flag *pflag.Flag) {
		if _, ok := values[flag.Value.Type()]; ok && !flag.Changed {
			t.Errorf("%s does not set --%s", envName(flag.Name), flag.Name)
		}
	})
}
