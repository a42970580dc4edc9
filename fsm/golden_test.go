package fsm_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// The golden files pin every encoding that outlives a process: a log written by
// one version is read by the next, and tokens are in clients' hands. A line is
// a name and bytes in hexadecimal. -update writes them anew.

var update = flag.Bool("update", false, "write the golden files anew")

type goldenLine struct{ name, text string }

// golden compares lines with those of a file in testdata.
func golden(t *testing.T, file string, lines []goldenLine) {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s: %s\n", l.name, l.text)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s has changed: what was written by earlier versions could not be read\ngot:\n%swant:\n%s", path, b.String(), want)
	}
}

// aKey counts up from 16, so that a mistake in the order of bytes shows.
func aKey() (k fsm.Fingerprint) {
	for i := range k {
		k[i] = byte(i + 16)
	}
	return k
}

func aSecret() (s fsm.Secret) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

// someSettings are all different, and large enough for several bytes.
var someSettings = fsm.Settings{
	LeaseTimeoutSeconds: 43_200, MaxRetries: 999, DedupWindowSeconds: 604_799, RetentionSeconds: 1_209_598,
	RecvRateLimit: fsm.RateLimit{IntervalMicros: 3_599_999_999, Burst: 500_000},
}

// namedCommand is a command with a name for its line.
type namedCommand struct {
	name string
	c    fsm.Command
}

// everyCommand has every command with every field that it takes, and the forms
// that a field can have.
func everyCommand() []namedCommand { return append(queueCommands(), channelCommands()...) }

func queueCommands() []namedCommand {
	lease := fsm.Token{Sort: fsm.Lease, Queue: 300, Message: 1 << 40, Moves: 70_000}
	handle := fsm.Token{Sort: fsm.Handle, Queue: 1, Message: 2, Moves: 0}
	in := func(op fsm.Op, c fsm.Command) fsm.Command {
		c.Op, c.Spool = op, fsm.DefaultSpool
		return c
	}
	return []namedCommand{
		{"init", fsm.Command{Op: fsm.OpInit, Secret: aSecret(), ClusterID: "cluster-1"}},
		{"set caps", in(fsm.OpSetCaps, fsm.Command{Suspended: true, Caps: fsm.Caps{
			MaxMessages: 1_000_000, MaxDataBytes: 1 << 40, MaxDedupKeys: 2_000, MaxQueues: 300, MaxRetentionSeconds: 86_400,
		}})},
		{"set no caps", in(fsm.OpSetCaps, fsm.Command{})},
		{"create", in(fsm.OpCreateQueue, fsm.Command{Queue: "orders", Patch: fsm.FullPatch(someSettings)})},
		{"create with defaults", in(fsm.OpCreateQueue, fsm.Command{Queue: "orders"})},
		{"update lease timeout", in(fsm.OpUpdateQueue, fsm.Command{Queue: "o", Patch: fsm.Patch{Set: fsm.FieldLeaseTimeout, To: fsm.Settings{LeaseTimeoutSeconds: 300}}})},
		{"update retries", in(fsm.OpUpdateQueue, fsm.Command{Queue: "o", Patch: fsm.Patch{Set: fsm.FieldMaxRetries, To: fsm.Settings{MaxRetries: 7}}})},
		{"update window", in(fsm.OpUpdateQueue, fsm.Command{Queue: "o", Patch: fsm.Patch{Set: fsm.FieldDedupWindow, To: fsm.Settings{DedupWindowSeconds: 300}}})},
		{"update retention", in(fsm.OpUpdateQueue, fsm.Command{Queue: "o", Patch: fsm.Patch{Set: fsm.FieldRetention, To: fsm.Settings{RetentionSeconds: 600}}})},
		{"update rate limit", in(fsm.OpUpdateQueue, fsm.Command{Queue: "o", Patch: fsm.Patch{Set: fsm.FieldRecvRateLimit, To: fsm.Settings{RecvRateLimit: someSettings.RecvRateLimit}}})},
		{"force", in(fsm.OpDeleteQueue, fsm.Command{Queue: "orders"})},
		{"drain", in(fsm.OpDeleteQueue, fsm.Command{Queue: "orders", Drain: true, UID: "0123456789abcdef0123456789abcdef"})},
		{"send", in(fsm.OpSend, fsm.Command{Queue: "orders", Payload: "payload"})},
		{"send keyed", in(fsm.OpSend, fsm.Command{Queue: "orders", Payload: "\x00\xff", Keyed: true, Key: aKey(), DelaySeconds: 604_800})},
		{"receive", in(fsm.OpReceive, fsm.Command{Queue: "orders"})},
		{"receive many", in(fsm.OpReceiveMany, fsm.Command{Queue: "orders", Count: 1_000, MaxBytes: 8 << 20})},
		{"ack", in(fsm.OpAck, fsm.Command{Token: lease})},
		{"nack", in(fsm.OpNack, fsm.Command{Token: lease})},
		{"release", in(fsm.OpRelease, fsm.Command{Token: lease, DelaySeconds: 300})},
		{"fail", in(fsm.OpFail, fsm.Command{Token: lease})},
		{"discard by lease", in(fsm.OpDiscard, fsm.Command{Token: lease})},
		{"discard by handle", in(fsm.OpDiscard, fsm.Command{Token: handle})},
		{"renew", in(fsm.OpRenew, fsm.Command{Token: lease})},
		{"recover", in(fsm.OpRecover, fsm.Command{Token: handle, DelaySeconds: 1})},
		{"ack and send", in(fsm.OpAckAndSend, fsm.Command{Token: lease, Queue: "next", Payload: "p", Keyed: true, Key: aKey(), DelaySeconds: 5})},
		{"ack and send unkeyed", in(fsm.OpAckAndSend, fsm.Command{Token: lease, Queue: "next"})},
	}
}

func channelCommands() []namedCommand {
	owner := fsm.Owner(aKey())
	owner[0] = 0xff
	of := func(op fsm.Op, c fsm.Command) fsm.Command {
		c.Op, c.Name, c.Key, c.Owner = op, "charges", aKey(), owner
		return c
	}
	return []namedCommand{
		{"put channel", fsm.Command{Op: fsm.OpPutDocument, Kind: fsm.ChannelDocument, Name: "charges", Payload: "{}"}},
		{"put connector", fsm.Command{Op: fsm.OpPutDocument, Kind: fsm.ConnectorDocument, Name: "store", Version: 300, Payload: "{}"}},
		{"delete document", fsm.Command{Op: fsm.OpDeleteDocument, Kind: fsm.ConnectorDocument, Name: "store", Version: 1 << 40}},
		{"claim", of(fsm.OpClaim, fsm.Command{WindowSeconds: 604_800, LapseMs: 86_400_000, MaxKeys: 1_000_000})},
		{"settle claim", of(fsm.OpSettleClaim, fsm.Command{WindowSeconds: 300})},
		{"release claim", of(fsm.OpReleaseClaim, fsm.Command{})},
		{"claim and send", of(fsm.OpClaimAndSend, fsm.Command{
			Spool: fsm.DefaultSpool, Queue: "orders", DelaySeconds: 5, Payload: "p", WindowSeconds: 300, MaxKeys: 1_000,
		})},
	}
}

func commandsOf(named []namedCommand) (cs []fsm.Command) {
	for _, n := range named {
		cs = append(cs, n.c)
	}
	return cs
}

func TestGoldenLog(t *testing.T) {
	var lines []goldenLine
	const nowMs = 1_700_000_000_123
	commands := func(all []namedCommand) {
		for _, named := range all {
			lines = append(lines, goldenLine{named.name, hex.EncodeToString(fsm.AppendCommands(nil, []fsm.Command{named.c}))})
		}
	}
	batch := func(name string, b fsm.Batch) {
		lines = append(lines, goldenLine{name, hex.EncodeToString(fsm.AppendBatch(nil, b))})
	}
	commands(queueCommands())
	batch("batch of all", fsm.Batch{NowMs: nowMs, Commands: commandsOf(queueCommands())})
	batch("empty batch", fsm.Batch{NowMs: 1})
	commands(channelCommands())
	batch("batch of all of channels", fsm.Batch{NowMs: nowMs, Commands: commandsOf(channelCommands())})
	golden(t, "log.golden", lines)

	checkDecoded(t, fsm.Batch{NowMs: nowMs, Commands: commandsOf(everyCommand())})
}

// checkDecoded expects a batch to be decoded as it was encoded.
func checkDecoded(t *testing.T, batch fsm.Batch) {
	t.Helper()
	got, err := fsm.DecodeBatch(fsm.AppendBatch(nil, batch))
	if err != nil {
		t.Fatal(err)
	}
	if got.NowMs != batch.NowMs {
		t.Errorf("decoded time %d", got.NowMs)
	}
	for i, want := range batch.Commands {
		if !reflect.DeepEqual(got.Commands[i], want) {
			t.Errorf("decoded %s\nwant    %s", show(got.Commands[i]), show(want))
		}
	}
}

// TestGoldenCommandsAreAll fails where a command or a field is new and the
// golden files don't have it.
func TestGoldenCommandsAreAll(t *testing.T) {
	ops := map[fsm.Op]bool{}
	set := map[string]bool{}
	for _, named := range everyCommand() {
		ops[named.c.Op] = true
		v := reflect.ValueOf(named.c)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set[v.Type().Field(i).Name] = true
			}
		}
	}
	for op := fsm.Op(1); op <= fsm.LastOp; op++ {
		if !ops[op] {
			t.Errorf("no golden line for command %d", op)
		}
	}
	if _, err := fsm.DecodeCommands([]byte{1, byte(fsm.LastOp) + 1}); err == nil || err == fsm.ErrMalformed {
		t.Errorf("command %d is known, and has no golden line", fsm.LastOp+1)
	}
	for i := range reflect.TypeFor[fsm.Command]().NumField() {
		if name := reflect.TypeFor[fsm.Command]().Field(i).Name; !set[name] {
			t.Errorf("no golden line has the field %s", name)
		}
	}
}

var someDeliveries = []fsm.Delivery{
	{ID: fsm.MessageID{Queue: 7, Message: 300}, Moves: 70_000, Retries: 3, LeaseExpiresAtMs: 1_700_000_030_123, Payload: "\x00payload"},
	{ID: fsm.MessageID{Queue: 7, Message: 1 << 40}, Moves: 1},
}

type namedResult struct {
	name string
	r    fsm.Result
}

func everyResult() []namedResult {
	info := &fsm.QueueInfo{
		Name: "orders", UID: "0123456789abcdef0123456789abcdef", CreatedAtMs: 1_700_000_000_123, State: fsm.QueueDraining,
		Settings: someSettings, EffectiveRetentionSeconds: 86_400,
	}
	return []namedResult{
		{"done", fsm.Result{}},
		{"sent", fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 300}}},
		{"duplicate", fsm.Result{Code: fsm.CodeDuplicate, ID: fsm.MessageID{Queue: 1, Message: 2}}},
		{"received", fsm.Result{ID: fsm.MessageID{Queue: 7, Message: 1 << 40}, Moves: 70_000, Retries: 3, LeaseExpiresAtMs: 1_700_000_030_123, Payload: "\x00payload"}},
		{"received for ever", fsm.Result{ID: fsm.MessageID{Queue: 7, Message: 1}, Moves: 1}},
		{"received many", fsm.Result{Deliveries: someDeliveries}},
		{"empty", fsm.Result{Code: fsm.CodeEmpty}},
		{"renewed", fsm.Result{LeaseExpiresAtMs: 1_700_000_030_123}},
		{"created", fsm.Result{Queue: info}},
		{"rate limited", fsm.Result{Code: fsm.CodeRateLimited, RetryAfterMs: 1_500}},
		{"spool full", fsm.Result{Code: fsm.CodeSpoolFull, Cap: fsm.CapDataBytes, Max: 1 << 40}},
		{"retention limit", fsm.Result{Code: fsm.CodeRetentionLimit, Max: 86_400}},
		{"stale token", fsm.Result{Code: fsm.CodeStaleToken}},
		{"not initialised", fsm.Result{Code: fsm.CodeNotInitialised}},
		{"everything", fsm.Result{
			Code: 255, Cap: 3, ID: fsm.MessageID{Queue: 1, Message: 2}, Moves: 3, Retries: 4, LeaseExpiresAtMs: 5, RetryAfterMs: 6,
			Max: 7, Payload: "8", Queue: info, Deliveries: someDeliveries[:1],
		}},
		{"put", fsm.Result{Version: 300}},
		{"version conflict", fsm.Result{Code: fsm.CodeVersionConflict, Version: 1 << 40}},
		{"claimed", fsm.Result{LeaseExpiresAtMs: 1_700_000_030_123}},
		{"claim in flight", fsm.Result{Code: fsm.CodeClaimInFlight, RetryAfterMs: 30_000}},
		{"claim lost", fsm.Result{Code: fsm.CodeClaimLost}},
		{"channel full", fsm.Result{Code: fsm.CodeChannelFull, Max: 1_000}},
	}
}

func TestGoldenResults(t *testing.T) {
	var lines []goldenLine
	var wire []byte
	for _, named := range everyResult() {
		one := fsm.AppendResult(nil, &named.r)
		lines = append(lines, goldenLine{named.name, hex.EncodeToString(one)})
		wire = append(wire, one...)
	}
	golden(t, "results.golden", lines)

	got, err := fsm.DecodeResults(wire, len(lines))
	if err != nil {
		t.Fatal(err)
	}
	for i, named := range everyResult() {
		if !reflect.DeepEqual(got[i], named.r) {
			t.Errorf("decoded %s\nwant    %s", show(got[i]), show(named.r))
		}
	}
}

func TestGoldenTokens(t *testing.T) {
	sealer := fsm.NewSealer(aSecret())
	var lines []goldenLine
	for _, token := range []fsm.Token{
		{Sort: fsm.Lease, Queue: 1, Message: 1, Moves: 1},
		{Sort: fsm.Handle, Queue: 1, Message: 1, Moves: 0},
		{Sort: fsm.Handle, Queue: 300, Message: 1 << 40, Moves: 70_000},
		{Sort: fsm.Lease, Queue: 1<<64 - 1, Message: 1<<64 - 1, Moves: 1<<32 - 1},
	} {
		text := sealer.Seal(token)
		lines = append(lines, goldenLine{show(token), text})
		if got, err := sealer.Open(token.Sort, text); err != nil || got != token {
			t.Errorf("%s opens as %s, %v", text, show(got), err)
		}
	}
	golden(t, "tokens.golden", lines)
}

// TestGoldenState pins what a known log amounts to: two versions that disagree
// here would disagree in one cluster.
func TestGoldenState(t *testing.T) {
	m := fsm.New()
	var lines []goldenLine
	step := func(name string, nowMs int64, cs ...fsm.Command) {
		m.Apply(m.AppliedIndex()+1, fsm.Batch{NowMs: nowMs, Commands: cs})
		lines = append(lines, goldenLine{name, fmt.Sprintf("%016x", m.Hash())})
	}
	settings := fsm.DefaultSettings()
	settings.DedupWindowSeconds = 60
	settings.RecvRateLimit = fsm.RateLimit{IntervalMicros: 1000, Burst: 2}
	keyed := fsm.Command{Op: fsm.OpSend, Spool: fsm.DefaultSpool, Queue: "q", Keyed: true, Key: aKey(), Payload: "p"}
	receive := fsm.Command{Op: fsm.OpReceive, Spool: fsm.DefaultSpool, Queue: "q"}
	lines = append(lines, goldenLine{"nothing", fmt.Sprintf("%016x", m.Hash())})
	step("init", 1_000, fsm.Command{Op: fsm.OpInit, Secret: aSecret(), ClusterID: "cluster-1"})
	step("caps", 1_000, fsm.Command{Op: fsm.OpSetCaps, Spool: fsm.DefaultSpool, Caps: fsm.Caps{MaxMessages: 9}})
	step("create", 2_000, fsm.Command{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "q", Patch: fsm.FullPatch(settings)})
	step("send", 3_000, keyed, keyed)
	step("receive", 4_000, receive, receive)
	step("lease over", 34_000)
	step("window over", 63_000)
	step("retention over", 3_000+345_600_000)

	const laterMs = 400_000_000
	for _, named := range channelCommands() {
		step(named.name, laterMs, named.c)
	}
	claim := channelCommands()[3].c
	step("claim again", laterMs+1, claim)
	claim.Key, claim.WindowSeconds, claim.LapseMs = fsm.Fingerprint{1}, 1, 5_000
	step("claim another", laterMs+2, claim)
	send := channelCommands()[6].c
	send.Key, send.Queue = fsm.Fingerprint{2}, "q"
	step("claim and send to a queue", laterMs+2, send)
	step("put a connector", laterMs+2, fsm.Command{Op: fsm.OpPutDocument, Kind: fsm.ConnectorDocument, Name: "store", Payload: "{}"})
	step("claims over", laterMs+400_000)
	golden(t, "state.golden", lines)
}
