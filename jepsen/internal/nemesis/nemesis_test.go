package nemesis

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/client"
	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
	"github.com/spoolraft/spoolraft/jepsen/internal/proxy"
)

// board is a cluster that only notes what is done to it.
type board struct {
	mesh *proxy.Mesh

	mu     sync.Mutex
	down   map[string]bool
	paused map[string]bool
	hurt   map[string]bool // disks, clocks and links that are not as they were
	log    []string
}

func newBoard(t *testing.T) *board {
	b := &board{mesh: proxy.New(1), down: map[string]bool{}, paused: map[string]bool{}, hurt: map[string]bool{}}
	t.Cleanup(b.mesh.Close)
	return b
}

func (b *board) note(format string, args ...any) {
	b.log = append(b.log, fmt.Sprintf(format, args...))
}

func (b *board) set(m map[string]bool, key string, on bool, format string, args ...any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if on {
		m[key] = true
	} else {
		delete(m, key)
	}
	b.note(format, args...)
	return nil
}

func (b *board) Nodes() []string                  { return []string{"n1", "n2", "n3"} }
func (b *board) Target(node string) client.Target { return client.Target{Node: node} }
func (b *board) Leader(context.Context) string    { return "n2" }
func (b *board) Ready(_ context.Context, node string) error {
	if !b.Running(node) {
		return fmt.Errorf("down")
	}
	return nil
}
func (b *board) Running(node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down[node]
}
func (b *board) Kill(node string) error { return b.set(b.down, node, true, "kill %s", node) }
func (b *board) Stop(_ context.Context, node string) error {
	return b.set(b.down, node, true, "stop %s", node)
}
func (b *board) Start(node string) error { return b.set(b.down, node, false, "start %s", node) }
func (b *board) Pause(node string, on bool) error {
	return b.set(b.paused, node, on, "pause %s %v", node, on)
}
func (b *board) Isolate(node string, on bool) error {
	return b.set(b.hurt, "link "+node, on, "isolate %s %v", node, on)
}
func (b *board) Mesh() *proxy.Mesh          { return b.mesh }
func (b *board) Collect(string, bool) error { return nil }
func (b *board) Close() error               { return nil }
func (b *board) HasDisks() error            { return nil }
func (b *board) PowerLoss(nodes []string, _ float64, _ dice.Dice) error {
	for _, n := range nodes {
		_ = b.set(b.down, n, true, "power loss %s", n)
	}
	return nil
}
func (b *board) HangSyncs(node string, on bool) error {
	return b.set(b.hurt, "hang "+node, on, "hang %s %v", node, on)
}
func (b *board) BreakSyncs(node string, on bool) error {
	return b.set(b.hurt, "break "+node, on, "break %s %v", node, on)
}
func (b *board) LeaveFree(node string, n int64) error {
	return b.set(b.hurt, "full "+node, n >= 0, "free %s %d", node, n)
}
func (b *board) SetClock(node string, d time.Duration) error {
	return b.set(b.hurt, "clock "+node, d != 0, "clock %s %v", node, d)
}
func (b *board) FlipBit(node string, path *regexp.Regexp, _ dice.Dice) (string, error) {
	return "a file", b.set(b.down, node, true, "flip %s %v", node, path)
}
func (b *board) Wipe(node string) error { return b.set(b.down, node, true, "wipe %s", node) }
func (b *board) Add() (string, error)   { return "n4", nil }
func (b *board) Retire(_ context.Context, node string, _ bool) (bool, error) {
	return true, b.set(b.down, node, true, "retire %s", node)
}
func (b *board) Transfer(_ context.Context, node string) (string, error) {
	return "200", b.set(b.hurt, "", false, "transfer %s", node)
}
func (b *board) Move(node string) error { return b.set(b.down, node, true, "move %s", node) }

// bare is a cluster that can do nothing beyond Cluster.
type bare struct{ deploy.Cluster }

// strike injects one fault once, and returns what was done before its healing
// and in all.
func strike(t *testing.T, b *board, name string, seed uint64) (injected, all []string) {
	t.Helper()
	found, err := Find([]string{name}, b)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := history.Create(filepath.Join(t.TempDir(), "h"), history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	p := &Plan{Faults: found, Every: time.Millisecond, Seed: seed, Cluster: b, Rec: rec, Log: func(string, ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		injected = slices.Clone(b.log) // said between injection and healing
	}}
	var surgery sync.Mutex
	p.once(context.Background(), found[0], &env{cluster: b, founders: b.Nodes(), dice: dice.New(seed, name), surgery: &surgery}, 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	return injected, slices.Clone(b.log)
}

func TestEveryFaultHealsItself(t *testing.T) {
	for _, name := range Names() {
		for seed := range uint64(5) {
			b := newBoard(t)
			_, all := strike(t, b, name, seed+1)
			if len(b.down)+len(b.paused)+len(b.hurt) > 0 {
				t.Errorf("%s leaves down %v, paused %v, hurt %v after %q", name, b.down, b.paused, b.hurt, all)
			}
		}
	}
}

func TestTheSameSeedStrikesTheSame(t *testing.T) {
	for _, name := range Names() {
		_, one := strike(t, newBoard(t), name, 42)
		_, two := strike(t, newBoard(t), name, 42)
		if !slices.Equal(one, two) {
			t.Errorf("%s: %q, then %q", name, one, two)
		}
	}
}

func TestWhomFaultsStrike(t *testing.T) {
	for name, want := range map[string]string{
		"kill-leader":   "kill n2",
		"pause-leader":  "pause n2 true",
		"stop-leader":   "stop n2",
		"kill-all":      "kill n1 kill n2 kill n3",
		"power-all":     "power loss n1 power loss n2 power loss n3",
		"bitflip-log":   "flip",
		"disk-full":     "free n",
		"clock":         "clock n",
		"hung-fsync":    "hang n",
		"power-one":     "power loss n",
		"wipe":          "wipe n",
		"new-address":   "move n",
		"rolling":       "stop n",
		"kill-majority": "kill n",
		"join":          "start n4",
		"leave":         "retire n",
		"transfer":      "transfer n",
	} {
		injected, _ := strike(t, newBoard(t), name, 3)
		if got := strings.Join(injected, " "); !strings.HasPrefix(got, want) {
			t.Errorf("%s did %q, want %q", name, got, want)
		}
	}
}

func TestNobodyToStrike(t *testing.T) {
	b := newBoard(t)
	for _, n := range b.Nodes() {
		b.down[n] = true
	}
	for _, name := range []string{"kill", "pause-leader", "new-address", "hung-fsync"} {
		if _, all := strike(t, b, name, 1); len(all) > 0 {
			t.Errorf("%s did %q to a cluster that is down", name, all)
		}
	}
}

func TestFindSaysWhatIsMissing(t *testing.T) {
	b := newBoard(t)
	if _, err := Find([]string{"kill", "no-such-fault"}, b); err == nil || !strings.Contains(err.Error(), "no-such-fault") {
		t.Errorf("error is %v", err)
	}
	for _, f := range all {
		_, err := Find([]string{f.Name}, bare{b})
		if (err == nil) != (f.needs == nothing) {
			t.Errorf("%s in a bare cluster: %v", f.Name, err)
		}
	}
	if !NeedsDisks([]string{"kill", "power-all"}) || NeedsDisks([]string{"kill"}) {
		t.Error("faults of the disk are not told from others")
	}
}

func TestRunEndsWithItsContextAndHeals(t *testing.T) {
	b := newBoard(t)
	found, err := Find([]string{"kill", "pause", "hung-fsync"}, b)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := history.Create(filepath.Join(t.TempDir(), "h"), history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var first sync.Once
	p := &Plan{Faults: found, Every: 5 * time.Millisecond, Seed: 1, Cluster: b, Rec: rec, Log: func(string, ...any) {
		first.Do(cancel) // in the middle of the first fault
	}}
	p.Run(ctx)
	if len(b.down)+len(b.paused)+len(b.hurt) > 0 {
		t.Errorf("left down %v, paused %v, hurt %v", b.down, b.paused, b.hurt)
	}
}

func TestHealUndoesEverything(t *testing.T) {
	b := newBoard(t)
	for _, n := range b.Nodes() {
		_ = b.Kill(n)
		_ = b.Pause(n, true)
		_ = b.HangSyncs(n, true)
		_ = b.BreakSyncs(n, true)
		_ = b.LeaveFree(n, 0)
		_ = b.SetClock(n, time.Second)
		_ = b.Isolate(n, true)
	}
	if err := Heal(b); err != nil {
		t.Fatal(err)
	}
	if len(b.down)+len(b.paused)+len(b.hurt) > 0 {
		t.Errorf("left down %v, paused %v, hurt %v", b.down, b.paused, b.hurt)
	}
}

func TestFilesAreToldApart(t *testing.T) {
	for path, want := range map[string]string{
		"log/00000000000000000001-0000000000000000.wal": "log",
		"log/wal-meta.db":              "log",
		"votes.db":                     "vote",
		"snapshots/2-100-17/state.bin": "snapshot",
		"snapshots/2-100-17/meta.json": "snapshot",
		"node.json":                    "",
		"lock":                         "",
	} {
		for kind, pattern := range files {
			if got := pattern.MatchString(path); got != (kind == want) {
				t.Errorf("%s as %s: %v", path, kind, got)
			}
		}
	}
}
