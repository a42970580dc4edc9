package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadConfiguration: one clear line on standard error, code 2.
func TestBadConfiguration(t *testing.T) {
	needsProcesses(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unknown := write("unknown.yaml", "node-id: n1\n\nnode-name: n2\n")
	wrong := write("wrong.yaml", "expect: three\n")
	nested := write("nested.yaml", "join:\n  a: b\n")
	broken := write("broken.yaml", "node-id: [\n")
	twice := write("twice.yaml", "node-id: a\nnode-id: b\n")
	keys := write("keys", "key scopes=everything\n")
	good := []string{"--node-id", "n1", "--data", filepath.Join(dir, "data"), "--insecure-any-key"}
	tests := []struct {
		name   string
		env    []string
		args   []string
		stderr string
	}{
		{"no node id", nil, []string{"--data", dir}, "--node-id"},
		{"odd node id", nil, append([]string{"--node-id", "a/b"}, good[2:]...), `"a/b"`},
		{"no data", nil, []string{"--node-id", "n1"}, "--data"},
		{"nobody may call", nil, good[:4], "--insecure-any-key"},
		{"keys and any", nil, append([]string{"--keys", keys}, good...), "contradict"},
		{"no key file", nil, append([]string{"--keys", filepath.Join(dir, "none")}, good[:4]...), "key file"},
		{"odd key file", nil, append([]string{"--keys", keys}, good[:4]...), "line 1"},
		{"odd log store", nil, append([]string{"--log-store", "sql"}, good...), `"sql"`},
		{"odd http", nil, append([]string{"--http", "8080"}, good...), "--http"},
		{"odd peer port", nil, append([]string{"--peer", ":70000"}, good...), "--peer"},
		{"odd join", nil, append([]string{"--join", "n2", "--expect", "3"}, good...), "--join"},
		{"no expect", nil, append([]string{"--join", "n2:7946"}, good...), "--expect"},
		{"odd payload", nil, append([]string{"--max-payload", "0"}, good...), "--max-payload"},
		{"negative cap", nil, append([]string{"--max-messages", "-1"}, good...), "max-messages"},
		{"unknown flag", nil, append([]string{"--port", "1"}, good...), "--port"},
		{"argument", nil, append([]string{"now"}, good...), "now"},
		{"odd level", nil, append([]string{"--log-level", "loud"}, good...), "loud"},
		{"odd environment", []string{"SPOOLRAFT_EXPECT=many"}, good, "SPOOLRAFT_EXPECT"},
		{"no file", nil, append([]string{"--config", filepath.Join(dir, "none.yaml")}, good...), "none.yaml"},
		{"unknown setting", nil, append([]string{"--config", unknown}, good...), `unknown.yaml:3: there is no setting "node-name"`},
		{"wrong value", nil, append([]string{"--config", wrong}, good...), `wrong.yaml:1: expect is "three"`},
		{"nested value", nil, append([]string{"--config", nested}, good...), "join must be"},
		{"broken file", nil, append([]string{"--config", broken}, good...), "broken.yaml"},
		{"setting twice", nil, append([]string{"--config", twice}, good...), "twice.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := runCLI(t, tt.env, append([]string{"serve"}, tt.args...)...)
			if r.code != 2 || r.stdout != "" {
				t.Errorf("code %d, stdout %q", r.code, r.stdout)
			}
			if strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, tt.stderr) {
				t.Errorf("stderr %q, want one line with %q", r.stderr, tt.stderr)
			}
		})
	}
}

// TestServePortInUse: the configuration is fine, the machine is not, code 1.
func TestServePortInUse(t *testing.T) {
	needsProcesses(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"--http", "--peer", "--gossip"} {
		addresses := map[string]string{"--http": freeAddress(t), "--peer": freeAddress(t), "--gossip": freeAddress(t)}
		addresses[flag] = l.Addr().String()
		args := []string{"serve", "--node-id", "n1", "--data", t.TempDir(), "--insecure-any-key", "--log-level", "error"}
		for name, address := range addresses {
			args = append(args, name, address)
		}
		r := runCLI(t, nil, args...)
		if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, l.Addr().String()) || !strings.Contains(r.stderr, "in use") {
			t.Errorf("%s in use: %+v", flag, r)
		}
	}
}

// TestHealthcheck asks nodes that are not there and that are not ready.
func TestHealthcheck(t *testing.T) {
	needsProcesses(t)
	address := freeAddress(t)
	if r := runCLI(t, nil, "healthcheck", "--http", address); r.code != 1 || !strings.Contains(r.stderr, "does not answer") {
		t.Errorf("no node: %+v", r)
	}
	m := &member{t: t, id: "n1", data: t.TempDir(), http: address}
	newAddresses(t, []*member{m})
	m.start()
	env := []string{"SPOOLRAFT_HTTP=" + address}
	eventually(t, "it answers that it waits for two more", func() (bool, string) {
		r := runCLI(t, env, "healthcheck")
		return r.code == 1 && strings.Contains(r.stderr, "not ready"), r.stderr
	})
}
