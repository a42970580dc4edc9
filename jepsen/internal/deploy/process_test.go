package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/fusefs"
	"github.com/spoolraft/spoolraft/jepsen/internal/proxy"
)

// TestMain makes the test binary a server when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		stub(os.Args[2:])
	}
	if len(os.Args) > 3 && os.Args[1] == "debug" {
		stubLog(os.Args[3])
	}
	os.Exit(m.Run())
}

// stub is a server that does the least: it answers what the harness asks,
// counts its starts in a flushed file and in one that is not, and dials peers
// on request. It never returns.
func stub(args []string) {
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i++ {
		flags[args[i]] = args[i+1]
	}
	data := flags["--data"]
	if text, err := os.ReadFile(filepath.Join(data, "flushed")); err == nil && strings.Contains(string(text), "!") {
		fmt.Fprintln(os.Stderr, "flushed is damaged")
		os.Exit(1)
	}
	appendTo(filepath.Join(data, "flushed"), true)
	appendTo(filepath.Join(data, "unflushed"), false)
	if l, err := net.Listen("tcp4", flags["--peer"]); err == nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("hello"))
				c.Close()
			}
		}()
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() { <-term; os.Exit(0) }()
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		lead := 0
		if flags["--node-id"] == "n2" {
			lead = 1
		}
		fmt.Fprintf(w, "# TYPE spoolraft_raft_leader gauge\nspoolraft_raft_leader %d\n", lead)
		if lead == 1 {
			fmt.Fprint(w, "spoolraft_state_hash_index 256\nspoolraft_state_hash_high 4.294967295e+09\nspoolraft_state_hash_low 16\n")
		}
	})
	go exitOnceRemoved(filepath.Join(data, "removed"))
	http.HandleFunc("/v1/cluster", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"healthy":true,"nodes":[{"name":"n1","instance":"i"},{"name":"n2","instance":"i"},{"name":"n4","instance":"i"}]}`)
	})
	http.HandleFunc("/v1/cluster/nodes/{node}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("node") == "n1" || r.URL.Query().Get("instance") != "i" {
			w.WriteHeader(http.StatusConflict)
			return
		}
		appendTo(filepath.Join(data, "..", "..", r.PathValue("node"), "data", "removed"), false)
		w.WriteHeader(http.StatusNoContent)
	})
	http.HandleFunc("/v1/cluster/transfer", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(7) })
	http.HandleFunc("/flags", func(w http.ResponseWriter, _ *http.Request) {
		flags["clock"] = os.Getenv(clockVariable)
		_ = json.NewEncoder(w).Encode(flags)
	})
	http.HandleFunc("/dial", func(w http.ResponseWriter, r *http.Request) {
		c, err := net.Dial("tcp", r.URL.Query().Get("addr"))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if n, _ := c.Read(make([]byte, 5)); n == 0 {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(flags["--http"], nil))
	os.Exit(1)
}

// exitOnceRemoved ends the stub as a removed node ends.
func exitOnceRemoved(mark string) {
	for {
		if _, err := os.Stat(mark); err == nil {
			os.Exit(removedCode)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func appendTo(path string, flush bool) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer f.Close()
	_, _ = f.WriteString("x")
	if flush {
		_ = f.Sync()
		if d, err := os.Open(filepath.Dir(path)); err == nil {
			_ = d.Sync()
			d.Close()
		}
	}
}

func startStubs(t *testing.T, disks bool) *Process {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	if err := fusefs.Available(); disks && err != nil {
		t.Skip(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProcess(ProcessOptions{Binary: binary, Dir: t.TempDir(), Nodes: 3, LogStore: "wal", Disks: disks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	awaitAll(t, p)
	return p
}

func awaitAll(t *testing.T, p *Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := AwaitReady(ctx, p); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// starts reads how often a node counted its start in a file.
func starts(p *Process, node, file string) int {
	text, err := p.node(node).readFile(file)
	if err != nil {
		return 0
	}
	return len(text)
}

func TestNodesAreStartedAndHurt(t *testing.T) {
	p := startStubs(t, false)
	ctx := context.Background()
	if got := p.Leader(ctx); got != "n2" {
		t.Errorf("the leader is %q", got)
	}
	must(t, p.Kill("n2"))
	if p.Running("n2") || p.Leader(ctx) != "" || p.Ready(ctx, "n2") == nil {
		t.Error("a killed node seems to be up")
	}
	must(t, p.Kill("n2")) // down already
	must(t, p.Start("n2"))
	must(t, p.Start("n2")) // up already
	must(t, p.Stop(ctx, "n1"))
	if p.Running("n1") {
		t.Error("a stopped node seems to be up")
	}
	must(t, p.Start("n1"))
	must(t, p.Pause("n3", true))
	if p.Ready(ctx, "n3") == nil {
		t.Error("a paused node seems to be ready")
	}
	must(t, p.Stop(ctx, "n3")) // wakes it first
	must(t, p.Start("n3"))
	awaitAll(t, p)
	if exits := p.Exits(); len(exits) > 0 {
		t.Errorf("exits that were asked for are reported: %v", exits)
	}
	if n := starts(p, "n2", "flushed"); n != 2 {
		t.Errorf("n2 was started %d times", n)
	}
}

func TestClientsReachNodesThroughTheProxy(t *testing.T) {
	p := startStubs(t, false)
	resp, err := http.Get(p.Target("n1").URL + "/flags")
	must(t, err)
	defer resp.Body.Close()
	var flags map[string]string
	must(t, json.NewDecoder(resp.Body).Decode(&flags))
	if flags["--node-id"] != "n1" || flags["--expect"] != "3" || flags["--advertise"] == flags["--peer"] || flags["clock"] == "" {
		t.Errorf("flags are %v", flags)
	}
	must(t, p.SetClock("n1", -1500*time.Millisecond))
	if text, _ := os.ReadFile(flags["clock"]); string(text) != "-1500\n" {
		t.Errorf("the clock file holds %q", text)
	}
}

// dial lets one node dial another's advertised address, and reports whether
// an answer came.
func dial(t *testing.T, p *Process, from, to string) bool {
	t.Helper()
	resp, err := http.Get(p.node(from).directURL() + "/dial?addr=" + p.node(to).addresses().advertise)
	must(t, err)
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func TestLinksAreCutByPair(t *testing.T) {
	p := startStubs(t, false)
	must(t, p.Isolate("n1", true))
	for _, c := range []struct {
		from, to string
		want     bool
	}{{"n1", "n2", false}, {"n2", "n1", false}, {"n2", "n3", true}, {"n3", "n2", true}} {
		if got := dial(t, p, c.from, c.to); got != c.want {
			t.Errorf("%s to %s: reached is %v", c.from, c.to, got)
		}
	}
	must(t, p.Isolate("n1", false))
	if !dial(t, p, "n1", "n2") {
		t.Error("the link is not healed")
	}
	p.Mesh().Set(proxy.Link{From: "n3", To: "n2"}, proxy.Condition{Cut: true})
	if dial(t, p, "n3", "n2") || !dial(t, p, "n1", "n2") {
		t.Error("a cut link cuts another, or nothing")
	}
}

func TestMovedNodeIsReachedAtItsNewAddress(t *testing.T) {
	p := startStubs(t, false)
	before := p.node("n1").addresses()
	url := p.Target("n1").URL
	must(t, p.Move("n1"))
	must(t, p.Start("n1"))
	awaitAll(t, p)
	after := p.node("n1").addresses()
	if before.http == after.http || before.advertise == after.advertise || before.gossip == after.gossip {
		t.Errorf("addresses were %v and are %v", before, after)
	}
	resp, err := http.Get(url + "/readyz")
	must(t, err)
	resp.Body.Close()
	if !dial(t, p, "n2", "n1") {
		t.Error("peers do not reach the new address")
	}
}

func TestNodeThatEndsByItselfIsReportedAndStartedAgain(t *testing.T) {
	p := startStubs(t, false)
	resp, err := http.Get(p.node("n1").directURL() + "/exit")
	if err == nil {
		resp.Body.Close()
	}
	for len(p.Exits()) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	awaitAll(t, p)
	if e := p.Exits()[0]; e.Node != "n1" || !strings.Contains(e.Detail, "exit status 7") {
		t.Errorf("reported %+v", e)
	}
}

func TestDamagedAndWipedData(t *testing.T) {
	for _, disks := range []bool{false, true} {
		p := startStubs(t, disks)
		// "x" with its lowest bits changed can become "!" only by chance, so
		// the file is written whole.
		must(t, p.node("n1").whileDown(func() error { return p.node("n1").writeFile("flushed", []byte("!"), 0) }))
		must(t, p.Start("n1"))
		for len(p.Exits()) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		if e := p.Exits()[0]; !strings.Contains(e.Detail, "flushed is damaged") {
			t.Errorf("reported %+v", e)
		}
		must(t, p.Wipe("n1"))
		must(t, p.Start("n1"))
		awaitAll(t, p)
		if n := starts(p, "n1", "flushed"); n != 1 {
			t.Errorf("after the wipe, %d starts are counted", n)
		}
	}
}

func TestOneBitIsFlipped(t *testing.T) {
	p := startStubs(t, false)
	must(t, p.Kill("n1"))
	before, err := p.node("n1").readFile("flushed")
	must(t, err)
	where, err := p.FlipBit("n1", regexp.MustCompile(`^flushed$`), dice.New(1))
	must(t, err)
	after, err := p.node("n1").readFile("flushed")
	must(t, err)
	if len(before) != 1 || len(after) != 1 || before[0] == after[0] || !strings.HasPrefix(where, "flushed byte 0 of 1, bit ") {
		t.Errorf("%s: %q became %q", where, before, after)
	}
	if d := before[0] ^ after[0]; d&(d-1) != 0 {
		t.Errorf("more than one bit changed: %08b", d)
	}
	if _, err := p.FlipBit("n1", regexp.MustCompile(`nothing`), dice.New(1)); err != ErrNoMatch {
		t.Errorf("no file matches, and the error is %v", err)
	}
}

func TestPowerLossForgetsWhatWasNotFlushed(t *testing.T) {
	p := startStubs(t, true)
	must(t, p.PowerLoss(p.Nodes(), 0, dice.New(1)))
	for _, node := range p.Nodes() {
		if p.Running(node) {
			t.Errorf("%s runs without power", node)
		}
		if f, u := starts(p, node, "flushed"), starts(p, node, "unflushed"); f != 1 || u != 0 {
			t.Errorf("%s kept %d flushed and %d unflushed bytes", node, f, u)
		}
		must(t, p.Start(node))
	}
	awaitAll(t, p)
	out := t.TempDir()
	must(t, p.Collect(out, true))
	if text, err := os.ReadFile(filepath.Join(out, "n3", "data", "flushed")); err != nil || string(text) != "xx" {
		t.Errorf("collected %q (%v)", text, err)
	}
}

func TestKilledWhileItsDiskHangs(t *testing.T) {
	p := startStubs(t, true)
	must(t, p.Kill("n1"))
	must(t, p.HangSyncs("n1", true))
	must(t, p.Start("n1")) // hangs in its first flush
	must(t, p.Kill("n1"))
	must(t, p.HangSyncs("n1", false))
	must(t, p.Start("n1"))
	awaitAll(t, p)
}

func TestPortsAreHandedOutOnce(t *testing.T) {
	var all []string
	for range 50 {
		addr, err := freeAddress()
		must(t, err)
		if slices.Contains(all, addr) {
			t.Fatalf("%s was handed out twice", addr)
		}
		all = append(all, addr)
	}
}
